"""Lists that need no engine, only what the store says: of runs, gates and events, of what jobs have printed.

Never here: who may see them (answers, principal).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import msgspec

from holdfast.core.nouns import scores
from holdfast.core.nouns.labels import pair
from holdfast.core.values.ids import RunId
from holdfast.core.values.money import Usd, nanousd
from holdfast.core.views.page import OfEvent
from holdfast.core.views.projection import EffectState
from holdfast.core.views.selection import RunFilter
from holdfast.core.views.status import Status, WaitKind
from holdfast.errors import InvalidInput
from holdfast.service import view
from holdfast.service.control import process
from holdfast.service.control.run_reader import expect_known
from holdfast.service.cursor import no_cursor
from holdfast.service.declarations import query as asked
from holdfast.service.declarations.query import NOW, START, Page, View

if TYPE_CHECKING:
    from holdfast.core.views.projection import RunRow
    from holdfast.service.control.run_reader import RunReader
    from holdfast.service.declarations.command import Bulk

_Key = TypeVar("_Key")
Sequenced = TypeVar("Sequenced", bound=OfEvent)
_LOOKED: Final = 100
"""Events that are read at a time, at least."""
_MAX_LOOKED: Final = 10_000
"""Events that are read for one page at most."""
OF_TENANTS: Final = msgspec.json.Decoder(tuple[str, str])
"""The cursor of a list by tenant and name."""


async def runs(inquiries: RunReader, query: asked.Runs, tenant: str | None) -> Page:
    """Raises InvalidInput for a status that there is not."""
    expect_statuses(query.status)
    rows = await inquiries.runs(**build_filter(query, tenant, query.limit + 1))
    missing = await process.missing_since_ms(inquiries.store, rows)
    labels = await inquiries.labels_of(rows)
    return page([view.of_row(row, missing.get(row.run), labels.get(row.run, ())) for row in rows], query.limit, "run_id")


def build_filter(query: asked.Runs | Bulk, tenant: str | None, limit: int) -> RunFilter:
    """Return the filter of a list of runs or a bulk command: its criteria under their names, and those that stores name
    otherwise. Raises InvalidInput for an impossible amount, or a wait that there is not."""
    expect_known("wait", query.waiting_for, get_args(WaitKind))
    given: Any = {name: getattr(query, name) for name in query.__struct_fields__ if name in RunFilter.__annotations__}
    renamed: RunFilter = {
        "tenant": tenant,
        "status": query.status or None,
        "waiting_for": query.waiting_for or None,
        "labels": [*(("", tag) for tag in query.tag), *map(pair, query.label)],
        "cost_from_nanousd": _amount("min_cost_usd", query.min_cost_usd),
        "cost_to_nanousd": _amount("max_cost_usd", query.max_cost_usd),
        "score_from": _score("min_score", query.min_score),
        "score_to": _score("max_score", query.max_score),
        "before": query.cursor,
        "limit": limit,
    }
    return {**given, **renamed}


def _score(name: str, bound: str | None) -> tuple[str, float] | None:
    if bound is None:
        return None
    score, _, value = bound.partition("=")
    try:
        found = scores.number(float(value))
    except ValueError:
        found = None
    if found is None or scores.problem(score, "") is not None:
        raise InvalidInput(f"{name} is {bound!r:.80}; write NAME=VALUE, like helpful=0.8. Nothing was listed or done.")
    return score, found


def _amount(name: str, amount: Usd | None) -> int | None:
    try:
        return None if amount is None else nanousd(amount)
    except (ValueError, OverflowError) as problem:
        raise InvalidInput(f"{name}: {problem}. Nothing was listed or done.") from None


async def gates(inquiries: RunReader, query: asked.Gates, tenant: str | None) -> Page:
    found = await inquiries.gates(
        query.run,
        below=query.below,
        tenant=tenant,
        open_only=not query.all,
        order=query.order,
        after=query.cursor,
        limit=query.limit + 1,
        risk_levels=query.risk_level,
    )

    return page([view.of_gate(*each) for each in found], query.limit, "gate_id")


async def events(inquiries: RunReader, query: asked.Events, _: str | None = None) -> Page:
    found = await inquiries.store.log.events(RunId(query.run), seq_of(query.cursor), query.limit + 1)
    return page([view.of_event(each) for each in found], query.limit, "seq")


async def tail(
    inquiries: RunReader, query: asked.Tail, tenant: str | None, seen: Callable[[list[Any]], Awaitable[list[Any]]] | None = None
) -> Page:
    """Return events; of the rows found, those that `seen` keeps. A page ends early only at the newest event, or if very many
    events of other runs come together, so its pages cannot be used to count those."""
    found = inquiries.store.tail
    if query.cursor == NOW:
        return Page([], None if query.ends else await found.end())
    rows: list[Any] = []
    cursor, looked, is_end = None if query.cursor == START else query.cursor, 0, False
    runs: dict[RunId, RunRow | None] = {}
    while len(rows) < query.limit and looked < _MAX_LOOKED and not is_end:
        asked_for = max(query.limit, _LOOKED)
        told, upto = await found.after(cursor, asked_for)
        for each in {event.run for event in told} - runs.keys():
            runs[each] = await inquiries.store.views.run(each)
        wanted = [
            view.of_tail(event, row.workflow)
            for event in told
            if (row := runs[event.run]) is not None and tenant in (None, row.tenant) and query.workflow in (None, row.workflow)
        ]
        rows += wanted if seen is None else await seen(wanted)
        # Not when there are few: those of a tenant that was erased are left out.
        cursor, looked, is_end = upto, looked + asked_for, upto == cursor
    if len(rows) > query.limit:
        return Page(rows[: query.limit], rows[query.limit - 1]["cursor"])
    return Page(rows, None if query.ends and is_end else cursor)


async def logs(inquiries: RunReader, query: asked.Logs, _: str | None = None) -> Page:
    pieces = [
        each
        for each in await inquiries.job_logs(RunId(query.run))
        if query.job in (None, each.place.job)
        and query.attempt in (None, each.place.attempt)
        and query.first_byte in (None, each.place.first)
    ]
    texts = [await inquiries.job_log(each.place) if query.text else None for each in pieces]
    return Page([view.of_log(*each) for each in zip(pieces, texts, strict=True)], None)


def expect_statuses(statuses: Iterable[str]) -> None:
    """Raises InvalidInput for a status that there is not."""
    expect_known("status", statuses, get_args(Status))


def expect_effect_state(value: str | None) -> None:
    """Raises InvalidInput for a state of a tool call that there is not."""
    expect_known("state", [] if value is None else [value], get_args(EffectState))


def page(rows: list[Any], limit: int, cursor: str) -> Page:
    """The first `limit` of the rows; the list goes on after what its last says under the name `cursor`, if there are more."""
    return Page(rows[:limit], str(rows[limit - 1][cursor]) if len(rows) > limit else None)


def keyed_page(rows: Sequence[View], keys: Sequence[Any], limit: int) -> Page:
    """The first `limit` of the rows, of which each stands at the place of its key in a list that goes on after the last."""
    return Page(list(rows[:limit]), msgspec.json.encode(keys[limit - 1]).decode() if len(keys) > limit else None)


def seq_page(rows: Sequence[Sequenced], limit: int) -> tuple[Sequence[Sequenced], str | None]:
    """Return the first `limit` of the rows, and all others of the last one's event; and the cursor, if there are more."""
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1].seq
    return [each for each in rows if each.seq <= last], str(last)


def key_of(cursor: str | None, decoder: msgspec.json.Decoder[_Key]) -> _Key | None:
    """After which key a list goes on. Raises InvalidInput."""
    if cursor is None:
        return None
    try:
        return decoder.decode(cursor)
    except msgspec.DecodeError:
        raise no_cursor(cursor) from None


def since_of(cursor: str | None) -> str | int:
    """Return where a list of streamed values begins: after a cursor, or at a number."""
    number = (cursor or "").removeprefix("-")
    return int(cursor or "") if number.isascii() and number.isdecimal() and len(number) < 16 else cursor or START


def seq_of(cursor: str | None) -> int:
    """After which event a list goes on. Raises InvalidInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
        raise no_cursor(cursor)
    return int(cursor)
