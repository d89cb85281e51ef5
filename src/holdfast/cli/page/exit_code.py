"""Exit codes of commands and their meanings: part of the public surface."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Conflict, HoldfastError, NotFound, Unauthorized, Unreachable, UsageError

OK: Final = 0
"""The command succeeded; a run completed."""
FAILED: Final = 1
"""The command or the run failed, or the run was cancelled."""
USAGE: Final = 2
"""The command, the workflow file or the input is wrong."""
NOT_FOUND: Final = 3
"""The subject does not exist."""
CONFLICT: Final = 4
"""Another writer was first, a decision was refused, or the run has ended."""
UNAUTHORIZED: Final = 5
"""The server of HOLDFAST_URL does not know the token."""
UNREACHABLE: Final = 6
"""The server of HOLDFAST_URL cannot be reached."""
BUDGET_BLOCKED: Final = 7
"""The run waits for money: its status is budget_blocked."""
WAITING: Final = 8
"""The run waits for a person or a signal, requires attention, or is paused. `worker --until-idle` leaves runs that no living
process can continue, and names them."""
DIFFERENT: Final = 9
"""`exec`: a resumed program asked a model for something else than before, and was stopped there."""
INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM interrupted the command; the run keeps what it has done."""

OF_STATUS: Final = {
    "completed": OK,
    "failed": FAILED,
    "cancelled": FAILED,
    "budget_blocked": BUDGET_BLOCKED,
    "waiting": WAITING,
    "requires_attention": WAITING,
    "paused": WAITING,
}


_OF_ERROR: Final = (
    (UsageError, USAGE),
    (NotFound, NOT_FOUND),
    (Conflict, CONFLICT),
    (Unauthorized, UNAUTHORIZED),
    (Unreachable, UNREACHABLE),
)


def of_error(problem: HoldfastError) -> int:
    return next((code for kind, code in _OF_ERROR if isinstance(problem, kind)), FAILED)
