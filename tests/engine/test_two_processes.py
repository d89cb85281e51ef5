"""Several processes on one file: killed, frozen, crowded, stopped. The witness is the world's journal outside of all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, Run, RunFailed
from holdfast.core.facts import events as ev
from holdfast.core.views.status import status
from tests.engine import worker
from tests.engine.history import events_of
from tests.engine.kit import bounded, opened
from tests.forks import AsyncFork

ROOT = Path(__file__).parents[2]
LEASE_S = 0.5
LONG_S = 30.0

Start = Callable[..., Awaitable[AsyncFork]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
async def desk(path: Path) -> AsyncIterator[Engine]:
    """A process that only starts, asks and decides."""
    async with Engine.open(f"sqlite:///{path}", execute=False) as engine:
        yield engine


@pytest.fixture
async def start(path: Path) -> AsyncIterator[Start]:
    """Starts workers, and ends them with the test."""
    started: list[AsyncFork] = []

    async def another(lease_s: float = LONG_S, point: str = "") -> AsyncFork:
        process = await AsyncFork.start("tests.engine.worker", path, world(path), lease_s, point)
        started.append(process)
        assert await asyncio.wait_for(process.stdout.readline(), 20) == b"ready\n"
        return process

    yield another
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(process.communicate(), 20)


def world(path: Path) -> Path:
    return path.with_name("world.jsonl")


def happened(path: Path) -> list[dict[str, Any]]:
    lines = world(path).read_text().splitlines() if world(path).exists() else []
    return [json.loads(line) for line in lines]


def count(path: Path, what: str) -> int:
    return sum(each["what"] == what for each in happened(path))


async def seen(path: Path, what: str, times: int = 1) -> None:
    while count(path, what) < times:
        await asyncio.sleep(0.005)


async def stopped(process: AsyncFork) -> None:
    """Wait until a process stands still."""
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        await asyncio.sleep(0.005)


async def told(process: AsyncFork) -> None:
    """Wait until a process that stood still has noticed that others have its work now."""
    async for line in process.stderr:
        if b"stood still" in line:
            return
    raise AssertionError("it was never told")


async def stop(process: AsyncFork) -> None:
    """End a process as an operator would."""
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 20) == 0


async def history(run: Run) -> list[str]:
    return [type(each.event).__name__ for each in await run.events()]


# --- Killed -----------------------------------------------------------------------------------------------------------------


@bounded
async def test_the_other_process_takes_up_the_runs_of_one_that_was_killed(path: Path, desk: Engine, start: Start) -> None:
    first = await start()
    runs = [await desk.start(worker.WORKFLOWS["slow"]) for _ in range(3)]
    await seen(path, "begun", 3)
    await start()
    first.kill()
    killed_s = time.monotonic()
    await seen(path, "begun", 6)
    assert time.monotonic() - killed_s < 10  # long before its lease of 30 s is over
    path.with_name("go").touch()
    assert [await run.result() for run in runs] == ["noted"] * 3
    for run in runs:
        (lost,) = await events_of(run, ev.AttemptLost)
        starts = await events_of(run, ev.StepStarted)
        assert [each.attempt for each in starts] == [1, 2]
        assert starts[0].session == lost.session != starts[1].session
    assert count(path, "noted") == 3
    assert {each["pid"] for each in happened(path) if each["what"] == "noted"} != {first.pid}


@bounded
async def test_what_a_killed_process_left_is_work_before_the_first_sweep(path: Path, desk: Engine, start: Start) -> None:
    """Of a paused run nothing goes on; that its attempt is lost has to be written down all the same."""
    first = await start()
    run = await desk.start(worker.WORKFLOWS["slow"])
    await seen(path, "begun", 1)
    await desk.pause(run.id)
    first.kill()
    await first.wait()
    async with opened(str(path), workflows=[worker.WORKFLOWS["slow"]]) as engine:
        await engine._sweep.aclose()
        idle = asyncio.create_task(engine.idle())
        done, _ = await asyncio.wait([idle], timeout=0.3)
        assert not done or await events_of(run, ev.AttemptLost)
        await engine._sweep.turn()
        await idle
        assert len(await events_of(run, ev.AttemptLost)) == 1


@bounded
async def test_an_acknowledged_start_survives_the_death_of_every_process(path: Path, start: Start) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from tests.engine import worker\n"
        "from holdfast import Engine\n"
        "async def main():\n"
        "    async with Engine.open(sys.argv[1], execute=False) as engine:\n"
        "        run = await engine.start(worker.WORKFLOWS['chain'], key='the-run')\n"
        "        print(run.id, flush=True)\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    dead = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(path), cwd=ROOT, stdout=PIPE)
    said, _ = await dead.communicate()
    assert dead.returncode == -signal.SIGKILL
    await start()
    async with opened(str(path), execute=False) as engine:
        run = engine.run(said.decode().strip())
        assert (await run.result()).endswith("n4")
    assert len(happened(path)) == worker.CHAIN


@bounded
async def test_a_step_that_kills_every_process_that_tries_it_is_given_up(path: Path, desk: Engine, start: Start) -> None:
    run = await desk.start(worker.WORKFLOWS["slow"])
    for number in range(5):
        killed = await start(point=worker.KILL_IN_STEP)
        assert await asyncio.wait_for(killed.wait(), 60) == -signal.SIGKILL
        assert count(path, "begun") == number + 1
    await start(point=worker.KILL_IN_STEP)
    with pytest.raises(RunFailed, match="it may be the step that kills it"):
        await run.result()
    assert count(path, "begun") == 5


@bounded
async def test_compensation_that_is_killed_in_the_middle_goes_on_and_undoes_nothing_twice(
    path: Path, desk: Engine, start: Start
) -> None:
    run = await desk.start(worker.WORKFLOWS["undone"])
    killed = await start(point=worker.KILL_UNDOING)
    assert await asyncio.wait_for(killed.wait(), 60) == -signal.SIGKILL
    await start()
    with pytest.raises(RunFailed, match="no seats left"):
        await run.result()
    lines = happened(path)
    assert [each["what"] for each in lines] == [
        "book a",
        "book b",
        "book c",
        "unbook c",
        "unbook b",  # here it died, before the outcome was recorded
        "unbook b",
        "unbook a",
    ]
    keys = Counter(each["key"] for each in lines)
    assert max(keys.values()) == 2  # the repeat has the key of the first
    assert len(keys) == 6


# --- Crowded ----------------------------------------------------------------------------------------------------------------


@bounded
async def test_processes_that_contend_for_the_same_runs_do_each_effect_once(path: Path, desk: Engine, start: Start) -> None:
    await asyncio.gather(start(), start())
    runs: list[Run] = []
    # On a busy machine one of them may be gone from the processor for a while: go on until both had their share.
    while len({each["pid"] for each in happened(path)}) < 2:
        more = [await desk.start(worker.WORKFLOWS["chain"], {"n": n}) for n in range(40)]
        await asyncio.gather(*(run.result() for run in more))
        runs += more
    lines = happened(path)
    assert Counter(each["what"] for each in lines) == {
        f"{run.id} n{number}": 1 for run in runs for number in range(worker.CHAIN)
    }
    assert len({each["key"] for each in lines}) == len(lines)
    for run in runs:
        assert "AttemptLost" not in await history(run)
        seqs = [each.seq for each in await run.events()]
        assert seqs == list(range(1, len(seqs) + 1))


@bounded
async def test_killing_a_contender_loses_no_run_and_repeats_no_completed_effect(path: Path, desk: Engine, start: Start) -> None:
    first, _ = await asyncio.gather(start(), start())
    runs = [await desk.start(worker.WORKFLOWS["chain"], {"n": n}) for n in range(30)]
    while len(happened(path)) < 20:
        await asyncio.sleep(0.002)
    first.kill()
    for run in runs:
        state = await run.settled()
        while not state.ended:  # a call that was on its way when the process died: nobody can know
            for call in [call for call, open_ in state.calls.items() if open_.kind == "effect"]:
                done = await _in_the_world(path, run, call)
                await desk.resolve_effect(call, "answer" if done else "retry", *([done] if done else []))
            state = await run.settled()
        assert state.ended == "completed"
    assert Counter(each["what"] for each in happened(path)) == {
        f"{run.id} n{number}": 1 for run in runs for number in range(worker.CHAIN)
    }


async def _in_the_world(path: Path, run: Run, call: str) -> str | None:
    """What a person finds who looks outside: the line that a call of unknown outcome wrote, if it did."""
    key = next(each.key for each in await events_of(run, ev.EffectIntended) if each.call == call)
    return next((each["what"] for each in happened(path) if each["key"] == key), None)


# --- Frozen -----------------------------------------------------------------------------------------------------------------


@bounded
async def test_a_process_frozen_before_sending_does_not_send_after_a_takeover(path: Path, desk: Engine, start: Start) -> None:
    frozen = await start(LEASE_S, worker.FREEZE)
    run = await desk.start(worker.WORKFLOWS["pay-idempotent"])
    await stopped(frozen)
    assert "EffectIntended" in await history(run)
    await start()
    assert await run.result() == 5
    os.kill(frozen.pid, signal.SIGCONT)
    await told(frozen)
    await stop(frozen)
    lines = happened(path)
    assert len(lines) == 1
    assert lines[0]["pid"] != frozen.pid


@bounded
async def test_a_frozen_once_effect_is_a_question_until_its_sender_says_that_it_never_left(
    path: Path, desk: Engine, start: Start
) -> None:
    frozen = await start(LEASE_S, worker.FREEZE)
    run = await desk.start(worker.WORKFLOWS["pay-once"])
    await stopped(frozen)
    await start()
    state = await run.until(lambda state: status(state) == "requires_attention")
    assert [gate.opened.reason for gate in state.gates.values()] == ["effect_unknown"]
    assert happened(path) == []
    os.kill(frozen.pid, signal.SIGCONT)
    assert await run.result() == 5
    assert count(path, "paid") == 1
    found = [type(each).__name__ for each in await events_of(run, ev.EffectReleased, ev.GateWithdrawn)]
    assert found == ["GateWithdrawn", "EffectReleased"], (frozen.pid, happened(path), await history(run))


@bounded
async def test_a_process_that_slept_alone_goes_on_where_it_was(path: Path, desk: Engine, start: Start) -> None:
    """A laptop that was closed: nobody took over, so nobody is superseded, and nothing may fail for it."""
    frozen = await start(LEASE_S, worker.FREEZE)
    run = await desk.start(worker.WORKFLOWS["pay-once"])
    await stopped(frozen)
    await asyncio.sleep(LEASE_S + 0.1)
    os.kill(frozen.pid, signal.SIGCONT)
    assert await run.result() == 5
    assert count(path, "paid") == 1
    assert await events_of(run, ev.AttemptLost, ev.AttemptFailed, ev.StepFailed) == []


@bounded
async def test_a_worker_that_slept_past_its_lease_gets_an_error_and_changes_nothing(
    path: Path, desk: Engine, start: Start
) -> None:
    frozen = await start(LEASE_S, worker.FREEZE_IN_STEP)
    run = await desk.start(worker.WORKFLOWS["slow"])
    await stopped(frozen)
    await start()
    path.with_name("go").touch()
    assert await run.result() == "noted"
    ended = await history(run)
    os.kill(frozen.pid, signal.SIGCONT)
    await told(frozen)
    await stop(frozen)
    assert await history(run) == ended
    assert count(path, "noted") == 1
    assert {each["pid"] for each in happened(path) if each["what"] != "begun"} != {frozen.pid}


@bounded
async def test_a_result_that_comes_after_the_lease_is_refused_when_another_has_begun(
    path: Path, desk: Engine, start: Start
) -> None:
    go = path.with_name("go")
    go.touch()
    frozen = await start(LEASE_S, worker.FREEZE_AFTER_STEP)
    run = await desk.start(worker.WORKFLOWS["slow"])
    await stopped(frozen)
    go.unlink()
    await start()
    await seen(path, "begun", 2)
    os.kill(frozen.pid, signal.SIGCONT)  # the first says what it has while the second is at it
    await told(frozen)
    await stop(frozen)
    assert await events_of(run, ev.StepCompleted) == []
    go.touch()
    assert await run.result() == "noted"
    assert [each.attempt for each in await events_of(run, ev.StepCompleted)] == [2]
    assert count(path, "noted") == 1  # the second attempt got the recorded outcome
    assert count(path, "ended") == 2


@bounded
async def test_a_process_that_lost_its_session_takes_another_and_works_again(path: Path, desk: Engine, start: Start) -> None:
    frozen = await start(LEASE_S, worker.FREEZE_IN_STEP)
    run = await desk.start(worker.WORKFLOWS["slow"])
    await stopped(frozen)
    other = await start()
    path.with_name("go").touch()
    assert await run.result() == "noted"
    os.kill(frozen.pid, signal.SIGCONT)
    await stop(other)
    again = await desk.start(worker.WORKFLOWS["pay-once"])  # nobody else is left to do it
    assert await again.result() == 5
    assert [each["pid"] for each in happened(path) if each["what"] == "paid"] == [frozen.pid]


# --- Stopped ----------------------------------------------------------------------------------------------------------------


@bounded
async def test_a_clean_stop_hands_over_and_counts_no_lost_attempt(path: Path, desk: Engine, start: Start) -> None:
    first = await start()
    runs = [await desk.start(worker.WORKFLOWS["slow"]) for _ in range(5)]
    await seen(path, "begun", 5)
    await start()
    await stop(first)
    await seen(path, "begun", 10)
    path.with_name("go").touch()
    assert [await run.result() for run in runs] == ["noted"] * 5
    for run in runs:
        found = await history(run)
        assert found.count("StepStarted") == 2
        assert {"AttemptLost", "AttemptFailed"} & set(found) == set()
    assert count(path, "noted") == 5
