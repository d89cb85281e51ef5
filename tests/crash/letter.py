"""A program that forks a run, then it and its fork in one go, and dies at one of the points at which something lasts.

usage: python -m tests.crash.letter DIRECTORY LIFE [AT]

A letter is noted, let through by a person, and posted once; the fork posts another, which needs a person's word again. What is
done to the world, and what a person was asked, is a file in DIRECTORY.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, Run, flow, tool
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from tests.crash.killing import dies_at

STORE, WORLD, RESULT = "holdfast.db", "world.jsonl", "result.json"
NAME = "ann"


def world() -> Path:
    return Path(sys.argv[1], WORLD)


def _do(what: str, key: str) -> str:
    with world().open("a") as file:
        file.write(json.dumps({"what": what, "key": key}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return f"did {what}"


@tool(effect="idempotent")
def note(line: str, key: str) -> str:
    return _do(f"note {line}", key)


@tool(effect="once")
def post(line: str, key: str) -> str:
    return _do(f"post {line}", key)


@flow
async def letter(ctx: Context, given: dict[str, str]) -> Any:
    noted = await ctx.tool(note, line="a letter")
    answer = await ctx.ask("Is it to be posted?")
    return [noted, answer.decision, await ctx.tool(post, line=given["line"])]


async def see_through(engine: Engine, run: Run) -> Any:
    """Answer what it asks; of an effect of which nobody knows, what the world knows."""
    while not (state := await run.settled()).ended:
        for gate_id, gate in list(state.gates.items()):
            if gate.opened.reason != EFFECT_UNKNOWN:
                await engine.decide(gate_id, "approve", by=NAME)
                continue
            call = state.calls[gate.opened.subject or ""]
            done = [each["what"] for each in map(json.loads, world().read_text().splitlines()) if each["key"] == call.key]
            if done:
                await engine.resolve_effect(gate.opened.subject or "", "answer", f"did {done[0]}", by=NAME)
            else:
                await engine.resolve_effect(gate.opened.subject or "", "retry", by=NAME)
    return await run.result()


async def main(directory: Path) -> None:
    world().touch()
    async with asyncio.timeout(60), Engine.open(directory / STORE, workflows=[letter]) as engine:
        origin = await engine.start(letter, {"line": "seven"}, key="the-run")
        results = [await see_through(engine, origin)]
        fork = await engine.fork(origin.id, "flow#1", input={"line": "eight"}, key="the-fork")
        results.append(await see_through(engine, fork))
        many = await engine.bulk("fork", step="flow#1", status="completed", by=NAME)
        results += [await see_through(engine, engine.run(each.fork)) for each in many if each.fork is not None]
        (directory / RESULT).write_text(json.dumps(results))


if __name__ == "__main__":
    folder, life, *at = sys.argv[1:]
    dies_at(Path(folder), life, *at)
    asyncio.run(main(Path(folder)))
