"""References to a run, gate or call: by its id, or by as much of the beginning as is unique.

Never here: what is done with it. An id that a table had to cut (`019aa8b2-6f41-7c3…`) is such a beginning too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from holdfast.errors import NotFound, UsageError
from holdfast.service.declarations import query

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend
    from holdfast.service.declarations.query import View

_MAX_NAMED: Final = 5
_WHOLE: Final = 36
"""Characters of a run's id."""
MAX_OF_A_RUN: Final = 10_000
"""Gates or calls of one run that are looked through: as many as a run may well have."""
_LISTS: Final = {
    "gate": "gates list",
    "call": "effects list",
    "evaluation": "evals list",
    "approval": "approvals list",
    "delivery": "notifications deliveries",
}


async def run(asking: QueryBackend, text: str) -> View:
    """The run whose id begins with `text`, as lists have it. Raises NotFound, and UsageError where there are several."""
    prefix = text.rstrip("…").lower()
    found = await asking.rows(query.Runs(prefix=prefix), _MAX_NAMED + 1) if prefix else []
    exact = [row for row in found if row["run_id"] == prefix]
    if len(found) > 1 and not exact:
        named = [f"{row['run_id']}  {row['workflow']} {row['version']}, {row['status']}" for row in found]
        _several(text, "run", named)
    if not found:
        raise NotFound(f"There is no run {text} in this store; see `holdfast runs list`.")
    return (exact or found)[0]


async def run_id(asking: QueryBackend, text: str) -> str:
    """Its whole id. Raises NotFound, UsageError."""
    return str((await run(asking, text))["run_id"])


async def gate(asking: QueryBackend, text: str) -> str:
    """The gate whose id, of which the run's comes first, begins with `text`. Raises NotFound, UsageError."""
    of, rest = await _of_run(asking, text, "gate")
    gates = await asking.rows(query.Gates(run=of, all=True), MAX_OF_A_RUN)
    return _only(text, "gate", f"{of}:{rest}", [each["gate_id"] for each in gates])


async def call(asking: QueryBackend, text: str) -> str:
    """The call of a tool whose id, of which the run's comes first, begins with `text`. Raises NotFound, UsageError."""
    of, rest = await _of_run(asking, text, "call")
    calls = await asking.rows(query.Effects(run=of), MAX_OF_A_RUN)
    return _only(text, "call", f"{of}:{rest}", [each["call"] for each in calls])


async def evaluation(asking: QueryBackend, text: str) -> str:
    """The evaluation whose id begins with `text`. Raises NotFound, UsageError."""
    start = text.rstrip("…").lower()
    # Ids are hexadecimal and listed from the highest on: those that begin so are the first before this one.
    rows = (await asking.query(query.Evaluations(cursor=f"{start}g", limit=_MAX_NAMED + 1))).rows if start else []
    return _only(text, "evaluation", start, [row["evaluation_id"] for row in rows])


async def approval(asking: QueryBackend, text: str) -> str:
    """The standing approval whose id begins with `text`. Raises NotFound, UsageError."""
    start = text.rstrip("…").lower()
    rows = await asking.rows(query.Approvals()) if start else []
    return _only(text, "approval", start, [row["approval"] for row in rows])


async def delivery(asking: QueryBackend, text: str) -> str:
    """The delivery of a notification whose id begins with `text`. Raises NotFound, UsageError."""
    start = text.rstrip("…").lower()
    rows = await asking.rows(query.Deliveries(prefix=start), _MAX_NAMED + 1) if start else []
    return _only(text, "delivery", start, [row["id"] for row in rows])


def is_meant(text: str, id_: str) -> bool:
    """True if `text` is the beginning of an id of a run's, of which the run's part may be shortened by itself."""
    (run, _, rest), (start, _, more) = id_.partition(":"), text.rstrip("…").partition(":")
    return run.startswith(start.rstrip("…")) and rest.startswith(more)


async def letter(asking: QueryBackend, text: str) -> str:
    """The id of a dead letter, of which the run's may be given by its beginning. Raises NotFound, UsageError."""
    run, _, step = text.partition(":")
    found = await run_id(asking, run)
    return f"{found}:{step}" if step else found


async def after(asking: QueryBackend, text: str) -> str:
    """The id after which a list goes on, with all of its run's. Raises NotFound, UsageError."""
    return text if len(text.partition(":")[0]) >= _WHOLE else await letter(asking, text)


async def _of_run(asking: QueryBackend, text: str, name: str) -> tuple[str, str]:
    start, _, rest = text.rstrip("…").partition(":")
    try:
        return await run_id(asking, start), rest
    except NotFound:
        raise _none(name, text) from None


def _none(name: str, text: str) -> NotFound:
    return NotFound(f"There is no {name} {text}; see `holdfast {_LISTS[name]}`.")


def _only(text: str, name: str, start: str, ids: Iterable[str]) -> str:
    found = [each for each in ids if each.startswith(start)]
    exact = [each for each in found if each == start]
    if not found:
        raise _none(name, text)
    if len(found) > 1 and not exact:
        _several(text, name, found)
    return (exact or found)[0]


def _several(text: str, name: str, names: Sequence[str]) -> NoReturn:
    plural = "deliveries" if name == "delivery" else f"{name}s"
    named = "".join(f"\n  {each}" for each in names[:_MAX_NAMED])
    more = "\n  …" if len(names) > _MAX_NAMED else ""
    raise UsageError(f"{text!r} is the beginning of several {plural}. Nothing was done. Name one of them:{named}{more}")
