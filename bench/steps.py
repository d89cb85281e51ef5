"""How many durable steps a second: RUNS runs of STEPS task steps, CONCURRENCY at a time, through the public API.

    python bench/steps.py STORE RUNS STEPS CONCURRENCY [--calls | --flow] [--profile FILE]

STORE is what `Engine.open` takes (a path, sqlite:///PATH, or postgresql://…); a path must not exist yet. Each step returns
`{"text": 900 characters}` and is on the disk before the next one begins. Prints one JSON line; `commit_p50_ms` and
`commit_p95_ms` are from the decision of an append to its acknowledgement. Compare figures of one machine, taken one
after the other.

With `--calls` each step makes a model call, held before and settled after, of a model that is a function of this process.
With `--flow` a run is one flow, whose STEPS bare steps return the same.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import resource
import time
from decimal import Decimal
from pathlib import Path

from holdfast import Context, Engine, Workflow, flow, llm_node, step, task
from holdfast.platform.machine import collect_rarely, run_quickly
from holdfast.ports import Append, ModelReply, ModelRequest, Usage
from holdfast.settings import DeclaredModel, Settings

TEXT = {"text": "x" * 900}


class Echo:
    """A model that answers at once."""

    async def prepare(self, model: str) -> None:
        pass

    async def request(self, request: ModelRequest) -> ModelReply:
        return ModelReply(TEXT["text"], (), None, Usage(100, 225), "stop", None, None)


def chain(steps: int, calls: bool) -> Workflow:
    """`steps` tasks, one after the other."""
    workflow = Workflow("steps", max_steps=steps + 1)

    async def plain(state: object) -> dict[str, str]:
        return TEXT

    def ask(state: object) -> str:
        return "say it"

    node = llm_node(model="echo", max_tokens=1000)(ask) if calls else task(plain)
    for number in range(steps):
        workflow.node(f"n{number}")(node)
        if number:
            workflow.edge(f"n{number - 1}", f"n{number}")
    return workflow


def in_one_flow(steps: int) -> Workflow:
    """A flow of `steps` bare steps, one after the other."""

    @step
    async def plain(number: int) -> dict[str, str]:
        return TEXT

    @flow(name="steps")
    async def handle(ctx: Context) -> dict[str, str]:
        for number in range(steps):
            last = await plain(number)
        return last

    return handle


def percentile_ms(latencies_s: list[float], share: float) -> float:
    return round(sorted(latencies_s)[int(len(latencies_s) * share)] * 1000, 2)


async def measure(store: str, runs: int, steps: int, concurrency: int, *, calls: bool, is_flow: bool) -> dict[str, object]:
    collect_rarely()  # as `holdfast worker` does, and its event loop
    workflow = in_one_flow(steps) if is_flow else chain(steps, calls)
    price = DeclaredModel(input_usd_per_mtok=Decimal(1), output_usd_per_mtok=Decimal(5))
    settings = Settings(models={"echo": price})
    places = asyncio.Semaphore(concurrency)
    commits_s: list[float] = []
    walls_s: list[float] = []

    async with Engine.open(store, workflows=[workflow], slots=concurrency, model=Echo(), settings=settings) as engine:
        append = engine.runtime.runs.flush.append

        def timed(one: Append, *, patient: bool = False) -> asyncio.Future[None]:
            began = time.perf_counter()
            done = append(one, patient=patient)
            done.add_done_callback(lambda _: commits_s.append(time.perf_counter() - began))
            return done

        engine.runtime.runs.flush.append = timed  # type: ignore[method-assign]

        async def one() -> None:
            async with places:
                began = time.perf_counter()
                run = await engine.start(workflow)
                await run.result()
                walls_s.append(time.perf_counter() - began)

        await one()  # what is made once is made: the table of prices, the store's statements
        commits_s.clear()
        walls_s.clear()
        began, began_cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one() for _ in range(runs)))
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    return {
        "system": "holdfast",
        "store": "sqlite" if "://" not in store else store.split(":", maxsplit=1)[0],
        "runs": runs,
        "steps": steps,
        "calls": calls,
        "flow": is_flow,
        "concurrency": concurrency,
        "steps_per_s": round(runs * steps / took_s),
        "commit_p50_ms": percentile_ms(commits_s, 0.5),
        "commit_p95_ms": percentile_ms(commits_s, 0.95),
        "run_p50_ms": percentile_ms(walls_s, 0.5),
        "step_p50_ms": round(percentile_ms(walls_s, 0.5) / steps, 2),
        "cpu_us_per_step": round(cpu_s / (runs * steps) * 1e6),
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    for number in ("runs", "steps", "concurrency"):
        parser.add_argument(number, type=int)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--calls", action="store_true", help="a held and settled model call in each step")
    form.add_argument("--flow", action="store_true", help="bare steps of one flow instead of nodes")
    parser.add_argument("--profile", type=Path, help="where to write a cProfile of the event loop's thread")
    asked = parser.parse_args()
    if "://" not in asked.store and Path(asked.store).exists():
        parser.error(f"{asked.store} exists; name a file that does not")
    profile = cProfile.Profile() if asked.profile else None
    if profile is not None:
        profile.enable()
    figures = run_quickly(
        measure(asked.store, asked.runs, asked.steps, asked.concurrency, calls=asked.calls, is_flow=asked.flow)
    )
    if profile is not None:
        profile.dump_stats(asked.profile)
    print(json.dumps(figures))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    main()
