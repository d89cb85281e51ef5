"""A run in sentences: every status, every kind and reason of a wait, and every question of the engine has its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from holdfast import Demand, Engine
from holdfast.cli.backend import LocalBackend
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.core.views.status import Status, Wait, WaitKind
from holdfast.service.declarations import query
from holdfast.service.explanation import STATUSES
from holdfast.service.service import Service
from holdfast.service.wait_sentence import ENGINE_ASKS, WORDS, needs_nobody, sentence, way_out
from tests.engine.test_placing import Stage, played

_CODES = (Path(__file__).parents[2] / "docs/reference/codes.md").read_text(encoding="utf-8")
"""Written from the code, which a test holds."""


def documented(heading: str) -> dict[str, str]:
    """The codes below a heading, each with its meaning."""
    table = _CODES.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"(?m)^\| `(\w+)` \| (.+) \|$", table))


_DUE = "2026-11-28 10:00:00Z"
_ABOUT = {
    "place": "fleet/runs",
    "tenant": "tenant/acme/day/2026-11-28",
    "team": "team/acme/search/month/2026-11",
    "tree": "tree/00000000-0000-4000-8000-000000000001",
    "conversation": "conversation/acme/help",
    "agent": "agent/acme/research/writer",
}
_MONEY = ("over_limit", "holds_in_flight", *(f"{each}_{end}" for each in _ABOUT for end in ("budget", "holds_in_flight")))
_REASONS: dict[WaitKind, tuple[str, ...]] = {
    "place": ("admission",),
    "slot": ("start",),
    "worker": ("placement",),
    "pool": ("reservation",),
    "gate": tuple(documented("Reasons of gates")),
    "signal": ("paid",),
    "shared_value": ("notes/today",),
    "timer": ("sleep",),
    "retry": ("ConnectionError",),
    "money": tuple(each for each in _MONEY if not each.startswith("place")),
    "tokens": tuple(each for each in _MONEY if not each.startswith("place") and "_" in each and each != "over_limit"),
    "calls": ("over_limit",),
    "child": ("not_ended",),
    "effect": ("same_effect_in_flight", "same_effect_in_another_run", "unverified", "outcome_outstanding"),
    "model": ("outcome_outstanding",),
    "nothing": ("fault",),
}
_WAITS = [
    Wait(
        kind,
        reason,
        "ask#1",
        0,
        "ask#1",
        1 if kind in ("money", "tokens") else None,
        _ABOUT.get("place" if kind == "place" else reason.split("_")[0], "refund"),
        Demand(labels=("gpu",)),
    )
    for kind, reasons in _REASONS.items()
    for reason in reasons
]


@pytest.mark.parametrize("wait", _WAITS, ids=lambda wait: f"{wait.kind}-{wait.reason}")
def test_every_reason_of_a_wait_is_a_sentence(wait: Wait) -> None:
    for text in (sentence(wait), sentence(wait, _DUE), way_out(wait)):
        assert re.fullmatch(r"(?:[A-Z]|ask#1).*\.", text), text
        assert "None" not in text
        assert "holdfast " not in text, "commands are the command line's"
    assert "ask#1" in sentence(wait) or wait.kind in ("place", "signal")


def test_every_kind_and_every_known_reason_is_in_the_table_above() -> None:
    assert set(_REASONS) == set(WORDS) == set(get_args(WaitKind))
    kinds = documented("What a run waits for")
    assert set(kinds) == set(_REASONS)
    for kind, reasons in _REASONS.items():
        known = {each for each in re.findall(r"`(\w+)`", kinds[kind]) if not each.startswith("_")}
        assert known <= set(reasons), kind


def test_every_question_of_the_engine_has_its_words() -> None:
    asked = {"approval", "question", "tool_approval", "client_tool"}
    assert set(ENGINE_ASKS) == set(documented("Reasons of gates")) - asked


def test_every_status_has_its_words() -> None:
    assert set(STATUSES) == set(get_args(Status))
    assert all(text.endswith(".") for words in STATUSES.values() for text in words)


@pytest.mark.parametrize("wait", _WAITS, ids=lambda wait: f"{wait.kind}-{wait.reason}")
def test_no_wait_that_somebody_can_end_is_denied_by_its_run(wait: Wait) -> None:
    assert needs_nobody(wait) == (" can " not in way_out(wait))


async def test_a_run_that_waits_for_a_slot_is_not_said_to_need_no_action(tmp_path: Path) -> None:
    stage = Stage()
    holder, waiter = (played(stage, name, Demand()) for name in ("holder", "waiter"))
    async with Engine.open(f"sqlite:///{tmp_path / 'slots.db'}", workflows=[holder, waiter], slots=1) as engine:
        held = await engine.start(holder)
        await stage.seen("holder")
        waits = await engine.start(waiter)
        backend = LocalBackend(Service(engine), resolve_actor(None))
        row = await backend.row(query.Explanation(waits.id))
        assert ([each["kind"] for each in row["waits"]], row["status"]) == (["slot"], "running")
        assert row["action"] == "Each of its waits says who can end it."
        assert (await backend.row(query.Explanation(held.id)))["action"] == "No action is needed."
        stage.go.set()
        await waits.result()
