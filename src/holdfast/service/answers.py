"""Answers what a principal asks: about one run, or a page of a list.

Never here: what a row looks like (view), changing anything.
"""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec

from holdfast.control.base import NOT_GIVEN
from holdfast.control.control import Control
from holdfast.control.naming import DEFAULT_TENANT
from holdfast.control.stream import START
from holdfast.core.facts.costs import CostKey
from holdfast.core.facts.state import State
from holdfast.core.facts.streams import Told
from holdfast.core.values.claim import is_among
from holdfast.core.values.ids import GateId, run_of
from holdfast.errors import CursorLost, InvalidInput, NotFound, UsageError
from holdfast.service import listing, view
from holdfast.service import query as asked
from holdfast.service.cursor import no_cursor, open_, problem_of_cursor, seal
from holdfast.service.gate import story_of, whole
from holdfast.service.listing import seq_of
from holdfast.service.permission import Permission
from holdfast.service.principal import Principal
from holdfast.service.query import MOST, Page, Query, View

ROLL_UP_S: Final = 5.0
"""What somebody who asks for the costs may be kept waiting until they are up to date."""
MOST_WAIT_S: Final = 30.0
"""For what comes of a stream: connections that say nothing for longer are cut by many that stand between."""

_OF_ALL: Final = (asked.Queue,)
"""What is answered from everybody's work, for why a step waits is in who is before it. The row of its run is one's own."""

_Kind = TypeVar("_Kind")
_cost_key: Final = msgspec.json.Decoder(CostKey)
_name_key: Final = msgspec.json.Decoder(tuple[str, str])
_value_key: Final = msgspec.json.Decoder(tuple[str, str, str])
_workflow_key: Final = msgspec.json.Decoder(tuple[str, Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]])


class Answers:
    """What an engine's store knows, as far as a principal may see it."""

    def __init__(self, control: Control, offered: Collection[str] = ()) -> None:
        """`offered` are the names of the workflows that each caller may start."""
        self.control = control
        """What it stands on."""
        self.permission = Permission(control, offered)
        self._cursor_key: bytes | None = None
        self._lists: Mapping[type, Callable[[Any, str | None], Awaitable[Page]]] = {
            asked.Runs: self._runs,
            asked.Gates: self._gates,
            asked.Effects: self._effects,
            asked.Events: self._events,
            asked.Streams: self._streams,
            asked.Tree: self._tree,
            asked.ForkQuote: self._fork_quote,
            asked.CancelQuote: self._cancel_quote,
            asked.Items: self._items,
            asked.DeadLetters: self._dead_letters,
            asked.DeadLetterSummary: self._dead_letter_summary,
            asked.Costs: self._costs,
            asked.Doubts: self._doubts,
            asked.Pools: self._pools,
            asked.Schedules: self._schedules,
            asked.Conversations: self._conversations,
            asked.SharedValues: self._shared_values,
            asked.Memories: self._memories,
            asked.Budget: self._budget,
            asked.Admission: self._admission,
            asked.Workflows: self._workflows,
            asked.Queue: self._queue,
            asked.Run: self._run,
            asked.Steps: self._steps,
            asked.Drawing: self._drawing,
            asked.RunCosts: self._run_costs,
            asked.RunBudget: self._run_budget,
            asked.Trace: self._trace,
            asked.Logs: self._logs,
            asked.Scores: self._scores,
            asked.ScoreMeans: self._score_means,
            asked.Evaluations: self._evaluations,
            asked.Evaluation: self._evaluation,
            asked.Gate: self._gate,
            asked.Tail: self._tail,
            asked.TeamBudgets: self._team_budgets,
            asked.Approvals: self._approvals,
            asked.Supervisors: self._supervisors,
            asked.Workers: self._workers,
            asked.Keys: self._keys,
            asked.Audit: self._audit,
            asked.AuditHead: self._audit_head,
        }

    # --- One run ------------------------------------------------------------------------------------------------------

    async def expect(self, who: Principal, told: Any) -> None:
        """See that a caller may tell or ask this. Raises NotPermitted, NotFound."""
        await self.permission.expect(who, told)

    async def state(self, who: Principal, run: str) -> State:
        """The run as of now. Raises NotFound, also for another tenant's."""
        await self.expect(who, asked.Run(run))
        return await self.control.run(run).state()

    async def run(self, who: Principal, run: str) -> View:
        """How a run stands. Raises NotFound."""
        return self.seen(who, await view.of_run(self.control, await self.state(who, run)))

    def seen(self, who: Principal, row: View) -> View:
        """A row as somebody may see it."""
        found: View = row if who.tenant is None else view.without_traces(row)
        return found

    def _as(self, who: Principal) -> Answers:
        """What answers somebody: it reads what is theirs, also where a filter is forgotten."""
        return Answers(self.control.of_tenant(who.tenant))

    # --- A page of a list ---------------------------------------------------------------------------------------------

    async def ask(self, who: Principal, query: Query) -> Page:
        """A page of what is asked. Raises InvalidInput for a cursor or a limit that cannot be, NotFound, NotPermitted."""
        await self.expect(who, query)
        if not 1 <= (limit := getattr(query, "limit", 1)) <= MOST:
            raise InvalidInput(f"limit is {limit}; a page has 1 to {MOST} rows.")
        seal_key = await self._seal_key(who, query)
        of = f"{type(query).__name__} {who.tenant or ''}"
        cursor = getattr(query, "cursor", None) if seal_key else None
        if cursor is not None:
            query = msgspec.structs.replace(query, cursor=open_(seal_key, of, cursor))
        lists = self if isinstance(query, _OF_ALL) else self._as(who)
        try:
            page = await lists._lists[type(query)](query, who.of_tenant(getattr(query, "tenant", None)))
        except (NotFound, UsageError, CursorLost) as problem:
            if cursor is None:
                raise
            raise problem_of_cursor(problem, cursor, str(getattr(query, "cursor", ""))) from None
        rows = await self.permission.reached(who, query, page.rows)
        if who.tenant is not None and isinstance(query, asked.Pools) and query.name is not None:
            rows = [view.of_pool_for_one(row, partial(self.permission.is_startable, who)) for row in rows]
        if isinstance(query, asked.Gates) and query.mine:
            rows = [row for row in rows if not row["reviewers"] or is_among(row["reviewers"], who.name, who.acts_as)]
        rows = [self.seen(who, row) for row in rows]
        if not seal_key:
            return page._replace(rows=rows)
        if isinstance(query, asked.Tail):
            rows = [{**row, "cursor": seal(seal_key, of, row["cursor"])} for row in rows]
        return Page(rows, None if page.cursor is None else seal(seal_key, of, page.cursor))

    async def _seal_key(self, who: Principal, query: Query) -> bytes:
        """With what the cursors of a list are sealed from which rows may be hidden; nothing for whoever sees all."""
        if not self.permission.hides(who, query):
            return b""
        if self._cursor_key is None:
            self._cursor_key = await self.control.store.keys.cursor_key()
        return self._cursor_key

    async def _runs(self, query: asked.Runs, tenant: str | None) -> Page:
        return await listing.runs(self.control, query, tenant)

    async def _run(self, query: asked.Run, _: str | None) -> Page:
        return Page([await view.of_run_whole(self.control, await self.control.run(query.run).state())], None)

    async def _steps(self, query: asked.Steps, _: str | None) -> Page:
        state = await self.control.run(query.run).state()
        workers = await self.control.names_of({step.worker for step in state.steps.values() if step.worker is not None})
        return Page([view.of_step(step, workers) for step in state.steps.values()], None)

    async def _run_costs(self, query: asked.RunCosts, _: str | None) -> Page:
        return Page(view.of_node_costs(await self.control.run(query.run).state()), None)

    async def _run_budget(self, query: asked.RunBudget, _: str | None) -> Page:
        return Page([view.of_budget(await self.control.run(query.run).state())], None)

    async def _drawing(self, query: asked.Drawing, _: str | None) -> Page:
        state = await self.control.run(query.run).state()
        return Page([view.of_drawing(await self.control.graph_of(state.graph_hash), state)], None)

    async def _trace(self, query: asked.Trace, _: str | None) -> Page:
        """Read anew for each page: what a node came to is known from all that came before."""
        after = seq_of(query.cursor)
        found = [each for each in await self.control.trace(query.run) if each.seq > after]
        last = found[query.limit - 1].seq if len(found) > query.limit else None
        rows = found if last is None else [each for each in found if each.seq <= last]  # an event may say several things
        return Page([view.of_trace(each) for each in rows], None if last is None else str(last))

    async def _logs(self, query: asked.Logs, _: str | None) -> Page:
        return await listing.logs(self.control, query)

    async def _scores(self, query: asked.Scores, _: str | None) -> Page:
        return Page([view.of_score(each) for each in await self.control.scores(query.run, every=query.all)], None)

    async def _score_means(self, query: asked.ScoreMeans, tenant: str | None) -> Page:
        found = await self.control.score_means(
            tenant=tenant, name=query.name, workflow=query.workflow, since_ms=query.since_ms, limit=query.limit
        )
        return Page([view.of_mean(each) for each in found], None)

    async def _evaluations(self, query: asked.Evaluations, tenant: str | None) -> Page:
        found = await self.control.evaluations(
            tenant=tenant, workflow=query.workflow, before=query.cursor, limit=query.limit + 1
        )
        return listing.page([view.of_evaluation(each) for each in found], query.limit, "evaluation_id")

    async def _evaluation(self, query: asked.Evaluation, _: str | None) -> Page:
        found, judged = await self.control.evaluation(query.evaluation)
        return Page([view.of_evaluation(found, judged)], None)

    async def _gate(self, query: asked.Gate, _: str | None) -> Page:
        row = await self.control.find(run_of(GateId(query.gate)))
        return Page([await whole(self.control, await story_of(self.control, query.gate), row)], None)

    async def _tail(self, query: asked.Tail, tenant: str | None) -> Page:
        return await listing.tail(self.control, query, tenant)

    async def _workers(self, query: asked.Workers, tenant: str | None) -> Page:
        reports = await self.control.reports()
        if tenant is not None:
            return Page([view.of_workers(reports)], None)
        names = await self.control.names_of({each.worker for each in reports})
        return Page([view.of_worker(each, names.get(each.worker)) for each in reports], None)

    async def _keys(self, query: asked.Keys, tenant: str | None) -> Page:
        name, _, of = (query.cursor or "").partition("/")
        found = await self.control.store.keys.listed(tenant, (name, of) if name else None, query.limit + 1)
        page = listing.page([view.of_key(each) for each in found], query.limit, "name")
        last = found[len(page.rows) - 1] if page.cursor is not None else None
        return page if last is None or last.tenant is None else page._replace(cursor=f"{last.name}/{last.tenant}")

    async def _audit(self, query: asked.Audit, tenant: str | None) -> Page:
        found = await self.control.store.audit.links(seq_of(query.cursor), tenant, query.limit + 1)
        return listing.page([view.of_link(each) for each in found], query.limit, "number")

    async def _audit_head(self, query: asked.AuditHead, tenant: str | None) -> Page:
        head = await self.control.store.audit.head() if tenant is None else None
        return Page([] if head is None else [view.of_audit_head(head)], None)

    async def _gates(self, query: asked.Gates, tenant: str | None) -> Page:
        return await listing.gates(self.control, query, tenant)

    async def _effects(self, query: asked.Effects, tenant: str | None) -> Page:
        found = await self.control.effects(
            query.run, tenant=tenant, state=query.state, after=query.cursor, limit=query.limit + 1
        )
        return listing.page([await view.of_effect(self.control, *each) for each in found], query.limit, "call")

    async def _events(self, query: asked.Events, _: str | None) -> Page:
        return await listing.events(self.control, query)

    async def _fork_quote(self, query: asked.ForkQuote, _: str | None) -> Page:
        output = NOT_GIVEN if query.output is msgspec.UNSET else query.output
        plan = await self.control.fork_plan(query.run, query.step, output=output, state=query.state)
        return Page([view.of_fork(plan, query.cost_limit_usd)], None)

    async def _cancel_quote(self, query: asked.CancelQuote, _: str | None) -> Page:
        return Page([view.of_cancel(await self.control.run(query.run).state())], None)

    async def _tree(self, query: asked.Tree, _: str | None) -> Page:
        return Page([view.of_tree(await self.control.tree(query.run))], None)

    async def _items(self, query: asked.Items, _: str | None) -> Page:
        row = await self.control.find(query.run)
        found = await self.control.run(query.run).items(query.map, seq_of(query.cursor), query.limit)
        rows = [await view.of_item(self.control, each, row.tenant) for each in found.ends]
        return Page(rows, None if found.after is None else str(found.after))

    async def _streams(self, query: asked.Streams, _: str | None) -> Page:
        if not 0 <= query.wait_s <= MOST_WAIT_S:
            raise InvalidInput(f"wait_s is {query.wait_s:g}; a page is waited for 0 to {MOST_WAIT_S:g} seconds.")
        ended = (await self.control.find(query.run)).ended_at_ms is not None  # asked first: what comes after it is told
        since = since_of(query.cursor)
        told = await self._told(query, since, follow=False)
        if not told and query.wait_s and not ended:
            told = await self._told(query, since, follow=True)
        cursor = told[-1].cursor if told else str(since)
        return Page([view.of_told(each) for each in told], None if ended and len(told) < query.limit else cursor)

    async def _told(self, query: asked.Streams, since: str | int, *, follow: bool) -> list[Told]:
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
            run_id=query.run,
            tenant=tenant,
            workflow=query.workflow,
            node=query.node,
            error_class=query.error_class,
            state=None if query.state == "any" else query.state,
            since_ms=query.since_ms,
            until_ms=query.until_ms,
            after=query.cursor,
            limit=query.limit + 1,
        )
        return listing.page([view.of_letter(each) for each in found], query.limit, "letter")

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

    async def _memories(self, query: asked.Memories, tenant: str | None) -> Page:
        found = await self.control.memories(query.agent, query.user, tenant=tenant or DEFAULT_TENANT, words=query.words or None)
        wanted = [each for each in found if not query.kind or each.kind in query.kind]
        return Page([view.of_memory(each) for each in wanted[: query.limit]], None)

    async def _pools(self, query: asked.Pools, _: str | None) -> Page:
        if query.name is not None:
            return Page([await view.of_pool_in_use(self.control, query.name)], None)
        return Page([view.of_pool(pool) for pool in await self.control.pools()], None)

    async def _budget(self, query: asked.Budget, tenant: str | None) -> Page:
        return Page([await view.of_owner(self.control, tenant or query.tenant, query.team)], None)

    async def _team_budgets(self, query: asked.TeamBudgets, tenant: str | None) -> Page:
        owner = tenant or DEFAULT_TENANT
        if query.name is not None:
            return Page([view.of_team_budget(await self.control.team_dashboard(query.name, tenant=owner))], None)
        names = await self.control.team_budgets(tenant=owner)
        rows = [{"name": each, "tenant": owner} for each in names if query.cursor is None or each > query.cursor]
        return listing.page(rows, query.limit, "name")

    async def _approvals(self, query: asked.Approvals, tenant: str | None) -> Page:
        owner, now_ms = tenant or DEFAULT_TENANT, self.control.now_ms()
        found = sorted((await self.control.standing_approvals(tenant=owner)).items())
        rows = [view.of_approval(*each, owner, now_ms) for each in found if query.cursor is None or each[0] > query.cursor]
        if query.approval is not None:
            return Page([row for row in rows if row["approval"] == query.approval], None)
        return listing.page(rows, query.limit, "approval")

    async def _supervisors(self, query: asked.Supervisors, tenant: str | None) -> Page:
        control = self.control
        if query.name is not None:
            found = await control.supervisor(query.name, tenant=tenant or DEFAULT_TENANT).declared()
            return Page([view.of_dashboard(found, control.now_ms())], None)
        kept = await control.supervisors(tenant, after=_name(query.cursor), limit=query.limit + 1)
        last = kept[query.limit - 1] if len(kept) > query.limit else None
        rows = [view.of_supervisor(each) for each in kept[: query.limit]]
        return Page(rows, None if last is None else _encoded((last.tenant, last.name)))

    async def _admission(self, query: asked.Admission, tenant: str | None) -> Page:
        return Page([await view.of_admission(self.control, tenant)], None)

    async def _workflows(self, query: asked.Workflows, tenant: str | None) -> Page:
        control, owner = self.control, tenant or DEFAULT_TENANT
        if query.name is not None:
            stored = await control.workflow(query.name, query.version, tenant=owner)
            return Page([view.of_workflow_whole(stored, await control.able(stored.hash))], None)
        found = await control.workflows(tenant=owner, after=_place(query.cursor), limit=query.limit + 1)
        rows = found[: query.limit]
        cursor = _encoded((rows[-1].name, rows[-1].version)) if len(found) > len(rows) else None
        return Page([view.of_workflow(each, await control.able(each.graph_hash)) for each in rows], cursor)

    async def _queue(self, query: asked.Queue, tenant: str | None) -> Page:
        if query.run is not None:
            return Page([view.of_wait(each) for each in await self.control.why(query.run, query.step)], None)
        line = enumerate(await self.control.line())
        return Page([view.of_placed(each, ahead) for ahead, each in line if tenant in (None, each.tenant)], None)


def _key(cursor: str | None) -> CostKey | None:
    return None if cursor is None else _decoded(cursor, _cost_key)


def _place(cursor: str | None) -> tuple[str, int] | None:
    return None if cursor is None else _decoded(cursor, _workflow_key)


def _name(cursor: str | None) -> tuple[str, str] | None:
    return None if cursor is None else _decoded(cursor, _name_key)


def since_of(cursor: str | None) -> str | int:
    """Where a list of what is said begins: after a cursor, or at a number."""
    number = (cursor or "").removeprefix("-")
    return int(cursor or "") if number.isascii() and number.isdecimal() and len(number) < 16 else cursor or START


def _decoded(cursor: str, decoder: msgspec.json.Decoder[_Kind]) -> _Kind:
    try:
        return decoder.decode(cursor)
    except msgspec.DecodeError:
        raise no_cursor(cursor) from None


def _encoded(key: tuple[Any, ...]) -> str:
    return msgspec.json.encode(key).decode()
