"""The rules of admission: a run has its place among the active runs of its tenant and of the fleet, or waits for one.

A place is kept until the run has ended, however long it waits for people meanwhile. Never here: how many there are.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.rules.decision import Decision
from holdfast.core.values import scopes
from holdfast.errors import TooManyRuns

_LONGEST_RETRY_S: Final = 60


def full_scope(d: Decision, tenant: str) -> str | None:
    """The first scope that is known to have no place left for a run of `tenant`."""
    if not d.shortages:
        return None
    return next((scope for scope in scopes.run_scopes(tenant) if scope in d.shortages and d.shortages[scope].left < 1), None)


def claim(d: Decision, c: commands.StartRun) -> str | None:
    """See whether the run has a place; where it has to wait for one. Raises TooManyRuns for one that would not wait."""
    full = full_scope(d, c.tenant)
    if full is not None and not c.queue:
        short = d.shortages[full]
        wait_s = min(_LONGEST_RETRY_S, 1 - short.left)
        raise TooManyRuns(
            f"{scopes.in_words(full).capitalize()}: {short.limit} may be active, and all places are taken or awaited."
            f" Nothing was started: try again in {wait_s} s, or have the run queued.",
            scope=full,
            limit=short.limit,
            retry_after_s=wait_s,
        )
    return full


def attend(d: Decision, headroom: frozenset[str]) -> None:
    """Let the run begin that has waited for its place, now that there is room, unless there is none elsewhere."""
    awaited = d.state.awaits
    if awaited is None or awaited not in headroom or d.state.phase:
        return
    full = full_scope(d, d.state.tenant)
    if full is None:
        d.emit(ev.RunAdmitted())
        for name in d.graph.order:  # one that was taken up again may have got anywhere
            d.touch(name)
    elif full != awaited:
        d.emit(ev.AdmissionDeferred(full))
