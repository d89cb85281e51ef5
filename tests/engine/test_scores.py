"""Scores: said of a run while it is under way and after its end, by people and by code, and nothing of it is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Workflow, human_gate
from holdfast.core.nouns import scores as rule
from holdfast.core.values.actor import Actor
from holdfast.errors import Conflict, InvalidInput, NotFound
from tests.engine.kit import Time, engine_at

wf = Workflow(name="asks")


@wf.node("ask")
@human_gate
def ask(state: Any) -> dict[str, Any]:
    return {}


async def test_a_run_is_scored_on_its_way_and_days_after_its_end_and_its_history_stays(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(wf, {})
        await run.settled()
        early = await engine.score(run.id, "helpful", True, by="judge v2")
        assert (early.value, early.source) == (1.0, "code")
        [(gate, _)] = await engine.gates(run.id)
        await engine.decide(gate.gate, "approve", by="ann")
        await run.result()
        before = await run.events()
        now.forward(days=40)
        ann = Actor("ann", os_user="deploy")
        first = await engine.score(run.id, "helpful", 0.2, by=ann, source="person", comment="late")
        now.forward(1)
        second = await engine.score(run.id, "helpful", 0.8, by=ann, source="person", comment="read again")
        assert (second.at_ms, second.os_user, second.comment) == (now.ms, "deploy", "read again")
        assert list(await engine.scores(run.id)) == [second, early]
        assert list(await engine.scores(run.id, every=True)) == [early, first, second]
        assert await run.events() == before


async def test_what_is_no_score_is_refused_in_words_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_at(tmp_path, Time()) as engine:
        run = await engine.start(wf, {})
        with pytest.raises(NotFound, match="There is no run"):
            await engine.score("019aa8b2-6f41-7c3a-9d0e-2b7e4a5c6d7e", "helpful", 1, by="ann")
        refused: list[tuple[dict[str, Any], str]] = [
            ({"by": " "}, "needs an author"),
            ({"value": float("nan")}, "no number up to 1e15"),
            ({"value": "high"}, "no number up to 1e15"),
            ({"name": "very helpful"}, "begins with a letter"),
            ({"comment": "x" * 4097}, "4097 bytes"),
            ({"source": "cat"}, "or 'code'"),
        ]
        for wrong, said in refused:
            with pytest.raises(InvalidInput, match=said):
                await engine.score(**{"run_id": run.id, "name": "helpful", "value": 1, "by": "ann", **wrong})
        assert list(await engine.scores(run.id, every=True)) == []
        monkeypatch.setattr(rule, "MAX_OF_A_RUN", 2)
        for _ in range(2):
            await engine.score(run.id, "helpful", 1, by="ann")
        with pytest.raises(Conflict, match="has been given 2 scores"):
            await engine.score(run.id, "helpful", 0, by="ann")
        assert [each.value for each in await engine.scores(run.id, every=True)] == [1, 1]


async def test_a_secret_in_a_comment_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    async with engine_at(tmp_path, Time()) as engine:
        run = await engine.start(wf, {})
        await engine.score(run.id, "helpful", 1, by="ann", comment="it said sk-very-secret-value")
        (kept,) = await engine.store.scores.of_run((await run.state()).run)
        assert "sk-very-secret" not in kept.comment
        assert kept.comment.startswith("it said ")
