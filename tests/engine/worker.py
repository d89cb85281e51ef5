"""A process that works on a store until it is told to stop, for tests that kill, freeze or crowd it.

usage: python -m tests.engine.worker STORE WORLD LEASE_S [POINT]

Its tools write to WORLD, the journal outside: that file alone says what has happened, and who did it. At the named POINT
it stops itself with SIGSTOP, or kills itself. It says `ready`, and ends cleanly at the end of its standard input.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

from holdfast import Engine, Workflow, task, tool, tool_node
from holdfast.engine.attempts.journal import StepJournal
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.thread import Job

world = Path(os.environ.get("WORLD", "world.jsonl"))
stores: list[SqliteStore] = []
points: list[str] = []
"""Where this process is still to stop, or to die."""
CHAIN = 5
SLOTS = 6
"""Fewer than the runs that two processes are crowded with, so that both have to work."""
FREEZE = "frozen between intent and send"
FREEZE_IN_STEP = "frozen in a step"
FREEZE_AFTER_STEP = "frozen before its result is told"
KILL_IN_STEP = "killed by its step"
KILL_UNDOING = "killed in the middle of undoing"


def happen(what: str, key: str = "") -> None:
    """One line in the world's journal: a single write, so that processes do not mix theirs."""
    line = json.dumps({"what": what, "key": key, "pid": os.getpid()}) + "\n"
    descriptor = os.open(world, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def reach(here: str, how: int) -> None:
    """Do what the point `here` is for, once. Who stands still does so outside of a commit: inside of one it would keep all
    others from writing."""
    if here not in points:
        return
    points.remove(here)
    stop = Job(lambda db: os.kill(os.getpid(), how))
    if how == signal.SIGSTOP:
        stores[0].context.writer.submit(stop)  # what its thread does between two commits
        stop.future.result()
    else:
        os.kill(os.getpid(), how)


def chain() -> Workflow:
    """A chain of effects, one after another."""
    wf = Workflow("chain")

    @tool(effect="once")
    async def write(line: str, key: str) -> str:
        happen(line, key)
        return line

    for number in range(CHAIN):

        @wf.node(f"n{number}")
        @tool_node(name=write)
        async def node(state, number=number):
            return {"line": f"{state.run_id} n{number}"}

        if number:
            wf.edge(f"n{number - 1}", f"n{number}")
    return wf


def pay(effect: str) -> Workflow:
    wf = Workflow(f"pay-{effect}")

    @tool(effect=effect)  # type: ignore[call-overload]
    async def pay(amount: int, key: str) -> int:
        happen("paid", key)
        return amount

    wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": 5}))
    wf.node("after")(task(lambda state: state.events["pay"].output))
    wf.edge("pay", "after")
    return wf


def slow() -> Workflow:
    """A step that takes as long as the test wants, with an effect after the wait."""
    wf = Workflow("slow")

    @tool(effect="once")
    async def note(line: str, key: str) -> str:
        happen(line, key)
        return line

    @wf.node("work")
    @task(tools=[note])
    async def work(state, ctx):
        happen("begun")
        reach(FREEZE_IN_STEP, signal.SIGSTOP)
        reach(KILL_IN_STEP, signal.SIGKILL)
        while not world.with_name("go").exists():
            await asyncio.sleep(0.01)
        said = await ctx.tool("note", line="noted")
        happen("ended")
        reach(FREEZE_AFTER_STEP, signal.SIGSTOP)
        return said

    return wf


def undone() -> Workflow:
    """Three bookings and a failure: what was booked is undone, and the process dies in the middle of that."""
    wf = Workflow("undone")

    @tool(effect="idempotent")
    async def unbook(what: str, key: str) -> None:
        happen(f"unbook {what}", key)
        if what == "b":
            reach(KILL_UNDOING, signal.SIGKILL)

    @tool(effect="once", compensation=unbook)
    async def book(what: str, key: str) -> str:
        happen(f"book {what}", key)
        return what

    before = ""
    for what in "abc":
        wf.node(what)(tool_node(name=book)(lambda state, what=what: {"what": what}))
        if before:
            wf.edge(before, what)
        before = what

    @wf.node("fail")
    @task
    async def fail(state):
        raise ValueError("no seats left")

    wf.edge("c", "fail")
    return wf


WORKFLOWS = {wf.name: wf for wf in (chain(), pay("idempotent"), pay("once"), slow(), undone())}


def freeze_before_sending() -> None:
    """Stand still right after the intent is durable, before the process looks at its lease."""
    asked = StepJournal.may_send

    def may_send(self: StepJournal) -> bool:
        reach(FREEZE, signal.SIGSTOP)
        return asked(self)

    StepJournal.may_send = may_send  # type: ignore[method-assign]


async def main(store: str, lease_s: str, *at: str) -> None:
    points.extend(at)
    freeze_before_sending()
    opened = await SqliteStore.connect(store, lease_s=float(lease_s))
    stores.append(opened)
    async with Engine.open(opened, workflows=list(WORKFLOWS.values()), slots=SLOTS):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await opened.aclose()
    print("stopped", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    world = Path(sys.argv[2])
    asyncio.run(main(sys.argv[1], *sys.argv[3:]))
