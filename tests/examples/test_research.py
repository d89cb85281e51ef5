"""The example of children does what it says."""

from __future__ import annotations

from pathlib import Path

from examples.research import research
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.kit import opened


async def test_each_topic_is_looked_into_by_a_child_within_one_limit(tmp_path: Path) -> None:
    with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        server.script.add(Rule(user="List topics", output={"topics": ["tides", "cranes", "tides"]}))
        server.script.add(Rule(user="Say in one sentence", text="It is quiet."))
        server.script.add(Rule(user="Answer from this", text="The old one."))
        model = Providers(environment=server.environment)
        async with opened(f"sqlite:///{tmp_path / 'research.db'}", workflows=[research], model=model) as engine:
            run = await engine.start(research, {"question": "Which harbour is the quietest?"})
            assert await run.result() == {"answer": "The old one.", "looked_into": 2, "of": 2}
            assert len(await engine.runs(parent=run.id)) == 2
