"""Costs of calls, by hour, tenant, team, workflow, node and model or priced tool: read from the events of runs.

A call counts in the hour (UTC) of its hold, as in the scopes above its run, however late its cost became known. A call in doubt
has no cost until it is reconciled. Never here: a price, a sum that is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import CallId, RunId, Seq, StepId, node_of, root_of

CostKey = tuple[str, str, str, str, str]
"""Which calls: their day, tenant, workflow, node and model. Costs are in the order of these."""
BEFORE_ALL: Final[CostKey] = ("", "", "", "", "")
_DAY_CHARS: Final = len("2026-11-21")
_HOUR_CHARS: Final = len("2026-11-21T14")


class Cost(msgspec.Struct, frozen=True):
    """The cost of the calls of one kind: one day, tenant, workflow, node and model."""

    day: str
    tenant: str
    workflow: str
    node: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_nanousd: int

    @property
    def key(self) -> CostKey:
        """Return the kind of calls."""
        return self.day, self.tenant, self.workflow, self.node, self.model

    def plus(self, other: Cost) -> Cost:
        """Return the sum with the cost of others of the same kind."""
        return Cost(
            *self.key,
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_nanousd + other.cost_nanousd,
        )


class HourCost(msgspec.Struct, frozen=True):
    """The cost of the calls of one kind, and of one team, in an hour like `2026-11-21T14`. The team of a run without one is
    empty."""

    hour: str
    team: str
    cost: Cost


CostField = Literal["month", "day", "hour", "tenant", "team", "workflow", "node", "model"]


class CostSum(NamedTuple):
    """A sum of costs by some of these fields; the others are empty. The `is_rest` has what is not among the largest."""

    month: str
    day: str
    hour: str
    tenant: str
    team: str
    workflow: str
    node: str
    model: str
    is_rest: bool
    calls: int
    input_tokens: int
    output_tokens: int
    cost_nanousd: int


class RunCost(NamedTuple):
    """The cost of a run: of its own calls, not of those of its children."""

    run: RunId
    tenant: str
    workflow: str
    version: int
    status: str
    started_at_ms: int
    ended_at_ms: int | None
    cost_nanousd: int
    in_doubt_nanousd: int


class LabelCost(NamedTuple):
    """The cost of the runs that have a label."""

    value: str
    runs: int
    cost_nanousd: int
    in_doubt_nanousd: int


class UncountedRun(msgspec.Struct, frozen=True):
    """A run that is at `seq`, and whose events up to `counted` are in the roll-up."""

    run: RunId
    seq: Seq
    counted: Seq


class CostProgress(NamedTuple):
    """The progress of the roll-up: every event up to `cursor`, a place in the store's tail, is in it."""

    cursor: str
    before: RunId | None = None
    """Not of the runs before this one, by their ids, as long as it looks at all of them; empty when it begins to. None when it
    has."""


class _OpenHold(NamedTuple):
    hour: str
    node: str
    model: str


class Tally:
    """Counts what a run's calls cost whose cost became known after the event `after`. Wants the whole history."""

    def __init__(self, after: Seq) -> None:
        self._after = after
        self._tenant = self._team = self._workflow = ""
        self._held: dict[CallId, _OpenHold] = {}
        self._found: dict[_OpenHold, tuple[int, int, int, int]] = {}
        self.total_nanousd = 0
        """The cost of the whole run, also of what came before."""

    def take(self, recorded: Iterable[ev.Recorded]) -> None:
        """The next events."""
        for each in recorded:
            match each.event:
                case ev.RunStarted() as started:
                    self._tenant, self._team, self._workflow = started.tenant, started.team or "", started.workflow
                case ev.ModelCallHeld() as held:
                    self._held[held.call] = self._of(each.at_ms, held.step, held.sent_to or held.model)
                case ev.ModelCallFailed() as failed:
                    self._held.pop(failed.call, None)
                case ev.ModelCallSettled() as settled:
                    tokens = settled.input_tokens, settled.output_tokens
                    self._count(each.seq, settled.call, *tokens, settled.cost_nanousd)
                case ev.ModelCallReconciled() as reconciled:  # of its tokens, an unknown number
                    self._count(each.seq, reconciled.call, 0, 0, reconciled.cost_nanousd)
                case other:
                    self._take_tool(other, each)

    def _take_tool(self, event: ev.Event, each: ev.Recorded) -> None:
        """The same of a tool that has a price."""
        match event:
            case ev.EffectIntended():
                for call, hold in event.given_up.items():
                    self._count(each.seq, call, 0, 0, hold.nanousd)
                if event.hold_nanousd:
                    self._held[event.call] = self._of(each.at_ms, event.step, f"tool {event.tool}")
            case ev.EffectCompleted(hold=ev.Hold(nanousd=cost)) | ev.EffectFailed(cost_nanousd=cost) if cost:
                self._count(each.seq, event.call, 0, 0, cost)
            case ev.EffectFailed() | ev.EffectReleased():
                self._held.pop(event.call, None)
            case _:
                pass

    @staticmethod
    def _of(at_ms: int, step: StepId, called: str) -> _OpenHold:
        hour = datetime.fromtimestamp(at_ms // 1000, UTC).isoformat()[:_HOUR_CHARS]
        return _OpenHold(hour, root_of(node_of(step)), called)

    def _count(self, seq: Seq, call: CallId, *amounts: int) -> None:
        held = self._held.pop(call)
        self.total_nanousd += amounts[-1]
        if seq > self._after:
            before = self._found.get(held, (0, 0, 0, 0))
            added = [one + other for one, other in zip(before, (1, *amounts), strict=True)]
            self._found[held] = (added[0], added[1], added[2], added[3])

    def costs(self) -> list[HourCost]:
        """Return what was counted, in the order of hours, nodes and models."""
        return [
            HourCost(
                held.hour,
                self._team,
                Cost(held.hour[:_DAY_CHARS], self._tenant, self._workflow, held.node, held.model, *amounts),
            )
            for held, amounts in sorted(self._found.items())
        ]
