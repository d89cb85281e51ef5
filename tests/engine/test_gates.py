"""Gates: what each answer does, that there is one, and that waiting for it holds nothing and decides nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from holdfast import RunFailed, Workflow, flow, human_gate, step, task
from holdfast.core.facts import events as ev
from holdfast.core.values.payload import digest
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import (
    AlreadyDecided,
    Conflict,
    DecisionRefused,
    InvalidDecision,
    InvalidInput,
    NotFound,
    OperationFailed,
    RunEnded,
    UsageError,
)
from tests.engine.history import events_of
from tests.engine.kit import Time, engine_at, gate_of, names, opened


def review(**options) -> Workflow:
    """draft → approval → publish; a rejection goes to `apologise` where `edges` says so."""
    edges = options.pop("edges", False)
    wf = Workflow("review")
    wf.node("draft")(task(lambda state: {"body": f"draft {state.visits('draft')}"}))
    wf.node("approval")(human_gate(**options)(lambda state: {"diff": state.events["draft"].output.body, "risk": "low"}))

    @wf.node("publish")
    @task
    async def publish(state):
        return [state.events["approval"].decision, state.events["approval"].payload["edited_body"]]

    wf.edge("draft", "approval")
    wf.edge("approval", "publish")
    if edges:
        wf.node("apologise")(task(lambda state: f"sorry: {state.events['approval'].payload.get('why')}"))
        wf.edge("approval", "apologise", when="reject")
    return wf


# --- Each answer --------------------------------------------------------------------------------------------------------


async def test_approving_carries_what_was_shown_in_the_one_field_of_a_gate_without_a_form(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        await engine.decide(await gate_of(run), by="ann")
        assert await run.result() == ["approve", "draft 1"]


async def test_an_approval_of_what_a_flow_asks_fills_its_form_from_what_was_shown(store: str) -> None:
    class Letter(BaseModel):
        body: str
        tone: str = "calm"

    @flow
    async def letters(ctx, given):
        answer = await ctx.ask({"body": "dear", "to": "ada"}, form=Letter, four_eyes=True)
        return [answer.data.body, answer.data.tone]

    async with opened(store) as engine:
        run = await engine.start(letters, by="ann")
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            await engine.decide(await gate_of(run), "approve", by="ann")
        await engine.decide(await gate_of(run), "approve", by="bob")
        assert await run.result() == ["dear", "calm"]


async def test_an_edit_replaces_what_was_shown(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        await engine.decide(await gate_of(run), "edit", {"edited_body": "better"})
        assert await run.result() == ["edit", "better"]


async def test_an_answer_goes_on_with_its_data(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        await engine.decide(await gate_of(run), "answer", {"edited_body": "42"})
        assert await run.result() == ["answer", "42"]


async def test_an_approval_that_changes_what_was_shown_is_refused_and_the_gate_stays_open(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        gate = await gate_of(run)
        shown = (await run.state()).gates[gate].opened.shown_hash
        with pytest.raises(DecisionRefused, match="Decide `edit`"):
            await engine.decide(gate, "approve", {"edited_body": "something else"}, shown_hash=shown)
        assert await run.status() == "waiting"
        await engine.decide(gate, shown_hash=shown)
        assert await run.result() == ["approve", "draft 1"]


async def test_a_rejection_without_an_edge_fails_the_run(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        await engine.decide(await gate_of(run), "reject", reason="too blunt", by="ada")
        with pytest.raises(RunFailed, match="'approval' was rejected by ada: too blunt") as failed:
            await run.result()
        assert (failed.value.error.error_class, failed.value.error.node) == ("rejected", "approval")
        (decided,) = await events_of(run, ev.GateDecided)
        assert (decided.decision, decided.reason) == ("reject", "too blunt")


class Letter(BaseModel):
    body: str


@step
def sign(text):
    return text.upper()


@flow
async def as_attribute(ctx, given):
    return (await ctx.ask({"body": "dear"}, form=Letter)).data.body


@flow
async def as_key(ctx, given):
    return (await ctx.ask({"body": "dear"}, form=Letter)).data["body"]


@flow
async def without_form(ctx, given):
    return (await ctx.ask({"body": "dear"})).data.body


@flow
async def as_model(ctx, given):
    return Letter.model_validate((await ctx.ask({"body": "dear"}, form=Letter)).data).body


@flow
async def in_a_step(ctx, given):
    return await sign((await ctx.ask({"body": "dear"})).data)


@pytest.mark.parametrize("wf", [as_attribute, as_key, without_form, as_model, in_a_step], ids=lambda wf: wf.name)
async def test_code_that_overlooks_a_rejection_fails_with_its_gate_and_person(store: str, wf) -> None:
    async with opened(store) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        await engine.decide(gate, "reject", reason="too blunt", by="ada")
        with pytest.raises(RunFailed, match=f"^Run .*Gate {gate} was rejected by ada: too blunt. Then the code failed: "):
            await run.result()


async def test_an_answer_after_a_rejection_is_not_blamed_on_it(store: str) -> None:
    @flow
    async def twice(ctx, given):
        await ctx.ask("may I?", decisions=["reject"])
        await ctx.ask("and now?", decisions=["approve"])
        return {}["body"]

    async with opened(store) as engine:
        run = await engine.start(twice)
        await engine.decide(await gate_of(run), "reject", by="ada")
        await engine.decide(await gate_of(run), "approve", by="ada")
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert "rejected" not in failed.value.error.message


async def test_a_rejection_takes_only_the_edge_that_names_it(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review(edges=True))
        await engine.decide(await gate_of(run), "reject", {"why": "too blunt"})
        assert await run.result() == "sorry: too blunt"
        assert (await run.state()).steps["publish"].status == "skipped"


async def test_a_retry_goes_back_along_its_loop_and_is_offered_only_while_visits_remain(store: str) -> None:
    wf = review()
    wf.loop("approval", "draft", when="retry", max_visits=2)
    async with opened(store) as engine:
        run = await engine.start(wf)
        first = await gate_of(run)
        assert "retry" in (await run.state()).gates[first].opened.allowed
        await engine.decide(first, "retry")
        second = (await run.until(lambda state: [gate for gate in state.gates if gate != first])).gates
        (second_id,) = second
        assert "retry" not in second[second_id].opened.allowed
        with pytest.raises(InvalidDecision, match="not 'retry'"):
            await engine.decide(second_id, "retry")
        await engine.decide(second_id)
        assert await run.result() == ["approve", "draft 2"]


async def test_a_retry_is_not_offered_where_nothing_follows_it(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        gate = await gate_of(run)
        assert (await run.state()).gates[gate].opened.allowed == ("approve", "edit", "reject", "answer")


# --- Forms --------------------------------------------------------------------------------------------------------------


class Refund(BaseModel):
    amount: int = Field(ge=0, le=100)
    note: str = "none"


def refund() -> Workflow:
    wf = Workflow("refund")
    wf.node("approval")(human_gate(form=Refund)(lambda state: {"amount": 30, "customer": "ada"}))
    wf.node("pay")(task(lambda state: state.events["approval"].payload))
    wf.edge("approval", "pay")
    return wf


async def test_approving_a_form_carries_every_fields_value(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(refund())
        await engine.decide(await gate_of(run))
        assert await run.result() == {"amount": 30, "note": "none"}


async def test_an_edit_may_name_only_what_it_changes(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(refund())
        await engine.decide(await gate_of(run), "edit", {"amount": 12})
        assert await run.result() == {"amount": 12, "note": "none"}


@pytest.mark.parametrize("data", [{"amount": 101}, {"amount": "much"}, {"amount": None}, ["amount"], {}])
async def test_data_that_does_not_fit_the_form_is_refused_and_the_gate_stays_open(store: str, data) -> None:
    async with opened(store) as engine:
        run = await engine.start(refund())
        gate = await gate_of(run)
        with pytest.raises(InvalidDecision):
            await engine.decide(gate, "edit", data)
        assert await run.status() == "waiting"
        await engine.decide(gate, "edit", {"amount": 5})
        assert await run.result() == {"amount": 5, "note": "none"}


# --- Who and what -------------------------------------------------------------------------------------------------------


async def test_a_decision_is_bound_to_the_hash_of_what_was_shown(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        gate = await gate_of(run)
        gate_opened = (await run.state()).gates[gate].opened
        assert gate_opened.shown_hash == digest(gate_opened.shown.value()) == digest({"diff": "draft 1", "risk": "low"})
        with pytest.raises(Conflict, match="shows something else"):
            await engine.decide(gate, shown_hash=digest({"diff": "draft 0", "risk": "low"}))
        assert await run.status() == "waiting"
        await engine.decide(gate, shown_hash=gate_opened.shown_hash)
        (decided,) = await events_of(run, ev.GateDecided)
        assert decided.shown_hash == gate_opened.shown_hash


async def test_a_gate_is_decided_once_and_the_loser_learns_who_won(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        gate = await gate_of(run)
        people = ["ann", "ben", "cleo", "dan"]
        told = await asyncio.gather(*(engine.decide(gate, by=who) for who in people), return_exceptions=True)
        assert told.count(None) == 1
        winner = people[told.index(None)]
        for loser in (each for each in told if each is not None):
            assert isinstance(loser, AlreadyDecided)
            assert (loser.by, loser.decision) == (winner, "approve")
            assert winner in loser.message
        await run.result()
        with pytest.raises(AlreadyDecided, match=winner):  # the end of the run does not change the answer
            await engine.decide(gate, "reject", by="eve")


async def test_deciders_in_two_processes_meet_in_the_store_and_one_wins(store: str) -> None:
    async with opened(store) as engine, opened(store, execute=False) as other:
        for _ in range(5):
            run = await engine.start(review())
            gate = await gate_of(run)
            told = await asyncio.gather(engine.decide(gate, by="ann"), other.decide(gate, by="ben"), return_exceptions=True)
            assert sum(each is None for each in told) == 1
            (lost,) = [each for each in told if each is not None]
            assert isinstance(lost, AlreadyDecided)
            (decided,) = await events_of(run, ev.GateDecided)
            assert lost.by == decided.by


@flow
async def two_reviewers(ctx, given):
    first = await ctx.ask({"pay": 3}, decisions=["approve"])
    second = await ctx.ask({"pay": 3}, decisions=["approve"], not_by=[first.by])
    return [first.by, second.by]


async def test_another_person_than_the_first_decides_the_second_question_of_a_flow(store: str) -> None:
    """Whatever name they write it by, whoever is asked instead, and in whichever process."""
    async with opened(store, workflows=[two_reviewers]) as engine:
        run = await engine.start(two_reviewers, {})
        await engine.decide(await gate_of(run), by="ann", roles=["lead"])
        second = await gate_of(run)
        with pytest.raises(DecisionRefused, match="asks anyone but ann"):
            await engine.decide(second, by=" Ann ", roles=["lead"])
        with pytest.raises(DecisionRefused, match="must be known who decides"):
            await engine.decide(second)
        with pytest.raises(DecisionRefused, match="cannot be decided by ann"):
            await engine.reassign(second, ["ann", "eve"], by="bob")
    async with opened(store, workflows=[two_reviewers]) as engine:
        with pytest.raises(DecisionRefused, match="asks anyone but ann"):
            await engine.decide(second, by="ANN")
        await engine.decide(second, by="bob")
        assert await engine.run(run.id).result() == ["ann", "bob"]


async def test_where_the_first_decision_is_unknown_no_person_is_asked(store: str) -> None:
    async with opened(store, workflows=[two_reviewers]) as engine:
        run = await engine.start(two_reviewers, {})
        await engine.decide(await gate_of(run))
        with pytest.raises(RunFailed, match="Name the persons who may not decide"):
            await run.result()


def graph_of_two(**options) -> Workflow:
    wf = Workflow("two")
    wf.node("first")(human_gate(reviewers=["leads"], decisions=["approve"])(lambda state: {"diff": "pay 3"}))
    wf.node("second")(human_gate(reviewers=["leads"], decisions=["approve"], **options)(lambda state: {"diff": "pay 3"}))
    wf.edge("first", "second")
    return wf


async def test_another_person_than_the_first_decides_the_second_gate_of_a_graph(store: str) -> None:
    wf = graph_of_two(not_by=["first"])
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await engine.decide(await gate_of(run), by="ann", roles=["leads"])
        second = await gate_of(run)
        with pytest.raises(DecisionRefused, match="asks anyone but ann"):
            await engine.decide(second, by="ann", roles=["leads"])
        await engine.decide(second, by="bob", roles=["leads"])
        assert (await run.settled()).ended == "completed"


def test_a_gate_that_is_not_there_cannot_have_been_decided_by_another() -> None:
    for wrong in ("frist", "second"):
        with pytest.raises(UsageError, match="is no other human_gate of this workflow"):
            graph_of_two(not_by=[wrong]).graph  # noqa: B018 - made when it is asked for
    assert graph_of_two(not_by=()).hash == graph_of_two().hash


async def test_who_asked_cannot_decide_where_four_eyes_are_wanted(store: str) -> None:
    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match="by=NAME"):
            await engine.start(review(four_eyes=True), by="  ")
        run = await engine.start(review(four_eyes=True), by="ann")
        gate = await gate_of(run)
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            await engine.decide(gate, by="Ann")
        with pytest.raises(DecisionRefused, match="say who you are"):
            await engine.decide(gate)
        await engine.decide(gate, by="ben")
        assert (await run.result())[0] == "approve"


async def test_only_those_who_are_asked_decide_by_name_or_in_a_role(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review(reviewers=["ann", "legal"]))
        gate = await gate_of(run)
        for by, roles in (("ben", []), (None, []), ("ben", ["sales"])):
            with pytest.raises(DecisionRefused, match="It is still open"):
                await engine.decide(gate, by=by, roles=roles)
        await engine.decide(gate, by="ben", roles=["legal"])
        await run.result()
        (decided,) = await events_of(run, ev.GateDecided)
        assert (decided.by, decided.roles, decided.os_user) == ("ben", ("legal",), "")


async def test_a_gate_that_never_was_is_not_found(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        await gate_of(run)
        with pytest.raises(NotFound, match="gates list"):
            await engine.decide(f"{run.id}:approval#2:0")
        with pytest.raises(NotFound):
            await engine.decide("no-run:approval#1:0")


async def test_a_gate_of_a_cancelled_run_is_withdrawn(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        gate = await gate_of(run)
        await engine.cancel(run.id)
        assert await run.status() == "cancelled"
        with pytest.raises(RunEnded):
            await engine.decide(gate)
        assert [(row.gate, change.state) for row, change in await engine.gates(run.id, open_only=False)] == [
            (gate, "withdrawn")
        ]


async def test_the_reviewers_are_those_of_the_node_or_of_what_is_shown(store: str) -> None:
    wf = Workflow("who")
    wf.node("first")(human_gate(reviewers=["legal"])(lambda state: "text"))
    wf.node("second")(human_gate(reviewers=["legal"])(lambda state: {"diff": "text", "reviewers": ["ann", "ben"]}))
    async with opened(store) as engine:
        run = await engine.start(wf)
        await gate_of(run, number=1)
        assert {row.step: row.reviewers for row, _ in await engine.gates(run.id)} == {
            "first#1": ("legal",),
            "second#1": ("ann", "ben"),
        }


# --- Waiting ------------------------------------------------------------------------------------------------------------


async def test_waiting_for_a_person_holds_no_task_no_memory_and_no_slot(store: str) -> None:
    async with opened(store, slots=1) as engine:
        before = len(asyncio.all_tasks())
        runs = [await engine.start(review()) for _ in range(20)]
        for run in runs:
            await run.settled()
        # The sweep may be asking the store just now; whatever a run held would never go away.
        while engine.runtime.runs.resident or engine.executor.working or len(asyncio.all_tasks()) > before + 1:
            await asyncio.sleep(0.001)
        assert [row.status for row in await engine.runs()] == ["waiting"] * 20
        for run in runs:
            await engine.decide(await gate_of(run))
        assert [await run.result() for run in runs] == [["approve", "draft 1"]] * 20


async def test_a_decision_outlives_every_process(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review())
        gate = await gate_of(run)
    async with opened(store, execute=False) as desk:
        await desk.decide(gate, "edit", {"edited_body": "decided while nobody worked"})
    async with opened(store, workflows=[review()]) as engine:
        assert await engine.run(run.id).result() == ["edit", "decided while nobody worked"]
        assert (await names(engine.run(run.id))).count("AttemptLost") == 0


DECIDER = """
import asyncio, sys, time
from holdfast import Engine
async def main():
    async with Engine.open(sys.argv[1], execute=False) as engine:
        await engine.decide(sys.argv[2], "edit", {"edited_body": "typed elsewhere"}, by="ann")
        print(time.time())
asyncio.run(main())
"""


async def test_a_decision_typed_in_another_process_is_taken_up_within_a_second(store: str) -> None:
    taken: list[float] = []
    wf = Workflow("elsewhere")
    wf.node("approval")(human_gate(lambda state: "text"))

    @wf.node("after")
    @task
    async def after(state):
        taken.append(time.time())
        return state.events["approval"].payload["edited_body"]

    wf.edge("approval", "after")
    async with opened(store) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", DECIDER, store, gate, stdout=subprocess.PIPE)
        said, _ = await asyncio.wait_for(other.communicate(), 20)
        assert await asyncio.wait_for(run.result(), 60) == "typed elsewhere"
        assert taken[0] - float(said) < 1.0


async def test_a_deadline_never_decides_but_summons_attention(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(review(timeout_days=2))
        gate = await gate_of(run)
        now.forward(days=1.99)
        assert await run.status() == "waiting"
        now.forward(days=0.02)
        assert await run.status() == "requires_attention"
        assert [(row.gate, change.state) for row, change in await engine.gates(run.id)] == [(gate, "escalated")]
        (escalated,) = await events_of(run, ev.GateEscalated)
        assert escalated.reason == "gate_deadline_passed"
        now.forward(days=300)
        assert await run.status() == "requires_attention"
        await engine.decide(gate)  # late is not never
        assert await run.result() == ["approve", "draft 1"]
        assert len(await events_of(run, ev.GateEscalated)) == 1


async def test_reminders_are_events_that_lists_show_and_one_stands_for_those_missed(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(review(remind_every_s=3600))
        await gate_of(run)
        for expected in ([1], [1, 2], [1, 2, 7]):
            now.forward((expected[-1] - (expected[-2] if len(expected) > 1 else 0)) * 3600)
            await run.state()
            await run.state()
            assert [each.number for each in await events_of(run, ev.GateReminded)] == expected
        ((_, change),) = await engine.gates(run.id)
        assert (change.state, change.reminders) == ("open", 7)
        (wait,) = waiting_for(await run.state())
        assert (wait.kind, wait.reason) == ("gate", "approval")


async def test_a_gate_that_stays_stale_may_cancel_its_run(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(review(timeout_hours=1, cancel_after_s=3600))
        await gate_of(run)
        now.forward(3600)
        assert await run.status() == "requires_attention"
        now.forward(3599)
        assert await run.status() == "requires_attention"
        now.forward(1)
        assert await run.status() == "cancelled"
        assert (await run.state()).reason == "gate_stale_limit_exceeded"


async def test_deadlines_and_reminders_fall_due_by_themselves(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(review(timeout_s=60, remind_every_s=30))
        await gate_of(run)
        now.forward(61)
        async with asyncio.timeout(60):  # the run's row, which looks at nothing
            while (await engine.find(run.id)).status != "requires_attention":
                await asyncio.sleep(0.01)
        assert (await names(run)).count("GateReminded") == 1


async def test_the_row_says_what_a_run_waits_for(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(review(timeout_days=1))
        gate = await gate_of(run)
        (wait,) = json.loads((await engine.find(run.id)).waiting_for)
        assert (wait["kind"], wait["reason"], wait["id"], wait["step"]) == ("gate", "approval", gate, "approval#1")
        assert wait["due_at_ms"] - wait["since_ms"] == 86_400_000
        assert status(await run.state()) == "waiting"


# --- After which no answer counts ---------------------------------------------------------------------------------------


def patient(**options) -> Workflow:
    wf = review(decisions=("approve", "to_legal"), expires_after_s=3600, **options)
    for name, when in (("legal", "to_legal"), ("late", "expired")):
        wf.node(name)(task(lambda state: state.events["approval"].decision))
        wf.edge("approval", name, when=when)
    return wf


async def test_an_unanswered_gate_expires_by_itself(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(patient())
        gate = await gate_of(run)
        now.forward(3600)
        assert await run.result() == "expired"
        with pytest.raises(AlreadyDecided, match="has expired"):
            await engine.decide(gate)
        ((_, change),) = await engine.gates(run.id, open_only=False)
        assert change is not None
        assert (change.state, change.decision) == ("expired", None)


async def test_a_gate_takes_a_word_of_its_own(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(patient())
        gate = await gate_of(run)
        with pytest.raises(InvalidDecision, match="takes approve, to_legal, not 'to_sales'"):
            await engine.decide(gate, "to_sales")
        await engine.decide(gate, "to_legal", {"why": "a clause"})
        assert await run.result() == "to_legal"


@pytest.mark.parametrize("word", ["expired", "to legal", "", "x" * 41, "a-b"])
def test_what_is_no_word_for_a_decision_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="words of your own"):
        review(decisions=("approve", word))


async def test_a_question_of_a_flow_that_expires_is_an_error_that_it_may_catch(tmp_path: Path) -> None:
    @flow
    async def asking(ctx, given):
        try:
            return (await ctx.ask({"n": 1}, expires_after_s=60, decisions=("more", "less"))).decision
        except OperationFailed as late:
            return late.error.error_class

    now = Time()
    async with engine_at(tmp_path, now) as engine:
        late, early = [await engine.start(asking, key=key) for key in ("late", "early")]
        await gate_of(late)
        await engine.decide(await gate_of(early), "more")
        assert await early.result() == "more"
        now.forward(60)
        assert await late.result() == "expired"


# --- What it proposes, and who has approved ---------------------------------------------------------------------------


@flow
async def wire(ctx, given):
    first = await ctx.ask(
        {"pay": 9, **given}, decisions=["approve", "reject"], quorum=2, risk_level="high", evidence_ids=["e1"]
    )
    second = await ctx.ask({"pay": 9, "risk_level": "low"}, decisions=["approve", "reject"], not_by=first.approvers)
    return [first.by, first.approvers, second.approvers]


async def test_an_answer_names_its_approvers_and_none_of_them_decides_what_is_not_by_them(store: str) -> None:
    async with opened(store, workflows=[wire]) as engine:
        run = await engine.start(wire, {"risk_level": "low", "proposed_action": "pay"})
        gate = await gate_of(run)
        asked = await engine.gate(gate)
        assert (asked.proposed_action, asked.evidence_ids, asked.risk_level) == ("pay", ("e1",), "high")
        await engine.decide(gate, by="ann")
        ((row, change),) = await engine.gates(risk_levels=["high", "critical"])
        assert (row.gate, row.quorum, change and change.approved_by) == (gate, 2, ("ann",))
        await engine.decide(gate, by="bob")
        second = await gate_of(run)
        assert [row.gate for row, _ in await engine.gates(risk_levels=["low"])] == [second]
        assert await engine.gates(risk_levels=["high"]) == []
        for name in ("ann", "bob"):
            with pytest.raises(DecisionRefused, match="anyone but ann, bob"):
                await engine.decide(second, by=name)
        await engine.decide(second, by="eve")
        assert await run.result() == ["bob", ["ann", "bob"], ["eve"]]


async def test_all_approvers_of_a_gate_are_kept_from_the_gate_that_is_not_by_them(store: str) -> None:
    wf = Workflow("twice")
    wf.node("first")(human_gate(quorum=2, risk_level="critical")(lambda state: {"risk_level": "low", "evidence_ids": ["e1"]}))
    wf.node("second")(human_gate(not_by=["first"], proposed_action="pay")(lambda state: {"pay": 9}))
    wf.edge("first", "second")
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        asked = await engine.gate(gate)
        assert (asked.proposed_action, asked.evidence_ids, asked.risk_level) == (None, ("e1",), "critical")
        for name in ("ann", "bob"):
            await engine.decide(gate, by=name)
        second = await gate_of(run)
        assert (await engine.gate(second)).proposed_action == "pay"
        for name in ("ann", "bob"):
            with pytest.raises(DecisionRefused, match="anyone but ann, bob"):
                await engine.decide(second, by=name)
        await engine.decide(second, by="eve")
        await run.result()


async def test_a_gate_is_declared_with_a_risk_that_there_is() -> None:
    with pytest.raises(UsageError, match="risk_level='grave' is none of low, medium, high, critical"):
        human_gate(risk_level="grave")(lambda state: {})
