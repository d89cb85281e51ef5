"""A process that says one thing to a store, tells of the acknowledgement, and is killed: `python -m tests.invariants.desk`.

usage: python -m tests.invariants.desk STORE start|decide|signal [RUN_OR_GATE]

It executes nothing. It says the name of the run once its word was acknowledged, and then kills itself with SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from holdfast import Engine, Workflow, human_gate, task


def workflow() -> Workflow:
    """A person approves, then a program is waited for; both answers are the output."""
    wf = Workflow("asks")
    wf.node("approval")(human_gate(lambda state: {"text": "shall we?"}))

    @wf.node("work")
    @task
    async def work(state, ctx):
        return [state.events["approval"].decision, await ctx.wait_signal("go")]

    wf.edge("approval", "work")
    return wf


async def main(store: str, what: str, about: str = "") -> None:
    async with Engine.open(store, execute=False) as engine:
        if what == "start":
            about = (await engine.start(workflow(), key="the-run")).id
        elif what == "decide":
            await engine.decide(about, "approve", by="ann")
        else:
            await engine.signal(about, "go", {"n": 7})
        print(about, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
