"""A program without `async`: it settles a list of invoices, a few at a time, and may be stopped and started at any moment.

Each invoice is a run under its number. Kill the program and start it again: what is settled stays settled.

    python -m examples.plain_script invoices.db
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import holdfast.sync
from holdfast import Context, flow, step

INVOICES = {"2026-001": 120.0, "2026-002": 80.5, "2026-003": 17.25}


@step
def exchange_rate(currency: str) -> float:
    return {"EUR": 1.0, "USD": 1.25}[currency]


@step(effect="idempotent")
def transfer(amount: float, currency: str, key: str = "") -> str:
    return f"{amount:.2f} {currency}"


@flow
async def settle(ctx: Context, amount_eur: float) -> str:
    return await transfer(amount_eur * await exchange_rate("USD"), "USD")


def main(store: str) -> None:
    with holdfast.sync.open(store, workflows=[settle]) as engine, ThreadPoolExecutor(2) as threads:

        def settled(number: str) -> str:
            run = engine.start(settle, INVOICES[number], key=number)
            return f"{number}: {run.result()}"

        for line in threads.map(settled, INVOICES):
            print(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
