"""`holdfast pools`: what there is of what steps ask for, and who has it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.core.capacity.estimates import Use
from holdfast.core.capacity.lending import Visit, Visitor
from holdfast.core.values.ids import SessionId
from holdfast.stores.sqlite import SqliteStore
from tests.cli.conftest import Shell

RPS = ("pools", "set", "OPENAI_RPS", "--rate", "50", "--per", "second", "--burst", "10")


def test_pools_are_declared_listed_and_removed(shell: Shell) -> None:
    assert shell(*RPS, "--counts", "requests", "--of", "openai").code == 0
    assert shell("pools", "set", "BROWSERS", "--slots", "8").code == 0
    assert shell("pools", "list").out.split("\n")[:3] == [
        "POOL        LIMIT          BURST  COUNTS",
        "BROWSERS    8 at a time",
        "OPENAI_RPS  50 per second  10     requests of openai",
    ]
    assert shell("pools", "list", "--json").data[1] == {
        "name": "OPENAI_RPS",
        "kind": "rate",
        "limit": 50,
        "per_s": 1,
        "burst": 10,
        "counts": "requests",
        "of": "openai",
        "in_use": 0,
        "wanted": 0,
    }
    assert shell("pools", "remove", "BROWSERS").code == 0
    assert [each["name"] for each in shell("pools", "list", "--json").data] == ["OPENAI_RPS"]


def test_a_pool_is_changed_while_others_hold_it_and_shows_who_does(shell: Shell, home: Path) -> None:
    shell("pools", "set", "BROWSERS", "--slots", "8")

    async def place() -> None:
        store = await SqliteStore.connect(home / "holdfast.db")
        session = SessionId("a session")
        await store.sessions.open(session, "worker", [])
        await store.lending.lend(Visitor("lane main", session, 1), [Visit("BROWSERS", 3, 12, 0)])
        await store.lending.learn([Use("report", "browse", "BROWSERS", 2)])
        changed = await asyncio.to_thread(shell, "pools", "set", "BROWSERS", "--slots", "5", "--json")
        assert (changed.data["limit"], changed.data["granted"]) == (5, 8)
        shown = await asyncio.to_thread(shell, "pools", "show", "BROWSERS", "--json")
        assert shown.data["shares"] == [
            {"holder": "lane main", "session": "a session", "life": "living", "granted": 8, "used": 3, "wanted": 12}
        ]
        assert shown.data["estimates"] == [{"workflow": "report", "node": "browse", "amount": 2, "samples": 1}]
        told = (await asyncio.to_thread(shell, "pools", "show", "BROWSERS")).out
        assert "lane main" in told
        assert "browse" in told
        await store.aclose()

    asyncio.run(place())
    assert shell("pools", "show", "BROWSERS", "--json").data["shares"] == []


def test_a_rate_lets_out_a_tenth_at_once_unless_said_otherwise(shell: Shell) -> None:
    assert shell("pools", "set", "TPM", "--rate", "200000", "--per", "minute", "--json").data["burst"] == 20_000
    assert shell("pools", "set", "SLOW", "--rate", "3", "--per", "day", "--json").data["burst"] == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "P"], "--slots N"),
        (["set", "P", "--slots", "1", "--rate", "1"], "--slots N"),
        (["set", "P", "--rate", "1"], "--per second"),
        (["set", "P", "--rate", "1", "--per", "week"], "week"),
        (["set", "P", "--slots", "1", "--burst", "1"], "require --rate"),
        (["set", "P", "--slots", "0"], "--slots must be 1 to 10,000,000,000; it is 0. Nothing was changed."),
        (["set", "P", "--slots", "-1"], "--slots must be 1 to"),
        (["set", "P", "--slots", str(10**11)], "--slots must be 1 to 10,000,000,000; it is 100000000000. Nothing was changed."),
        (["set", "P", "--rate", "5", "--per", "hour", "--burst", "0"], "burst is 0"),
        (["set", "P Q", "--slots", "1"], "without blanks"),
        (["set", "P", "--slots", "1", "--counts", "requests"], "belong together"),
        (["set", "P", "--slots", "1", "--of", "openai"], "belong together"),
        (["set", "P", "--slots", "1", "--counts", "calls", "--of", "openai"], "calls"),
        (["set", "P", "--slots", "1", "--counts", "requests", "--of", ""], "no name of a model"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(shell: Shell, words: list[str], told: str) -> None:
    shell("pools", "set", "KEPT", "--slots", "1")
    said = shell("pools", *words)
    assert said.code == 2
    assert told in said.err
    assert [each["name"] for each in shell("pools", "list", "--json").data] == ["KEPT"]


@pytest.mark.parametrize("word", ["show", "remove"])
def test_a_missing_pool_is_reported(shell: Shell, word: str) -> None:
    shell("pools", "set", "KEPT", "--slots", "1")
    said = shell("pools", word, "BROWSER")
    assert said.code == 3
    assert "holdfast pools list" in said.err
