"""The use of standing approvals: a call that a person has approved beforehand is counted, in a commit before it is made.

An approval is a shared value of a space of the engine's, and each use a version of it, written in the history of the run that
uses it: of two that want the last use one gets it. Never here: what an approval covers (core.nouns.tool_policy), granting one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.contribution import with_read
from holdfast.core.facts.events import Event
from holdfast.core.facts.state import OTHERS, SHARED, Operation, Step
from holdfast.core.nouns.shared_values import APPROVALS, SharedValue
from holdfast.core.nouns.tool_policy import StandingApproval, ToolRule
from holdfast.core.values.ids import Path, RunId, StepId, approval_at
from holdfast.core.values.payload import digest, inline
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.background.kin import contributors_of_kin
from holdfast.errors import SharedValueMoved
from holdfast.ports import ReplayRequest

MAX_STANDING: Final = 1_000
"""Of a tenant, of which each call that asks looks at all."""
_Call: TypeAlias = tuple[str, Mapping[str, Any], str, str, ToolRule | None, str | None, tuple[str, ...]]
_TRIES: Final = 50
"""Of a use that others have come before, or whose approval has ended meanwhile; then a person is asked."""


class ApprovalJournal(Protocol):
    """A step's journal, as far as the use of an approval goes."""

    attempt: Attempt
    before: Step
    step: StepId
    number: int
    run: RunId
    tenant: str

    def find(self, path: Path, kind: str, name: str, args_hash: str = "") -> Operation | None: ...

    def noted(self) -> tuple[cmd.Value, ...]: ...

    def take(self) -> tuple[cmd.Value, ...]: ...

    async def send(self, command: cmd.AttemptCommand) -> list[Event]: ...


async def used(
    journal: ApprovalJournal, path: Path, tool: str, arguments: Mapping[str, Any], rule: ToolRule | None
) -> StandingApproval | None:
    """The approval by which the call at `path` is made, now used once more; None where a person is to be asked, or is."""
    at, before = Path(f"{path}.standing"), journal.before.journal
    asked = digest(["standing", tool, dict(arguments)])
    if at in before:
        known = journal.find(at, SHARED, before[at].name, asked)  # the step is left where that was for another call
        assert known is not None
        return _approval(known)
    if approval_at(path) in before:
        return None
    if (stand_in := journal.attempt.services.stand_in) is not None:
        told = stand_in.approval(ReplayRequest(journal.run, journal.step, at, SHARED, tool, asked))
        return None if told is None else _approval(told)
    for _ in range(_TRIES):
        state = await journal.attempt.state()
        is_for_others = rule is not None and rule.four_eyes
        kin = await contributors_of_kin(journal.attempt.services.runtime.runs, state) if is_for_others else ()
        involved = (*with_read(state, journal.noted()), *(kin or ()))
        if is_for_others and (kin is None or OTHERS in involved):  # it is unknown who else there was
            return None
        call = tool, arguments, state.workflow, state.run, rule, state.by, involved
        # This process's clock may be behind the run's history.
        now_ms = max(journal.attempt.services.runtime.store.clock.now_ms(), state.at_ms)
        found = await _covering(journal, call, now_ms)
        if found is None:
            return None
        key, version, approval = found
        counted = msgspec.structs.replace(approval, used=approval.used + 1)
        written = SharedValue(msgspec.to_builtins(counted), version + 1, now_ms, approval.by, journal.run)
        use = cmd.WriteSharedValue(
            journal.step,
            journal.number,
            at,
            APPROVALS,
            key,
            asked,
            version,
            is_written=True,
            outcome=inline(written),
            values=journal.take(),
            until_ms=approval.until_ms,
        )
        try:
            await journal.send(use)
        except SharedValueMoved:
            continue
        return counted
    return None


def _approval(use: Operation) -> StandingApproval:
    """As it was after its use."""
    assert use.outcome is not None
    return msgspec.convert(msgspec.convert(use.outcome.value(), SharedValue).value, StandingApproval)


async def _covering(journal: ApprovalJournal, call: _Call, now_ms: int) -> tuple[str, int, StandingApproval] | None:
    """The first approval that covers a call, with its key and version."""
    values = journal.attempt.services.runtime.store.shared_values
    page = await journal.attempt.patiently(lambda: values.page(journal.tenant, APPROVALS, None, MAX_STANDING))
    for _, _, key, latest in page:
        if not latest.gone:
            found = msgspec.convert(latest.value, StandingApproval)
            if found.stands(now_ms) and found.covers(*call):
                return key, latest.version, found
    return None
