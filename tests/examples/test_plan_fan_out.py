"""The example of a fan-out does what it says."""

from __future__ import annotations

from pathlib import Path

from examples.plan_fan_out import report
from holdfast.core.facts import events as ev
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule
from tests.engine.history import events_of
from tests.engine.kit import opened


async def test_each_part_of_a_plan_is_a_step_and_one_may_fail(tmp_path: Path) -> None:
    rules = [
        Rule(user="sleep", fault=Fault("status", status=400)),
        Rule(user="In two sentences", text="It is so."),
        Rule(output={"parts": ["what it is", "how it sounds", "when they sleep", "who hears it"]}),
    ]
    with ModelServer(journal=tmp_path / "calls.jsonl", rules=rules) as server:
        model = Providers(environment=server.environment)
        async with opened(f"sqlite:///{tmp_path / 'reports.db'}", model=model) as engine:
            run = await engine.start(report, {"question": "Why do cats purr?"})
            found = await run.result()
            assert (found.parts, found.failed) == (4, 1)
            assert found.text.count("It is so.") == 3
            held = {each.call.split(":")[1] for each in await events_of(run, ev.ModelCallHeld)}
            assert held >= {f"flow/1[{number}]#1" for number in range(4)}
