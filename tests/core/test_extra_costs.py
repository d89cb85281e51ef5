"""What a better course would have avoided: counted from a history, once, and nothing twice."""

from __future__ import annotations

from typing import Any

from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.facts.extra_costs import CACHE_LIVES_MS, ExtraTally
from holdfast.core.values.ids import CallId, Path, RunId, Seq, StepId
from holdfast.core.values.payload import NULL, Payload, inline
from tests.core.game import OTHER, TRANSIENT, Game, graph

STEP = StepId("a#1")
Found = list[tuple[str, str, int, int, int]]


def counted(game: Game, after: int = 0) -> Found:
    pairs = zip(game.events(), game.times, strict=True)
    return found([Recorded(Seq(n), at_ms, event) for n, (event, at_ms) in enumerate(pairs, 1)], after)


def found(events: list[Recorded], after: int = 0) -> Found:
    tally = ExtraTally(Seq(after))
    tally.take(events)
    return [(each.cause, each.model, each.calls, each.tokens, each.cost_nanousd) for each in tally.costs()]


def test_a_call_that_was_made_again_is_a_retry_and_the_last_one_is_not() -> None:
    game = Game(graph("a"))
    late = game.held("a", 60)
    game.doubt_money(late)
    game.fail("a", TRANSIENT, path="0")
    game.tick(60)
    again = game.held("a", 60)
    game.settle(again, 44, tokens=(5, 6))
    assert counted(game) == []
    game.settle(late, 45, tokens=(5, 7))
    assert counted(game) == [("retry", "m", 1, 12, 45)]


def test_a_tool_that_cost_something_in_vain_and_was_called_again_is_a_retry() -> None:
    game = Game(graph("a"))
    game.doubt(game.intended("a", "read", nanousd=20))
    assert counted(game) == []
    game.fail("a", TRANSIENT, path="0")
    game.tick(60)
    game.did(game.intended("a", "read", nanousd=20))
    assert counted(game) == [("retry", "tool send", 1, 0, 20)]


def test_a_call_whose_reply_was_lost_is_a_doubt_and_no_retry() -> None:
    game = Game(graph("a"))
    call = game.held("a", 60)
    game.doubt_money(call)
    assert counted(game) == []
    seq = game.state.seq
    game.reconcile(call, 20)
    assert counted(game) == counted(game, seq) == [("doubt", "m", 1, 0, 20)]
    assert counted(game, seq + 1) == []


def test_a_tool_that_was_given_up_and_called_again_is_a_doubt() -> None:
    game = Game(graph("a"))
    game.intended("a", "idempotent", nanousd=60)
    game.lose()
    game.session = OTHER
    again = game.intended("a", "idempotent", nanousd=60)
    game.did(again)
    assert counted(game) == [("doubt", "tool send", 1, 0, 60)]


# --- What caches did not have: from events by themselves -----------------------------------------------------------------


class Story:
    """A run of one step, whose calls are one after another, a minute each."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.events: list[Recorded] = []
        self.note(ev.RunStarted(RunId("r"), "acme", "flow", 1, "h", NULL, None, 9))

    def note(self, event: Any) -> None:
        self.events.append(Recorded(Seq(len(self.events) + 1), self.now_ms, event))

    def call(self, path: str, tokens: int, read: int = 0, cacheable: int = 0, model: str = "m", cost: int = 100) -> None:
        call = CallId(f"r:a#1:{path}:1")
        self.note(ev.ModelCallHeld(call, STEP, 1, Path(path), model, "h", 900))
        self.note(ev.ModelCallSettled(call, cost, tokens, 1, NULL, cache_read_tokens=read, cacheable_nanousd=cacheable))
        self.now_ms += 60_000

    def look_up(self, path: str, kept: Payload) -> None:
        self.note(ev.ValueRecorded(STEP, Path(path), "shared_use", None, kept, "!cache/x"))


def test_input_of_the_call_before_that_was_not_read_from_the_cache_is_missed() -> None:
    story = Story()
    story.call("0", 1_000, cacheable=900)
    story.call("1", 1_500, read=600, cacheable=810)
    assert found(story.events) == [("prompt_cache_miss", "m", 1, 400, 810 * 400 // 900)]
    story.call("2", 2_000, read=1_500, cacheable=450)
    assert len(found(story.events)) == 1, "all that could be read was"


def test_another_model_row_time_or_a_shorter_input_is_no_conversation_to_go_on_with() -> None:
    story = Story()
    story.call("0", 1_000, cacheable=900)
    story.call("1", 1_500, cacheable=900, model="n")
    story.call("~0.0", 2_000, cacheable=900, model="n")
    story.now_ms += CACHE_LIVES_MS
    story.call("~0.1", 2_500, cacheable=900, model="n")
    story.call("~0.2", 2_000, cacheable=900, model="n")
    story.call("~0.3", 3_000)
    assert found(story.events) == [], "the last model has no rate for what it reads"


def test_a_question_that_a_semantic_cache_cannot_answer_costs_a_call() -> None:
    story = Story()
    story.look_up("0", inline([]))
    story.call("1", 10, cost=70)
    story.call("2", 10, cost=80)
    story.look_up("3", inline([{"key": "k", "saved_nanousd": 70}]))
    story.look_up("4", Payload(blob="0" * 64))
    assert found(story.events) == [("semantic_cache_hit", "", 1, 0, 70), ("semantic_cache_miss", "m", 1, 11, 70)]
