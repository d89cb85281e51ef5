"""Any workflow does what a second, plain writing of the rules says, also if its process is stopped in the middle."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.core.facts.state import State
from tests.actions.jobs.kit import Done, done
from tests.actions.jobs.model import ALWAYS, JOB_CONDITIONS, LABEL, STEP_CONDITIONS, Job, Shell, Step, expected, file_of
from tests.conftest import examples
from tests.engine.kit import opened

IDS = ("a", "b", "c", "d", "e")


def steps(fails: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Step, ...]]:
    step = st.builds(Step, st.sampled_from(STEP_CONDITIONS), fails, st.booleans(), st.sampled_from([False, False, True]))
    first = st.builds(Step, st.just(""), fails, st.booleans(), st.booleans())
    return st.builds(lambda first, rest: (first, *rest), first, st.lists(step, max_size=3))


@st.composite
def workflows(draw: st.DrawFn, fails: st.SearchStrategy[int], most_tries: int) -> list[Job]:
    jobs: list[Job] = []
    for id_ in IDS[: draw(st.integers(1, len(IDS)))]:
        needs = draw(st.lists(st.sampled_from([job.id for job in jobs]), unique=True)) if jobs else []
        jobs.append(
            Job(
                id_,
                tuple(needs),
                draw(st.sampled_from(JOB_CONDITIONS)) if needs else "",
                draw(st.booleans()),
                draw(st.integers(1, most_tries)),
                draw(st.sampled_from([0, 0, 1, 2, 4])),
                draw(st.booleans()),
                draw(steps(fails)),
                draw(st.sampled_from(["any", LABEL])),
                draw(st.booleans()),
            )
        )
    return jobs


def quick(usual: int) -> Callable[[Any], Any]:
    return settings(max_examples=examples(usual), deadline=None, suppress_health_check=list(HealthCheck))


def played(play: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(play(Path(place)))


async def ended(store: str, jobs: list[Job], shell: Shell) -> Done:
    """Start it and see it end, or, where the shell hangs, stop the process and have another go on."""
    made = workflow_of(load(json.dumps(file_of(jobs)), "file"), shell)
    shell.knows(jobs)
    async with opened(store, workflows=[made], labels=[LABEL]) as engine:
        run = await engine.start(made)
        over = asyncio.create_task(run.settled())
        hangs = asyncio.create_task(shell.hanging.wait())
        await asyncio.wait((over, hangs), return_when=asyncio.FIRST_COMPLETED)
        hangs.cancel()
        if over.done():
            return await done(engine, over.result())
        over.cancel()
    shell.go_on()
    async with opened(store, workflows=[made], labels=[LABEL]) as engine:
        state: State = await engine.run(run.id).settled()
        return await done(engine, state)


def outcomes(found: Done) -> dict[str, list[str]]:
    """What became of the combinations of each job with a matrix that ran."""
    return {id_: [each["outcome"] for each in job["combinations"]] for id_, job in found.jobs.items() if "combinations" in job}


@quick(30)
@given(workflows(st.sampled_from([0, 0, 0, 1, 2, ALWAYS]), most_tries=3))
def test_jobs_combinations_and_steps_do_what_the_rules_say(jobs: list[Job]) -> None:
    wanted = expected(jobs)

    async def play(place: Path) -> None:
        shell = Shell()
        found = await ended(f"sqlite:///{place}/holdfast.db", jobs, shell)
        assert (found.status, found.results, shell.ran) == (wanted.status, wanted.results, wanted.ran)
        assert outcomes(found) == wanted.outcomes

    played(play)
    for result in set(wanted.results.values()):
        event(f"a job ended with {result}")
    event(f"tried again: {any(times > 1 for times in wanted.ran.values())}")


@quick(15)
@given(workflows(st.sampled_from([0, 0, 0, ALWAYS]), most_tries=1), st.integers(1, 20))
@pytest.mark.long
def test_a_process_that_is_stopped_in_the_middle_changes_nothing_about_the_result(jobs: list[Job], at: int) -> None:
    wanted = expected(jobs)

    async def play(place: Path) -> None:
        shell = Shell(hangs_at=at)
        found = await ended(f"sqlite:///{place}/holdfast.db", jobs, shell)
        event(f"stopped: {shell.hanging.is_set()}")
        assert (found.status, found.results, outcomes(found)) == (wanted.status, wanted.results, wanted.outcomes)
        assert shell.ran.keys() == wanted.ran.keys()
        for job in jobs:
            for number, step in enumerate(job.steps):
                times = {
                    combination: shell.ran[job.id, combination, f"s{number}"]
                    for combination in map(str, range(job.combinations))
                }
                assert all(count <= (1 if step.once else 2) for count in times.values())
                again = [
                    combination
                    for combination, count in times.items()
                    if count > 1 and (job.id, combination) in wanted.succeeded
                ]
                assert len(again) <= (1 if job.fails_fast else job.combinations)

    played(play)
