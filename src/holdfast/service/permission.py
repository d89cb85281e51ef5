"""What it takes to tell or ask something: a grant for each command and query.

Never here: what a grant implies (core.access), whose a run is (answers).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.core.access import Grant
from holdfast.errors import NotPermitted
from holdfast.service import command as cmd
from holdfast.service import query as ask
from holdfast.service.principal import Principal

_VIEWER: Final[tuple[Grant, ...]] = ("viewer",)
_OPERATOR: Final[tuple[Grant, ...]] = ("operator",)
_PERSON: Final[tuple[Grant, ...]] = ("reviewer", "operator")
_ADMIN: Final[tuple[Grant, ...]] = ("admin",)

NEEDS: Final[Mapping[type[msgspec.Struct], tuple[Grant, ...]]] = {
    **dict.fromkeys((
        cmd.Start, cmd.Fork, cmd.Pause, cmd.Resume, cmd.Retry, cmd.Migrate, cmd.ExportRun,
        cmd.Cancel, cmd.Extend, cmd.Signal, cmd.Bulk,
        cmd.BulkDeadLetters,
        cmd.EditDeadLetter, cmd.ReplayDeadLetter, cmd.ResolveDeadLetter, cmd.OpenConversation, cmd.Say, cmd.DeleteConversation,
        cmd.SetSchedule, cmd.PauseSchedule, cmd.ResumeSchedule, cmd.RemoveSchedule, cmd.Backfill, cmd.WriteSharedValue,
        cmd.ForgetCachedAnswer, cmd.MakeLink, cmd.Reassign, cmd.RollUpCosts,
    ), _OPERATOR),
    **dict.fromkeys((cmd.Resolve, cmd.GiveScore), _PERSON),
    **dict.fromkeys((
        cmd.Decide, cmd.DecideTogether, cmd.Delegate, cmd.MakeGateLink, cmd.GrantApproval, cmd.RevokeApproval,
    ), ("reviewer",)),
    **dict.fromkeys((
        cmd.RaiseBudget, cmd.Reconcile, cmd.SetBudget, cmd.SetTeamBudget, cmd.RemoveTeamBudget,
        cmd.SetAdmission, cmd.SetPool, cmd.RemovePool, cmd.MakeKey,
        cmd.RotateKey,
        cmd.RevokeKey, ask.Keys, ask.Audit,
    ), _ADMIN),
}  # fmt: skip
"""One of these grants; for a query that is not here, any."""


def expect(who: Principal, asked: Any) -> None:
    """Raises NotPermitted for one who was not granted what this takes."""
    needed = NEEDS.get(type(asked), _VIEWER)
    if not any(who.access.allows(grant) for grant in needed):
        may = ", ".join(who.access.may) or "nothing"
        raise NotPermitted(
            f"{type(asked).__name__} takes the grant {' or '.join(needed)}, and {who.claim} has {may}. Nothing was done."
        )
