"""A person is asked once, about exactly what was shown, decides once, and is never decided for."""

from __future__ import annotations

import pathlib
import tempfile

import pytest

from holdfast.core.people.gates import MAX_REMINDERS, asked_together
from holdfast.core.values.ids import GateId, Path
from holdfast.core.values.payload import Payload, inline
from holdfast.core.values.policies import RetryPolicy
from holdfast.errors import (
    AlreadyDecided,
    Conflict,
    DecisionRefused,
    InvalidDecision,
    InvalidInput,
    NotFound,
    RunEnded,
    StaleAttempt,
)
from tests.core.game import NULL, START_MS, TRANSIENT, Actor, Game, cmd, edge, ev, graph, kinds, loop, node, problems

DAY_MS = 86_400_000
TWICE = RetryPolicy(max_attempts=2, initial_s=1, jitter=0)
FORM = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "maximum": 1000}, "note": {"type": "string"}},
    "required": ["amount"],
    "additionalProperties": False,
}


EDITED = {"type": "object", "properties": {"edited_body": {}}, "required": ["edited_body"]}


def approval(*more: object, **options: object) -> Game:
    """A gate before `publish`."""
    game = Game(graph(node("gate", "human_gate"), "gate > publish", *more), by="ann")
    game.human_gate("gate", **options)
    return game


# --- Opening ----------------------------------------------------------------------------------------------------------


def test_a_human_gate_asks_and_leaves_in_one_commit() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"))
    from_now = {"timeout_ms": DAY_MS, "reviewers": ("bob", "role:legal")}
    gate = game.human_gate("gate", shown={"diff": "x"}, **from_now)
    assert gate == "0190-run:gate#1:0"
    assert kinds([*game.events()])[-2:] == ["GateOpened", "StepSuspended"]
    opened = game.gate
    assert (opened.reason, opened.reviewers, opened.due_at_ms) == ("approval", ("bob", "role:legal"), START_MS + DAY_MS)
    assert opened.shown.value() == {"diff": "x"}
    assert game.status == "waiting"
    assert [(wait.kind, wait.reason, wait.id) for wait in game.waits] == [("gate", "approval", gate)]
    assert game.rows(game.events()).sessions == (), "a wait holds no session"


def test_a_gate_that_is_reached_again_is_not_opened_twice() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish", limits={"max_active_s": 10}))
    game.human_gate("gate")
    game.raise_limit("active", 20)  # whoever left may have been refused something, so every step looks again
    assert game.step("gate").attempt == 2
    game.tick(0)
    with pytest.raises(ValueError, match="not enough values"):
        game.human_gate("gate")
    assert len(game.state.gates) == 1
    assert game.step("gate").status == "suspended"


def test_retry_is_offered_only_where_it_leads_somewhere_and_while_visits_remain() -> None:
    assert "retry" not in approval().gate.allowed
    assert "retry" in approval(edge("gate", "again", when="retry")).gate.allowed
    game = Game(graph("draft > gate > publish", node("gate", "human_gate"), loop("gate", "draft", 2, when="retry")))
    game.complete("draft")
    game.human_gate("gate")
    assert "retry" in game.gate.allowed
    game.decide("retry")
    game.tick()
    game.complete("draft")
    game.human_gate("gate")
    assert "retry" not in game.gate.allowed


def test_a_form_that_no_answer_could_fit_asks_no_person() -> None:
    game = Game(graph("a"))
    with pytest.raises(InvalidInput, match="no JSON Schema"):
        game.open_gate("a", form={"type": "no such type"})
    with pytest.raises(InvalidInput, match="must be below 65536"):
        game.open_gate("a", form=FORM, filled=Payload(blob="ab" * 32, size_bytes=70_000))
    assert not game.state.gates


# --- Deciding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["approve", "edit", "answer"])
def test_saying_yes_takes_the_plain_edges(decision: str) -> None:
    game = approval(edge("gate", "sorry", when="reject"), form=FORM, filled=inline({"amount": 5}))
    game.decide(decision, data={"amount": 5})
    game.tick()
    assert game.active == ["publish"]
    assert game.step("gate").decisions == (decision,)
    assert game.step("gate").output.value() == {"amount": 5}


def test_saying_no_takes_only_an_edge_that_names_it() -> None:
    game = approval(edge("gate", "sorry", when="reject"))
    game.decide("reject")
    game.tick()
    assert game.active == ["sorry"]
    assert game.statuses()["publish"] == "skipped"


def test_saying_no_without_such_an_edge_ends_the_run() -> None:
    game = approval()
    game.decide("reject", reason="not like this")
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == "rejected"
    assert "publish" not in game.active


def test_a_decision_of_its_own_edge_is_taken_beside_the_plain_ones() -> None:
    game = approval(edge("gate", "log", when="edit"))
    game.decide("edit", data={"edited_body": "x"})
    game.tick()
    assert set(game.active) == {"publish", "log"}


def test_a_gate_takes_only_what_it_allows() -> None:
    game = approval(allowed=("approve", "reject"))
    with pytest.raises(InvalidDecision, match="takes approve, reject, not 'edit'"):
        game.decide("edit", data={})
    assert game.gate.allowed == ("approve", "reject")


def test_a_gate_is_decided_once_and_the_second_learns_who_won() -> None:
    game = approval()
    gate = game.gate.gate
    game.decide("approve", by="bob")
    with pytest.raises(AlreadyDecided, match="already decided: approve by bob") as caught:
        game.decide("reject", gate, by="cyd")
    assert (caught.value.decision, caught.value.by, caught.value.at_ms) == ("approve", "bob", START_MS)


def test_the_second_learns_who_won_though_the_decision_ended_the_run() -> None:
    game = Game(graph(node("gate", "human_gate")))
    gate = game.human_gate("gate")
    game.decide("approve", by="bob")
    assert game.status == "completed"
    with pytest.raises(AlreadyDecided, match="approve by bob"):
        game.decide("reject", gate, by="cyd")
    with pytest.raises(RunEnded):
        game.decide("reject", GateId("0190-run:other#1:0"))


def test_a_gate_that_was_never_opened_cannot_be_decided() -> None:
    with pytest.raises(NotFound, match="gates list"):
        approval().decide("approve", GateId("0190-run:gate#2:0"))


def test_a_decision_is_bound_to_what_was_shown() -> None:
    game = approval(shown={"diff": "new"})
    with pytest.raises(Conflict, match="shows something else than what was decided about"):
        game.decide("approve", shown_hash="the old one")
    game.decide("approve", shown_hash=game.gate.shown_hash)
    assert game.events(ev.GateDecided)[0].shown_hash == game.events(ev.GateOpened)[0].shown_hash


@pytest.mark.parametrize("unnamed", [None, " "])
def test_a_run_that_will_need_four_eyes_is_not_started_without_a_person(unnamed: str | None) -> None:
    shape = graph(node("gate", "human_gate", options={"four_eyes": True}), "gate > publish")
    with pytest.raises(InvalidInput, match=r"'gate' needs a second pair of eyes.*No run was started"):
        Game(shape, by=unnamed)
    assert Game(shape, by="ann").status == "running"


def test_the_record_has_the_name_that_was_given_and_beside_it_who_typed_it() -> None:
    game = approval(reviewers=("grace",))
    game.decide("approve", by=Actor("grace", "deploy"))
    (decided,) = game.events(ev.GateDecided)
    assert (decided.by, decided.os_user) == ("grace", "deploy")
    assert str(Actor(decided.by, decided.os_user)) == "grace (unverified, by OS user deploy)"


# --- Forms ------------------------------------------------------------------------------------------------------------


def test_an_approval_carries_every_field_that_was_filled_in() -> None:
    game = approval(form=FORM, filled=inline({"amount": 500, "note": "as agreed"}))
    game.decide("approve")
    assert game.step("gate").output.value() == {"amount": 500, "note": "as agreed"}


def test_an_approval_may_fill_in_what_was_left_open() -> None:
    game = approval(form=FORM, filled=inline({"amount": 500}))
    game.decide("approve", data={"note": "fine"})
    assert game.step("gate").output.value() == {"amount": 500, "note": "fine"}


@pytest.mark.parametrize("allowed", [("approve", "edit"), ("approve", "reject")])
@pytest.mark.parametrize(
    ("form", "filled", "data"),
    [
        (FORM, {"amount": 5}, {"amount": 9999}),
        (FORM, {"amount": 5}, {"amount": True}),
        (FORM, {"amount": 5}, {"amount": None}),
        (FORM, {"amount": 5}, {"other": 1}),
        (EDITED, {"edited_body": {"amount": 5}}, {"edited_body": {"amount": 9999}}),
        (EDITED, {"edited_body": {"amount": 1}}, {"edited_body": {"amount": True}}),
        (EDITED, {"edited_body": "text"}, {"more": 1}),
        (None, None, {"amount": 9999}),
    ],
)
def test_an_approval_takes_only_what_was_shown(
    allowed: tuple[str, ...], form: dict[str, object] | None, filled: object, data: object
) -> None:
    game = approval(form=form, filled=inline(filled), allowed=allowed)
    told = "Decide `edit`" if "edit" in allowed else "takes no edits"
    with pytest.raises(DecisionRefused, match=f"would be something else. It is still open.* {told}"):
        game.decide("approve", data=data)
    assert len(game.state.gates) == 1
    game.decide("approve", data=filled)  # what was shown may be said again
    assert game.step("publish").status == "ready"


def test_the_approval_of_a_call_adds_no_argument() -> None:
    """The form of a tool's call is its parameters: one that was left out is left out."""
    game = Game(graph("a"))
    command = cmd.OpenGate(
        *game.at("a"),
        Path("0"),
        "tool_approval",
        "h",
        NULL,
        "h",
        ("approve", "edit", "reject"),
        form=FORM,
        filled=inline({"amount": 5}),
    )
    game.do(command)
    with pytest.raises(DecisionRefused, match="note would be something else"):
        game.decide("approve", data={"note": "to another account"})


def test_what_other_steps_ask_is_not_decided_together() -> None:
    game = Game(graph("a > end", "b > end"))
    for name, path in (("a", "0.0"), ("a", "0.1"), ("b", "0")):
        place = (*game.at(name), Path(path), "tool_approval", "h", NULL, "h", ("approve", "reject"))
        game.do(cmd.OpenGate(*place))
    first, second, other = game.state.gates
    assert asked_together(game.state, second) == [first, second]
    assert asked_together(game.state, other) == [other]
    assert asked_together(game.state, GateId("nobody's")) == []

    def decided(*gates: GateId) -> list[ev.Event]:
        return game.do(cmd.DecideTogether(tuple(cmd.DecideGate(gate, "approve") for gate in gates)), session=None)

    for gates, words in (((first, other), "decide it by itself"), ((first, first), "of each once"), ((), "at least one")):
        with pytest.raises(InvalidDecision, match=words):
            decided(*gates)
    assert kinds(decided(second, first)) == ["GateDecided", "GateDecided"]


def test_of_answers_together_of_which_one_is_refused_none_is_taken() -> None:
    game = Game(graph("a > end"))
    for path in ("0.0", "0.1"):
        game.do(cmd.OpenGate(*game.at("a"), Path(path), "tool_approval", "h", NULL, "h", ("approve", "reject")))
    first, second = game.state.gates
    with pytest.raises(InvalidDecision, match="takes approve, reject"):
        game.do(cmd.DecideTogether((cmd.DecideGate(first, "approve"), cmd.DecideGate(second, "retry"))), session=None)
    assert [*game.state.gates] == [first, second]


def test_an_edit_takes_the_edge_for_edits() -> None:
    game = approval(edge("gate", "log", when="edit"), form=FORM, filled=inline({"amount": 500}))
    game.decide("edit", data={"amount": 501})
    assert game.step("gate").output.value() == {"amount": 501}
    game.tick()
    assert set(game.active) == {"publish", "log"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"amount": 2000}, "amount: 2000 is greater than the maximum of 1000"),
        ({"amount": "five"}, "amount: 'five' is not of type 'integer'"),
        ({"note": "no amount"}, "data: 'amount' is a required property"),
        ({"amount": 1, "extra": 2}, "data: Additional properties are not allowed"),
        ({}, "edit needs data. Its fields: amount, note"),
        (None, "edit needs data. Its fields: amount, note"),
        ([1], "data is an object of its fields: amount, note"),
    ],
)
def test_data_that_does_not_fit_leaves_the_gate_open(data: object, says: str) -> None:
    game = approval(form=FORM)
    with pytest.raises(InvalidDecision, match=says):
        game.decide("edit", data=data)
    assert game.gate.reason == "approval"


def test_an_approval_of_what_does_not_fit_is_refused_too() -> None:
    with pytest.raises(InvalidDecision, match="'amount' is a required property"):
        approval(form=FORM).decide("approve")


def test_a_rejection_needs_no_data() -> None:
    game = approval(edge("gate", "sorry", when="reject"), form=FORM)
    game.decide("reject")
    assert game.step("gate").output.value() == {}


@pytest.mark.parametrize("decision", ["edit", "answer"])
def test_a_misspelt_field_changes_nothing_and_is_refused(decision: str) -> None:
    """What was shown would be done, as if the person had agreed to it."""
    form = {"type": "object", "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}}}
    game = approval(edge("gate", "log", when=decision), form=form, filled=inline({"amount": 500, "id": 7}))
    with pytest.raises(InvalidDecision, match="the form has no field 'amuont'; its fields: amount, note") as refused:
        game.decide(decision, data={"amuont": 5, "note": "less"})
    assert [each.path for each in refused.value.misfits] == [("amuont",)]
    game.decide(decision, data={"amount": 5, "id": 7})
    assert game.step("gate").output.value()["amount"] == 5


ADDRESS = {"type": "object", "properties": {"street": {}, "zip": {"type": "string", "default": "?"}}}
NESTED = {
    "plain": {"to": ADDRESS},
    "reference": {"to": {"$ref": "#/$defs/address"}},
    "optional": {"to": {"anyOf": [{"$ref": "#/$defs/address"}, {"type": "null"}]}},
}


@pytest.mark.parametrize("properties", NESTED.values(), ids=NESTED)
def test_a_misspelt_field_is_refused_at_each_level(properties: dict[str, object]) -> None:
    form = {"type": "object", "properties": properties, "$defs": {"address": ADDRESS}}
    game = approval(edge("gate", "log", when="edit"), form=form, filled=inline({"to": {"street": "Elm", "shown": 1}}))
    with pytest.raises(InvalidDecision, match=r"the form has no field 'to\.zpi'; its fields: street, zip") as refused:
        game.decide("edit", data={"to": {"street": "Oak", "zpi": "10117"}})
    assert [each.path for each in refused.value.misfits] == [("to", "zpi")]
    game.decide("edit", data={"to": {"street": "Oak", "zip": "10117", "shown": 1}})


def test_a_misspelt_field_is_refused_in_the_items_of_a_list() -> None:
    form = {"type": "object", "properties": {"to": {"type": "array", "items": ADDRESS}}}
    game = approval(edge("gate", "log", when="edit"), form=form)
    with pytest.raises(InvalidDecision, match=r"no field 'to\.1\.zpi'"):
        game.decide("edit", data={"to": [{"zip": "1"}, {"zpi": "2"}]})
    game.decide("edit", data={"to": [{"zip": "1"}, {"zip": "2"}]})


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "object"},
        {"additionalProperties": {"type": "string"}},
        {**ADDRESS, "additionalProperties": True},
        {"anyOf": [ADDRESS, {"type": "object"}]},
        {"anyOf": [ADDRESS, {"type": "object", "properties": {"zpi": {}}}]},
        {"allOf": [ADDRESS]},
        {**ADDRESS, "anyOf": [{"properties": {"more": {}}}, {"required": ["zpi"]}]},
        {"$ref": "#"},
    ],
)
def test_a_part_of_a_form_may_take_any_field(shape: dict[str, object]) -> None:
    form = {"type": "object", "properties": {"to": shape, "zpi": {}}}
    game = approval(edge("gate", "log", when="edit"), form=form)
    game.decide("edit", data={"to": {"zpi": "x"}})
    assert game.step("gate").output.value()["to"] == {"zpi": "x"}


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}, {"allOf": [{}]}])
def test_a_form_may_take_fields_besides_its_own(more: dict[str, object]) -> None:
    game = approval(edge("gate", "log", when="edit"), form={"type": "object", "properties": {"a": {}}, **more})
    game.decide("edit", data={"xyz": 1})
    assert game.step("gate").output.value()["xyz"] == 1


def test_a_form_that_refers_elsewhere_is_never_fetched() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as elsewhere:
        elsewhere.write('{"type": "integer"}')
        elsewhere.flush()
        reference = pathlib.Path(elsewhere.name).as_uri()
        game = approval(form={"type": "object", "properties": {"x": {"$ref": reference}}})
        with pytest.raises(InvalidDecision, match=f"refers to '{reference}', which is not in it"):
            game.decide("edit", data={"x": 1})


def test_a_form_may_refer_to_itself() -> None:
    game = approval(form={"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}})
    with pytest.raises(InvalidDecision, match="x: 'y' is not of type 'integer'"):
        game.decide("edit", data={"x": "y"})
    game.decide("edit", data={"x": 1})
    assert game.step("gate").status == "completed"


# --- Inside a step ----------------------------------------------------------------------------------------------------


def test_an_answer_goes_back_to_the_step_that_asked() -> None:
    game = Game(graph("a > b"))
    game.open_gate("a", shown="how many?")
    game.suspend("a")
    game.decide("answer", data={"n": 3}, by="bob", reason="counted")
    assert kinds(game.tick()) == ["StepStarted"]
    assert game.op("a").outcome.value() == {"decision": "answer", "data": {"n": 3}, "by": "bob", "reason": "counted"}
    assert game.open_gate("a", shown="how many?") == [], "a replay finds the answer"


def test_an_answer_that_comes_while_the_step_is_leaving_lets_it_go_on() -> None:
    game = Game(graph("a > b"))
    game.open_gate("a")
    game.decide("answer", data={})
    assert kinds(game.suspend("a")) == ["StepSuspended", "StepStarted"]


def test_what_a_decision_made_ready_is_due_at_once() -> None:
    game = approval()
    events = game.decide("approve")
    assert kinds(events) == ["GateDecided", "StepCompleted", "StepReady"]
    assert game.rows(events, executing=False).run.due_at_ms == START_MS
    assert game.rows(events, executing=True).run.due_at_ms == START_MS + 1000


# --- Time -------------------------------------------------------------------------------------------------------------


def test_a_gate_past_its_deadline_summons_attention_and_decides_nothing() -> None:
    game = approval(timeout_ms=DAY_MS)
    assert game.due_ms == DAY_MS
    assert kinds(game.tick(86_400)) == ["GateEscalated"]
    assert game.status == "requires_attention"
    assert game.due_ms is None
    assert game.tick(86_400 * 365) == []
    game.decide("approve")
    assert game.step("gate").status == "completed"


def test_a_stale_gate_cancels_its_run_where_the_workflow_says_so() -> None:
    game = approval(timeout_ms=DAY_MS, cancel_after_ms=DAY_MS)
    game.tick(86_400)
    assert game.due_ms == 2 * DAY_MS
    assert game.tick(86_399) == []
    game.tick(1)
    assert game.status == "cancelled"
    assert game.state.reason == "gate_stale_limit_exceeded"


def test_reminders_repeat_until_an_answer_and_one_replaces_all_missed_ones() -> None:
    game = approval(remind_every_ms=DAY_MS)
    assert game.due_ms == DAY_MS
    assert game.tick(86_400) == [ev.GateReminded(game.gate.gate, 1)]
    assert game.due_ms == 2 * DAY_MS
    assert game.tick(10 * 86_400) == [ev.GateReminded(game.gate.gate, 11)]
    assert game.tick(1) == []
    game.decide("approve")
    assert game.due_ms == 0 + 11 * DAY_MS + 1000, "only the step that it made ready"


def test_reminders_end_when_there_have_been_enough() -> None:
    game = approval(remind_every_ms=1000)
    game.tick(MAX_REMINDERS * 10)
    assert [event.number for event in game.events(ev.GateReminded)] == [MAX_REMINDERS * 10]
    assert game.due_ms is None
    assert game.tick(10) == []


def test_a_gate_that_is_cancelled_with_its_run_is_withdrawn() -> None:
    game = approval()
    gate = game.gate.gate
    game.cancel()
    assert game.events(ev.GateWithdrawn)[0].gate == gate
    with pytest.raises(RunEnded):
        game.decide("approve", gate)


def test_a_gate_is_decided_while_the_run_is_paused_and_what_follows_waits() -> None:
    game = approval()
    game.pause()
    game.decide("approve")
    assert game.step("publish").status == "ready"
    assert game.tick() == []
    game.resume()
    assert game.active == ["publish"]


def test_a_decision_while_the_gates_own_step_runs_again_completes_it() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish", limits={"max_active_s": 10}))
    game.human_gate("gate")
    game.raise_limit("active", 20)
    assert game.active == ["gate"]
    stale = game.at("gate")
    game.decide("approve")
    game.tick()
    assert game.active == ["publish"]
    with pytest.raises(StaleAttempt):
        game.do(cmd.SuspendStep(*stale))


# --- Words of its own -------------------------------------------------------------------------------------------------


def test_a_decision_of_a_gates_own_takes_the_edge_that_names_it_and_no_other() -> None:
    gate = node("gate", "human_gate", options={"decisions": ("approve", "to_legal")})
    game = Game(graph(gate, "gate > publish", edge("gate", "legal", when="to_legal")), by="ann")
    game.human_gate("gate", allowed=("approve", "to_legal"), form=FORM, filled=inline({"amount": 5}))
    game.decide("to_legal", data={"why": "a clause"})
    assert game.step("gate").output.value() == {"why": "a clause"}, "it is not held against the form of an approval"
    game.tick()
    assert (game.step("legal").status, game.step("publish").status) == ("active", "skipped")


def test_a_gate_whose_own_decision_leads_nowhere_is_no_workflow() -> None:
    gate = node("gate", "human_gate", options={"decisions": ("approve", "to_legal")})
    assert problems(gate, "gate > publish") == (
        "node 'gate': a person may decide 'to_legal', and no edge follows that; add wf.edge('gate', …, when='to_legal')",
    )


# --- After which no answer counts -------------------------------------------------------------------------------------


def test_an_unanswered_gate_expires_and_takes_its_edge() -> None:
    game = approval(edge("gate", "late", when="expired"), expires_after_ms=60_000)
    game.tick(59)
    assert not game.events(ev.GateExpired)
    gate = game.gate.gate
    assert kinds(game.tick(1))[:2] == ["GateExpired", "StepCompleted"]
    assert (game.step("late").status, game.step("publish").status) == ("active", "skipped")
    with pytest.raises(AlreadyDecided, match="has expired: no answer came in time") as told:
        game.decide("approve", gate)
    assert told.value.decision == "expired"


def test_without_such_an_edge_the_run_fails_and_nothing_is_published() -> None:
    game = approval(expires_after_ms=60_000)
    game.tick(60)
    assert (game.status, game.state.error.error_class) == ("failed", "expired")  # type: ignore[union-attr]
    game.do(cmd.RetryRun(Actor("ann")), session=None)
    game.tick()
    assert game.human_gate("gate", expires_after_ms=60_000).endswith(":gate#1:0~1"), "it is asked anew"


def test_an_answer_after_expiry_is_refused_even_before_the_expiry_is_noticed() -> None:
    game = approval(expires_after_ms=60_000, reviewers=("ann",))
    game.now_ms += 60_000
    for late in (cmd.DecideGate(game.gate.gate, "approve"), cmd.AssignGate(game.gate.gate, ("eve",), delegates=False)):
        with pytest.raises(AlreadyDecided, match="expired"):
            game.do(late, session=None)


def test_of_gates_that_expire_at_one_moment_the_first_may_take_back_the_others() -> None:
    game = Game(graph(node("one", "human_gate"), node("two", "human_gate")))
    for name in ("one", "two"):
        game.human_gate(name, expires_after_ms=60_000)
    game.tick(60)
    assert (game.status, game.state.error.error_class) == ("failed", "expired")  # type: ignore[union-attr]
    assert not game.state.gates


@pytest.mark.parametrize(
    ("way", "ended"),
    [({"when": "expired"}, "StepCompleted"), ({"on": "error"}, "StepFailed")],
    ids=["an edge for that", "an error edge"],
)
def test_a_gate_that_expires_before_a_retry_ends_its_step_without_the_retry(way: dict[str, str], ended: str) -> None:
    game = Game(graph(node("gate", "human_gate", retry=TWICE), edge("gate", "late", **way), limits={"max_active_s": 10}))
    game.human_gate("gate", expires_after_ms=60_000)
    game.raise_limit("active", 20)  # which has the step run again
    game.fail("gate", TRANSIENT)
    assert (game.step("gate").status, game.step("gate").attempt) == ("retrying", 2)
    events = game.tick(60)
    assert kinds(events)[:2] == ["GateExpired", ended]
    assert [event.step for event in events if isinstance(event, ev.StepStarted)] == ["late#1"]
    assert game.active == ["late"]


def test_an_expired_question_fails_its_operation_and_a_retry_asks_again() -> None:
    game = Game(graph(node("a", retry=TWICE)))
    game.open_gate("a", expires_after_ms=1_000)
    game.suspend("a")
    game.tick(1)
    assert (game.op("a").status, game.op("a").error.error_class) == ("failed", "expired")  # type: ignore[union-attr]
    game.fail("a", TRANSIENT, "0")
    game.tick(2)
    assert kinds(game.open_gate("a", expires_after_ms=1_000)) == ["GateOpened"]
    assert game.gate.gate.endswith(":a#1:0~1")
    game.decide("answer", data={"n": 3})
    assert game.op("a").status == "done"
