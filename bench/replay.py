"""How long recorded runs take to be replayed, and that nobody is called.

usage: python -m bench.replay [RUNS]

Each run has a task that fails once, a model call, a check, a person's approval, a wait of four days and a tool. Prints a JSON
line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from holdfast import Engine, StateView, Workflow, check, human_gate, llm_node, task, tool, tool_node
from holdfast.evaluation import RunRecord, recorded, replay
from holdfast.evaluation.recording import line, read
from holdfast.models.providers import Providers
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.model_server import ModelServer, Rule

RUNS: Final = 1000
_DONE: list[str] = []

wf = Workflow(name="case")


@wf.node("fetch")
@task
def fetch(state: StateView, ctx: Any) -> dict[str, str]:
    if ctx.failures == 0:
        raise ConnectionError("away for a moment")
    return {"document": "The rent is due on the first."}


@wf.node("draft")
@llm_node(model="openai:gpt-4o-mini", max_tokens=50)
def draft(state: StateView) -> str:
    return f"Answer: {state.events['fetch'].output['document']}"


@wf.node("validate")
@check
def validate(state: StateView) -> str:
    return "pass" if state.events["draft"].output else "reject"


@wf.node("approval")
@human_gate
def approval(state: StateView) -> dict[str, str]:
    return {"diff": state.events["draft"].output}


@wf.node("wait")
@task
async def wait(state: StateView, ctx: Any) -> None:
    await ctx.sleep(4 * 86_400)


@tool(effect="once")
def post(text: str) -> str:
    _DONE.append(text)
    return "posted"


@wf.node("send")
@tool_node(name=post)
def send(state: StateView) -> dict[str, str]:
    return {"text": state.events["draft"].output}


for source, target in (("fetch", "draft"), ("draft", "validate"), ("validate", "approval"), ("approval", "wait")):
    wf.edge(source, target)
wf.edge("wait", "send")


async def record(folder: Path, server: ModelServer) -> RunRecord:
    ahead_ms = 0
    store = await SqliteStore.connect(folder / "a.db", machine_ms=lambda: time.time_ns() // 1_000_000 + ahead_ms)
    async with Engine.open(store, workflows=[wf], model=Providers(environment=server.environment)) as engine:
        run = await engine.start(wf)
        while not (state := await run.state()).ended:
            for gate in list(state.gates):
                await engine.decide(gate, "approve", by="ann")
            ahead_ms += 3_600_000
            await asyncio.sleep(0.01)
        found = await recorded(engine, run.id, None)
    await store.aclose()
    return found


async def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder, ModelServer(journal=Path(folder, "calls.jsonl")) as server:
        server.script.add(Rule(text="It is due on the first."))
        one = await record(Path(folder), server)
        text, calls, done = line(one), len(server.calls), len(_DONE)
        lines = [text.replace(one.run.encode(), f"{number:036d}".encode()) for number in range(runs)]
        began_s, cpu_s = time.perf_counter(), time.process_time()
        passed = sum([each.passed async for each in replay(list(read(lines, "records")), [wf])])
        took_s, used_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        outside = len(server.calls) - calls + len(_DONE) - done
    told = {"runs": runs, "passed": passed, "events": len(one.events), "took_s": round(took_s, 1)}
    print(json.dumps({**told, "cpu_s": round(used_s, 1), "outside_calls": outside}))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
