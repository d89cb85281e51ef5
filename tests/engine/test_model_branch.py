"""A model that chooses the way: what it is offered, what it may answer, and who has the last word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, RetryPolicy, RunFailed, TransitionDenied, Workflow, branch, task
from holdfast.core.facts.events import ModelCallHeld, StepSkipped
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule
from holdfast.testing.wire import Call
from tests.engine.history import events_of

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"
BOTH = pytest.mark.parametrize("name", [HAIKU, NANO])


class WatchingServer(ModelServer):
    """A model server that keeps the requests themselves."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal=journal)
        self.seen: list[Call] = []

    def take(self, call: Call) -> Any:
        self.seen.append(call)
        return super().take(call)

    @property
    def offered(self) -> list[list[str]]:
        """The ways that each request named, as they were on the wire."""
        schemas = [call.demand.schema for call in self.seen if call.demand is not None]
        return [schema["properties"]["next"]["enum"] for schema in schemas]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchingServer]:
    with WatchingServer(tmp_path / "model-calls.jsonl") as running:
        yield running


def ticket(name: str = HAIKU, **guards: Any) -> Workflow:
    """triage → refund (when "pay") | refuse | back to triage, twice at most."""
    wf = Workflow("ticket")

    @wf.node("triage")
    @branch(model=name, max_tokens=100, retry=RetryPolicy(max_attempts=3, initial_s=0))
    async def triage(state):
        return {"system": "Choose the way.", "user": f"visit {state.visits('triage')}"}

    wf.node("refund")(task(lambda state: f"refunded: {state.events['triage'].output.get('rationale')}"))
    wf.node("refuse")(task(lambda state: "refused"))
    wf.edge("triage", "refund", when="pay", guard=guards.get("pay"))
    wf.edge("triage", "refuse", guard=guards.get("refuse"))
    wf.loop("triage", "triage", when="again", max_visits=2)
    return wf


@BOTH
async def test_only_the_declared_ways_are_offered_and_the_reason_is_kept(
    store: str, server: WatchingServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(output={"next": "pay", "rationale": "it is due"}))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(ticket(name))
        assert await run.result() == "refunded: it is due"
        assert [skipped.step for skipped in await events_of(run, StepSkipped)] == ["refuse#1"]
    assert server.offered == [["pay", "refuse", "again"]]


async def test_a_loop_that_is_used_up_is_not_offered_any_more(store: str, server: WatchingServer, model: Providers) -> None:
    server.script.add(Rule(user="visit 1", output={"next": "again"}), Rule(user="visit 2", output={"next": "refuse"}))
    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(ticket())).result() == "refused"
    assert server.offered == [["pay", "refuse", "again"], ["pay", "refuse"]]


@BOTH
@pytest.mark.parametrize(
    "wrong",
    [
        Rule(output={"next": "elsewhere"}),
        Rule(output={"rationale": "none"}),
        Rule(text="refuse"),
        Rule(output={"next": ["pay"]}),
        Rule(fault=Fault("unknown_tool")),
    ],
    ids=["another way", "no way", "words", "several ways", "a tool"],
)
async def test_a_choice_that_is_none_is_mended_once(
    store: str, server: WatchingServer, model: Providers, name: str, wrong: Rule
) -> None:
    server.script.add(
        Rule(turn=1, text=wrong.text, output=wrong.output, fault=wrong.fault), Rule(turn=2, output={"next": "refuse"})
    )
    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(ticket(name))).result() == "refused"
    assert [(call.turn, call.status) for call in server.calls] == [(1, 200), (2, 200)]


@BOTH
async def test_a_choice_that_stays_none_fails_the_step_and_is_not_tried_again(
    store: str, server: WatchingServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(output={"next": "elsewhere"}))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(ticket(name))
        with pytest.raises(RunFailed, match="none of pay, refuse, again") as failed:
            await run.result()
        assert failed.value.error.error_class == "schema"
        assert len(await events_of(run, ModelCallHeld)) == 2
    assert [call.turn for call in server.calls] == [1, 2]


async def test_a_guard_has_the_last_word_about_a_models_choice(store: str, server: WatchingServer, model: Providers) -> None:
    def is_due(state):
        raise TransitionDenied("nothing is due")

    server.script.add(Rule(output={"next": "pay"}))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(ticket(pay=is_due))
        assert (await run.result())["next"] == "pay"
        state = await run.state()
        assert {name: state.steps[name].status for name in ("refund", "refuse")} == {"refund": "skipped", "refuse": "skipped"}


async def test_a_choice_costs_what_a_call_costs_and_is_not_made_without_the_money(
    store: str, server: WatchingServer, model: Providers
) -> None:
    server.script.add(Rule(output={"next": "refuse"}))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(ticket(), cost_limit_usd="0.0001")
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert server.calls == []
        await engine.raise_budget(run.id, "0.10")
        assert await run.result() == "refused"
        assert (await run.state()).budget.settled_nanousd > 0
