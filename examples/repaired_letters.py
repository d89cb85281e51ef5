"""A dead letter is edited and replayed, and a sent letter is forked to try another text.

Three customers get a letter. One address is wrong, so that step becomes a dead letter, which the engine reports at once. It is
replayed with the right address, and the customer's account is not opened again. Then the first run is forked with a better
greeting: unchanged calls are reused, and a person must approve the second sending.

    python examples/repaired_letters.py [STORE]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from pydantic import BaseModel

from holdfast import Engine, StateView, Workflow, task, tool, tool_node
from holdfast.ports import DeadLettered


class Customer(BaseModel):
    name: str
    address: str


wf = Workflow("letters", input=Customer)


@tool(effect="idempotent")
def open_account(name: str) -> str:
    print(f"  an account for {name}")
    return f"account of {name}"


@tool(effect="once")
def send(address: str, text: str) -> str:
    if "@" not in address:
        raise ValueError(f"{address!r} is no address")
    print(f"  to {address}: {text}")
    return f"sent to {address}"


@wf.node("open")
@tool_node(name="open_account")
def open_(state: StateView) -> dict[str, str]:
    return {"name": state.input.name}


@wf.node("write")
@task
def write(state: StateView) -> str:
    return f"Dear {state.input.name}, welcome."


@wf.node("send")
@tool_node(name="send")
def send_(state: StateView) -> dict[str, str]:
    return {"address": state.input.address, "text": state.events["write"].output}


wf.edge("open", "write")
wf.edge("write", "send")


async def write_to(engine: Engine, customers: Sequence[Customer]) -> list[str]:
    """The runs, when each has ended."""
    runs = [await engine.start(wf, customer) for customer in customers]
    for run in runs:
        await run.until(lambda state: bool(state.ended))
    return [run.id for run in runs]


async def mend(engine: Engine, address: str) -> str:
    """Replay the only dead letter with the right address; what came of it."""
    ((letter, _),) = await engine.dead_letters(workflow="letters")
    customer = Customer(name="bob", address=address)
    await engine.edit_dead_letter(f"{letter.run}:{letter.step}", customer, by="grace")
    await engine.retry_dead_letter(letter.run, by="grace")
    sent: str = await engine.run(letter.run).result()
    return sent


async def see_otherwise(engine: Engine, run_id: str, text: str) -> str:
    """Fork a run with another text, and approve what it wants to send; what came of it."""
    quote = await engine.fork_plan(run_id, "send#1", state={"write": text})
    kept, reused = len(quote.kept_steps), len(quote.reused_operations)
    print(f"{kept} steps are kept, {reused} operations reused if they are asked for as they were")
    fork = await engine.fork(run_id, "send#1", state={"write": text}, by="grace")
    state = await fork.until(lambda state: bool(state.gates))
    await engine.decide(next(iter(state.gates)), "approve", by="grace")
    sent: str = await fork.result()
    return sent


def alert(letter: DeadLettered) -> None:
    print(f"! {letter.step} of {letter.run} failed after {letter.attempts} attempt(s): {letter.error.message}")


async def main(store: str) -> None:
    customers = [
        Customer(name="ada", address="ada@example.org"),
        Customer(name="bob", address="nowhere"),
        Customer(name="eve", address="eve@example.org"),
    ]
    async with Engine.open(store, workflows=[wf], on_dead_letter=alert) as engine:
        first, *_ = await write_to(engine, customers)
        print("mended:", await mend(engine, "bob@example.org"))
        print("forked:", await see_otherwise(engine, first, "Dear Ada, how good that you are here."))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "sqlite:///letters.db"))
