"""Two fences under random histories: whoever speaks for an attempt that no longer counts changes nothing, and fifty
branches that race for a limit never pass it, whoever dies and whatever is told twice.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.facts.events import ModelCallHeld, ModelCallInDoubt, ModelCallReconciled, ModelCallSettled
from holdfast.core.facts.graph import Graph
from holdfast.core.values.ids import CallId, Path, SessionId, StepId
from holdfast.core.values.payload import NULL, inline
from holdfast.errors import AlreadyClosed, NotFound, RunEnded, StaleAttempt
from tests.core.game import TRANSIENT, cmd, error, graph, node, snapshot
from tests.core.test_properties import GRAPHS, SEEDS, Chaos, Record, quick

# --- Stale attempts ---------------------------------------------------------------------------------------------------


def everything_an_attempt_says(step: StepId, attempt: int) -> list[cmd.AttemptCommand]:
    at, path = (step, attempt), Path("7")
    return [
        cmd.CompleteStep(*at, inline("late"), None),
        cmd.CompleteStep(*at, inline("late"), ("pass", "x", "n1")),
        cmd.FailAttempt(*at, TRANSIENT, path),
        cmd.FailAttempt(*at, error(), None),
        cmd.SuspendStep(*at),
        cmd.SuspendStep(*at, yields=True),
        cmd.RecordValues(*at, (cmd.Value(path, "result", None, inline("late")),)),
        cmd.AwaitPools(*at, path, "m", ("POOL",)),
        cmd.LoseAttempt(*at),
        cmd.HoldModelCall(*at, path, "m", "args", (cmd.CallCandidate("m", 0, 0),)),
        cmd.IntendEffect(*at, path, "send", "once", "args", NULL),
        cmd.DenyToolCall(*at, path, "send", "args", error()),
        cmd.StartTimer(*at, path, "args", 1000),
        cmd.AwaitSignal(*at, path, "go", "args", None),
        cmd.ReadMessages(*at, path),
        cmd.OpenGate(*at, path, "question", "args", NULL, "h", ("answer",)),
    ]


@quick(60)
@given(GRAPHS, SEEDS, st.integers(5, 60))
def test_deciding_for_a_stale_attempt_yields_nothing(graph: Graph, seed: int, moves: int) -> None:
    """Whatever was ever started and is not what runs now, attempts that never were among them, is refused whole."""
    chaos = Chaos(graph, random.Random(seed))
    chaos.play(moves)
    game = chaos.game
    running = {(step.id, step.attempt) for step in map(game.step, game.active)}
    known = {(step, attempt + more) for step, attempt in chaos.steps for more in (0, 1)}
    before = len(game.history)
    for step, attempt in [*sorted(known - running), (StepId("n0#99"), 1)]:
        for command in everything_an_attempt_says(step, attempt):
            with pytest.raises(RunEnded if game.state.ended else StaleAttempt):
                game.do(command, session=SessionId("s1"), slots=5)
    assert len(game.history) == before


# --- Fifty for seven --------------------------------------------------------------------------------------------------

BRANCHES, ROOM, HOLD = 50, 7, 100
LIMIT = ROOM * HOLD


class Race:
    """Fifty branches of one model call each, and money for seven at their worst. Who is next, and what goes wrong, is
    chance: refusals, doubts, deaths, outcomes that are told twice or after the death of who made the call."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        names = [f"b{n}" for n in range(BRANCHES)]
        parts = [f"begin > {name} > end" for name in names]
        self.game = Record(graph(*parts, node("end", join="all_required")), limit=LIMIT)
        self.game.complete("begin")
        self.calls: list[CallId] = []
        self.told: Counter[CallId] = Counter()

    def crowd(self) -> None:
        """Everybody asks before anybody is answered, in any order: seven get their money, the others wait."""
        for name in self.pick.sample(self.game.active, BRANCHES):
            self.work(name)
        assert len(self.calls) == ROOM, "seven fit, and an eighth does not"

    def play(self) -> None:
        for _ in range(5_000):
            if self.game.state.ended:
                return
            self.move()
            budget = self.game.state.budget
            spent = budget.settled_nanousd + budget.held_nanousd + budget.in_doubt_nanousd
            assert budget.limit_nanousd is not None
            assert spent <= budget.limit_nanousd, "invariant 11"
        raise AssertionError(f"no end in sight: {self.game.status} {self.game.waits[:5]}")

    def move(self) -> None:
        game, pick = self.game, self.pick
        chance = pick.random()
        if chance < 0.02:
            self.crash()
        elif chance < 0.35 and self.calls:
            self.tell(pick.choice(self.calls))
        elif game.active:
            self.work(pick.choice(game.active))
        elif game.state.gates:
            needed = game.state.budget.committed_nanousd + HOLD
            game.raise_limit("cost", max(needed, game.state.budget.limit_nanousd or 0) + 1)
        elif not game.tick(1) and self.calls:
            self.tell(pick.choice(self.calls))

    def work(self, name: str) -> None:
        game, step = self.game, self.game.step(name)
        op = step.journal.get(Path("0"))
        if name in ("begin", "end") or (op is not None and op.status == "done"):
            game.complete(name, 1)
        elif op is None or op.status == "reopened":
            for event in game.hold(name, HOLD):
                if isinstance(event, ModelCallHeld):
                    self.calls.append(event.call)
        elif op.status == "failed":
            game.fail(name, TRANSIENT, "0")
        elif op.status == "deferred":
            game.suspend(name)
        elif op.call is not None:
            self.tell(op.call)

    def crash(self) -> None:
        """What the process had in flight is in doubt: that frees nothing."""
        game, before = self.game, self.game.state.budget.committed_nanousd
        dead, game.session = game.session, SessionId(f"w{len(game.history)}")
        game.lose(dead, by=game.session)
        lost = [event for event in game.events(ModelCallHeld) if event.call in game.state.calls]
        assert game.state.budget.committed_nanousd >= before, "invariant 12"
        assert all(game.state.calls[event.call].doubted for event in lost if event.call in self.calls)

    def tell(self, call: CallId) -> None:
        game = self.game
        known = call in game.state.calls
        before = snapshot(game.state)
        how = self.pick.choice(["settle", "settle", "settle", "refuse", "doubt", "reconcile"])
        try:
            if how == "settle":
                game.settle(call, self.pick.choice([1, HOLD // 10]))
            elif how == "refuse":
                game.refuse(call, TRANSIENT)
            elif how == "doubt":
                game.doubt_money(call)
                return
            else:
                game.reconcile(call, self.pick.randint(0, HOLD))
        except (AlreadyClosed, NotFound):
            assert game.state.budget == before.budget
            assert how == "reconcile" or not known
            return
        assert known, "invariant 13: what is settled is settled"
        self.told[call] += 1
        assert self.told[call] == 1


@quick(8)
@given(SEEDS)
@pytest.mark.long
def test_fifty_branches_never_pass_a_limit_that_seven_fit_into(seed: int) -> None:
    race = Race(seed)
    race.crowd()
    race.play()
    race.game.check_history()
    assert race.game.state.ended in ("completed", "failed")
    closed = Counter(event.call for event in race.game.events(ModelCallSettled, ModelCallReconciled))
    assert not closed or max(closed.values()) == 1
    doubted = Counter(event.call for event in race.game.events(ModelCallInDoubt))
    assert not doubted or max(doubted.values()) == 1
