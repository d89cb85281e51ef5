"""Effects: what a lost outcome means under each policy, who settles it, business keys, access, arguments.

The witness is the world outside: what the tools were really asked to do, under which keys.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from holdfast import Engine, RetryPolicy, Run, RunFailed, ToolFailed, Workflow, check, task, tool, tool_node
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import MOST_VERIFIED
from holdfast.core.values.ids import CallId, RunId
from holdfast.core.values.payload import inline
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import Conflict, HoldfastError, InvalidDecision, OutcomeUnknown
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import Time, call_of, engine_at, eventually, opened

AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0.001)
ONE_TRY = RetryPolicy(max_attempts=1)


class World:
    """Outside: what was asked of it, under which keys. `plan` says what each call in turn does instead of its work."""

    def __init__(self, *plan: BaseException | Callable[[], Any] | None) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.looked_up: list[str] = []
        self.found: list[Any] = []
        """What lookups answer, one after another; None when used up."""
        self._plan = list(plan)

    async def do(self, what: Any, key: str) -> None:
        self.asked.append((key, what))
        step = self._plan.pop(0) if self._plan else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            await step()

    @property
    def keys(self) -> set[str]:
        return {key for key, _ in self.asked}


async def forever() -> None:
    await asyncio.Event().wait()


class Connection:
    """What cannot be closed once what it was used for is cut off."""

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is asyncio.CancelledError:
            raise RuntimeError("Cannot close")


async def connected() -> None:
    async with Connection():
        await forever()


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(connected())
        await forever()


async def given_up() -> None:
    try:
        await forever()
    finally:
        raise ToolFailed("it was taken back")


def pays(
    world: World,
    effect: str,
    *,
    retry: Any = AT_ONCE,
    timeout_s: float | None = None,
    tool_timeout_s: float | None = None,
    settles_within_s: float | None = None,
) -> Workflow:
    """pay → after, which returns what was paid."""
    wf = Workflow(f"pay-{effect}")

    async def look_up(key: str) -> Any:
        world.looked_up.append(key)
        return world.found.pop(0) if world.found else None

    @tool(
        effect=effect,
        verify=look_up if effect == "verify" else None,
        timeout_s=tool_timeout_s,
        settles_within_s=settles_within_s,
    )
    async def pay(amount: int, key: str) -> dict[str, int]:
        await world.do(amount, key)
        return {"paid": amount}

    @wf.node("pay")
    @tool_node(name=pay, retry=retry, timeout_s=timeout_s)
    async def pay_node(state):
        return {"amount": 5}

    wf.node("after")(task(lambda state: state.events["pay"].output))
    wf.edge("pay", "after")
    return wf


# --- What an exception means --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_tool_that_fails_is_tried_again_under_its_key_where_a_repeat_is_harmless(store: str, effect: str) -> None:
    world = World(ValueError("no"), ValueError("no"))
    async with opened(store) as engine:
        run = await engine.start(pays(world, effect))
        assert await run.result() == {"paid": 5}
    assert len(world.asked) == 3
    assert len(world.keys) == 1


@pytest.mark.parametrize("effect", ["verify", "once"])
async def test_a_tool_that_fails_is_not_called_again_where_that_is_not_harmless(store: str, effect: str) -> None:
    world = World(ValueError("the printer is on fire"))
    async with opened(store) as engine:
        run = await engine.start(pays(world, effect))
        with pytest.raises(RunFailed, match="the printer is on fire") as failed:
            await run.result()
        error = failed.value.error
        assert (error.error_class, error.tool, error.node, error.retryable) == ("tool", "pay", "pay", False)
        assert [change.state for _, change in await engine.effects(run.id)] == ["failed"]
    assert len(world.asked) == 1


@pytest.mark.parametrize("problem", [FileNotFoundError("no such file"), PermissionError("not yours"), KeyError("x")])
async def test_what_says_nothing_about_whether_it_happened_is_no_reason_to_call_again(store: str, problem) -> None:
    """A tool may have done its work and then stumbled over a file."""
    world = World(problem)
    async with opened(store) as engine:
        run = await engine.start(pays(world, "once"))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.retryable is False
    assert len(world.asked) == 1


@pytest.mark.parametrize("effect", ["read", "idempotent", "verify", "once"])
async def test_what_certainly_never_happened_may_be_tried_again_under_every_policy(store: str, effect: str) -> None:
    world = World(ToolFailed("refused"), ConnectionRefusedError())
    async with opened(store) as engine:
        run = await engine.start(pays(world, effect))
        assert await run.result() == {"paid": 5}
    assert len(world.asked) == 3
    assert len(world.keys) == 1


async def test_what_a_server_refuses_has_failed(store: str) -> None:
    world = World(HTTPStatusError(422))
    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="HTTP 422") as failed:
            await (await engine.start(pays(world, "once"))).result()
        assert failed.value.error.error_class == "tool"
    assert len(world.asked) == 1


async def test_an_error_of_a_tool_is_data_in_the_runs_state(store: str) -> None:
    world = World(ValueError("no such account"))
    async with opened(store) as engine:
        run = await engine.start(pays(world, "once"))
        before_ms = engine.runtime.store.clock.now_ms()
        state = await run.settled()
        (error,) = state.errors
        assert state.steps["pay"].error == state.error
        kept_once = msgspec.structs.replace(state.error, trace=None, exception=None)
        assert error == kept_once, "not with every attempt"
        assert (error.node, error.error_class, error.message, error.retryable, error.tool) == (
            "pay",
            "tool",
            "'pay': ValueError: no such account",
            False,
            "pay",
        )
        assert abs(error.at_ms - before_ms) < 10_000


# --- Outcomes that nobody knows -----------------------------------------------------------------------------------------


class RequestsConnectionError(OSError):
    """As some libraries have it: no relative of the built-in one but by name."""


class HTTPStatusError(Exception):
    """As HTTP libraries have it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"HTTP {status_code}")
        self.response = SimpleNamespace(status_code=status_code)


LOST = [
    pytest.param(lambda: TimeoutError(), {}, id="the-tool-times-out"),
    pytest.param(lambda: ConnectionResetError(), {}, id="its-connection-breaks"),
    pytest.param(lambda: RequestsConnectionError(), {}, id="its-library-says-that-it-breaks"),
    pytest.param(lambda: HTTPStatusError(504), {}, id="the-server-breaks"),
    pytest.param(lambda: OutcomeUnknown("who knows"), {}, id="it-says-so"),
    pytest.param(lambda: forever, {"tool_timeout_s": 0.1}, id="it-takes-longer-than-its-timeout_s"),
    pytest.param(lambda: connected, {"tool_timeout_s": 0.1}, id="its-clean-up-raises-when-its-time-is-up"),
    pytest.param(lambda: in_a_group, {"tool_timeout_s": 0.1}, id="that-of-a-sibling-raises-when-its-time-is-up"),
    pytest.param(lambda: connected, {"timeout_s": 1.0}, id="its-clean-up-raises-when-the-time-of-its-node-is-up"),
    pytest.param(lambda: forever, {"timeout_s": 1.0}, id="the-node-takes-longer-than-its-timeout_s"),
]


@pytest.mark.parametrize(("how", "given"), LOST)
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_lost_outcome_is_asked_for_again_under_its_key_where_a_repeat_is_harmless(
    store: str, effect: str, how, given: dict[str, Any]
) -> None:
    world = World(how(), how())
    async with opened(store) as engine:
        wf = pays(world, effect, **given)
        run = await engine.start(wf)
        assert await run.result() == {"paid": 5}
    assert len(world.asked) == 3
    assert len(world.keys) == 1


@pytest.mark.parametrize(("how", "given"), LOST)
async def test_a_lost_outcome_of_a_tool_with_a_lookup_is_looked_up(store: str, how, given: dict[str, Any]) -> None:
    world = World(how())
    world.found = [{"paid": 5, "found": True}]
    async with opened(store) as engine:
        run = await engine.start(pays(world, "verify", **given))
        assert await run.result() == {"paid": 5, "found": True}
    assert len(world.asked) == 1
    assert world.looked_up == [world.asked[0][0]]


@pytest.mark.parametrize(("how", "given"), LOST)
async def test_a_lost_outcome_of_a_once_effect_is_a_question_to_a_person(store: str, how, given: dict[str, Any]) -> None:
    world = World(how())
    async with opened(store) as engine:
        wf = pays(world, "once", **given)
        run = await engine.start(wf)
        state = await run.until(lambda state: status(state) == "requires_attention")
        ((gate, asked),) = state.gates.items()
        call = call_of(state)
        assert (asked.opened.reason, asked.opened.subject) == ("effect_unknown", call)
        shown = asked.opened.shown.value()
        assert (shown["tool"], shown["request"], shown["key"]) == ("pay", {"amount": 5}, world.asked[0][0])
        assert [wait.reason for wait in waiting_for(state) if wait.kind == "gate"] == ["effect_unknown"]
        assert [change.state for _, change in await engine.effects(run.id)] == ["in_doubt"]
        await engine.decide(gate, "answer", {"paid": 5, "by": "hand"})
        assert await run.result() == {"paid": 5, "by": "hand"}
    assert len(world.asked) == 1


async def in_doubt(engine: Engine, wf: Workflow) -> tuple[Run, str]:
    run = await engine.start(wf)
    state = await run.until(lambda state: bool(state.gates))
    return run, call_of(state)


async def test_resolving_an_effect_with_its_response_goes_on_with_it(store: str) -> None:
    async with opened(store) as engine:
        run, call = await in_doubt(engine, pays(World(TimeoutError()), "once"))
        with pytest.raises(InvalidDecision, match="data=JSON"):
            await engine.resolve_effect(call, "answer")
        await engine.resolve_effect(call, "answer", {"paid": 5}, by="ann")
        assert await run.result() == {"paid": 5}
        ((row, change),) = await engine.effects(run.id)
        assert (row.call, change.state, change.by) == (call, "completed", "ann")


async def test_resolving_an_effect_as_not_happened_fails_its_step_without_calling_again(store: str) -> None:
    world = World(TimeoutError())
    async with opened(store) as engine:
        run, call = await in_doubt(engine, pays(world, "once"))
        await engine.resolve_effect(call, "reject", by="ann", reason="not in the books")
        with pytest.raises(RunFailed, match="ann found that this call of 'pay' did not happen: not in the books"):
            await run.result()
        assert [change.state for _, change in await engine.effects(run.id)] == ["failed"]
    assert len(world.asked) == 1


async def test_resolving_an_effect_by_calling_again_uses_the_same_key(store: str) -> None:
    world = World(TimeoutError(), TimeoutError())
    async with opened(store) as engine:
        run, call = await in_doubt(engine, pays(world, "once"))
        await engine.resolve_effect(call, "retry")
        state = await run.until(lambda state: bool(state.gates))
        again = call_of(state)
        assert again != call
        await engine.resolve_effect(again, "retry")
        assert await run.result() == {"paid": 5}
        with pytest.raises(Conflict, match="No question is open"):
            await engine.resolve_effect(call, "answer", {"paid": 7})
    assert len(world.asked) == 3
    assert len(world.keys) == 1


async def test_an_unknown_outcome_is_asked_about_even_when_its_step_has_failed_for_good(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(pays(World(forever), "once", retry=ONE_TRY, timeout_s=0.4))
        state = await run.until(lambda state: status(state) == "requires_attention")
        (gate,) = state.gates
        await run.until(lambda state: bool(state.phase))
        with pytest.raises(InvalidDecision, match="nothing can call it again"):
            await engine.decide(gate, "retry")
        await engine.decide(gate, "reject")
        with pytest.raises(RunFailed, match="timeout_s"):
            await run.result()


async def test_an_answer_saves_a_step_whose_idempotent_call_has_no_known_end(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(pays(World(*[OutcomeUnknown("500")] * 9), "idempotent", retry=RetryPolicy(initial_s=0.001)))
        state = await run.until(lambda state: status(state) == "requires_attention")
        (gate,) = state.gates.values()
        assert (state.phase, gate.opened.allowed) == ("", ("answer", "reject", "retry"))
        assert gate.opened.subject is not None
        await engine.resolve_effect(gate.opened.subject, "answer", {"paid": 5})
        assert await run.result() == {"paid": 5}


async def test_an_unknown_outcome_is_asked_for_again_without_a_policy_that_says_so(store: str) -> None:
    world = World(OutcomeUnknown("500"))
    async with opened(store) as engine:
        run = await engine.start(pays(world, "idempotent", retry=None))
        assert await run.result() == {"paid": 5}
        (failed,) = await events_of(run, ev.AttemptFailed)
    assert failed.error.error_class == "unknown"
    assert (len(world.asked), len(world.keys)) == (2, 1)


# --- verify ---------------------------------------------------------------------------------------------------------------


async def test_not_found_counts_only_after_the_time_that_the_tool_takes_to_settle(tmp_path: Path) -> None:
    now, world = Time(), World(TimeoutError())
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(pays(world, "verify", settles_within_s=60))
        await run.until(lambda state: [wait for wait in waiting_for(state) if wait.kind == "timer"])
        assert len(world.looked_up) == 1
        now.forward(59.9)
        await run.state()
        await asyncio.sleep(0.02)
        assert (len(world.asked), len(world.looked_up)) == (1, 1)
        now.forward(0.2)
        assert await run.result() == {"paid": 5}
    assert len(world.asked) == 2
    assert len(world.keys) == 1


async def test_what_is_found_before_the_effect_has_settled_counts_at_once(tmp_path: Path) -> None:
    world = World(TimeoutError())
    world.found = [None, {"paid": 5}]
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(pays(world, "verify", settles_within_s=60))
        await run.until(lambda state: [wait for wait in waiting_for(state) if wait.kind == "timer"])
        now.forward(60)
        assert await run.result() == {"paid": 5}
    assert len(world.asked) == 1


async def test_a_lookup_that_breaks_is_tried_again_and_its_call_is_not(store: str) -> None:
    wf = Workflow("flaky lookup")
    sent: list[str] = []
    looked: list[int] = []

    async def look_up(key: str) -> str | None:
        looked.append(1)
        if len(looked) < 3:
            raise ConnectionResetError
        return "found"

    @tool(effect="verify", verify=look_up)
    async def send(key: str) -> str:
        sent.append(key)
        raise TimeoutError

    @wf.node("send")
    @tool_node(name=send, retry=AT_ONCE)
    async def send_node(state):
        return {}

    async with opened(store) as engine:
        assert await (await engine.start(wf)).result() == "found"
    assert (len(sent), len(looked)) == (1, 3)


async def test_a_lookup_that_stays_broken_leaves_the_question_to_a_person(store: str) -> None:
    """Its tries are used up while nobody knows what happened: it goes on with what somebody says."""
    wf = Workflow("broken lookup")

    async def look_up(key: str) -> str | None:
        raise RuntimeError("the lookup is down")

    @tool(effect="verify", verify=look_up)
    async def send(key: str) -> str:
        raise TimeoutError

    @wf.node("send")
    @tool_node(name=send, retry=AT_ONCE)
    async def send_node(state):
        return {}

    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await run.until(lambda state: status(state) == "requires_attention")
        assert [gate.opened.reason for gate in state.gates.values()] == ["effect_unknown"]
        await engine.resolve_effect(call_of(state), "answer", "it was sent")
        assert await run.result() == "it was sent"


async def test_a_call_whose_lookup_never_finds_it_is_not_made_for_ever(store: str) -> None:
    wf = Workflow("never found")
    sent: list[str] = []

    async def look_up(key: str) -> str | None:
        return None

    @tool(effect="verify", verify=look_up)
    async def send(key: str) -> str:
        sent.append(key)
        raise OutcomeUnknown("it may have arrived")

    @wf.node("send")
    @tool_node(name=send, retry=AT_ONCE)
    async def send_node(state):
        return {}

    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await run.until(lambda state: status(state) == "requires_attention")
        assert [gate.opened.reason for gate in state.gates.values()] == ["effect_unknown"]
        assert len(sent) == MOST_VERIFIED
        await engine.resolve_effect(call_of(state), "retry")
        await run.until(lambda state: status(state) == "requires_attention" and len(sent) == MOST_VERIFIED + 1)
        state = await run.until(lambda state: len(state.gates) == 1)
        await engine.resolve_effect(call_of(state), "answer", "it was sent")
        assert await run.result() == "it was sent"


@pytest.mark.parametrize("effect", ["verify", "idempotent", "read"])
async def test_a_cancelled_run_with_an_effect_in_doubt_asks_or_ends_but_never_hangs(tmp_path: Path, effect: str) -> None:
    now, world = Time(), World(TimeoutError(), TimeoutError())
    async with engine_at(tmp_path, now) as engine:
        retry = RetryPolicy(max_attempts=5, initial_s=3600, max_s=3600)
        more = {"settles_within_s": 3600} if effect == "verify" else {}
        run = await engine.start(pays(world, effect, retry=retry, **more))
        await run.until(lambda state: [wait for wait in waiting_for(state) if wait.kind in ("timer", "retry")])
        await engine.cancel(run.id)
        state = await run.settled()
        if effect == "read":  # it changed nothing, so nobody need know
            assert state.ended == "cancelled"
            return
        assert status(state) == "requires_attention"
        await engine.resolve_effect(call_of(state), "reject")
        assert await run.status() == "cancelled"
    assert len(world.asked) == 1


# --- In flight ------------------------------------------------------------------------------------------------------------


async def test_a_call_that_has_left_brings_its_outcome_home_when_its_run_is_cancelled(store: str) -> None:
    gone, answer = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        gone.set()
        await answer.wait()

    async with opened(store) as engine:
        run = await engine.start(pays(World(slowly), "once"))
        await gone.wait()
        await engine.cancel(run.id)
        state = await run.state()
        assert (state.phase, state.ended) == ("cancelling", "")
        assert [wait.reason for wait in waiting_for(state)] == ["outcome_outstanding"]
        answer.set()
        state = await run.settled()
        assert state.ended == "cancelled"
        ((_, change),) = await engine.effects(run.id)
        assert (change.state, change.response.value()) == ("completed", {"paid": 5})
        assert (await events_of(run, ev.EffectInDoubt)) == []


async def test_a_cancelled_call_that_never_says_what_became_of_it_is_asked_about(store: str) -> None:
    gone, answer = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        gone.set()
        await answer.wait()
        raise TimeoutError

    async with opened(store) as engine:
        run = await engine.start(pays(World(slowly), "verify"))
        await gone.wait()
        await engine.cancel(run.id)
        answer.set()
        state = await run.until(lambda state: status(state) == "requires_attention")
        await engine.resolve_effect(call_of(state), "answer", {"paid": 5})
        assert await run.status() == "cancelled"


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_process_that_stops_during_a_call_leaves_it_to_be_made_again(store: str, effect: str) -> None:
    world = World(forever)
    wf = pays(world, effect, retry=None)
    async with opened(store, call_grace_s=0.01) as engine:
        run = await engine.start(wf)
        await eventually(lambda: world.asked)
    async with opened(store, workflows=[wf]) as engine:
        again = engine.run(run.id)
        assert await asyncio.wait_for(again.result(), 60) == {"paid": 5}
        assert await events_of(again, ev.AttemptLost, ev.AttemptFailed) == []
    assert len(world.asked) == 2
    assert len(world.keys) == 1


@pytest.mark.parametrize("how", [forever, connected, in_a_group])
async def test_a_process_that_stops_during_a_payment_does_not_take_it_for_failed(store: str, how: Any) -> None:
    world = World(how)
    wf = pays(world, "once", retry=None)
    async with opened(store, call_grace_s=0.01) as engine:
        run = await engine.start(wf)
        await eventually(lambda: world.asked)
    async with opened(store, workflows=[wf]) as engine:
        again = engine.run(run.id)
        await again.until(lambda state: status(state) == "requires_attention")
        assert [change.state for _, change in await engine.effects(run.id)] == ["in_doubt"]
        assert await events_of(again, ev.AttemptLost, ev.AttemptFailed) == []
    assert len(world.asked) == 1


async def test_a_tool_that_is_cut_off_is_believed_that_it_took_back_what_it_did(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(pays(World(given_up), "once", retry=ONE_TRY, tool_timeout_s=0.1))
        with pytest.raises(RunFailed, match="it was taken back"):
            await run.result()
        assert [change.state for _, change in await engine.effects(run.id)] == ["failed"]


async def test_an_outcome_that_comes_while_the_process_stops_is_not_lost(store: str) -> None:
    gone = asyncio.Event()

    async def slowly() -> None:
        gone.set()
        await asyncio.sleep(0.1)

    world = World(slowly)
    wf = pays(world, "once")
    async with opened(store) as engine:
        run = await engine.start(wf)
        await gone.wait()
    async with opened(store, workflows=[wf]) as engine:
        assert await asyncio.wait_for(engine.run(run.id).result(), 60) == {"paid": 5}
    assert len(world.asked) == 1


async def test_a_process_that_stops_waits_until_a_slow_store_has_the_outcome(store: str) -> None:
    """The attempt has handed its step over long before; nobody but the call itself still knows of its run."""
    gone = asyncio.Event()

    async def slowly() -> None:
        gone.set()
        await asyncio.sleep(0.1)

    wf = pays(World(slowly), "once")
    async with opened(store) as engine:
        run = await engine.start(wf)
        await gone.wait()
        append = engine.runtime.store.log.append

        async def late(appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
            if any(isinstance(each.event, ev.EffectCompleted) for one in appends for each in one.events):
                await asyncio.sleep(0.3)
            return await append(appends)

        engine.runtime.store.log.append = late  # type: ignore[method-assign]
    async with opened(store, workflows=[wf]) as engine:
        assert await engine.run(run.id).result() == {"paid": 5}


async def test_what_became_of_a_call_is_recorded_even_if_no_caller_waits_for_it_any_more(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(pays(World(forever), "once"))
        call = call_of(await run.until(lambda state: bool(state.calls)))
        mailbox = engine.runtime.runs.mailbox(RunId(run.id))
        busy = mailbox.post(cmd.SendSignal("busy"))
        sender = asyncio.create_task(mailbox.send(cmd.CompleteEffect(CallId(call), inline({"paid": 5}))))
        await asyncio.sleep(0)
        sender.cancel()
        await busy
        await eventually(lambda: sender.cancelled() and not mailbox.busy)
        assert [change.state for _, change in await engine.effects(run.id)] == ["completed"]


async def test_a_response_that_cannot_be_stored_is_an_unknown_outcome_not_a_hanging_run(store: str) -> None:
    """The world has changed; only the answer is of no use."""
    wf = Workflow("odd answer")
    sent: list[str] = []

    @tool(effect="once")
    async def send(key: str):
        sent.append(key)
        return object()

    @wf.node("send")
    @tool_node(name=send, retry=AT_ONCE)
    async def send_node(state):
        return {}

    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await asyncio.wait_for(run.settled(), 60)
        assert status(state) == "requires_attention"
        ((gate, asked),) = state.gates.items()
        assert "cannot be stored" in asked.opened.shown.value()["what_is_known"]
        await engine.decide(gate, "answer", "it was sent")
        assert await run.result() == "it was sent"
    assert len(sent) == 1


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_response_that_cannot_be_stored_is_not_asked_for_again(store: str, effect: Any) -> None:
    """Another try would bring the same: only the code of the tool can mend it."""
    wf = Workflow("odd answer")
    sent: list[str] = []

    @tool(effect=effect)
    async def look(key: str):
        sent.append(key)
        return object()

    wf.node("look")(tool_node(name=look, retry=AT_ONCE)(lambda state: {}))
    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await asyncio.wait_for(run.settled(), 60)
        if effect == "read":
            assert state.error is not None
            assert state.error.error_class == "validation"
        else:
            assert [gate.opened.reason for gate in state.gates.values()] == ["effect_unknown"]
    assert len(sent) == 1


class Receipt(BaseModel):
    number: int
    card: str | None = Field(None, exclude=True)
    note: str


async def test_who_says_what_became_of_a_call_sees_the_answer_that_cannot_be_kept(
    store: str, monkeypatch: pytest.MonkeyPatch, stored: Callable[[], bytes]
) -> None:
    """Bounded, without secrets, and without what its model never hands on."""
    monkeypatch.setenv("CANARY", "TOP-SECRET-VALUE")
    wf = Workflow("answers")

    @tool(effect="once")
    async def charge(key: str, ctx: Any) -> Receipt:
        return Receipt(number=7, card="4242424242424242", note=f"{ctx.secret('CANARY')} {'x' * 970}TOP-SECRET-VALUE")

    @tool(effect="once")
    async def send(key: str) -> Any:
        return {"sent": object()}

    for each in (charge, send):
        wf.node(each.name)(tool_node(name=each, retry=AT_ONCE)(lambda state: {}))
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        state = await run.until(lambda state: len(state.gates) == 2)
        known = {gate.opened.shown.value()["tool"]: gate.opened.shown.value()["what_is_known"] for gate in state.gates.values()}
        assert 'It was: {"number":7,"note":"[secret] xxx' in known["charge"]
        assert known["charge"].endswith(" characters more)")
        assert len(known["charge"]) < 1_400
        assert 'It was: {"sent":' in known["send"]
    assert b"SECRET" not in stored()
    assert b"4242424242424242" not in stored()


async def test_a_plain_tool_runs_in_a_thread_and_holds_nothing_up(store: str) -> None:
    wf = Workflow("plain")
    met: list[str] = []
    quick_is_over = threading.Event()

    @tool(effect="read")
    def slow() -> str:
        assert quick_is_over.wait(20)
        met.append("slow")
        return "slow"

    @tool(effect="read")
    async def quick() -> str:
        met.append("quick")
        quick_is_over.set()
        return "quick"

    for name in (slow, quick):
        wf.node(name.name)(tool_node(name=name)(lambda state: {}))
    async with opened(store) as engine:
        assert await (await engine.start(wf)).result() == {"slow": "slow", "quick": "quick"}
    assert met == ["quick", "slow"]


# --- Business keys --------------------------------------------------------------------------------------------------------


def invites(world: World, rounds: int) -> Workflow:
    """Invites suppliers in each of several rounds; a supplier of the same round is invited once."""
    wf = Workflow("invites")

    @tool(effect="once")
    async def invite(supplier: str, round: int, key: str, ctx) -> str:  # noqa: A002
        assert ctx.key == key
        await world.do((supplier, round), key)
        return f"invited {supplier}"

    @wf.node("invite")
    @tool_node(name=invite, key="invite:{supplier}:{round}")
    async def invite_node(state):
        return {"supplier": "acme", "round": state.input["round"]}

    wf.node("enough")(check(lambda state: state.visits("invite") >= rounds))
    wf.node("end")(task(lambda state: state.events["invite"].output))
    wf.edge("invite", "enough")
    wf.edge("enough", "end")
    wf.loop("enough", "invite", max_visits=10)
    return wf


async def test_a_loop_that_means_the_same_effect_gets_its_recorded_outcome(store: str) -> None:
    world = World()
    async with opened(store) as engine:
        run = await engine.start(invites(world, 4), {"round": 1})
        assert await run.result() == "invited acme"
        assert len(await events_of(run, ev.EffectReused)) == 3
        another = await engine.start(invites(world, 1), {"round": 1})
        await another.result()  # a key is unique in its run
    assert [what for _, what in world.asked] == [("acme", 1), ("acme", 1)]
    assert len(world.keys) == 2


async def test_without_a_key_each_visit_of_a_loop_is_an_effect_of_its_own(store: str) -> None:
    world, wf = World(), Workflow("rounds")

    @tool(effect="once")
    async def ring(key: str) -> None:
        await world.do("ring", key)

    wf.node("ring")(tool_node(name=ring)(lambda state: {}))
    wf.node("enough")(check(lambda state: state.visits("ring") >= 3))
    wf.edge("ring", "enough")
    wf.loop("enough", "ring", max_visits=5)
    async with opened(store) as engine:
        await (await engine.start(wf)).result()
    assert len(world.asked) == len(world.keys) == 3


def fan(world: World, *amounts: int) -> Workflow:
    """Branches that mean the same payment, at the same time, with the amounts given."""
    wf = Workflow("fan")

    @tool(effect="once")
    async def pay(amount: int, key: str) -> int:
        await world.do(amount, key)
        return amount

    wf.node("begin")(task(lambda state: None))
    for number, amount in enumerate(amounts):

        @wf.node(f"branch{number}")
        @task(tools=[pay])
        async def branch(state, ctx, amount=amount):
            return await ctx.tool("pay", amount=amount, key="rent:may")

        wf.edge("begin", f"branch{number}")
    return wf


async def test_branches_that_mean_the_same_effect_at_the_same_time_do_it_once(store: str) -> None:
    async def slowly() -> None:
        await asyncio.sleep(0.05)

    world = World(slowly)
    async with opened(store) as engine:
        run = await engine.start(fan(world, 5, 5, 5))
        assert await run.result() == {"branch0": 5, "branch1": 5, "branch2": 5}
    assert len(world.asked) == 1


async def test_a_branch_takes_over_where_the_one_that_meant_the_same_has_failed(store: str) -> None:
    async def fails() -> None:
        await asyncio.sleep(0.05)
        raise ToolFailed("not now")

    world = World(fails)
    wf = fan(world, 5, 5)
    wf.nodes["branch0"].continue_on_error = True
    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await run.settled()
        assert state.ended == "completed"
        assert {state.steps[name].status for name in ("branch0", "branch1")} == {"failed", "completed"}
    assert len(world.asked) == 2
    assert len(world.keys) == 1


async def test_the_same_key_for_another_request_is_refused_and_nothing_is_called(store: str) -> None:
    world = World()
    async with opened(store) as engine:
        run = await engine.start(fan(world, 5, 7))
        with pytest.raises(RunFailed, match="the same key must mean the same thing") as failed:
            await asyncio.wait_for(run.result(), 60)
        assert failed.value.error.error_class == "validation"
    assert len(world.asked) == 1


async def test_the_same_effect_twice_in_one_gather_is_done_once(store: str) -> None:
    world, wf = World(), Workflow("twice")

    @tool(effect="once")
    async def pay(key: str) -> str:
        await world.do("pay", key)
        return "paid"

    @wf.node("pay")
    @task(tools=[pay])
    async def pay_node(state, ctx):
        return await ctx.gather(ctx.tool("pay", key="rent"), ctx.tool("pay", key="rent"), ctx.tool("pay"))

    async with opened(store) as engine:
        assert await (await engine.start(wf)).result() == ["paid", "paid", "paid"]
    assert len(world.asked) == len(world.keys) == 2


async def test_a_key_whose_field_is_missing_is_an_error_that_names_it(store: str) -> None:
    world, wf = World(), Workflow("no field")

    @tool(effect="once")
    async def invite(supplier: str = "acme") -> None:
        await world.do("invite", "")

    wf.node("invite")(tool_node(name=invite, key="invite:{supplier}:{round}")(lambda state: {"supplier": "x"}))
    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="round"):
            await (await engine.start(wf)).result()
    assert world.asked == []


# --- Access and arguments -------------------------------------------------------------------------------------------------


@tool(effect="read")
async def allowed(n: int) -> int:
    return n


forbidden_calls: list[int] = []


@tool(effect="read")
async def forbidden(n: int) -> int:
    forbidden_calls.append(n)
    return n


async def test_a_tool_that_the_node_does_not_list_is_denied_on_record_and_not_called(store: str) -> None:
    wf = Workflow("access")

    @wf.node("try")
    @task(tools=[allowed], retry=AT_ONCE)
    async def try_(state, ctx):
        return await ctx.tool("forbidden", n=1)

    async with opened(store) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed, match="may not call 'forbidden'; it lists: allowed") as failed:
            await run.result()
        assert (failed.value.error.error_class, failed.value.error.tool) == ("denied", "forbidden")
        (denied,) = await events_of(run, ev.ToolCallDenied)
        assert denied.tool == "forbidden"
        assert await engine.effects(run.id) == []
    assert forbidden_calls == []


@pytest.mark.parametrize("arguments", [{"n": "many"}, {}, {"n": 1, "extra": 2}])
async def test_arguments_that_do_not_fit_are_refused_before_anything_happens(store: str, arguments) -> None:
    world, wf = World(), Workflow("arguments")

    @tool(effect="once", approval=True)
    async def send(n: int) -> None:
        await world.do(n, "")

    wf.node("send")(tool_node(name=send, retry=AT_ONCE)(lambda state: arguments))
    async with opened(store) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed, match="do not fit its schema") as failed:
            await run.result()
        assert failed.value.error.error_class == "schema"
        assert len(await events_of(run, ev.ToolCallDenied)) == 1
        assert await events_of(run, ev.GateOpened, ev.EffectIntended) == []
    assert world.asked == []


async def test_a_call_made_before_it_was_forbidden_keeps_its_outcome(store: str) -> None:
    """The same graph, but a stricter tool: what has happened has happened."""
    calls: list[int] = []
    strict = False

    def make() -> Workflow:
        wf = Workflow("stricter")

        @tool(effect="once")
        async def send(n: int) -> str:
            calls.append(n)
            return "sent"

        @wf.node("work")
        @task(tools=[send])
        async def work(state, ctx):
            said = await ctx.tool("send", n=1)
            await ctx.wait_signal("go")
            return said

        assert wf.graph
        if strict:
            wf.nodes["work"].tools.clear()
        return wf

    async with opened(store) as engine:
        run = await engine.start(make())
        await run.settled()
    strict = True
    async with opened(store, workflows=[make()]) as engine:
        await engine.signal(run.id, "go")
        assert await engine.run(run.id).result() == "sent"
    assert calls == [1]


async def test_a_tool_gets_objects_as_its_hints_say_and_the_ledger_plain_data(store: str) -> None:
    class Parcel(BaseModel):
        weight_g: int

    got: list[Any] = []
    wf = Workflow("hints")

    @tool(effect="once")
    async def ship(parcel: Parcel, express: bool = False) -> Parcel:
        got.append((parcel, express))
        return parcel

    wf.node("ship")(tool_node(name=ship)(lambda state: {"parcel": {"weight_g": 5}}))
    async with opened(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == {"weight_g": 5}
        ((row, _),) = await engine.effects(run.id)
        assert row.request.value() == {"parcel": {"weight_g": 5}}
    assert got == [(Parcel(weight_g=5), False)]
