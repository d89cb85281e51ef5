"""What a command's exit code means: part of the public surface."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Conflict, HoldfastError, NotFound, UsageError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
BUDGET_BLOCKED: Final = 7
WAITING: Final = 8
INTERRUPTED: Final = 130

OF_STATUS: Final = {
    "completed": OK,
    "failed": FAILED,
    "cancelled": FAILED,
    "budget_blocked": BUDGET_BLOCKED,
    "waiting": WAITING,
    "requires_attention": WAITING,
    "paused": WAITING,
}


def of_error(problem: HoldfastError) -> int:
    if isinstance(problem, UsageError):
        return USAGE
    if isinstance(problem, NotFound):
        return NOT_FOUND
    return CONFLICT if isinstance(problem, Conflict) else FAILED
