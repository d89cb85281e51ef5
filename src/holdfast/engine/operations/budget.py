"""The remainder of a run's limits, as a step gets it: recorded at its place, so that a replay gets the same.

Never here: what is left, a limit that stops anything (core.rules.limits).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import LEFT, Question, State
from holdfast.core.rules import limits
from holdfast.core.rules.limits import LimitsLeft
from holdfast.core.values.ids import Path, left_at
from holdfast.core.values.remainder import ScopeLeft
from holdfast.core.values.scopes import above as scopes_above
from holdfast.core.values.scopes import left_above
from holdfast.engine.attempts.journal import StepJournal
from holdfast.ports import ModelRequest, Scopes, UserTurn

if TYPE_CHECKING:
    from holdfast.engine.attempts.step_services import StepServices

_WRAP_UP: Final = (
    " Most of it is used: come to an end now. Give the best answer that what you have allows, and say what is missing."
)


async def above(books: Scopes, state: State, now_ms: int) -> tuple[ScopeLeft, ...]:
    """Return what is left of the budgets above a run. Raises StoreError."""
    return left_above(await books.balances(scopes_above(state.tenant, state.team, state.shared, now_ms, state.agent)))


def of_guards(services: StepServices) -> Callable[[State, Question], Awaitable[tuple[ScopeLeft, ...]]]:
    """Return how a guard is shown what is left above its run: as it is now, or in a replay as it was."""
    store, stand_in = services.runtime.store, services.stand_in

    async def read_scopes(state: State, question: Question) -> tuple[ScopeLeft, ...]:
        if stand_in is not None:
            return stand_in.above(state.run, question)
        return await above(store.scopes, state, store.clock.now_ms())

    return read_scopes


async def left(journal: StepJournal, path: Path, *, reads_above: bool = True) -> LimitsLeft:
    """Return what the run may still use, as of the first attempt that asked here. Recorded with the next commit."""
    op = journal.find(path, LEFT, LEFT)
    if op is not None and op.outcome is not None:
        known = msgspec.convert(op.outcome.value(), LimitsLeft)
        return known if known.above is not None else limits.with_above(known, ())  # recorded before these were read
    state, store = await journal.attempt.state(), journal.attempt.services.runtime.store
    now_ms = store.clock.now_ms()
    scopes = await journal.attempt.patiently(lambda: above(store.scopes, state, now_ms)) if reads_above else ()
    found = limits.left(state, now_ms, scopes)
    journal.note(cmd.Value(path, LEFT, msgspec.to_builtins(found)))
    return found


async def beside(journal: StepJournal, call: Path) -> LimitsLeft:
    """Return what is left, as the model call at `call` gets it."""
    return await left(journal, left_at(call), reads_above=False)


def telling(request: ModelRequest, remaining: LimitsLeft) -> ModelRequest:
    """The request with a last line that tells the model what is left. It stands in this request only: what was said before
    stays word for word what it was, and can be cached by the provider."""
    return msgspec.structs.replace(request, turns=(*request.turns, UserTurn(notice(remaining))))


def notice(remaining: LimitsLeft) -> str:
    """Return the text for a model: what is left of each limit of the run and, from 80 % on, that it is to finish."""
    parts = [f"${remaining.cost_usd}"] if remaining.cost_usd is not None else []
    counted = {"tokens": remaining.tokens, "model calls": remaining.model_calls, "tool calls": remaining.tool_calls}
    parts += [f"{number} {what}" for what, number in counted.items() if number is not None]
    times = [each for each in (remaining.active_s, remaining.wall_s) if each is not None]
    parts += [f"{min(times):.0f} seconds"] if times else []
    rest = ", ".join(parts) or f"{remaining.steps} steps"
    return f"[Budget, from the system: {rest} left.{_WRAP_UP if remaining.wraps_up else ''}]"
