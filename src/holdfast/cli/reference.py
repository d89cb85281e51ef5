"""Which run, gate or call a person means: by its id, or as much of the beginning as no other has.

Never here: what is done with it. What a table had to cut (`019aa8b2-6f41-7c3…`) is such a beginning too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from holdfast.errors import NotFound, UsageError

if TYPE_CHECKING:
    from holdfast.control.inquiry import Inquiries
    from holdfast.core.ids import CallId, GateId
    from holdfast.core.projection import RunRow

Id = TypeVar("Id", bound=str)

_MOST_NAMED: Final = 5
MOST_OF_A_RUN: Final = 10_000
"""Gates or calls of one run that are looked through: as many as a run may well have."""
_LISTS: Final = {"gate": "gates", "call": "effects"}


async def run(inquiries: Inquiries, given: str) -> RunRow:
    """The run whose id begins with `given`. Raises NotFound, and UsageError where there are several."""
    prefix = given.rstrip("…").lower()
    found = await inquiries.runs(prefix=prefix, limit=_MOST_NAMED + 1) if prefix else []
    exact = [row for row in found if row.run == prefix]
    if len(found) > 1 and not exact:
        _several(given, "run", [f"{row.run}  {row.workflow} {row.version}, {row.status}" for row in found])
    return (exact or found)[0] if found else await inquiries.find(given)


async def gate(inquiries: Inquiries, given: str) -> GateId:
    """The gate whose id, of which the run's comes first, begins with `given`. Raises NotFound, UsageError."""
    row, rest = await _of_run(inquiries, given)
    gates = await inquiries.gates(row.run, open_only=False, limit=MOST_OF_A_RUN)
    return _only(given, "gate", f"{row.run}:{rest}", [each.gate for each, _ in gates])


async def call(inquiries: Inquiries, given: str) -> CallId:
    """The call of a tool whose id, of which the run's comes first, begins with `given`. Raises NotFound, UsageError."""
    row, rest = await _of_run(inquiries, given)
    calls = await inquiries.effects(row.run, limit=MOST_OF_A_RUN)
    return _only(given, "call", f"{row.run}:{rest}", [each.call for each, _ in calls])


async def _of_run(inquiries: Inquiries, given: str) -> tuple[RunRow, str]:
    start, _, rest = given.rstrip("…").partition(":")
    return await run(inquiries, start), rest


def _only(given: str, what: str, start: str, ids: Iterable[Id]) -> Id:
    found = [each for each in ids if each.startswith(start)]
    exact = [each for each in found if each == start]
    if not found:
        raise NotFound(f"There is no {what} {given}; `holdfast {_LISTS[what]} list` shows those that are.")
    if len(found) > 1 and not exact:
        _several(given, what, found)
    return (exact or found)[0]


def _several(given: str, what: str, found: Sequence[str]) -> NoReturn:
    named = "".join(f"\n  {each}" for each in found[:_MOST_NAMED])
    more = "\n  …" if len(found) > _MOST_NAMED else ""
    raise UsageError(f"{given!r} is the beginning of several {what}s. Nothing was done; say which:{named}{more}")
