"""Tenant-wide effect keys: what several runs mean is done by one of them, and the others get its outcome."""

from __future__ import annotations

import pytest

from holdfast.core.values.ids import CallId, EffectKey, tenant_effect_key
from holdfast.core.values.payload import inline
from holdfast.core.views.projection import KeyClaim, KeyOutcome
from holdfast.errors import KeyReused
from tests.core.game import COMPENSATE, RUN, Game, cmd, error, ev, graph, kinds

KEY = EffectKey("invite")
OTHER = CallId("other-run:send#1:0:1")


def elsewhere(response: str | None = None, args: str = "args") -> dict[EffectKey, cmd.KnownEffect]:
    return {KEY: cmd.KnownEffect(OTHER, args, None if response is None else inline(response))}


def changes(game: Game, events: list[ev.Event]) -> list[KeyClaim | KeyOutcome]:
    return list(game.rows(events).effect_keys)


def means(game: Game, name: str = "a", path: str = "0", **more: object) -> list[ev.Event]:
    return game.intend(name, path=path, key=KEY, tenant_wide=True, **more)  # type: ignore[arg-type]


def test_a_key_is_the_same_in_every_run_of_a_tenant_and_no_other() -> None:
    key = tenant_effect_key("acme", "invite:x", "send")
    assert key == tenant_effect_key("acme", "invite:x", "send")
    others = [("umbrella", "invite:x", "send"), ("acme", "invite:y", "send"), ("acme", "invite:x", "call")]
    assert key not in [tenant_effect_key(*other) for other in others]


def test_the_intent_takes_the_key_and_the_outcome_closes_it() -> None:
    game = Game(graph("a"))
    events = means(game)
    (intended,) = events
    assert changes(game, events) == [KeyClaim(KEY, "acme", RUN, intended.call, "args")]  # type: ignore[attr-defined]
    assert changes(game, game.did(intended.call, "sent")) == [  # type: ignore[attr-defined]
        KeyOutcome(KEY, intended.call, inline("sent"))  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("how", ["did_not", "never_left"])
def test_what_did_not_happen_frees_the_key(how: str) -> None:
    game = Game(graph("a"))
    (intended,) = means(game)
    call = intended.call  # type: ignore[attr-defined]
    assert changes(game, getattr(game, how)(call)) == [KeyOutcome(KEY, call)]


def test_what_is_in_doubt_keeps_the_key_until_a_person_knows() -> None:
    game = Game(graph("a"))
    (intended,) = means(game)
    assert changes(game, game.doubt(intended.call)) == []  # type: ignore[attr-defined]
    game.suspend("a")
    (outcome,) = changes(game, game.decide("reject"))
    assert outcome == KeyOutcome(KEY, intended.call)  # type: ignore[attr-defined]


def test_an_effect_of_the_run_alone_takes_no_key() -> None:
    game = Game(graph("a"))
    for path, key in (("0", None), ("1", "named")):
        call = game.intended("a", path=path, key=key)
        assert changes(game, game.did(call)) == []


def test_an_outcome_of_another_run_is_taken_over_and_nothing_is_sent() -> None:
    game = Game(graph("a"))
    events = means(game, taken=elsewhere("sent by another"))
    assert kinds(events) == ["EffectReused"]
    assert game.op("a").outcome == inline("sent by another")
    assert game.state.calls == {}
    assert changes(game, events) == []
    assert kinds(means(game, path="1")) == ["EffectReused"], "known in this run from then on"


def test_while_another_run_has_it_in_flight_this_one_waits_and_sends_nothing() -> None:
    game = Game(graph("a"))
    events = means(game, taken=elsewhere())
    assert kinds(events) == ["EffectDeferred"]
    assert [(waiter.scope, waiter.wanted) for waiter in game.rows(events).waiters] == [("effect/invite", 1)]
    game.suspend("a")
    assert game.status == "waiting"
    assert [(wait.kind, wait.reason, wait.about) for wait in game.waits] == [("effect", "same_effect_in_another_run", OTHER)]
    assert game.tick(3600) == []
    assert kinds(game.signal("go")) == ["SignalReceived"]
    events = game.do(cmd.Tick(headroom=frozenset(["effect/invite"])))
    assert kinds(events) == ["OperationReopened", "StepStarted"]
    assert game.rows(events).waiters == ()
    assert kinds(means(game, taken=elsewhere("sent"))) == ["EffectReused"]


def test_when_the_other_run_has_failed_this_one_may_send() -> None:
    game = Game(graph("a"))
    means(game, taken=elsewhere())
    game.suspend("a")
    game.do(cmd.Tick(headroom=frozenset(["effect/invite"])))
    assert kinds(means(game)) == ["EffectIntended"]


@pytest.mark.parametrize("response", [None, "sent"])
def test_the_same_key_with_another_request_is_refused_and_names_the_first_run(response: str | None) -> None:
    game = Game(graph("a"))
    with pytest.raises(KeyReused, match="other-run") as refused:
        means(game, taken=elsewhere(response, args="other args"))
    assert (refused.value.call, refused.value.run) == (OTHER, "other-run")  # type: ignore[attr-defined]


def test_an_effect_that_was_undone_frees_its_key() -> None:
    game = Game(graph("a > b"))
    (intended,) = means(game, compensation="undo")
    call = intended.call  # type: ignore[attr-defined]
    game.did(call)
    game.complete("a")
    game.fail("b", error())
    undoing = game.intended(COMPENSATE, "idempotent", tool="undo", compensates=call)
    assert changes(game, game.did(undoing)) == [KeyOutcome(KEY, call)]


def test_a_repeat_of_the_same_run_keeps_the_key() -> None:
    game = Game(graph("a"))
    (first,) = means(game, policy="idempotent")
    game.lose()
    events = means(game, policy="idempotent")
    (again,) = [event for event in events if isinstance(event, ev.EffectIntended)]
    assert again.call != first.call  # type: ignore[attr-defined]
    assert changes(game, events) == [KeyClaim(KEY, "acme", RUN, again.call, "args")]
