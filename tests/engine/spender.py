"""A program that runs one workflow of model calls, for tests that kill it while a call is on its way.

usage: python -m tests.engine.spender STORE WORKFLOW

It says `settled` when the run has ended or waits for somebody, and then waits for its end. Of `crowd` it runs several of
one tenant, says `done`, and ends.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast import Engine, Join, Workflow, llm_node, task
from holdfast.core.values.money import usd

HAIKU = "claude-haiku-4-5"


def row() -> Workflow:
    """Three questions, one after another."""
    wf = Workflow("row", cost_limit_usd="1")
    for name in "abc":

        @wf.node(name)
        @llm_node(model=HAIKU, max_tokens=100)
        async def ask(state, name=name):
            return f"question {name}"

    wf.edge("a", "b")
    wf.edge("b", "c")
    return wf


def tight() -> Workflow:
    """One question, with money for one call at its worst, not for two."""
    wf = Workflow("tight", cost_limit_usd="0.001")

    @wf.node("only")
    @llm_node(model=HAIKU, max_tokens=100)
    async def only(state):
        return "question"

    return wf


def quorum() -> Workflow:
    """Two questions, of which the run waits for one."""
    wf = Workflow("quorum")
    wf.node("begin")(task(lambda state: None))
    for name in ("fast", "slow"):

        @wf.node(name)
        @llm_node(model=HAIKU, max_tokens=100)
        async def ask(state, name=name):
            return f"question {name}"

        wf.edge("begin", name)
        wf.edge(name, "end")
    wf.node("end")(task(join=Join("any"))(lambda state: state.events["fast"].output))
    return wf


def crowd() -> Workflow:
    """Twelve questions at the same time."""
    wf = Workflow("crowd")
    for number in range(12):

        @wf.node(f"n{number}")
        @llm_node(model=HAIKU, max_tokens=100)
        async def ask(state, number=number):
            return f"question {number:02}"

    return wf


WORKFLOWS = {"row": row, "tight": tight, "quorum": quorum, "crowd": crowd}
CROWD = 5
"""Runs of `crowd` that a process starts, all of one tenant."""
HOLD_NANOUSD = 1_000_000
"""More than a call of these workflows is held for."""


async def limit(store: str, *, calls: int) -> int:
    """Give the tenant `acme` a day with room for so many calls at a time; the limit in nano-dollars."""
    amount = calls * HOLD_NANOUSD
    async with Engine.open(store, execute=False) as engine:
        await engine.set_budget("acme", "day", usd(amount))
    return amount


async def spend_all(engine: Engine, wf: Workflow) -> None:
    runs = [await engine.start(wf, tenant="acme") for _ in range(CROWD)]
    for run in runs:
        await run.result()
    print("done", flush=True)


async def main(store: str, name: str) -> None:
    wf = WORKFLOWS[name]()
    async with Engine.open(store, workflows=[wf]) as engine:
        if name == "crowd":
            await spend_all(engine, wf)
            return
        run = await engine.start(wf)
        await run.settled()
        print("settled", flush=True)
        await asyncio.Event().wait()  # until somebody kills it


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
