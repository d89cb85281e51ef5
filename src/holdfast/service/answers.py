"""Answers what a principal asks: about one run, or a page of a list.

Never here: what a row looks like (view), changing anything.
"""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, TypeVar, get_args

import msgspec

from holdfast.control.base import NOT_GIVEN
from holdfast.control.command import DEFAULT_TENANT
from holdfast.control.control import Control
from holdfast.control.stream import START
from holdfast.core.costs import CostKey
from holdfast.core.projection import RunRow
from holdfast.core.state import State
from holdfast.core.status import Status
from holdfast.core.streams import Told
from holdfast.errors import InvalidInput, NotFound
from holdfast.service import query as asked
from holdfast.service import view
from holdfast.service.principal import Principal
from holdfast.service.query import MOST, Page, Query, View

ROLL_UP_S: Final = 5.0
"""What somebody who asks for the costs may be kept waiting until they are up to date."""
MOST_WAIT_S: Final = 30.0
"""For what comes of a stream: connections that say nothing for longer are cut by many that stand between."""

_Kind = TypeVar("_Kind")
_cost_key: Final = msgspec.json.Decoder(CostKey)
_name_key: Final = msgspec.json.Decoder(tuple[str, str])
_value_key: Final = msgspec.json.Decoder(tuple[str, str, str])
_workflow_key: Final = msgspec.json.Decoder(tuple[str, Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]])


class Answers:
    """What an engine's store knows, as far as a principal may see it."""

    def __init__(self, control: Control) -> None:
        self.control = control
        """What it stands on."""
        self._lists: Mapping[type, Callable[[Any, str | None], Awaitable[Page]]] = {
            asked.Runs: self._runs, asked.Gates: self._gates, asked.Effects: self._effects, asked.Events: self._events,
            asked.Streams: self._streams,
            asked.ForkQuote: self._fork_quote, asked.Items: self._items, asked.Tree: self._tree,
            asked.DeadLetters: self._dead_letters, asked.DeadLetterSummary: self._dead_letter_summary, asked.Costs: self._costs,
            asked.Doubts: self._doubts, asked.Pools: self._pools, asked.Schedules: self._schedules,
            asked.Conversations: self._conversations, asked.SharedValues: self._shared_values, asked.Budget: self._budget,
            asked.Admission: self._admission, asked.Workflows: self._workflows, asked.Queue: self._queue,
        }  # fmt: skip

    # --- One run ------------------------------------------------------------------------------------------------------

    async def row(self, who: Principal, run: str) -> RunRow:
        """The run's row. Raises NotFound, also for another tenant's: whose runs there are is nobody else's affair."""
        row = await self.control.find(run)
        if who.tenant not in (None, row.tenant):
            raise NotFound(f"There is no run {run} in this store; `holdfast runs list` shows those that are.")
        return row

    async def state(self, who: Principal, run: str) -> State:
        """The run as of now. Raises NotFound."""
        await self.row(who, run)
        return await self.control.run(run).state()

    async def run(self, who: Principal, run: str) -> View:
        """How a run stands. Raises NotFound."""
        return await view.of_run(self.control, await self.state(who, run))

    # --- A page of a list ---------------------------------------------------------------------------------------------

    async def ask(self, who: Principal, query: Query) -> Page:
        """A page of what is asked. Raises InvalidInput for a cursor or a limit that cannot be, NotFound, NotPermitted."""
        if not 1 <= (limit := getattr(query, "limit", 1)) <= MOST:
            raise InvalidInput(f"limit is {limit}; a page has 1 to {MOST} rows.")
        run: str | None = getattr(query, "run", None)
        if isinstance(query, asked.DeadLetters) and query.letter is not None:
            run = query.letter.partition(":")[0]
        if run is not None:
            await self.row(who, run)
        elif isinstance(query, asked.Queue | asked.Workflows):
            who.expect_everybody("The line of steps" if isinstance(query, asked.Queue) else "The list of workflows")
        return await self._lists[type(query)](query, who.of_tenant(getattr(query, "tenant", None)))

    async def _runs(self, query: asked.Runs, tenant: str | None) -> Page:
        expect_statuses(query.status)
        rows = await self.control.runs(
            tenant=tenant, workflow=query.workflow, status=query.status or None, key=query.key, since_ms=query.since_ms,
            until_ms=query.until_ms, in_doubt=query.in_doubt, before=query.cursor, limit=query.limit + 1,
        )  # fmt: skip
        return _page([view.of_row(row) for row in rows], query.limit, "run_id")

    async def _gates(self, query: asked.Gates, tenant: str | None) -> Page:
        found = await self.control.gates(
            query.run, tenant=tenant, open_only=not query.all, after=query.cursor, limit=query.limit + 1
        )
        return _page([view.of_gate(*each) for each in found], query.limit, "gate_id")

    async def _effects(self, query: asked.Effects, tenant: str | None) -> Page:
        found = await self.control.effects(
            query.run, tenant=tenant, state=query.state, after=query.cursor, limit=query.limit + 1
        )
        return _page([await view.of_effect(self.control, *each) for each in found], query.limit, "call")

    async def _events(self, query: asked.Events, _: str | None) -> Page:
        found = await self.control.run(query.run).events(_seq(query.cursor), query.limit + 1)
        return _page([view.of_event(each) for each in found], query.limit, "seq")

    async def _fork_quote(self, query: asked.ForkQuote, _: str | None) -> Page:
        output = NOT_GIVEN if query.output is msgspec.UNSET else query.output
        plan = await self.control.fork_plan(query.run, query.step, output=output, state=query.state)
        return Page([view.of_fork(plan, query.cost_limit_usd)], None)

    async def _tree(self, query: asked.Tree, _: str | None) -> Page:
        return Page([view.of_tree(await self.control.tree(query.run))], None)

    async def _items(self, query: asked.Items, _: str | None) -> Page:
        row = await self.control.find(query.run)
        found = await self.control.run(query.run).items(query.map, _seq(query.cursor), query.limit)
        rows = [await view.of_item(self.control, each, row.tenant) for each in found.ends]
        return Page(rows, None if found.after is None else str(found.after))

    async def _streams(self, query: asked.Streams, _: str | None) -> Page:
        if not 0 <= query.wait_s <= MOST_WAIT_S:
            raise InvalidInput(f"wait_s is {query.wait_s:g}; a page is waited for 0 to {MOST_WAIT_S:g} seconds.")
        ended = (await self.control.find(query.run)).ended_at_ms is not None  # asked first: what comes after it is told
        since = query.cursor or START
        told = await self._told(query, since, follow=False)
        if not told and query.wait_s and not ended:
            told = await self._told(query, since, follow=True)
        cursor = told[-1].cursor if told else since
        return Page([view.of_told(each) for each in told], None if ended and len(told) < query.limit else cursor)

    async def _told(self, query: asked.Streams, since: str, *, follow: bool) -> list[Told]:
        """What there is; with `follow` the first that comes."""
        told: list[Told] = []
        telling = self.control.watch_stream(query.run, query.name, since=since, follow=follow)
        with suppress(TimeoutError):
            async with timeout(query.wait_s if follow else None), aclosing(telling):
                async for each in telling:
                    told.append(each)
                    if follow or len(told) == query.limit:
                        break
        return told

    async def _dead_letters(self, query: asked.DeadLetters, tenant: str | None) -> Page:
        if query.letter is not None:
            return Page([await view.of_letter_whole(self.control, *await self.control.dead_letter(query.letter))], None)
        found = await self.control.dead_letters(
            run_id=query.run, tenant=tenant, workflow=query.workflow, node=query.node, error_class=query.error_class,
            state=None if query.state == "any" else query.state, since_ms=query.since_ms, until_ms=query.until_ms,
            after=query.cursor, limit=query.limit + 1,
        )  # fmt: skip
        return _page([view.of_letter(each) for each in found], query.limit, "letter")

    async def _dead_letter_summary(self, query: asked.DeadLetterSummary, tenant: str | None) -> Page:
        now_ms = self.control.now_ms()
        return Page([view.of_letters(each, now_ms) for each in await self.control.dead_letter_counts(tenant)], None)

    async def _costs(self, query: asked.Costs, tenant: str | None) -> Page:
        """As of now, as far as counting takes no long time; the pages after the first do not count again."""
        if query.cursor is None:
            await self.control.roll_up_costs(ROLL_UP_S)
        found = await self.control.costs(
            query.first_day, query.last_day, tenant=tenant, after=_key(query.cursor), limit=query.limit + 1
        )
        rows = found[: query.limit]
        return Page([view.of_cost(each) for each in rows], _encoded(rows[-1].key) if len(found) > len(rows) else None)

    async def _doubts(self, query: asked.Doubts, tenant: str | None) -> Page:
        found = await self.control.doubts(run_id=query.run, tenant=tenant, before=query.cursor, limit=query.limit)
        return Page([view.of_doubt(each) for each in found], found[-1].run if len(found) >= query.limit else None)

    async def _conversations(self, query: asked.Conversations, tenant: str | None) -> Page:
        control = self.control
        if query.name is not None:
            return Page([view.of_talk(await control.conversation(query.name, tenant=tenant or DEFAULT_TENANT))], None)
        found = await control.conversations(tenant=tenant, after=_name(query.cursor), limit=query.limit + 1)
        rows = found[: query.limit]
        cursor = _encoded((rows[-1].tenant, rows[-1].id)) if len(found) > len(rows) else None
        return Page([view.of_conversation(each) for each in rows], cursor)

    async def _schedules(self, query: asked.Schedules, tenant: str | None) -> Page:
        if query.name is not None:
            found = await self.control.schedule(query.name, tenant=tenant or DEFAULT_TENANT)
            return Page([await view.of_schedule(self.control, found)], None)
        kept = await self.control.schedules(tenant, after=_name(query.cursor), limit=query.limit + 1)
        rows = [await view.of_schedule(self.control, each) for each in kept[: query.limit]]
        last = kept[query.limit - 1] if len(kept) > query.limit else None
        return Page(rows, None if last is None else msgspec.json.encode((last.tenant, last.name)).decode())

    async def _shared_values(self, query: asked.SharedValues, tenant: str | None) -> Page:
        if query.key is not None:
            name = tenant or DEFAULT_TENANT, query.space or "", query.key
            versions = await self.control.shared_versions(name[1], name[2], tenant=name[0])
            return Page([view.of_shared_value(*name, each) for each in versions], None)
        after = None if query.cursor is None else _decoded(query.cursor, _value_key)
        found = await self.control.shared_values(tenant, query.space, after=after, limit=query.limit + 1)
        rows = found[: query.limit]
        cursor = _encoded(rows[-1][:3]) if len(found) > len(rows) else None
        return Page([view.of_shared_value(*each) for each in rows], cursor)

    async def _pools(self, query: asked.Pools, _: str | None) -> Page:
        if query.name is not None:
            return Page([await view.of_pool_in_use(self.control, query.name)], None)
        return Page([view.of_pool(pool) for pool in await self.control.pools()], None)

    async def _budget(self, query: asked.Budget, tenant: str | None) -> Page:
        return Page([await view.of_owner(self.control, tenant or query.tenant, query.team)], None)

    async def _admission(self, query: asked.Admission, tenant: str | None) -> Page:
        return Page([await view.of_admission(self.control, tenant)], None)

    async def _workflows(self, query: asked.Workflows, _: str | None) -> Page:
        control = self.control
        if query.name is not None:
            stored = await control.workflow(query.name, query.version)
            return Page([view.of_workflow_whole(stored, await control.able(stored.hash))], None)
        found = await control.workflows(after=_place(query.cursor), limit=query.limit + 1)
        rows = found[: query.limit]
        cursor = _encoded((rows[-1].name, rows[-1].version)) if len(found) > len(rows) else None
        return Page([view.of_workflow(each, await control.able(each.graph_hash)) for each in rows], cursor)

    async def _queue(self, query: asked.Queue, _: str | None) -> Page:
        if query.run is not None:
            return Page([view.of_wait(each) for each in await self.control.why(query.run, query.step)], None)
        return Page([view.of_placed(each) for each in await self.control.line()], None)


def expect_statuses(given: Iterable[str]) -> None:
    """Raises InvalidInput for a status that there is not."""
    if wrong := next((each for each in given if each not in get_args(Status)), None):
        raise InvalidInput(f"There is no status {wrong!r}; there are {', '.join(get_args(Status))}.")


def _page(rows: list[View], limit: int, cursor: str) -> Page:
    """The first `limit` of the rows; the list goes on after what its last says under the name `cursor`, if there are more."""
    return Page(rows[:limit], str(rows[limit - 1][cursor]) if len(rows) > limit else None)


def _seq(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
        raise _no_cursor(cursor)
    return int(cursor)


def _key(cursor: str | None) -> CostKey | None:
    return None if cursor is None else _decoded(cursor, _cost_key)


def _place(cursor: str | None) -> tuple[str, int] | None:
    return None if cursor is None else _decoded(cursor, _workflow_key)


def _name(cursor: str | None) -> tuple[str, str] | None:
    return None if cursor is None else _decoded(cursor, _name_key)


def _decoded(cursor: str, decoder: msgspec.json.Decoder[_Kind]) -> _Kind:
    try:
        return decoder.decode(cursor)
    except msgspec.DecodeError:
        raise _no_cursor(cursor) from None


def _encoded(key: tuple[Any, ...]) -> str:
    return msgspec.json.encode(key).decode()


def _no_cursor(cursor: str) -> InvalidInput:
    return InvalidInput(f"{cursor!r:.80} is no cursor of this list; say the one that the page before ended with.")
