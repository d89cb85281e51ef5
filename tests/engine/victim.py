"""A program that runs one workflow and kills itself with SIGKILL at a named point of it.

usage: python -m tests.engine.victim STORE JOURNAL WORKFLOW [POINT]

Its tools write to JOURNAL, the world outside: that file alone says what has happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from holdfast import Engine, Workflow, llm_node, task, tool, tool_node
from holdfast.core.views.status import status
from holdfast.models.providers import Providers

journal = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("world.jsonl")
point = sys.argv[4] if len(sys.argv) > 4 else ""


def die_at(here: str) -> None:
    if point == here:
        os.kill(os.getpid(), signal.SIGKILL)


def happen(what: str, key: str = "") -> None:
    """An effect on the world, as durable as the world is."""
    with journal.open("a") as file:
        file.write(json.dumps({"what": what, "key": key}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def make(effect: str) -> Workflow:
    """pay (with the effect policy under test) → after."""
    wf = Workflow(f"pay-{effect}")

    async def verify(key: str, amount: int) -> dict[str, int] | None:
        done = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
        return {"paid": amount} if any(each["key"] == key for each in done) else None

    @tool(effect=effect, verify=verify if effect == "verify" else None)  # type: ignore[call-overload]
    async def pay(amount: int, key: str) -> dict[str, int]:
        die_at("between intent and send")
        happen("paid", key)
        die_at("between send and outcome")
        return {"paid": amount}

    wf.node("before")(task(lambda state: happen("before")))

    @wf.node("pay")
    @tool_node(name=pay)
    async def pay_node(state):
        return {"amount": 5}

    @wf.node("after")
    @task
    async def after(state):
        happen("after")
        die_at("in the next step")
        return state.events["pay"].output.paid

    wf.edge("before", "pay")
    wf.edge("pay", "after")
    return wf


def loop() -> Workflow:
    """An agent loop over one tool; the tool dies in its third turn."""
    wf = Workflow("loop")

    @tool(effect="read")
    async def look(turn: int) -> str:
        happen(f"looked {turn}")
        die_at(f"in turn {turn}")
        return f"seen {turn}"

    @wf.node("agent")
    @llm_node(model="claude-haiku-4-5", tools=[look], max_turns=8)
    async def agent(state):
        return {"system": "look around", "user": "begin"}

    return wf


WORKFLOWS = {**{f"pay-{effect}": effect for effect in ("read", "idempotent", "verify", "once")}, "loop": None}


def workflow(name: str) -> Workflow:
    effect = WORKFLOWS[name]
    return loop() if effect is None else make(effect)


async def main(store: str, name: str) -> None:
    wf = workflow(name)
    async with Engine.open(store, workflows=[wf], model=Providers()) as engine:
        run = await engine.start(wf, key="the-run")
        state = await run.settled()
        output = await engine.output(state) if state.ended == "completed" else None
        print(json.dumps({"status": status(state), "output": output, "run": run.id}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[3]))
