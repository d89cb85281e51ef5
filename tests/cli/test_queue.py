"""`holdfast queue`: what waits, and why, in words that name the pool, the label, the place and the holders."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from pathlib import Path

import pytest

from holdfast import Demand, Engine, Workflow, human_gate
from holdfast.cli.app import invoke
from holdfast.cli.backend import LocalBackend
from holdfast.cli.page.exit_code import OK
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.runs import progress
from holdfast.core.values.demand import Resources
from holdfast.service.service import Service
from tests.engine.test_placing import Stage, played


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'queue.db'}"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert invoke(words) == OK
    return capsys.readouterr().out


def explained(store: str, capsys: pytest.CaptureFixture[str], *demands: Demand) -> list[str]:
    """What `queue why` says of a run of each of these demands, in a process with two cores, while a run holds two of the five
    slots of the pool BROWSERS and most of the cores."""
    stage = Stage()
    holder = played(stage, "holder", Demand(pools={"BROWSERS": 2}, cpu_m=1500))
    flows = [played(stage, f"wf{number}", demand) for number, demand in enumerate(demands)]

    async def with_engine() -> list[str]:
        own = Resources(cpu_m=2000, memory_mb=1000)
        async with Engine.open(store, workflows=[holder, *flows], resources=own) as engine:
            await engine.set_pool("BROWSERS", slots=5)
            held = await engine.start(holder)
            await stage.seen("holder")
            runs = [(await engine.start(wf)).id for wf in flows]
            while not any(b"holder" in said for said in await engine.runtime.store.sessions.described()):
                await asyncio.sleep(0.05)
            words = [await asyncio.to_thread(_why, run, store) for run in runs]
            stage.go.set()
            await held.result()
            return [each.replace(held.id, "HOLDER") for each in words]

    def _why(run: str, where: str) -> str:
        assert invoke(["queue", "why", run, "--store", where]) == OK
        return capsys.readouterr().out

    return asyncio.run(with_engine())


def test_it_names_what_is_lacking(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    label, cpu, undeclared, huge, pool, busy = explained(
        store,
        capsys,
        Demand(labels=("gpu",)),
        Demand(cpu_m=9000),
        Demand(pools={"NOBODYS": 3}),
        Demand(pools={"BROWSERS": 6}),
        Demand(pools={"BROWSERS": 4}),
        Demand(cpu_m=1000),
    )
    assert "It needs label gpu, which no running worker has" in label
    assert "It needs cpu_m 9000" in cpu
    assert "3 of the pool NOBODYS, which does not exist. Create it: holdfast pools set NOBODYS --slots 3" in undeclared
    assert "6 of the pool BROWSERS, which has 5 in all" in huge
    who = rf"HOLDER/step0#1 at {re.escape(socket.gethostname())}:{os.getpid()} for \S+ \w+; it is the next in line"
    assert re.search(f"4 of the pool BROWSERS: 2 of 5 are in use, by {who}", pool)
    assert re.search(f"The workers that have what it asks for are busy with {who}", busy)


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (Demand(pools={"NOBODYS": 3}), "which does not exist. Create it: holdfast pools set NOBODYS --slots 3"),
        (Demand(labels=("gpu",)), "It needs label gpu, which no running worker has"),
    ],
)
def test_a_follower_of_a_run_learns_once_why_it_has_no_place(
    store: str, capsys: pytest.CaptureFixture[str], demand: Demand, words: str
) -> None:
    async def followed() -> tuple[str, str, bool]:
        wf = played(Stage(), "wf", demand)
        async with Engine.open(store, workflows=[wf]) as engine:
            run, asking = await engine.start(wf), LocalBackend(Service(engine), resolve_actor(None))
            told: set[tuple[str | None, str | None]] = set()
            said = ""
            async with asyncio.timeout(60):
                while words not in said:
                    await progress.tell_waits(asking, run.id, told)
                    said += capsys.readouterr().err
                    await asyncio.sleep(0.05)
            waits = await progress.tell_waits(asking, run.id, told)
            return said, capsys.readouterr().err, waits

    said, again, waits = asyncio.run(followed())
    assert said.count("has waited for") == 1
    assert (again, waits) == ("", True)


def test_what_waits_is_listed_with_its_demand(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    wf = played(Stage(), "listed", Demand(labels=("gpu",), cpu_m=500, pools={"RPS": 5, "TPM": None}))

    async def begun() -> str:
        async with Engine.open(store, execute=False) as engine:
            return (await engine.start(wf)).id

    run = asyncio.run(begun())
    assert "label gpu, 500 cpu_m, 5 of RPS, some of TPM" in " ".join(told(capsys, "queue", "list", "--store", store).split())
    (listed,) = json.loads(told(capsys, "queue", "list", "--json", "--store", store))
    assert (listed["run"], listed["step"]) == (run, "step0#1")
    nobody = told(capsys, "queue", "why", f"{run}/step0#1", "--store", store)
    assert nobody.endswith("holdfast pools set RPS --slots 5. No process is running that could take it\n")
    (why,) = json.loads(told(capsys, "queue", "why", run, "--json", "--store", store))
    assert why["demand"]["pools"] == {"RPS": 5, "TPM": 1}
    assert why["possible"] is False
    assert "No step of" in told(capsys, "queue", "why", f"{run}/other", "--store", store)


def test_an_unknown_run_is_reported(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(_made(store))
    assert invoke(["queue", "why", "nothing", "--store", store]) != OK
    assert "There is no run nothing" in capsys.readouterr().err


async def _made(store: str) -> None:
    async with Engine.open(store, execute=False):
        pass


def test_all_views_say_that_a_step_waits_for_a_slot(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage()
    wf = played(stage, "slow", Demand())

    async def looked_at() -> list[str]:
        async with Engine.open(store, workflows=[wf], slots=1) as engine:
            held = await engine.start(wf)
            await stage.seen("slow")
            waiting = await engine.start(wf)
            while not any(b'"working":1' in said for said in await engine.store.sessions.described()):
                await asyncio.sleep(0.05)
            commands = (["queue", "why", waiting.id], ["runs", "show", waiting.id], ["queue", "list"], ["runs", "list"])
            said = [await asyncio.to_thread(told, capsys, *words, "--store", store) for words in commands]
            told_run = await asyncio.to_thread(told, capsys, "runs", "show", waiting.id, "--json", "--store", store)
            stage.go.set()
            await waiting.result()
            return [each.replace(held.id, "HOLDER") for each in (*said, told_run)]

    why, shown, listed, runs, as_json = asyncio.run(looked_at())
    words = "It waits for a slot of a process that has its workflow: its slot is in use, by HOLDER/step0#1"
    assert words in why
    assert "it is the next in line" in why
    assert words in shown
    assert "a slot" in listed
    assert "a slot" in runs
    (wait,) = json.loads(as_json)["waiting_for"]
    assert (wait["kind"], wait["reason"], wait["step"]) == ("slot", "start", "step0#1")


def test_queue_why_names_what_else_a_run_waits_for(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    wf = Workflow("gated")
    wf.node("ask")(human_gate()(lambda state: "Is it right?"))

    async def begun() -> str:
        async with Engine.open(store, workflows=[wf]) as engine:
            run = await engine.start(wf)
            await run.settled()
            return run.id

    run = asyncio.run(begun())
    assert "It asks anyone: approval in ask#1." in told(capsys, "queue", "why", run, "--store", store)


def test_a_pool_that_does_not_exist_is_named_though_no_process_runs(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    wf = played(Stage(), "pooled", Demand(pools={"API": 1}))

    async def begun() -> str:
        async with Engine.open(store, execute=False) as engine:
            run = await engine.start(wf)
            await progress.tell_waits(LocalBackend(Service(engine), resolve_actor(None)), run.id, set())
            return run.id

    run = asyncio.run(begun())
    words = "It asks for 1 of the pool API, which does not exist. Create it: holdfast pools set API --slots 1"
    assert words in capsys.readouterr().err
    assert words in told(capsys, "runs", "show", run, "--store", store)
    assert words in told(capsys, "queue", "why", run, "--store", store)
