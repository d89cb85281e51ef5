"""Three questions for a research team, which is killed in the middle: `python -m examples.research_team.demo`.

The end is a table, counted by the library and the model server; it exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from examples.journals import ModelJournal
from examples.research_team import library
from examples.research_team.judge import CALLS, READS, account
from examples.research_team.team import AT_ONCE, TEAM, TOTAL_USD, hired
from examples.show import Show, Verdict
from examples.stage import (
    HOLDFAST,
    LOOPBACK,
    SOMEWHERE,
    Child,
    Stage,
    StageError,
    environment,
    fresh_directory,
    until_terminated,
)
from examples.watched import add_option, hold, watched
from holdfast import Accepted, Engine, Rejected, Supervisor
from holdfast.testing import model_server

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORE = "runs.db"
QUESTIONS = ("the quietest", "the cheapest", "the best for a first visit")
SLOW_S = 0.3
"""The library and each model take so long: there is something on its way when the worker is killed."""
READ_BEFORE_THE_KILL = 3
LOOK_S = 0.02
PATIENCE_S = 120.0


async def play(directory: Path, show: Show, *, console: bool) -> Verdict:
    """The demo from beginning to end."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(Stage(directory))
        _, library_port = await stage.serve(
            "library", "examples.research_team.library", "--journal", str(directory / READS), "--slow-s", str(SLOW_S)
        )
        _, model_port = await stage.serve(
            "model-server",
            "holdfast.testing.model_server",
            "--journal",
            str(directory / CALLS),
            "--rules",
            str(HERE / "model_rules.json"),
            "--latency-s",
            str(SLOW_S),
        )
        show.say(f"A library has pages on port {library_port}; a model server speaks two APIs on port {model_port}.")
        os.environ |= environment(
            f"sqlite:///{directory / STORE}",
            PYTHONPATH=str(ROOT),
            **{library.VARIABLE: f"http://{LOOPBACK}:{library_port}"},
            **model_server.environment(model_port),
        )
        engine = await stack.enter_async_context(Engine.open(directory / STORE, execute=False))
        await stack.enter_async_context(watched(engine, directory, show, is_wanted=console))
        with show:
            verdict = await Demo(directory, stage, engine, await hired(engine), show).play()
        return await hold(verdict, show, is_wanted=console)


class Demo:
    def __init__(self, directory: Path, stage: Stage, engine: Engine, desk: Supervisor, show: Show) -> None:
        self._directory = directory
        self._stage = stage
        self._engine = engine
        self._desk = desk
        self._show = show
        self._models = ModelJournal(directory / CALLS)
        self._workers: list[Child] = []

    async def play(self) -> Verdict:
        say = self._show.say
        say(f"A team of {len(TEAM)} has ${TOTAL_USD} together, and a desk that takes {AT_ONCE} questions at once.")
        await self._start_worker()
        answers = [await self._ask(question) for question in QUESTIONS]
        refused = [each for each in answers if isinstance(each, Rejected)]
        say(f"The third is refused: {refused[0].reason}, another try in {refused[0].retry_after_s:.1f} s.")
        await self._until(self._are_at_work, "the researchers")
        killed_unix_s = await self._kill()
        for _ in range(2):
            await self._start_worker()
        say("Two workers find what it was at, and go on.", "good")
        await self._until(lambda: self._are_done(QUESTIONS[:AT_ONCE]), "the first answers")
        await self._ask(QUESTIONS[AT_ONCE])
        await self._until(lambda: self._are_done(QUESTIONS), "the last answer")
        say("Everything has ended. Now count.")
        results = [await self._desk.result(question) for question in QUESTIONS]
        done = [each.result for each in results if each.success]
        return await account(self._directory, self._engine, done, len(QUESTIONS), killed_unix_s)

    async def _ask(self, question: str) -> Accepted | Rejected:
        """The question is the task's id as well: asked again, it is the same task."""
        answer = await self._desk.submit("question", {"question": f"Which harbour is {question}?"}, task_id=question)
        if isinstance(answer, Accepted):
            self._show.say(f"“Which harbour is {question}?” is taken.")
        return answer

    # --- Processes ----------------------------------------------------------------------------------------------------

    async def _start_worker(self) -> None:
        words = (*HOLDFAST, "worker", f"{HERE / 'workflow.py'}:wf")
        name = f"worker-{len(self._workers)}"
        self._workers.append(await self._stage.start(name, *words, environment=dict(os.environ), cwd=ROOT))

    async def _kill(self) -> float:
        worker, at_unix_s = self._workers[-1], time.time()
        await worker.kill()
        self._show.say(f"kill -9 {worker.pid}, while models are asked what is in the pages.", "kill")
        return at_unix_s

    # --- What is going on ---------------------------------------------------------------------------------------------

    async def _are_at_work(self) -> bool:
        """Pages are there, and models are asked what is in them."""
        reads = library.read(self._directory / READS)
        return len(reads) >= READ_BEFORE_THE_KILL and bool(self._models.in_flight(time.time()))

    async def _are_done(self, questions: Sequence[str]) -> bool:
        """Whether these are; tells how things stand."""
        found = [await self._desk.result(question) for question in questions]
        done = sum(each.status not in ("queued", "active") for each in found)
        runs = await self._engine.runs()
        spent = sum(row.settled_nanousd for row in runs) / 1e9
        self._show.figures(done, len(QUESTIONS), {"runs": str(len(runs)), "spent": f"${spent:.4f}"})
        return done == len(found)

    async def _until(self, met: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not await met():
            for worker in self._workers[1:] or self._workers:
                if not worker.alive:
                    raise StageError(f"The {worker.name} has ended by itself:\n{worker.last_words()}")
            if time.monotonic() > deadline_s:
                raise StageError(f"Waited {PATIENCE_S:g} s for {what}.")
            await asyncio.sleep(LOOK_S)


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.research_team.demo", description=__doc__)
    parser.add_argument(
        "--keep",
        type=Path,
        nargs="?",
        const=SOMEWHERE,
        metavar="DIR",
        help="keep the store, the journals and the logs, in DIR or in a directory that is named at the end",
    )
    add_option(parser)
    options = parser.parse_args(words)
    keep = options.keep
    directory, show = fresh_directory(keep), Show(Console(), what="questions")
    show.title("Holdfast: a research team with one budget and one memory, kill -9")
    code = 1
    try:
        verdict = asyncio.run(until_terminated(play(directory, show, console=options.console)))
        code = 0 if verdict.kept else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.say("Stopped. Every process of the demo has ended.")
        code = 130
    except StageError as problem:
        show.say(str(problem), "kill")
    finally:
        if keep is not None or code == 1:
            show.say(f"The store, the journals and what each process said are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
