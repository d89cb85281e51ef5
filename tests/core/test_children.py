"""Children: a request is recorded once, an end counts once, nobody's child goes on, and a tree has one limit."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.rules import children
from holdfast.core.values.actor import NOBODY
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.policies import CANCELLED, CHILD_FAILED
from holdfast.core.values.scopes import counts_tokens, family_of, in_tokens, in_words, over_at_ms, run_scopes, tree_of
from holdfast.core.views.projection import ChildChange, ChildOrder, ChildRow
from holdfast.errors import Conflict, InvalidInput, KeyReused, NonDeterministicStep, NotFound, RunEnded
from tests.core.game import NULL, RUN, START_MS, Game, Path, cmd, ev, graph, inline, kinds

TREE = tree_of(RUN)
TOKENS = in_tokens(TREE)


def a_child(game: Game | None = None, **more: object) -> tuple[Game, RunId]:
    """A run that waits for a child."""
    game = game or Game(graph("a"))
    name = game.child("a", **more)  # type: ignore[arg-type]
    game.suspend("a")
    return game, name


# --- Asking, waiting, hearing -------------------------------------------------------------------------------------------


def test_a_step_that_asks_for_a_child_waits_and_goes_on_with_its_outcome() -> None:
    game, name = a_child()
    assert game.status == "waiting"
    assert [(wait.kind, wait.reason, wait.about) for wait in game.waits] == [("child", "not_ended", name)]
    assert game.due_ms is None
    assert kinds(game.end_child(name, output=7)) == ["ChildEnded", "StepStarted"]
    assert game.op("a").outcome == inline(7)
    assert game.state.children == {}
    assert game.end_child(name) == [], "an end counts once"
    assert game.ask_for("a") == [], "what was asked for is not asked for again"


def test_the_rows_link_a_child_to_its_parent_and_say_how_far_it_is() -> None:
    game = Game(graph("a"))
    asked = game.ask_for("a")
    (event,) = asked
    assert isinstance(event, ev.ChildRequested)
    assert game.rows(asked).children == (ChildRow(event.child, RUN, RUN, START_MS),)
    told = game.end_child(event.child)
    assert game.rows(told).children == (ChildChange(event.child, "told", START_MS),)
    other = Game(graph("a"), start=False)
    parent = ev.Parent(RunId("parent"), StepId("a#1"), Path("0"), RunId("root"), 1)
    start = cmd.StartRun(RUN, "acme", NULL, "", 5, by=NOBODY, parent=parent, shared=("tree/root",))
    begun = other.do(start)
    assert other.rows(begun).children == (ChildChange(RUN, "running", START_MS),)
    ended = other.complete("a")
    assert other.rows(ended).children == (ChildChange(RUN, "ended", START_MS),)


@pytest.mark.parametrize(("how", "error_class"), [("failed", CHILD_FAILED), ("cancelled", CANCELLED)])
def test_a_child_that_did_not_complete_is_a_failed_operation(how: str, error_class: str) -> None:
    game, name = a_child()
    game.end_child(name, how)
    problem = game.op("a").error
    assert problem is not None
    assert problem.error_class == error_class
    assert name in problem.message
    assert "it went wrong" in problem.message


def test_a_retry_resumes_a_failed_child_and_replaces_a_cancelled_one() -> None:
    game, name = a_child()
    game.end_child(name, "failed")
    game.fail("a", game.op("a").error, "0")
    assert game.state.ended == "failed"
    game.retry()
    (again,) = game.ask_for("a")
    assert isinstance(again, ev.ChildRequested)
    assert (again.child, again.again) == (name, True)
    assert game.rows([again]).children == (ChildRow(name, RUN, RUN, START_MS),)
    game.end_child(name, "cancelled")
    game.fail("a", game.op("a").error, "0")
    game.retry()
    (another,) = game.ask_for("a")
    assert isinstance(another, ev.ChildRequested)
    assert (another.child != name, another.again) == (True, False)


def test_another_request_at_the_same_place_is_a_change_of_the_code() -> None:
    game = Game(graph("a"))
    game.child("a")
    with pytest.raises(NonDeterministicStep):
        game.ask_for("a", args="other")


@pytest.mark.parametrize("is_first", [True, False], ids=["ended before", "ends later"])
def test_a_child_is_found_again_by_code_that_asks_for_it_elsewhere(is_first: bool) -> None:
    game = Game(graph("a"))
    name = game.child("a")
    game.stop("a")
    game.decide("approve")
    if is_first:
        game.end_child(name, output=5)
    game.tick()
    (reused,) = game.ask_for("a", "1")
    assert isinstance(reused, ev.OperationReused)
    if not is_first:
        assert game.op("a", "1").status == "open"
        game.end_child(name, output=5)
    assert (game.op("a", "1").status, game.op("a", "1").outcome) == ("done", inline(5))
    assert game.state.children_asked == 1


def test_a_child_for_which_the_new_code_does_not_ask_is_called_off() -> None:
    game = Game(graph("a"))
    game.child("a")
    game.stop("a")
    game.decide("approve")
    game.tick()
    assert "ChildAbandoned" in kinds(game.complete("a"))


def test_a_child_with_a_key_is_asked_for_once() -> None:
    game = Game(graph("a > b"))
    name = game.child("a", key="k")
    assert kinds(game.ask_for("a", "1", key="k")) == ["ChildAwaited"]
    with pytest.raises(KeyReused, match="another workflow or input"):
        game.ask_for("a", "2", key="k", args="other")
    game.end_child(name, output=3)
    assert [game.op("a", path).outcome for path in "01"] == [inline(3)] * 2
    game.complete("a")
    assert kinds(game.ask_for("b", key="k")) == ["ChildAwaited"]
    assert game.op("b").outcome == inline(3)
    assert game.state.children_asked == 1


def test_a_child_in_the_background_lets_its_step_go_on_and_holds_the_end() -> None:
    game = Game(graph("a"))
    name = game.child("a", background=True)
    assert game.op("a").outcome == inline(name)
    game.complete("a", "done")
    assert game.status == "waiting"
    assert not game.state.ended
    assert kinds(game.end_child(name, "failed")) == ["ChildEnded", "RunCompleted"]
    assert game.output == "done"


def test_the_end_of_a_child_in_the_background_may_be_waited_for_before_and_after() -> None:
    game = Game(graph("a"))
    name = game.child("a", background=True)
    game.await_child("a", name, "1")
    game.end_child(name, output=4)
    game.await_child("a", name, "2")
    assert [game.op("a", path).outcome for path in "12"] == [inline(4)] * 2
    with pytest.raises(NotFound, match="no child"):
        game.await_child("a", RunId("nobody"), "3")


def test_a_tree_has_a_depth_and_a_run_a_number_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    game = Game(graph("a"))
    monkeypatch.setattr(children, "MAX_CHILDREN", 1)
    game.child("a")
    with pytest.raises(InvalidInput, match="as many as a run may have"):
        game.ask_for("a", "1")
    deep = Game(graph("a"), start=False)
    parent = ev.Parent(RunId("parent"), StepId("a#1"), Path("0"), RunId("root"), children.MAX_DEPTH)
    deep.do(cmd.StartRun(RUN, "acme", NULL, "", parent=parent))
    with pytest.raises(InvalidInput, match="as deep as a tree may go"):
        deep.ask_for("a")


def test_a_child_takes_no_place_among_the_active_runs() -> None:
    """Its root has one: a parent that waited for a child which waited for a place would wait for ever."""
    game = Game(graph("a"), start=False)
    parent = ev.Parent(RunId("parent"), StepId("a#1"), Path("0"), RunId("root"), 1)
    full = {run_scopes("acme")[0]: cmd.Shortage(1, 0, 1)}
    events = game.do(cmd.StartRun(RUN, "acme", NULL, "", parent=parent), shortages=full)
    assert kinds(events) == ["RunStarted", "StepStarted"]
    assert game.rows(events).postings == ()


# --- Down ---------------------------------------------------------------------------------------------------------------


def test_pausing_and_going_on_are_orders_to_every_child() -> None:
    game, _ = a_child()
    paused = game.pause()
    assert game.rows(paused).children == (ChildOrder(RUN, None, game.state.seq, START_MS),)
    resumed = game.resume()
    assert game.rows(resumed).children == (ChildOrder(RUN, None, game.state.seq, START_MS),)


def test_a_run_that_is_cancelled_calls_its_children_off_and_ends_after_them() -> None:
    game, name = a_child()
    events = game.cancel()
    assert "ChildAbandoned" in kinds(events)
    assert not game.state.ended
    (order,) = game.rows(events).children
    assert isinstance(order, ChildOrder)
    assert order.child == name
    assert kinds(game.end_child(name, "cancelled")) == ["ChildEnded", "RunCancelled"]


def test_a_child_whose_step_went_on_without_it_is_called_off() -> None:
    game = Game(graph("a > b"))
    name = game.child("a")
    assert "ChildAbandoned" in kinds(game.complete("a"))
    assert game.state.children[name].abandoned


# --- Money --------------------------------------------------------------------------------------------------------------


def test_with_the_first_child_what_was_spent_counts_in_the_tree_too() -> None:
    game = Game(graph("a > end", "b > end"), limit=1000)
    game.settle(game.held("a", 60), 45)
    game.held("a", 100, path="1")
    game.doubt_money(game.held("a", 30, path="2"))
    events = game.ask_for("b")
    assert kinds(events) == ["TreeOpened", "ChildRequested"]
    (posting,) = game.rows(events).postings
    assert (posting.scope, posting.family, posting.limit) == (TREE, TREE, 1000)
    assert (posting.settled, posting.held, posting.in_doubt, posting.bounded) == (45, 100, 30, False)
    assert game.state.shared == (TREE,)
    assert kinds(game.ask_for("b", "1")) == ["ChildRequested"]
    held = game.hold("b", 7, path="2")
    assert {each.scope: each.held for each in game.rows(held).postings}[TREE] == 7
    raised = game.raise_limit("cost", 2000)
    assert [(each.scope, each.limit, each.total) for each in game.rows(raised).postings] == [(TREE, 2000, 0)]


def test_money_of_the_very_append_that_opens_the_tree_counts_once() -> None:
    game = Game(graph("a > end", "b > end"), limit=1000)
    before = game.hold("a", 60)
    events = [*before, *game.ask_for("b"), *game.hold("a", 5, path="1")]
    postings = {each.scope: each for each in game.rows(events).postings}
    assert (postings[TREE].held, postings[TREE].bounded) == (65, True)
    assert {each.held for scope, each in postings.items() if scope != TREE and not counts_tokens(scope)} == {65}


def test_the_tokens_of_a_tree_are_limited_as_its_money_is() -> None:
    game = Game(graph("a > end", "b > end", limits={"max_tokens": 1000}))
    game.settle(game.held("a", 60, 100), 45, tokens=(70, 5))
    game.held("a", 60, 200, path="1")
    game.doubt_money(game.held("a", 60, 300, path="2"))
    events = game.ask_for("b")
    (posting,) = game.rows(events).postings
    assert (posting.scope, posting.family, posting.limit) == (TOKENS, TOKENS, 1000)
    assert (posting.settled, posting.held, posting.in_doubt, posting.bounded) == (75, 200, 300, False)
    assert game.state.shared == (TOKENS,), "it has no limit on money"
    held = game.hold("b", 7, 70, path="2")
    assert {each.scope: each.held for each in game.rows(held).postings if each.scope.endswith(RUN)} == {TOKENS: 70}
    assert [each.limit for each in game.rows(game.raise_limit("tokens", 2000)).postings] == [2000]
    (wish,) = [event for event in events if isinstance(event, ev.ChildRequested)]
    assert (wish.max_tokens, wish.limit_nanousd) == (None, None), "the child's own limits are others"


def test_a_tree_that_was_opened_for_money_alone_counts_tokens_from_the_next_child_on() -> None:
    """An early version knew no other."""
    game = Game(graph("a > end", "b > end", limits={"cost_nanousd": 1000, "max_tokens": 1000}))
    game.state.shared = (TREE,)
    game.history[0] = ev.encode(msgspec.structs.replace(ev.decode(game.history[0]), shared=(TREE,)))
    game.hold("a", 60, 100)
    (posting,) = game.rows(game.ask_for("b")).postings
    assert (posting.scope, posting.held, posting.limit, game.state.shared) == (TOKENS, 100, 1000, (TREE, TOKENS))


def test_the_limits_of_a_tree_may_be_raised_when_its_root_has_ended() -> None:
    game = Game(graph("a", limits={"max_tokens": 1000, "max_steps": 9}))
    game.end_child(game.child("a"))
    game.complete("a")
    assert [(each.scope, each.limit) for each in game.rows(game.raise_limit("tokens", 2000)).postings] == [(TOKENS, 2000)]
    with pytest.raises(RunEnded):
        game.raise_limit("steps", 10)


def test_a_call_for_which_the_tree_has_no_room_waits_until_its_root_is_extended() -> None:
    game = Game(graph("a"), start=False)
    parent = ev.Parent(RunId("0190-root"), StepId("a#1"), Path("0"), RunId("0190-root"), 1)
    tree = tree_of(parent.root)
    game.do(cmd.StartRun(RUN, "acme", NULL, "", parent=parent, shared=(tree,)))
    (exceeded,) = game.hold("a", 60, shortages={tree: cmd.Shortage(100, 10, 20)})
    assert isinstance(exceeded, ev.ScopeExceeded)
    assert (exceeded.scope, exceeded.due_at_ms, exceeded.blocked) == (tree, None, True)
    game.suspend("a")
    assert (game.status, [wait.reason for wait in game.waits]) == ("budget_blocked", ["tree_budget"])
    assert kinds(game.do(cmd.Tick(headroom=frozenset([tree])))) == ["OperationReopened", "StepStarted"]


def test_a_run_without_a_limit_has_no_tree_and_one_without_children_no_scope() -> None:
    game, _ = a_child()
    assert game.state.shared == ()
    assert not game.events(ev.TreeOpened)
    plain = Game(graph("a"), limit=10)
    assert "tree" not in "".join(each.scope for each in plain.rows(plain.hold("a", 5)).postings)


def test_a_tree_has_no_day_and_can_be_described_to_a_person() -> None:
    assert (family_of(TREE), over_at_ms(TREE), in_words(TREE)) == (TREE, None, f"run {RUN} with all its children")


def test_what_a_run_has_of_children_is_left_out_where_it_has_none() -> None:
    encoded = msgspec.json.encode(Game(graph("a")).state)
    assert not any(word in encoded for word in (b'"children', b'"shared', b'"parent', b'"named_children'))


# --- Undoing ------------------------------------------------------------------------------------------------------------


def undoes_itself() -> tuple[Game, RunId]:
    """A run that fails after a child has completed that can undo what it did."""
    game, name = a_child(Game(graph("a > b")))
    game.end_child(name, undoable=True)
    game.complete("a")
    game.fail("b")
    return game, name


def test_a_run_that_undoes_itself_has_its_children_undo_what_they_did() -> None:
    game, name = undoes_itself()
    assert game.active == ["!compensate"]
    asked = game.undo_child(name)
    assert kinds(asked) == ["ChildUndone"]
    assert game.rows(asked).children == (ChildRow(name, RUN, RUN, game.now_ms),)
    assert game.end_child(name) == [], "that it had completed was heard of before"
    game.suspend("!compensate")
    game.end_child(name, "cancelled")
    assert game.op("!compensate").status == "done"
    game.complete("!compensate")
    assert game.state.ended == "failed"


def test_only_a_run_that_is_undone_has_its_children_undone() -> None:
    game, name = a_child()
    game.end_child(name, undoable=True)
    with pytest.raises(Conflict, match="is not undone"):
        game.do(cmd.UndoChild(*game.at("a"), Path("1"), name, "other", "h"))
    game.complete("a")
    assert game.state.ended == "completed"


def test_a_child_that_had_completed_undoes_what_it_did_and_is_then_cancelled() -> None:
    game = Game(graph("a"), start=False)
    parent = ev.Parent(RunId("parent"), StepId("a#1"), Path("0"), RunId("root"), 1)
    game.do(cmd.StartRun(RUN, "acme", NULL, "", 5, by=NOBODY, parent=parent, shared=("tree/root",)))
    game.did(game.intended("a", "idempotent", compensation="undo"))
    game.complete("a")
    again = game.do(cmd.UndoRun("undone"))
    assert kinds(again) == ["RunReopened", "RunCancelling", "StepStarted"]
    assert game.do(cmd.UndoRun("undone")) == []
    (done,) = game.state.compensable
    game.did(game.intended("!compensate", "idempotent", compensates=done.call))
    game.complete("!compensate")
    assert (game.state.ended, game.state.reason) == ("cancelled", "undone")
    with pytest.raises(RunEnded):
        game.do(cmd.UndoRun("undone"))
