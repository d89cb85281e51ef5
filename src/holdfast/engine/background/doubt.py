"""Money in doubt: the model calls of which nobody knows what they cost, and what a person has said becomes of them in time.

No provider that is called here can be asked afterwards what a single call used, so nobody is; a bill is a person's to read.
Never here: deciding anything that no person has said.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec

from holdfast.core.facts.commands import ReconcileCall
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import CallId, RunId, SessionId
from holdfast.core.values.money import usd
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import Conflict, CorruptHistory, NotFound
from holdfast.ports import Views

log = logging.getLogger("holdfast")

_PAGE: Final = 100
_EVERY_S: Final = 60.0
"""How late a rule may come to an age that is counted in hours."""
_MOST: Final = 200
"""Calls that a turn settles; the rest is the next turn's."""


class Doubt(msgspec.Struct, frozen=True):
    """A model call of unknown cost. Its whole reservation counts as spent. `session` made it and is gone, or has lost the
    reply; `error` says which. Times are the store's."""

    call: CallId
    run: RunId
    tenant: str
    workflow: str
    step: str
    attempt: int
    model: str
    hold_nanousd: int
    sent_at_ms: int
    in_doubt_since_ms: int
    session: SessionId | None
    error_class: str
    error: str


class DoubtRule(NamedTuple):
    """A person's rule for money that is in doubt for this long: nothing was spent, or the whole hold."""

    after_h: float
    is_unspent: bool
    set_by: str

    def __str__(self) -> str:
        what = "unspent" if self.is_unspent else "spent whole"
        return f"in doubt for {self.after_h:g} h is {what}; set by {self.set_by} in holdfast.toml"


async def doubts(
    runtime: Runtime,
    *,
    run: RunId | None = None,
    tenant: str | None = None,
    until_ms: int | None = None,
    before: str | None = None,
    views: Views | None = None,
) -> AsyncIterator[Doubt]:
    """The calls in doubt, of the newest run first, that became so until a moment; those of runs older than `before`. `views`:
    in which lists they are looked for, if not in the engine's own."""
    lists = views if views is not None else runtime.store.views
    while True:
        page = await lists.runs(prefix=run, tenant=tenant, in_doubt=True, before=before, limit=_PAGE)
        for row in page:
            try:
                state = await runtime.runs.state(row.run)
            except CorruptHistory as problem:
                log.error(
                    "holdfast cannot tell what money is in doubt in run %s: %s", row.run, problem, extra={"run_id": row.run}
                )
                continue
            for id_, call in state.calls.items():
                if call.kind == "model" and call.doubted and (until_ms is None or call.at_ms <= until_ms):
                    yield Doubt(
                        id_,
                        row.run,
                        row.tenant,
                        row.workflow,
                        call.step,
                        call.attempt,
                        call.name,
                        call.hold_nanousd,
                        call.intended_at_ms or call.at_ms,
                        call.at_ms,
                        call.session,
                        call.error.error_class if call.error is not None else "",
                        call.error.message if call.error is not None else "",
                    )
        if len(page) < _PAGE:
            return
        before = page[-1].run


class Doubts:
    """Keeps the rule, where there is one: some calls a turn, a turn a minute."""

    def __init__(self, runtime: Runtime, rule: DoubtRule | None) -> None:
        self._runtime = runtime
        self._rule = rule
        self._looked_s = -_EVERY_S

    async def turn(self) -> None:
        now_s = self._runtime.clock.monotonic_s()
        if self._rule is None or now_s - self._looked_s < _EVERY_S:
            return
        self._looked_s = now_s
        await self._settle(self._rule)

    async def _settle(self, rule: DoubtRule) -> None:
        until_ms = self._runtime.store.clock.now_ms() - int(rule.after_h * 3_600_000)
        done, amount = 0, 0
        async for each in doubts(self._runtime, until_ms=until_ms):
            cost = 0 if rule.is_unspent else each.hold_nanousd
            try:
                await self._runtime.runs.send(each.run, ReconcileCall(each.call, cost, Actor(rule.set_by), str(rule)))
            except (Conflict, NotFound):
                continue  # another was there first
            done, amount = done + 1, amount + each.hold_nanousd
            if done == _MOST:
                self._looked_s = -_EVERY_S  # there may be more
                break
        if done:
            log.info("holdfast settled %d model calls ($%s): %s.", done, usd(amount), rule)
