"""The example of a race of two models does what it says: one answer, one winner in every replay, two calls in the books."""

from __future__ import annotations

import asyncio
from pathlib import Path

from examples.model_race import MODELS, Answer, first_answer
from holdfast.core.facts import events as ev
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.history import events_of
from tests.engine.kit import opened


async def test_a_race_of_models_has_one_winner_and_pays_for_both(tmp_path: Path) -> None:
    fast, slow = MODELS[1], MODELS[0]
    rules = [Rule(model=fast, text="They purr because they can."), Rule(model=slow, text="Late.", latency_s=0.3)]
    with ModelServer(journal=tmp_path / "calls.jsonl", rules=rules) as server:
        model = Providers(environment=server.environment)
        async with opened(f"sqlite:///{tmp_path / 'answers.db'}", model=model) as engine:
            run = await engine.start(first_answer, {"question": "Why do cats purr?"})
            assert await run.result() == Answer(model=fast, text="They purr because they can.")
            while len(settled := await events_of(run, ev.ModelCallSettled)) < 2:
                await asyncio.sleep(0.01)
            assert len({each.call for each in settled}) == 2
            budget = (await run.state()).budget
            assert (budget.held_nanousd, budget.in_doubt_nanousd) == (0, 0)
            assert budget.settled_nanousd == sum(each.cost_nanousd for each in settled) > 0
        assert sorted(call.model for call in server.calls) == sorted(MODELS)
