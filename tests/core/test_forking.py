"""A fork: what is before the step is kept, what is asked for in the same way is reused, and nobody is taken at his word twice."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.graph import Graph, Join
from holdfast.core.facts.state import FUNCTION
from holdfast.core.rules.forking import Fork, ForkRequest, forked
from holdfast.core.values.ids import NAMING, NodeName, RunId, effect_key
from holdfast.core.values.payload import digest, inline
from holdfast.errors import Conflict, HoldfastError, InvalidInput, NonDeterministicStep, NotFound
from tests.core.game import ANN, RUN, Game, Path, StepId, cmd, edge, ev, graph, kinds, loop, node

FORK = RunId("0190-fork")


def plan(origin: Game, step: str, path: str | None = None, **wish: Any) -> Fork:
    history = [
        ev.Recorded(n, at_ms, event)  # type: ignore[arg-type]
        for n, (event, at_ms) in enumerate(zip(origin.events(), origin.times, strict=True), 1)
    ]
    return forked(origin.graph, history, ForkRequest(StepId(step), None if path is None else Path(path), by=ANN, **wish))


def fork(origin: Game, step: str, path: str | None = None, *, of: Graph | None = None, **wish: Any) -> Game:
    game = Game(of or origin.graph, start=False)
    game.now_ms = origin.now_ms + 1000
    found = plan(origin, step, path, **wish)
    start = cmd.StartRun(FORK, "acme", inline(None), digest("fork"), by=ANN, inherits=found.events, naming=found.began.naming)
    game.do(start)
    return game


def draft_and_send() -> Game:
    """`draft` has asked a model, `send` has sent something once; the run has completed."""
    game = Game(graph("draft > send", "send > file"), limit=1000)
    game.settle(game.held("draft", 100), 40, "a draft")
    game.complete("draft", "D")
    game.effect("send", "0")
    game.complete("send", "S")
    game.complete("file", "F")
    return game


# --- What is before the step ----------------------------------------------------------------------------------------------


def test_a_fork_has_what_was_before_the_step_and_none_of_its_costs() -> None:
    game = fork(draft_and_send(), "send#1")
    assert kinds(game.events()) == ["RunStarted", "RunForked", "StepInherited", "OperationInherited", "StepStarted"]
    assert (game.statuses(), game.active) == ({"draft": "completed", "send": "active"}, ["send"])
    assert (game.step("draft").output.value(), game.step("send").attempt) == ("D", 1)
    assert (game.state.budget.settled_nanousd, game.state.tokens_used, game.state.steps_started) == (0, 0, 1)
    assert (game.state.origin.run, game.state.origin.step) == (RUN, "send#1")  # type: ignore[union-attr]
    assert game.rows(game.events()).effects == (), "the ledger's lines are the origin's"
    found = plan(draft_and_send(), "send#1")
    assert ([*found.kept_steps], [(each.name, each.path) for each in found.reused_operations]) == (["draft#1"], [("send", "0")])


def test_a_fork_reuses_the_outcome_of_the_same_operation_without_a_call() -> None:
    origin = draft_and_send()
    game = fork(origin, "draft#1")
    assert kinds(game.hold("draft", 100)) == ["OperationReused"]
    assert (game.op("draft").outcome.value(), game.state.calls) == ("a draft", {})  # type: ignore[union-attr]
    game.complete("draft", "D")
    assert kinds(game.intend("send")) == ["OperationReused"]
    op = game.op("send")
    assert op.key == effect_key("acme", RUN, StepId("send#1"), Path("0"), "send")
    assert op.call is not None
    assert op.call.startswith(RUN)
    game.complete("send")
    game.complete("file")
    assert (game.status, game.state.budget.settled_nanousd) == ("completed", 0)


@pytest.mark.parametrize("other", [{"args": "else"}, {"tool": "other"}, {"path": "1"}])
def test_what_is_another_tool_place_or_request_is_new_and_once_needs_a_persons_word(other: dict[str, Any]) -> None:
    game = fork(draft_and_send(), "send#1")
    with pytest.raises(Conflict, match="repeat_effects=True"):
        game.intend("send", **other)
    assert kinds(game.intend("send", "idempotent", **other)) == ["EffectIntended"]
    game = fork(draft_and_send(), "send#1", repeats_effects=True)
    assert kinds(game.intend("send", **other)) == ["EffectIntended"]
    (call,) = game.state.calls.values()
    assert call.key != effect_key("acme", RUN, StepId("send#1"), Path("0"), "send")


def test_what_a_person_approves_is_done_in_a_fork() -> None:
    game = fork(draft_and_send(), "send#1")
    game.open_gate("send", "0.approval")
    game.suspend("send")
    with pytest.raises(HoldfastError):
        game.intend("send", args="else")
    game.decide("approve")
    game.tick()
    assert kinds(game.intend("send", args="else")) == ["EffectIntended"]


def test_what_was_undone_is_done_again_also_where_the_fork_begins_later() -> None:
    game = Game(graph("fly > sleep"))
    game.did(game.intended("fly", compensation="cancel"))
    game.complete("fly")
    game.fail("sleep")
    booked = game.state.compensable[0].call
    game.did(game.intended("!compensate", "idempotent", tool="cancel", compensates=booked))
    game.complete("!compensate")
    assert game.status == "failed"
    found = plan(game, "sleep#1")
    assert (found.begins_at, "undone" in found.reason, found.reused_operations, [*found.kept_steps]) == ("fly#1", True, (), [])
    again = fork(game, "sleep#1", repeats_effects=True)
    assert again.active == ["fly"]
    assert kinds(again.intend("fly", compensation="cancel")) == ["EffectIntended"]


def test_what_a_child_has_undone_is_done_again_by_another() -> None:
    game = Game(graph("fly > sleep"))
    child = game.child("fly")
    game.suspend("fly")
    game.end_child(child, undoable=True)
    game.complete("fly")
    game.fail("sleep")
    game.undo_child(child)
    game.suspend("!compensate")
    game.end_child(child, "cancelled")
    game.complete("!compensate")
    assert game.status == "failed"
    found = plan(game, "sleep#1", quiet=frozenset({child}))
    assert (found.begins_at, "undone" in found.reason, found.reused_operations, [*found.kept_steps]) == ("fly#1", True, (), [])
    assert kinds(fork(game, "sleep#1").ask_for("fly")) == ["ChildRequested"]


def test_a_fork_that_fails_undoes_what_it_did_itself_and_leaves_the_origins_alone() -> None:
    origin = Game(graph("fly > sleep"))
    origin.did(origin.intended("fly", compensation="cancel"))
    origin.complete("fly")
    origin.complete("sleep")
    game = fork(origin, "fly#1")
    game.intend("fly", compensation="cancel")
    game.complete("fly")
    game.fail("sleep")
    assert (game.status, "!compensate" in game.statuses()) == ("failed", False)


# --- People ---------------------------------------------------------------------------------------------------------------


def approved() -> Game:
    game = Game(graph("draft > review", node("review", "human_gate"), "review > prepare", "prepare > send"))
    game.complete("draft", "D")
    game.decide("approve", game.human_gate("review"))
    game.tick()
    game.complete("prepare", "P")
    game.effect("send")
    game.complete("send")
    return game


def test_decisions_are_never_carried_over_so_a_fork_behind_a_gate_asks_again() -> None:
    found = plan(approved(), "send#1")
    assert (found.begins_at, "is asked again" in found.reason, [*found.kept_steps]) == ("review#1", True, ["draft#1"])
    game = fork(approved(), "send#1")
    assert game.active == ["review"]
    game.decide("approve", game.human_gate("review"))
    game.tick()
    game.complete("prepare")
    assert kinds(game.intend("send")) == ["OperationReused"]


def test_an_answer_inside_a_step_is_asked_for_again_with_all_that_followed_it() -> None:
    game = Game(graph("a"))
    game.effect("a", "0")
    game.open_gate("a", "1")
    game.suspend("a")
    game.decide("approve")
    game.tick()
    game.effect("a", "2", tool="other")
    game.effect("a", "3", tool="third")
    game.complete("a")
    again = fork(game, "a#1", "3")
    assert [*again.step("a").journal] == ["0"]
    assert [*again.step("a").inherited] == ["2", "3"]
    assert kinds(again.open_gate("a", "1")) == ["GateOpened"]
    assert kinds(again.intend("a", path="2", tool="other")) == ["OperationReused"]


@pytest.mark.parametrize("wish", [{"output": inline("approve")}, {"outputs": {NodeName("review"): inline("approve")}}])
def test_what_a_person_decides_is_not_set_either(wish: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="was decided by a person"):
        plan(approved(), "review#1" if "output" in wish else "send#1", **wish)


def asked_inside(*, decided: bool = True) -> Game:
    """`draft` has asked a person from its code; the run has completed, or was cancelled before the answer."""
    game = Game(graph("plan > draft", "draft > send"))
    game.complete("plan")
    game.open_gate("draft", "1")
    game.suspend("draft")
    if not decided:
        game.cancel()
        return game
    game.decide("approve")
    game.tick()
    game.complete("draft", "D")
    game.complete("send")
    return game


@pytest.mark.parametrize("decided", [True, False])
@pytest.mark.parametrize(
    ("step", "wish"), [("draft#1", {"output": inline("D")}), ("plan#1", {"outputs": {"draft": inline("D")}})]
)
def test_what_a_step_came_to_in_which_a_person_was_asked_is_not_set(step: str, wish: dict[str, Any], *, decided: bool) -> None:
    with pytest.raises(InvalidInput, match="was decided by a person"):
        plan(asked_inside(decided=decided), step, **wish)


def test_what_came_of_a_child_that_asked_a_person_is_neither_reused_nor_set() -> None:
    game = Game(graph("fly > sleep"))
    child = game.child("fly")
    game.suspend("fly")
    game.end_child(child)
    game.tick()
    game.complete("fly")
    game.complete("sleep")
    quiet = frozenset({child})
    found = plan(game, "sleep#1")
    assert (found.begins_at, "is asked again" in found.reason) == ("fly#1", True)
    assert [(each.kind, each.reason) for each in plan(game, "fly#1").repeated_operations] == [("child", "a person decides")]
    assert [each.kind for each in plan(game, "fly#1", quiet=quiet).reused_operations] == ["child"]
    assert plan(game, "sleep#1", quiet=quiet).begins_at == "sleep#1"
    for path in ("0", None):
        with pytest.raises(InvalidInput, match="was decided by a person"):
            plan(game, "fly#1", path, output=inline(1))
        plan(game, "fly#1", path, quiet=quiet, output=inline(1))


# --- Inside a step ----------------------------------------------------------------------------------------------------------


def flow_of_three(naming: int = NAMING) -> Game:
    game = Game(graph("flow"), naming=naming)
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("now"), "now", 5),)))
    game.effect("flow", "0")
    game.effect("flow", "1", tool="second")
    game.effect("flow", "2", tool="third")
    game.complete("flow")
    return game


def test_a_fork_inside_a_step_begins_with_the_journal_from_before_the_place() -> None:
    game = fork(flow_of_three(), "flow#1", "1")
    assert {path: op.status for path, op in game.step("flow").journal.items()} == {"now": "done", "0": "done"}
    assert [*game.step("flow").inherited] == ["1", "2"]
    assert kinds(game.intend("flow", path="1", tool="second")) == ["OperationReused"]
    with pytest.raises(Conflict):
        game.intend("flow", path="2", tool="else")
    assert [*fork(flow_of_three(), "flow#1").step("flow").journal] == []


def test_an_operation_is_said_to_have_come_to_something_else() -> None:
    game = fork(flow_of_three(naming=1), "flow#1", "1", output=inline("said"))
    assert game.op("flow", "1").outcome == inline("said")
    assert game.op("flow", "1").call is None


@pytest.mark.parametrize("naming", [1, 2])
def test_a_fork_takes_a_persons_output_for_its_operation_and_for_no_other(naming: int) -> None:
    origin = Game(graph("a"), limit=1000, naming=naming)
    origin.settle(origin.held("a", 100, path="0"), 40, "a draft")
    origin.effect("a", "1")
    origin.complete("a")
    game = fork(origin, "a#1", "0", output=inline("said"), reply=inline({"text": "said"}))
    asked = [] if naming == 1 else ["OperationReused"]
    assert kinds(game.hold("a", 100, path="0", args="else")) == asked
    assert game.op("a", "0").outcome == inline({"text": "said"}), "as a model would have said it"
    with pytest.raises(NonDeterministicStep):
        game.intend("a", path="0")
    game = fork(origin, "a#1", "1", output=inline("done"))
    assert (kinds(game.intend("a", path="1", args="else")), game.state.calls) == (asked, {}), "taken as done"
    with pytest.raises(Conflict, match="repeat_effects=True"):
        game.intend("a", path="2", args="else")
    found = plan(origin, "a#1", "1", output=inline("done"))
    assert ([(each.path, each.stands) for each in found.reused_operations], found.repeated_operations) == ([("0", True)], ())
    assert (found.repeated_steps, found.path) == (("a#1",), "1")


def test_a_plan_says_what_has_happened_and_what_is_done_again_and_why() -> None:
    game = Game(graph("draft > send"))
    game.complete("draft", "D")
    game.effect("send", "0")
    game.open_gate("send", "1")
    game.suspend("send")
    game.decide("approve")
    game.tick()
    game.did_not(game.intended("send", path="2", tool="other"))
    game.fail("send")
    found = plan(game, "send#1")
    assert (found.kept_steps, found.repeated_steps) == (("draft#1",), ("send#1",))
    assert [(each.name, each.policy, each.stands) for each in found.reused_operations] == [("send", "once", False)]
    assert [(each.kind, each.reason) for each in found.repeated_operations] == [
        ("gate", "a person decides"),
        ("tool", "it had failed"),
    ]


@pytest.mark.parametrize(("step", "path"), [("flow#2", None), ("other#1", None), ("flow#1", "7")])
def test_a_place_that_was_never_come_to_is_named_with_those_that_were(step: str, path: str | None) -> None:
    with pytest.raises(NotFound, match=r"flow#1|it has at now, 0, 1, 2"):
        plan(flow_of_three(), step, path)


# --- What is said otherwise -------------------------------------------------------------------------------------------------


def test_a_step_whose_output_is_given_is_not_done_and_what_follows_sees_it() -> None:
    game = fork(draft_and_send(), "send#1", output=inline("said"), outputs={NodeName("draft"): inline("better")})
    assert (game.active, game.step("send").output.value()) == (["file"], "said")
    assert game.step("draft").output.value() == "better"
    assert game.step("send").attempt == 0


def test_an_output_that_is_given_behind_a_question_waits_for_the_answer() -> None:
    game = fork(approved(), "send#1", output=inline("said"))
    game.decide("approve", game.human_gate("review"))
    game.tick()
    game.complete("prepare")
    assert (game.status, game.output) == ("completed", "said")


@pytest.mark.parametrize(("name", "why"), [("nobody", "no node"), ("send", "output=JSON")])
def test_what_cannot_be_said_is_refused_in_words(name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        plan(draft_and_send(), "send#1", outputs={NodeName(name): inline(1)})


# --- When -------------------------------------------------------------------------------------------------------------------


def test_only_a_run_at_rest_is_forked() -> None:
    game = Game(graph("a > b"))
    game.complete("a")
    with pytest.raises(Conflict, match="ended or is paused"):
        plan(game, "a#1")
    game.pause()
    assert plan(game, "b#1").kept_steps == ("a#1",)


def test_nothing_is_forked_while_an_effect_has_no_outcome() -> None:
    game = Game(graph("a"))
    call = game.intended("a")
    game.pause()
    with pytest.raises(Conflict, match=f"what became of the call {call}"):
        plan(game, "a#1")
    game.did(call)
    assert len(plan(game, "a#1").reused_operations) == 1


# --- Graphs -----------------------------------------------------------------------------------------------------------------


def again_and_again() -> Game:
    game = Game(graph("draft > check", node("check", "check"), loop("check", "draft"), "check > end"))
    for round_ in (1, 2):
        game.effect("draft", args=f"round {round_}")
        game.complete("draft", f"D{round_}")
        game.complete("check", decisions="retry")
    game.complete("draft", "D3")
    game.complete("check", decisions="pass")
    game.complete("end")
    return game


def test_a_visit_of_a_loop_is_forked_with_the_visit_before_it() -> None:
    game = fork(again_and_again(), "draft#2")
    assert (game.active, game.step("draft").id) == (["draft"], "draft#2")
    assert game.state.previous[NodeName("draft")].output.value() == "D1"
    assert kinds(game.intend("draft", args="round 2")) == ["OperationReused"]
    with pytest.raises(Conflict):
        game.intend("draft", path="1", args="round 1")
    game.complete("draft")
    game.complete("check", decisions="retry")
    assert game.step("draft").id == "draft#3"
    assert fork(again_and_again(), "check#3").step("draft").output.value() == "D3"


def test_what_was_skipped_or_failed_and_was_taken_up_is_kept_as_it_was() -> None:
    game = Game(graph(edge("a", "mend", on="error"), "a > never", "mend > end", node("end", join=Join("any")), "never > end"))
    game.fail("a")
    game.complete("mend", "M")
    game.complete("end")
    again = fork(game, "end#1")
    assert again.statuses() == {"a": "failed", "mend": "completed", "never": "skipped", "end": "active"}


def test_a_retry_after_a_join_timeout_still_reuses_the_effects_of_the_origin() -> None:
    origin = Game(graph(node("c", join=Join(timeout_s=1)), "a > c", "b > c"))
    origin.complete("a")
    origin.complete("b")
    origin.effect("c")
    origin.complete("c")
    game = fork(origin, "a#1")
    game.complete("a")
    game.tick(after_s=2)
    assert (game.status, game.step("c").attempt) == ("failed", 0)
    game.retry()
    game.complete("b")
    assert game.step("c").id == "c#1"
    assert kinds(game.intend("c")) == ["OperationReused"]


def test_branches_that_were_under_way_when_the_step_began_are_gone_through_again() -> None:
    game = Game(graph("a > join", "b > join"))
    game.effect("b")
    game.complete("a", "A")
    game.complete("b", "B")
    game.complete("join")
    again = fork(game, "join#1")
    assert again.statuses() == {"a": "completed", "b": "completed", "join": "active"}
    game = fork(game, "b#1")
    assert sorted(game.active) == ["a", "b"]


def test_a_guard_that_has_spoken_is_not_asked_again_and_a_signal_that_came_is_there() -> None:
    game = Game(graph("a > b", edge("b", "c", guard="ok")))
    game.signal("go", 1)
    game.complete("a")
    game.complete("b")
    game.judge()
    game.complete("c")
    again = fork(game, "c#1")
    assert (again.active, again.state.asked) == (["c"], {})
    assert [signal.name for signal in again.state.signals] == ["go"]


def test_a_fork_is_forked_with_what_it_has_from_its_own_origin() -> None:
    first = fork(draft_and_send(), "draft#1")
    first.cancel()
    again = fork(first, "draft#1")
    assert kinds(again.hold("draft", 100)) == ["OperationReused"]
    again.complete("draft")
    assert kinds(again.intend("send")) == ["OperationReused"]
    again_cancelled = fork(draft_and_send(), "file#1")
    again_cancelled.cancel()
    with pytest.raises(NotFound, match=f"run {RUN}'s"):
        plan(again_cancelled, "send#1")


def test_the_ledger_and_the_quote_say_what_is_done_again() -> None:
    origin = draft_and_send()
    found = plan(origin, "draft#1")
    assert [(each.kind, each.settled_nanousd, each.held_nanousd) for each in found.reused_operations] == [
        ("model", 40, 100),
        ("tool", 0, 0),
    ]
    failed = Game(graph("a"))
    failed.did_not(failed.intended("a"))
    failed.fail("a")
    assert [(each.name, each.path) for each in plan(failed, "a#1").repeated_operations] == [("send", "0")]


# --- Where tasks have rows of their own -----------------------------------------------------------------------------------


def returned(game: Game, path: str) -> None:
    value = cmd.Value(Path(path), FUNCTION, None, inline(path), f"step {path}", "args")
    game.do(cmd.RecordValues(*game.at("flow"), (value,)))


def tasks() -> Game:
    """The second task asks first and has its outcome last; then the run fails."""
    game = Game(graph(node("flow")), naming=2)
    game.await_signal("flow", "go", path="~1.0")
    for path in ("~0.0", "~0.1"):
        returned(game, path)
    game.signal("go")
    returned(game, "0")
    game.fail("flow")
    return game


def test_a_fork_inside_a_flow_of_tasks_has_what_came_before_the_place_in_its_order() -> None:
    game = fork(tasks(), "flow#1", "0")
    assert {str(path): op.settled for path, op in game.step("flow").journal.items()} == {"~0.0": 1, "~0.1": 2, "~1.0": 3}
    game = fork(tasks(), "flow#1", "~1.0")
    assert [*game.step("flow").journal] == ["~0.0", "~0.1"]
    assert set(game.step("flow").inherited) == {"~1.0", "0"}
    assert game.state.naming == 2


def test_what_an_operation_is_said_to_come_to_has_its_turn_when_it_is_asked_for() -> None:
    game = fork(tasks(), "flow#1", "~1.0", output=inline("said"))
    assert [*game.step("flow").journal] == ["~0.0", "~0.1"]
    assert kinds(game.await_signal("flow", "go", path="~1.0")) == ["OperationReused"]
    op = game.op("flow", "~1.0")
    assert (op.settled, op.outcome and op.outcome.value()) == (3, "said")
    assert kinds(game.await_signal("flow", "go", path="~1.0")) == []


def test_what_a_flow_cleaned_up_is_no_part_of_a_fork_that_was_not_cancelled() -> None:
    origin = Game(graph(node("flow")), naming=2)
    returned(origin, "0")
    origin.cancel()
    returned(origin, "1")
    returned(origin, "2")
    origin.complete("flow")
    game = fork(origin, "flow#1", "2")
    assert ([*game.step("flow").journal], game.step("flow").cancelled_at) == (["0"], 0)
