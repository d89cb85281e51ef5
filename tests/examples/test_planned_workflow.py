"""The example of a plan does what it says."""

from __future__ import annotations

import json
from pathlib import Path

from examples.planned_workflow import plan_and_run
from holdfast.core.facts import events as ev
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.history import events_of
from tests.engine.kit import gate_of, opened

WRONG = """```yaml
jobs:
  count:
    runs-on: any
    strategy: {matrix: {poem: [one, two, three]}}
    stepps: [{run: 'echo "${{ matrix.poem }}" | wc -w'}]
```"""
RIGHT = WRONG.replace("stepps", "steps")


async def test_a_model_mends_its_plan_from_what_validate_says_and_a_person_lets_it_run(tmp_path: Path) -> None:
    rules = [Rule(user="Mend this file", text=RIGHT), Rule(text=WRONG)]
    with ModelServer(journal=tmp_path / "calls.jsonl", rules=rules) as server:
        model = Providers(environment=server.environment)
        async with opened(f"sqlite:///{tmp_path / 'plans.db'}", model=model) as engine:
            run = await engine.start(plan_and_run, {"task": "Count the words of three poems."})
            await engine.decide(await gate_of(run), "approve")
            found = await run.result()
            assert found["jobs"]["count"]["result"] == "success"
            assert len(await events_of(run, ev.ModelCallSettled)) == 2
            first, second = [each.payload.value() for each in await events_of(run, ev.ValueRecorded) if each.name == "check"]
            assert "Did you mean 'steps'?" in json.dumps(first)
            assert second == []
