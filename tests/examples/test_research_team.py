"""The research team stays within its budget, forgets nothing and takes no orders from a page."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.research_team import library
from examples.research_team.team import BUDGET, TEAM, TOTAL_USD, hired
from examples.research_team.workflow import DRAFTS, MODELS, wf
from holdfast import Accepted, Engine, Rejected
from holdfast.testing.model_server import ModelServer, Rule, load_rules

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "research_team"
complete = pytest.mark.skipif(os.environ.get("HOLDFAST_WORKFLOWS") != "all", reason="takes a while: make workflows")
WITHIN_S = 120


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    found: str = request.getfixturevalue("database")
    return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, ModelServer]]:
    """A library and models; the library's journal, and the model server."""
    journal = tmp_path / "library.jsonl"
    with ModelServer(journal=tmp_path / "calls.jsonl") as models, library.Library(journal) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        models.script.add(*load_rules(EXAMPLE / "model_rules.json", Rule))
        for name, value in (models.environment | {library.VARIABLE: pages.url}).items():
            monkeypatch.setenv(name, value)
        yield journal, models
        pages.shutdown()


async def test_three_questions_are_answered_with_one_budget_and_one_memory(store: str, world: tuple[Path, ModelServer]) -> None:
    journal, models = world
    async with Engine.open(store, workflows=[wf]) as engine:
        desk = await hired(engine)
        quietest, cheapest, first = (
            {"question": f"Which harbour is {what}?"} for what in ("the quietest", "the cheapest", "for a first visit")
        )
        assert isinstance(await desk.submit("question", quietest, task_id="quietest"), Accepted)
        assert isinstance(await desk.submit("question", cheapest, task_id="cheapest"), Accepted)
        refused = await desk.submit("question", first, task_id="first")
        assert isinstance(refused, Rejected)
        assert refused.reason == "overloaded"

        found = (await desk.wait("quietest")).result
        assert found["answer"] == "The North Harbour is the quietest, for 12 euros a night."
        assert (found["drafts"], found["objection"]) == (2, None), "the critic sees the last draft beside the new one"
        assert found["looked_into"] == ["north harbour", "west harbour"], "nobody has a page about the drowned one"

        found = (await desk.wait("cheapest")).result
        assert found["answer"].startswith("The South Harbour"), "what a page says is no instruction"
        assert found["drafts"] == DRAFTS
        assert "a receipt" in found["objection"]

        assert isinstance(await desk.submit("question", first, task_id="first"), Accepted)
        found = (await desk.wait("first")).result
        assert found["remembered"] == ["north harbour", "south harbour"]
        topics = [topic for topic, _ in library.read(journal)]
        assert sorted(topics) == sorted({*topics}), "no page is read twice"

        board = await engine.team_dashboard(BUDGET)
        assert board.money is not None
        assert board.money.used + board.money.in_doubt <= float(TOTAL_USD) * 1e9
        assert {name for name, agent in board.money.agents.items() if agent.used} == {*TEAM}
        *cheap, dear = (each.model for each in MODELS.models)
        # Which of the cheap ones is asked depends on what was known of each by then.
        assert sum(call.model == dear for call in models.calls) == 2 + DRAFTS + 1, "drafts alone are complex"
        assert {call.model for call in models.calls} - {dear} <= {*cheap}


@complete
def test_the_demo_keeps_its_promises() -> None:
    words = [sys.executable, "-m", "examples.research_team.demo"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout
    assert "BROKEN" not in done.stdout
