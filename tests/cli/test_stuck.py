"""Runs that an early version left waiting for nothing: every command says so, and a worker goes on with them."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.compose import open_store
from holdfast.core.views.status import NOTHING
from tests.cli.conftest import Shell
from tests.engine.early import strand


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store that the commands use."""
    found = "runs.db" if request.param == "sqlite" else request.getfixturevalue("database")
    monkeypatch.setenv("HOLDFAST_STORE", found)
    return str(found)


@pytest.fixture
def run(shell: Shell, where: str) -> str:
    """A run that is stuck."""
    found = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--detach").out.strip()

    async def leave() -> None:
        store = await open_store(where)
        await strand(store, found)
        await store.aclose()

    asyncio.run(leave())
    return found


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look at a run has its stuck steps go on, as it would be if that too had a fault."""
    monkeypatch.setattr("holdfast.core.tick.stuck", lambda state: [])


@pytest.mark.usefixtures("blind")
def test_a_run_that_waits_for_nothing_says_so_wherever_it_is_shown(shell: Shell, run: str) -> None:
    for words in (("runs", "show", run), ("queue", "why", run)):
        assert "waits for nothing: this is a fault of Holdfast" in shell(*words).out
    assert "waiting for nothing" in shell("runs", "list").out
    for words in (("runs", "show", run, "--json"), ("runs", "list", "--json")):
        data = shell(*words).data
        (found,) = data if isinstance(data, list) else [data]
        assert [wait["kind"] for wait in found["waiting_for"]] == [NOTHING]


def test_the_store_is_checked_for_such_runs(shell: Shell, run: str) -> None:
    said = shell("store", "check")
    assert said.code == 8
    assert run in said.out
    assert "Waiting for nothing: 1 run, which" in said.err
    assert "--wake" in said.err
    found = shell("store", "check", "--wake", "--json")
    assert (found.code, [each["run_id"] for each in found.data["stuck"]]) == (8, [run])
    said = shell("store", "check")
    assert (said.code, said.err) == (0, "Each of 0 waiting runs has something to wait for.\n"), "it may start"


def test_a_worker_that_stops_when_idle_goes_on_with_such_runs(shell: Shell, run: str) -> None:
    assert shell("worker", "flow:greet", "--until-idle").code == 0
    assert shell("runs", "show", run, "--json").data["status"] == "completed"
    assert shell("store", "check").code == 0


@pytest.mark.usefixtures("blind")
def test_a_worker_that_stops_when_idle_names_the_runs_that_stay_stuck(shell: Shell, run: str) -> None:
    said = shell("worker", "flow:greet", "--until-idle")
    assert said.code == 8
    assert f"wait for nothing, which is a fault of Holdfast:\n  {run}" in said.err


def test_a_look_at_a_run_has_it_go_on(shell: Shell, run: str) -> None:
    assert shell("runs", "show", run, "--json").data["status"] == "running"
