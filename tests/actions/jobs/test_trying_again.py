"""A job that is tried again: how often, from where, and what is never done twice. The journal outside is the judge."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.values.ids import NodeName
from holdfast.core.views.status import status
from tests.actions.jobs.kit import done, ran, workflow, world
from tests.engine.kit import eventually, opened

PATIENCE_S = 60


async def test_a_failed_job_is_tried_again_from_its_first_step_as_often_as_it_says(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      before: {{runs-on: any, steps: [{{run: echo before >> {outside}}}]}}
      work:
        runs-on: any
        needs: before
        retry: {{max: 2, delay-seconds: 0.01}}
        steps:
          - {{run: echo first >> {outside}; test ! -e left; touch left}}
          - {{run: 'test $(grep -c first {outside}) = 3'}}
    """
    ended = await ran(text, store)
    assert ended.status == "completed"
    assert world(outside) == ["before", "first", "first", "first"]


async def test_the_last_failed_try_is_the_jobs_result(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        continue-on-error: true
        retry: {{max: 1, backoff: fixed, delay-seconds: 0.01}}
        steps: [{{run: echo try >> {outside}; exit 3}}]
      after: {{runs-on: any, needs: work, steps: [{{run: "true"}}]}}
    """
    ended = await ran(text, store)
    assert world(outside) == ["try", "try"]
    assert (ended.status, ended.results) == ("completed", {"work": "success", "after": "success"})
    assert ended.jobs["work"]["outcome"] == "failure"


async def test_without_retry_a_job_is_tried_once(store: str, outside: Path) -> None:
    ended = await ran(f"jobs: {{work: {{runs-on: any, steps: [{{run: echo try >> {outside}; exit 3}}]}}}}", store)
    assert (ended.status, world(outside)) == ("failed", ["try"])


def test_the_delay_between_tries_is_the_files() -> None:
    text = "jobs: {work: {runs-on: any, retry: RETRY, steps: [{run: 'true'}]}}"
    fixed = workflow(text.replace("RETRY", "{max: 4, backoff: fixed, delay-seconds: 7}")).nodes["work"].retry
    assert (fixed.max_attempts, fixed.backoff, fixed.initial_s) == (5, "fixed", 7)
    doubled = workflow(text.replace("RETRY", "{max: 1, delay-seconds: 2, max-delay-seconds: 9}")).nodes["work"].retry
    assert (doubled.max_attempts, doubled.backoff, doubled.initial_s, doubled.max_s) == (2, "exponential", 2, 9)
    assert workflow(text.replace("retry: RETRY, ", "")).nodes["work"].retry.max_attempts == 1


async def test_a_step_that_runs_once_is_not_repeated_by_a_retry_and_gives_what_it_gave(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        retry: {{max: 2, delay-seconds: 0.01}}
        steps:
          - {{id: count, run: 'echo again >> {outside}; echo "n=$(grep -c again {outside})" >> "$GITHUB_OUTPUT"'}}
          - {{if: steps.count.outputs.n == 1, effect: once, run: echo "only at first" >> {outside}}}
          - id: pay
            effect: once
            run: |
              echo "paid by try ${{{{ steps.count.outputs.n }}}} $HOLDFAST_IDEMPOTENCY_KEY" >> {outside}
              echo "receipt=R-${{{{ steps.count.outputs.n }}}}" >> "$GITHUB_OUTPUT"
              echo "RECEIPT=E-${{{{ steps.count.outputs.n }}}}" >> "$GITHUB_ENV"
          - run: echo "$RECEIPT ${{{{ steps.pay.outputs.receipt }}}}"; test ${{{{ steps.count.outputs.n }}}} = 3
    """
    ended = await ran(text, store)
    assert ended.status == "completed", ended.error
    said = world(outside)
    assert [line.split()[0] for line in said] == ["again", "only", "paid", "again", "again"]
    assert len(said[2].split()[-1]) == 64
    assert ended.jobs["work"]["log"].splitlines()[-1] == "E-1 R-1"


async def test_a_failed_step_that_runs_once_stays_failed_and_its_job_is_not_retried(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        retry: {{max: 5, delay-seconds: 0.01}}
        steps: [{{id: pay, effect: once, run: echo paid >> {outside}; exit 3}}]
    """
    ended = await ran(text, store)
    assert (ended.status, world(outside)) == ("failed", ["paid"])
    assert "step 'pay': It ended with exit code 3." in ended.error
    assert ended.state.steps[NodeName("work")].attempt == 1


async def test_each_combination_has_its_own_steps_that_run_once(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        retry: {{max: 1, delay-seconds: 0.01}}
        strategy: {{fail-fast: false, matrix: {{n: [1, 2, 3]}}}}
        steps:
          - {{effect: once, run: 'echo "${{{{ matrix.n }}}} $HOLDFAST_IDEMPOTENCY_KEY" >> {outside}'}}
          - {{run: 'test ${{{{ matrix.n }}}} != 2'}}
    """
    ended = await ran(text, store)
    assert ended.results == {"work": "failure"}
    assert sorted(line.split()[0] for line in world(outside)) == ["1", "2", "3"]
    assert len({line.split()[1] for line in world(outside)}) == 3


async def test_combinations_that_have_succeeded_are_not_repeated_by_a_retry(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        retry: {{max: 2, delay-seconds: 0.01}}
        strategy: {{fail-fast: false, max-parallel: 1, matrix: {{n: [1, 2, 3, 4]}}}}
        steps:
          - {{id: say, run: 'echo ${{{{ matrix.n }}}} >> {outside}; echo "x=of ${{{{ matrix.n }}}}" >> "$GITHUB_OUTPUT"'}}
          - {{run: 'test ${{{{ matrix.n }}}} != 2 || test "$(grep -c 2 {outside})" = 3'}}
        outputs: {{x: "${{{{ steps.say.outputs.x }}}}", n: "${{{{ matrix.n == 3 && '3' || '' }}}}"}}
    """
    ended = await ran(text, store)
    assert (ended.status, world(outside)) == ("completed", ["1", "2", "2", "2", "3", "4"])
    work = ended.jobs["work"]
    assert work["outputs"] == {"x": "of 4", "n": "3"}
    assert [(each["matrix"]["n"], each["result"]) for each in work["combinations"]] == [(n, "success") for n in (1, 2, 3, 4)]
    assert all(each["steps"]["say"] == {"outcome": "success", "conclusion": "success"} for each in work["combinations"])


async def test_each_combination_has_tries_of_its_own(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        retry: {{max: 3, delay-seconds: 0.01}}
        strategy: {{fail-fast: false, max-parallel: 1, matrix: {{n: [1, 2, 3, 4]}}}}
        steps: [{{run: 'echo ${{{{ matrix.n }}}} >> {outside}; test "$(grep -c ${{{{ matrix.n }}}} {outside})" -gt "$((4 - N))"'}}]
        env: {{N: "${{{{ matrix.n }}}}"}}
        outputs: {{x: "${{{{ matrix.n }}}}", y: "${{{{ matrix.n < 4 && matrix.n || '' }}}}"}}
    """
    ended = await ran(text, store)
    assert ended.status == "completed"
    assert world(outside) == ["1", "1", "1", "1", "2", "2", "2", "3", "3", "4"]
    assert [each["matrix"]["n"] for each in ended.jobs["work"]["combinations"]] == [1, 2, 3, 4]
    assert ended.jobs["work"]["outputs"] == {"x": "4", "y": "3"}


async def test_a_failure_that_is_allowed_is_tried_again_all_the_same(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        continue-on-error: true
        retry: {{max: 1, delay-seconds: 0.01}}
        strategy: {{max-parallel: 1, matrix: {{n: [1, 2]}}}}
        steps: [{{run: 'echo ${{{{ matrix.n }}}} >> {outside}; test ${{{{ matrix.n }}}} = 2'}}]
    """
    ended = await ran(text, store)
    assert (ended.status, world(outside)) == ("completed", ["1", "1", "2"])
    assert [each["outcome"] for each in ended.jobs["work"]["combinations"]] == ["failure", "success"]


async def test_what_a_combination_has_put_out_is_kept_however_large(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        retry: {{max: 1, delay-seconds: 0.01}}
        strategy: {{fail-fast: false, matrix: {{n: [1, 2]}}}}
        steps:
          - {{id: say, run: 'echo "x=$(head -c 200000 /dev/zero | tr "\\0" ${{{{ matrix.n }}}})" >> "$GITHUB_OUTPUT"'}}
          - {{run: 'test ${{{{ matrix.n }}}} = 1 || test -e {outside} || {{ touch {outside}; exit 1; }}'}}
        outputs: {{"x": "${{{{ matrix.n == 1 && steps.say.outputs.x || '' }}}}"}}
    """
    ended = await ran(text, store)
    assert ended.status == "completed"
    assert ended.jobs["work"]["outputs"]["x"] == "1" * 200_000


# --- Killed in the middle ---------------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path: Path, scratch: Path) -> Iterator[Any]:
    """Starts `holdfast run FILE` as a process of its own; what still runs at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TMPDIR": str(scratch), "HOLDFAST_LEASE_S": "3"}
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words], env=environment, stderr=subprocess.DEVNULL, cwd=tmp_path
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(words: str, outside: Path) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while words not in world(outside):
        assert time.monotonic() < until_s, world(outside)
        time.sleep(0.01)


KILLED = """
jobs:
  before:
    runs-on: any
    steps: [{{run: echo before >> {outside}}}]
  work:
    runs-on: any
    needs: before
    steps:
      - {{run: echo plain >> {outside}}}
      - id: pay
        effect: once
        run: |
          echo paid >> {outside}
          echo x=receipt >> "$GITHUB_OUTPUT"
          {in_payment}
      - run: |
          echo "${{{{ steps.pay.outputs.x }}}}" >> {outside}
          test -e {marker} || {{ touch {marker}; echo hanging >> {outside}; sleep 30; }}
"""


def test_after_a_crash_a_job_begins_again_and_what_runs_once_is_not_run_again(
    tmp_path: Path, scratch: Path, outside: Path, begun: Any
) -> None:
    file, store = tmp_path / "file.yaml", f"sqlite:///{tmp_path}/killed.db"
    file.write_text(KILLED.format(outside=outside, marker=tmp_path / "marker", in_payment="true"))
    process = begun("run", str(file), "--store", store)
    wait_for("hanging", outside)
    process.kill()
    assert begun("worker", str(file), "--store", store, "--until-idle").wait(PATIENCE_S) == 0
    assert world(outside) == ["before", "plain", "paid", "receipt", "hanging", "plain", "receipt"]
    assert not list(scratch.iterdir())  # what the killed process has left is gone as well


@pytest.mark.parametrize(
    ("decision", "data", "after"),
    [
        ("answer", {"outputs": {"x": "by hand"}}, ["plain", "by hand"]),
        pytest.param("answer", None, ["plain", ""], marks=pytest.mark.long),
        pytest.param("answer", {"succeeded": "perhaps"}, ["plain"], marks=pytest.mark.long),
        pytest.param("retry", None, ["plain", "paid", "receipt"], marks=pytest.mark.long),
        pytest.param("reject", None, ["plain"], marks=pytest.mark.long),
    ],
)
async def test_a_crash_inside_a_step_that_runs_once_asks_a_person_and_obeys_the_answer(
    store: str, tmp_path: Path, outside: Path, begun: Any, decision: str, data: Any, after: list[str]
) -> None:
    file, marker = tmp_path / "file.yaml", tmp_path / "marker"
    marker.touch()
    file.write_text(KILLED.format(outside=outside, marker=marker, in_payment=f"test -e {marker}.once || sleep 30"))
    process = begun("run", str(file), "--store", store)
    wait_for("paid", outside)
    process.kill()
    process.wait()
    marker.with_name("marker.once").touch()
    made = workflow(file.read_text(), "file")
    async with opened(store, workflows=[made]) as engine:
        (row,) = await engine.runs()
        run = engine.run(row.run)
        asking = await run.settled()
        assert status(asking) == "requires_attention"
        ((gate, asked),) = asking.gates.items()
        shown = asked.opened.shown.value()
        assert (asked.opened.reason, shown["tool"]) == ("effect_unknown", "work.pay")
        assert "echo paid" in shown["request"]["script"]
        before = world(outside)
        assert before.count("paid") == 1
        await engine.decide(gate, decision, data=data, by="ida")
        ended = await done(engine, await run.settled())
    assert world(outside) == [*before, *after]
    assert ended.status == ("completed" if after[1:] else "failed")


@pytest.mark.long
def test_combinations_that_had_succeeded_are_not_repeated_after_a_crash(tmp_path: Path, outside: Path, begun: Any) -> None:
    file, store = tmp_path / "file.yaml", f"sqlite:///{tmp_path}/killed.db"
    file.write_text(f"""
jobs:
  work:
    runs-on: any
    strategy: {{max-parallel: 1, matrix: {{n: [1, 2, 3, 4]}}}}
    steps: [{{run: 'echo ${{{{ matrix.n }}}} >> {outside}; test ${{{{ matrix.n }}}} != 3 || test -e {tmp_path}/go || sleep 30'}}]
""")
    process = begun("run", str(file), "--store", store)
    wait_for("3", outside)
    process.kill()
    (tmp_path / "go").touch()
    assert begun("worker", "--yaml", "--store", store, "--until-idle").wait(PATIENCE_S) == 0
    assert world(outside) == ["1", "2", "3", "3", "4"]


async def test_a_worker_that_is_stopped_hands_its_job_over_and_leaves_nothing_of_it(
    store: str, tmp_path: Path, scratch: Path, outside: Path, begun: Any
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(KILLED.format(outside=outside, marker=tmp_path / "marker", in_payment="true"))
    async with opened(store, workflows=[workflow(file.read_text())], execute=False) as engine:
        await engine.start(workflow(file.read_text()))
    process = begun("worker", str(file), "--store", store, "--grace-s", "0")
    wait_for("hanging", outside)
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    assert not list(scratch.iterdir())
    assert begun("worker", str(file), "--store", store, "--until-idle").wait(PATIENCE_S) == 0
    assert world(outside) == ["before", "plain", "paid", "receipt", "hanging", "plain", "receipt"]


# --- Cancelled --------------------------------------------------------------------------------------------------------


async def test_a_cancelled_run_ends_what_its_jobs_have_started(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        steps:
          - {{run: 'sh -c "echo \\$\\$ >> {outside}; sleep 30; echo late >> {outside}"'}}
          - {{run: echo never >> {outside}}}
          - {{if: cancelled(), effect: once, run: echo never >> {outside}}}
          - {{if: always(), run: 'sleep 0.3; echo "${{{{ job.status }}}}" >> {outside}'}}
    """
    made = workflow(text)
    async with opened(store, workflows=[made]) as engine:
        run = await engine.start(made)
        await eventually(lambda: world(outside))
        await engine.cancel(run.id)
        state = await run.settled()
        assert state.ended == "cancelled"
        process = int(world(outside)[0])
        await eventually(lambda: not _is_there(process))
    assert world(outside)[1:] == ["cancelled"], "closing waits for what asked to run, and nothing else was begun"


async def test_a_step_that_runs_once_is_not_broken_off_by_cancelling_its_run(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        steps:
          - {{effect: once, run: 'echo begun >> {outside}; sleep 0.5; echo paid >> {outside}'}}
          - {{if: always(), run: echo never >> {outside}}}
    """
    made = workflow(text)
    async with opened(store, workflows=[made]) as engine:
        run = await engine.start(made)
        await eventually(lambda: world(outside))
        await engine.cancel(run.id)
        state = await run.until(lambda state: bool(state.ended))
        assert (state.ended, world(outside)) == ("cancelled", ["begun", "paid"])
        ((_, change),) = await engine.effects(run.id)
        assert change is not None
        assert change.state == "completed"


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# --- On PostgreSQL ----------------------------------------------------------------------------------------------------


async def test_on_postgresql_it_is_the_same(database: str, outside: Path) -> None:
    text = f"""
    jobs:
      plan:
        runs-on: any
        steps: [{{id: a, run: 'echo "parts=[1, 2]" >> "$GITHUB_OUTPUT"'}}]
        outputs: {{parts: "${{{{ steps.a.outputs.parts }}}}"}}
      work:
        runs-on: any
        needs: plan
        retry: {{max: 1, delay-seconds: 0.01}}
        strategy: {{matrix: {{part: "${{{{ fromJSON(jobs.plan.outputs.parts) }}}}"}}}}
        steps:
          - {{id: once, effect: once, run: 'echo once ${{{{ matrix.part }}}} >> {outside}; echo x=${{{{ matrix.part }}}} >> "$GITHUB_OUTPUT"'}}
          - {{run: 'test -e {outside}.tried || {{ touch {outside}.tried; exit 1; }}'}}
        outputs: {{x: "${{{{ steps.once.outputs.x }}}}"}}
      after: {{runs-on: any, needs: work, if: always(), steps: [{{run: 'test -n "${{{{ needs.work.outputs.x }}}}"'}}]}}
    """
    ended = await ran(text, database)
    assert ended.status == "completed", ended.jobs
    assert sorted(world(outside)) == ["once 1", "once 2"]


async def test_a_retried_run_repeats_failed_jobs_and_the_jobs_skipped_because_of_them(store: str, outside: Path) -> None:
    mended = outside.with_suffix(".mended")
    text = f"""
    jobs:
      build: {{runs-on: any, steps: [{{run: echo build >> {outside}}}]}}
      test:
        runs-on: any
        needs: build
        strategy: {{fail-fast: false, matrix: {{n: [1, 2]}}}}
        steps:
          - {{run: 'echo once-${{{{ matrix.n }}}} >> {outside}', effect: once}}
          - {{run: 'echo test-${{{{ matrix.n }}}} >> {outside}; test ${{{{ matrix.n }}}} = 1 || test -e {mended}'}}
      publish: {{runs-on: any, needs: test, steps: [{{run: echo publish >> {outside}}}]}}
      gated: {{runs-on: gpu, needs: test, steps: [{{run: echo gated >> {outside}}}]}}
      tidy: {{runs-on: any, needs: test, if: always(), steps: [{{run: echo tidy >> {outside}}}]}}
    """
    made = workflow(text)
    async with opened(store, workflows=[made], labels=["gpu"]) as engine:
        run = await engine.start(made)
        assert (await done(engine, await run.settled())).status == "failed"
        first = world(outside)
        assert sorted(first) == ["build", "once-1", "once-2", "test-1", "test-2", "tidy"]
        mended.touch()
        await engine.retry(run.id)
        ended = await done(engine, await run.settled())
    assert (ended.status, set(ended.results.values())) == ("completed", {"success"})
    assert sorted(world(outside)[len(first) :]) == ["gated", "publish", "test-2", "tidy"]
