"""Standing approvals: calls that a person has approved beforehand are made without a question, as often as was said and no more."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Tool, ToolRule, When, Workflow, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.errors import Conflict, InvalidInput, NotFound, StoreError, ToolFailed
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import Time, carry_by, die, divergence, engine_at, gate_of, opened


@pytest.fixture
def paid() -> list[Any]:
    return []


@pytest.fixture
def pay(paid: list[Any]) -> Tool:
    @tool(effect="once", irreversible=True)
    async def pay(to: str, amount: int = 1) -> str:
        paid.append((to, amount))
        return f"paid {amount} to {to}"

    return pay


def node(pay: Tool, arguments: dict[str, Any], name: str = "pay", **options: Any) -> Workflow:
    wf = Workflow(name, **options)
    wf.node("pay")(tool_node(name=pay)(lambda state: arguments))
    return wf


async def asks(run: Any) -> bool:
    """Whether a run asks somebody, rather than coming to its end."""
    state = await run.settled()
    return bool(state.gates)


async def test_a_preapproved_call_runs_without_a_question_as_often_as_allowed(store: str, pay: Tool, paid: list[Any]) -> None:
    async with opened(store) as engine:
        granted = await engine.grant_approval("pay", for_s=3600, max_calls=2, by="ann", when=[When("amount", "<=", 100)])
        for _ in range(2):
            run = await engine.start(node(pay, {"to": "ada", "amount": 100}))
            assert await run.result() == "paid 100 to ada"
            (use,) = await events_of(run, ev.SharedValueWritten)
            assert (use.key, use.outcome.value()["value"]["by"]) == (granted, "ann")
            assert not await events_of(run, ev.GateOpened)
        assert await asks(await engine.start(node(pay, {"to": "ada", "amount": 100}))), "it is used up"
        (approval,) = (await engine.standing_approvals()).values()
        assert (approval.used, approval.left) == (2, 0)
    assert len(paid) == 2


@pytest.mark.parametrize(
    ("granted", "call"),
    [
        ({"when": [When("amount", "<=", 100)]}, {"amount": 101}),
        ({"when": [When("account", "==", "A")]}, {}),
        ({"workflow": "other"}, {}),
        ({"tenant": "umbrella"}, {}),
        ({"tool": "mail_*"}, {}),
        ({"for_s": 1}, {}),
        ({"revoked": True}, {}),
    ],
    ids=["amount", "unknown argument", "workflow", "tenant", "tool", "over", "revoked"],
)
async def test_what_an_approval_does_not_cover_is_asked_about(
    tmp_path: Any, pay: Tool, paid: list[Any], granted: dict[str, Any], call: dict[str, Any]
) -> None:
    time, given = Time(), dict(granted)
    revoked, name = given.pop("revoked", False), given.pop("tool", "pay")
    async with engine_at(tmp_path, time) as engine:
        id_ = await engine.grant_approval(name, **{"for_s": 60, "by": "ann", **given})
        if revoked:
            await engine.revoke_approval(id_, by="bob")
            await engine.revoke_approval(id_, by="bob")
        time.forward(2)
        assert await asks(await engine.start(node(pay, {"to": "ada", **call})))
    assert paid == []


async def test_an_approval_that_ends_between_the_look_and_the_use_is_none(
    tmp_path: Any, pay: Tool, paid: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a process stands still in between, or goes by a clock that is behind the run's history."""
    time = Time()
    async with engine_at(tmp_path, time) as engine:
        await engine.grant_approval("pay", for_s=60, by="ann")
        values = engine.runtime.store.shared_values
        page = values.page

        async def slowly(*asked: Any) -> Any:
            found = await page(*asked)
            time.forward(61)
            return found

        monkeypatch.setattr(values, "page", slowly)
        assert await asks(await engine.start(node(pay, {"to": "ada"})))
    assert paid == []


async def test_a_call_of_a_fork_is_another_use_of_an_approval(tmp_path: Any) -> None:
    made: list[str] = []

    @tool(effect="idempotent", approval=True)
    async def refund(to: str) -> str:
        made.append(to)
        if len(made) == 1:
            raise ToolFailed("The bank is closed.")
        return f"paid back to {to}"

    wf = Workflow("refund")
    wf.node("pay")(tool_node(name=refund)(lambda state: {"to": "ada"}))
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        await engine.grant_approval("refund", for_s=60, by="ann", max_calls=2)
        run = await engine.start(wf)
        assert (await run.settled()).ended == "failed"
        forked = await engine.fork(run.id, "pay#1", by="bob")
        assert await forked.result() == "paid back to ada"
        (approval,) = (await engine.standing_approvals()).values()
        assert (approval.used, len(made)) == (2, 2)


async def test_rules_that_deny_and_reviewers_stand_above_an_approval(tmp_path: Any, pay: Tool, paid: list[Any]) -> None:
    denied = node(pay, {"to": "ada"}, "denied", tool_rules=[ToolRule("pay", "deny", reason="never")])
    for_leads = node(pay, {"to": "ada"}, "leads", tool_rules=[ToolRule("pay", "ask", reviewers=("lead",))])
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        await engine.grant_approval("pay", for_s=60, by="ann")
        state = await (await engine.start(denied)).settled()
        assert (state.ended, state.error.error_class if state.error else None) == ("failed", "denied")
        assert await asks(await engine.start(for_leads))
        assert paid == []
        await engine.grant_approval("pay", for_s=60, by="eve", roles=("lead",))
        assert await (await engine.start(for_leads)).result() == "paid 1 to ada"


async def test_of_two_processes_that_want_the_last_use_one_gets_it(store: str, pay: Tool, paid: list[Any]) -> None:
    async with opened(store) as engine, opened(store) as other:
        await engine.grant_approval("pay", for_s=3600, max_calls=3, by="ann")
        wf = Workflow("pay")
        wf.node("pay")(tool_node(name=pay)(lambda state: {"to": state.input["to"]}))
        runs = [await (engine, other)[n % 2].start(wf, {"to": f"n{n}"}) for n in range(8)]
        waiting = [await asks(run) for run in runs]
        assert waiting.count(False) == 3
    assert len(paid) == len(set(paid)) == 3


async def test_a_question_that_is_open_stays_a_question(tmp_path: Any, pay: Tool, paid: list[Any]) -> None:
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        run = await engine.start(node(pay, {"to": "ada"}))
        gate = await gate_of(run)
        await engine.grant_approval("pay", for_s=60, by="ann")
        await engine.decide(gate, "reject", by="bob")
        await run.settled()
        assert (await engine.standing_approvals()).popitem()[1].used == 0
    assert paid == []


async def test_an_approval_that_says_nothing_is_refused_in_words(tmp_path: Any) -> None:
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        for given, words in (
            ({"for_s": 0}, r"for_s must be above 0 and up to 31,622,400 seconds \(366 days\); it is 0"),
            ({"for_s": 60, "max_calls": 0}, "max_calls must be 1 to 1,000,000; it is 0"),
            ({"for_s": 60, "by": None}, "An approval needs an author"),
            ({"for_s": 60, "when": [When("amount", "<", "many")]}, "give a number"),
        ):
            with pytest.raises(InvalidInput, match=words):
                await engine.grant_approval("pay", **{"by": "ann", **given})
        with pytest.raises(NotFound):
            await engine.grant_approval("pay", for_s=60, by="ann", run_id="018bcff4-f866-7aaa-8aaa-d73baee5c94a")
        with pytest.raises(NotFound, match="no standing approval"):
            await engine.revoke_approval("nothing", by="ann")
        assert not await engine.standing_approvals()


async def test_another_call_than_the_one_that_used_an_approval_is_not_let_through_by_it(
    tmp_path: Any, pay: Tool, paid: list[Any]
) -> None:
    """Killed between the use and the call, and taken up by code that asks for another."""
    to = ["ada"]
    wf = Workflow("pay")
    wf.node("pay")(tool_node(name=pay)(lambda state: {"to": to[0]}))

    async def cut(append: Append, **how: Any) -> Any:
        """The process dies when the use is committed: the call's intent never gets there."""
        if any(isinstance(each.event, ev.EffectIntended) for each in append.events):
            raise StoreError("This process is dead.")
        return await carried(append, **how)

    path = f"sqlite:///{tmp_path / 'holdfast.db'}"
    async with opened(path) as engine:
        await engine.grant_approval("pay", for_s=60, by="ann", max_calls=1)
        carried = engine.runtime.runs.flush.append
        carry_by(engine, cut)
        run = await engine.start(wf)
        await run.until(lambda state: any(f"{p}".endswith(".standing") for p in state.steps["pay"].journal))
        await die(engine)
        to[0] = "mallory"
        async with opened(path, workflows=[wf]) as heir:
            taken_up = heir.run(run.id)
            assert (await divergence(taken_up))["gate"]
    assert paid == []


async def test_what_stands_no_more_makes_room_for_new_approvals(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.service.control.standing_approval.MAX_STANDING", 3)
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        first, *_ = [await engine.grant_approval("pay", for_s=60, by="ann") for _ in range(3)]
        with pytest.raises(Conflict, match="Nothing was granted: revoke some"):
            await engine.grant_approval("pay", for_s=60, by="ann")
        await engine.revoke_approval(first, by="ann")
        last = await engine.grant_approval("pay", for_s=60, by="ann")
        assert first not in (known := await engine.standing_approvals())
        assert (last in known, len(known)) == (True, 3)
