"""What a long run costs while it goes on, and when another process takes it up: SHAPE is how it became long.

    python bench/long_runs.py FOLDER SHAPE SIZE [SIZE ...]

`loop`: a loop of two task steps until the history has SIZE events. `operations`: one step that makes SIZE journaled tool
calls, one after the other. `agent`: one model node of SIZE turns (1,000 at most), each with a tool call; the model is a
function in this process.

At its end the run asks a person; then a process of its own opens the store, and the question is answered there. FOLDER
must not hold such a store yet. Prints one JSON line for each size: `us_each` is what a visit, a call or a turn took, in
the first tenth of them and in the last; `resume_ms` goes from the answer to the end of the run, `loaded_events` and
`snapshot_kib` are what was read for it, and `resume_mib` is the memory that it took.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from holdfast import Engine, Workflow, check, human_gate, llm_node, task, tool
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.ports import ModelReply, ModelRequest, ToolRequest, Usage
from holdfast.settings import DeclaredModel, Settings

MODEL = "long"
SETTINGS = Settings(models={MODEL: DeclaredModel(input_usd_per_mtok=1, output_usd_per_mtok=1, context_tokens=2**40)})
EVENTS_A_VISIT = 5  # two steps that start and complete, and the loop that is taken


@tool(effect="read")
async def look(number: int) -> dict[str, str]:
    """Find something out."""
    return {"text": "x" * 100}


class Talker:
    """A model that calls a tool in each of so many turns. Keeps ports.Model."""

    def __init__(self, turns: int, began_s: list[float]) -> None:
        self._turns = turns
        self._began_s = began_s

    async def prepare(self, model: str) -> None:
        pass

    async def request(self, request: ModelRequest) -> ModelReply:
        self._began_s.append(time.perf_counter())
        turn = (len(request.turns) + 1) // 2
        parts = [{"part_kind": "text", "content": "done"}]
        wishes = (ToolRequest(str(turn), "look", {"number": turn}),) if turn < self._turns else ()
        return ModelReply("done", wishes, None, Usage(1, 1), "stop", str(turn), {"parts": parts})


def add_loop(wf: Workflow, size: int, began_s: list[float]) -> str:
    visits = size // EVENTS_A_VISIT

    async def work(state: Any) -> dict[str, Any]:
        began_s.append(time.perf_counter())
        return {"text": "x" * 100, "visit": state.visits("work")}

    async def enough(state: Any) -> bool:
        return bool(state.events["work"].output["visit"] >= visits)

    wf.node("work")(task(work))
    wf.node("enough")(check(enough))
    wf.edge("work", "enough")
    wf.loop("enough", "work", max_visits=visits + 1)
    return "enough"


def add_operations(wf: Workflow, size: int, began_s: list[float]) -> str:
    async def operate(state: Any, ctx: Any) -> None:
        for number in range(size):
            began_s.append(time.perf_counter())
            await ctx.tool(look, number=number)
        await ctx.ask("go on?", decisions=["approve"])

    wf.node("work")(task(operate, tools=[look]))
    return "work"


def add_agent(wf: Workflow, size: int, began_s: list[float]) -> str:
    async def talk(state: Any) -> str:
        return "go on"

    wf.node("work")(llm_node(model=MODEL, tools=[look], max_turns=size, max_tokens=1)(talk))
    return "work"


SHAPES = {"loop": add_loop, "operations": add_operations, "agent": add_agent}


def workflow(shape: str, size: int, began_s: list[float]) -> Workflow:
    """A run of that shape, with a question to a person behind it."""
    wf = Workflow("long", max_steps=10_000_000)
    last = SHAPES[shape](wf, size, began_s)

    async def ask(state: Any) -> dict[str, str]:
        return {"text": "go on?"}

    async def end(state: Any) -> str:
        return "end"

    if shape != "operations":
        wf.node("ask")(human_gate(ask))
        wf.edge(last, "ask")
        last = "ask"
    wf.node("end")(task(end))
    wf.edge(last, "end")
    return wf


def us_each(began_s: list[float]) -> list[int]:
    """The microseconds from one beginning to the next: the median of the first tenth, and of the last."""
    apart = [round((after - before) * 1e6) for before, after in itertools.pairwise(began_s)]
    tenth = max(1, len(apart) // 10)
    return [sorted(part)[len(part) // 2] for part in (apart[:tenth], apart[-tenth:])]


def memory_kib(what: str) -> int:
    """A line of what Linux says of this process: `VmRSS` now, `VmHWM` at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


async def grow(store: Path, shape: str, size: int) -> tuple[str, dict[str, Any]]:
    """A run of that size that waits for its answer."""
    began_s: list[float] = []
    wf = workflow(shape, size, began_s)
    model = Talker(size, began_s)
    async with Engine.open(store, workflows=[wf], slots=1, model=model, settings=SETTINGS) as engine:
        began = time.perf_counter()
        run = await engine.start(wf)
        await run.settled()
        took_s = time.perf_counter() - began
        events = (await run.state()).seq
    each = us_each(began_s)
    return run.id, {"shape": shape, "size": size, "events": events, "took_s": round(took_s, 2), "us_each": each}


async def resume(store: Path, shape: str, size: int, run_id: str) -> dict[str, Any]:
    """Answer the question in a process that has never seen the run."""
    wf = workflow(shape, size, [])
    before_kib = memory_kib("VmRSS")
    async with Engine.open(store, workflows=[wf], slots=1, model=Talker(size, []), settings=SETTINGS) as engine:
        (asked,) = await engine.gates(run_id)
        began = time.perf_counter()
        await engine.decide(asked[0].gate)
        await engine.run(run_id).result()
        took_s = time.perf_counter() - began
        history = await engine.runtime.store.log.load(asked[0].run, FOLD_VERSION)
    return {
        "resume_ms": round(took_s * 1000, 1),
        "loaded_events": len(history.events),
        "snapshot_kib": len(history.snapshot.state) // 1024 if history.snapshot is not None else 0,
        "resume_mib": (memory_kib("VmHWM") - before_kib) // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("shape", choices=[*SHAPES])
    parser.add_argument("sizes", type=int, nargs="+", metavar="SIZE")
    parser.add_argument("--resume", metavar="RUN", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    for size in asked.sizes:
        store = asked.folder / f"{asked.shape}-{size}.db"
        if asked.resume is not None:
            print(json.dumps(asyncio.run(resume(store, asked.shape, size, asked.resume))))  # noqa: T201 - see below
            return
        if store.exists():
            parser.error(f"{store} exists; name another folder")
        run, figures = asyncio.run(grow(store, asked.shape, size))
        command = [sys.executable, __file__, str(asked.folder), asked.shape, str(size), "--resume", run]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        figures |= json.loads(done.stdout)
        print(json.dumps(figures), flush=True)  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    main()
