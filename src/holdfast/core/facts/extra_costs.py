"""Costs that a better course would have avoided: retries, calls of unknown cost, and what caches did not have. Read from the
events of runs, like their costs.

A call counts for one cause of `retry` and `doubt` at most. What a prompt cache did not have is an estimate (`_missed`). Never
here: a price, a sum that is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.costs import HourCost, UncountedRun
from holdfast.core.facts.state import SHARED_USE
from holdfast.core.nouns.shared_values import CACHE
from holdfast.core.values.ids import CallId, Path, Seq, StepId, node_of, root_of

Cause: TypeAlias = Literal["retry", "doubt", "prompt_cache_miss", "semantic_cache_miss", "semantic_cache_hit"]

CACHE_LIVES_MS: Final = 300_000
"""Lifetime of a prompt in a provider's cache: five minutes, the shortest in use."""
_DAY_CHARS: Final = len("2026-11-21")


class ExtraCost(msgspec.Struct, frozen=True):
    """The cost of one cause on a day: of `retry`, calls that were made again; of `doubt`, calls whose reply was lost; of
    `prompt_cache_miss`, what input cost more than read from the provider's cache, as estimated; of `semantic_cache_miss`, calls
    to whose question the cache had no answer. Of `semantic_cache_hit` it is what was saved."""

    day: str
    tenant: str
    team: str
    workflow: str
    node: str
    model: str
    cause: Cause
    calls: int
    tokens: int
    cost_nanousd: int


class RunCosts(NamedTuple):
    """The costs of the calls of a run since it was counted last, and of the whole run."""

    uncounted: UncountedRun
    costs: Sequence[HourCost]
    extra: Sequence[ExtraCost] = ()
    total_nanousd: int = 0


ExtraField: TypeAlias = Literal["day", "tenant", "team", "workflow", "node", "model"]


class ExtraSum(NamedTuple):
    """A sum of extra costs of one cause, by some fields; the others are empty."""

    cause: Cause
    day: str
    tenant: str
    team: str
    workflow: str
    node: str
    model: str
    calls: int
    tokens: int
    cost_nanousd: int


class _Held(NamedTuple):
    """An open call."""

    day: str
    at_ms: int
    step: StepId
    path: Path
    model: str


class _Paid(NamedTuple):
    """A call that has cost something, and was not made again so far."""

    held: _Held
    tokens: int
    cost_nanousd: int


_Place: TypeAlias = tuple[StepId, Path]


class ExtraTally:
    """Counts what became known after the event `after`. Wants the whole history."""

    def __init__(self, after: Seq) -> None:
        self._after = after
        self._tenant = self._team = self._workflow = ""
        self._held: dict[CallId, _Held] = {}
        self._latest: dict[_Place, CallId] = {}
        """The call that was made last at a place: another one there was in vain."""
        self._paid: dict[_Place, _Paid] = {}
        self._asked: dict[_Place, _Paid] = {}
        """The latest call of a row of operations: the next may go on with its conversation."""
        self._unanswered: set[_Place] = set()
        """Rows of operations whose next call answers what a semantic cache could not; then the place of that call."""
        self._found: dict[tuple[str, str, str, Cause], tuple[int, int, int]] = {}

    def take(self, recorded: Iterable[ev.Recorded]) -> None:
        """Count the next events."""
        for each in recorded:
            match each.event:
                case ev.RunStarted() as started:
                    self._tenant, self._team, self._workflow = started.tenant, started.team or "", started.workflow
                case ev.ModelCallHeld() as held:
                    self._hold(each, held.call, held.step, held.path, held.sent_to or held.model)
                    self._ask(held.step, held.path)
                case ev.ModelCallSettled() as settled:
                    self._settle(each.seq, settled)
                case ev.ModelCallReconciled() as reconciled:
                    self._add(each.seq, self._held.pop(reconciled.call), "doubt", 0, reconciled.cost_nanousd)
                case ev.ModelCallFailed() as failed:
                    self._held.pop(failed.call, None)
                case ev.ValueRecorded(kind=kind, name=name) as value if kind == SHARED_USE and name.startswith(f"{CACHE}/"):
                    self._look_up(each, value)
                case other:
                    self._take_tool(other, each)

    def _take_tool(self, event: ev.Event, each: ev.Recorded) -> None:
        match event:
            case ev.EffectIntended():
                for call, hold in event.given_up.items():
                    if (given_up := self._held.pop(call, None)) is not None:
                        self._add(each.seq, given_up, "doubt", 0, hold.nanousd)
                if event.hold_nanousd:
                    self._hold(each, event.call, event.step, event.path, f"tool {event.tool}")
            case ev.EffectCompleted(hold=ev.Hold(nanousd=cost)) | ev.EffectFailed(cost_nanousd=cost) if cost:
                if (held := self._held.pop(event.call, None)) is not None:
                    self._pay(each.seq, event.call, _Paid(held, 0, cost))
            case ev.EffectFailed() | ev.EffectReleased():
                self._held.pop(event.call, None)
            case _:
                pass

    def _hold(self, each: ev.Recorded, call: CallId, step: StepId, path: Path, model: str) -> None:
        self._held[call] = _Held(_day(each.at_ms), each.at_ms, step, path, model)
        self._latest[step, path] = call
        if (before := self._paid.pop((step, path), None)) is not None:
            self._add(each.seq, before.held, "retry", before.tokens, before.cost_nanousd)

    def _pay(self, seq: Seq, call: CallId, paid: _Paid) -> None:
        """A call cost something; it was in vain if another one is there in its place."""
        place = paid.held.step, paid.held.path
        if self._latest.get(place) == call:
            self._paid[place] = paid
        else:
            self._add(seq, paid.held, "retry", paid.tokens, paid.cost_nanousd)

    def _settle(self, seq: Seq, event: ev.ModelCallSettled) -> None:
        held = self._held.pop(event.call)
        paid = _Paid(held, event.input_tokens + event.output_tokens, event.cost_nanousd)
        self._pay(seq, event.call, paid)
        row = _row(held.step, held.path)
        missed = _missed(self._asked.get(row), held, event)
        if missed:
            uncached = event.input_tokens - event.cache_read_tokens
            self._add(seq, held, "prompt_cache_miss", missed, event.cacheable_nanousd * missed // uncached)
        self._asked[row] = paid._replace(tokens=event.input_tokens)
        if (held.step, held.path) in self._unanswered:
            self._unanswered.discard((held.step, held.path))
            self._add(seq, held, "semantic_cache_miss", paid.tokens, event.cost_nanousd)

    def _look_up(self, each: ev.Recorded, value: ev.ValueRecorded) -> None:
        """A semantic cache was asked; it had an answer, or the model is asked next."""
        if value.payload is None or value.payload.blob is not None:  # a long answer: it was a hit, of unknown worth
            return
        hits = value.payload.value()
        if not hits:
            self._unanswered.add(_row(value.step, value.path))
        for hit in hits:
            held = _Held(_day(each.at_ms), each.at_ms, value.step, value.path, "")
            self._add(each.seq, held, "semantic_cache_hit", 0, hit["saved_nanousd"])

    def _ask(self, step: StepId, path: Path) -> None:
        """A model is asked: for what a semantic cache did not have, if it was looked up just before."""
        row = _row(step, path)
        if row in self._unanswered:
            self._unanswered.discard(row)
            self._unanswered.add((step, path))

    def _add(self, seq: Seq, held: _Held, cause: Cause, tokens: int, cost_nanousd: int) -> None:
        if seq > self._after:
            kind = held.day, root_of(node_of(held.step)), held.model, cause
            calls, before, cost = self._found.get(kind, (0, 0, 0))
            self._found[kind] = calls + 1, before + tokens, cost + cost_nanousd

    def costs(self) -> list[ExtraCost]:
        """Return what was counted, in the order of days, nodes, models and causes."""
        return [
            ExtraCost(day, self._tenant, self._team, self._workflow, node, model, cause, *amounts)
            for (day, node, model, cause), amounts in sorted(self._found.items())
        ]


def _missed(before: _Paid | None, held: _Held, event: ev.ModelCallSettled) -> int:
    """Estimate the input tokens that could have been read from the provider's cache and were not. A call that follows another
    of its row, of the same model and within five minutes, and has more input, is taken to go on with its conversation: the
    cache could have had the whole input of the one before."""
    if before is None or not event.cacheable_nanousd or before.held.model != held.model:
        return 0
    if held.at_ms - before.held.at_ms > CACHE_LIVES_MS or event.input_tokens <= before.tokens:
        return 0
    return max(0, before.tokens - event.cache_read_tokens)


def _row(step: StepId, path: Path) -> _Place:
    """The operations of one task or branch of a step."""
    return step, Path(f"{path.rpartition('.')[0]}.")


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat()[:_DAY_CHARS]
