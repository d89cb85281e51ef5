"""Following a run in the foreground: a live table at a terminal, plain lines elsewhere.

Never here: prompting. What is shown is only what was committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from holdfast.cli.page import terminal
from holdfast.cli.page.event_format import EventFormatter
from holdfast.cli.page.event_words import failure, job_result, named
from holdfast.cli.page.moment import clock, span
from holdfast.cli.page.waiting import short
from holdfast.cli.runs.run_view import took
from holdfast.cli.runs.stream import StreamPrinter
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.values.money import usd
from holdfast.core.views.operations import OperationRow, Operations
from holdfast.core.views.status import describe, may_be_placed, may_start, status
from holdfast.errors import HoldfastError
from holdfast.platform import log_ids
from holdfast.service import view
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from holdfast.cli.backend import Backend, QueryBackend
    from holdfast.core.facts.events import Recorded
    from holdfast.core.facts.graph import Graph
    from holdfast.core.facts.state import State, Step
    from holdfast.core.facts.streams import StreamEvent
    from holdfast.service.control.handle import Run

_LOOK_EVERY_S: Final = 0.05
"""A person sees no more than this; and every look costs the run a little."""
_LAST_WORDS_S: Final = 0.1
_PLACED_S: Final = 0.25
"""The time that a step gets to be placed before the reason is asked for why it is not."""
_MISSED_S: Final = 2.0
"""The time before a passing reason is reported: a pool in use, a worker that has only begun."""
_LOOKS_AGAIN_S: Final = 30.0
_MAX_ROWS: Final = 24
_MAX_OPERATIONS: Final = 12
"""Maximum number of the steps' latest operations shown below them."""
_BAR: Final = 24
_MARKS: Final = {
    "ready": ("·", "dim"),
    "suspended": ("⏸", "yellow"),
    "retrying": ("↻", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "bold red"),
    "skipped": ("–", "dim"),
    "cancelled": ("–", "dim"),
    "waiting": ("⏸", "yellow"),
    "in_doubt": ("?", "yellow"),
}


class Display(Protocol):
    """Shows how a run goes on."""

    @property
    def reported(self) -> Collection[str]:
        """Failures that were printed in full."""
        ...

    def show(self, state: State, news: Sequence[Recorded]) -> None:
        """`news` are the events since the last time; `state` is what they led to."""
        ...

    def hear(self, event: View) -> None:
        """Print a text of the run."""
        ...


@contextmanager
def display(graph: Graph, now_ms: Callable[[], int]) -> Iterator[Display]:
    """The display that suits stderr; `now_ms` is the store's time."""
    if not terminal.is_live():
        yield Lines()
        return
    from rich.live import Live

    with Live(console=terminal.messages(), refresh_per_second=10) as live:
        yield Board(live, graph, now_ms)


async def follow(
    run: Run, board: Display, asking: QueryBackend, telling: AsyncGenerator[StreamEvent, None] | None = None
) -> State:
    """Show how a run goes on until it has ended or needs a person; return that state. `asking` knows why a step is not
    placed; `telling` are its texts, shown as they come."""
    async with _places(asking, run.id) as look:
        if telling is None:
            return await _follow(run, board, look)
        return await _followed_and_heard(run, board, look, telling)


async def _followed_and_heard(
    run: Run, board: Display, look: Callable[[], None], telling: AsyncGenerator[StreamEvent, None]
) -> State:
    hearing = asyncio.create_task(_hear(telling, board), name="holdfast-hearing")
    try:
        return await _follow(run, board, look)
    finally:
        # What was written before is in the store by now, and heard at the next look.
        await asyncio.wait([hearing], timeout=_LAST_WORDS_S)
        hearing.cancel()
        await asyncio.gather(hearing, return_exceptions=True)


async def _hear(telling: AsyncGenerator[StreamEvent, None], board: Display) -> None:
    try:
        async with aclosing(telling):
            async for told in telling:
                board.hear(view.of_told(told))
    except HoldfastError as problem:
        terminal.say(f"The output of the run cannot be shown any more: {problem.message}")


async def _follow(run: Run, board: Display, look: Callable[[], None]) -> State:
    seen = 0

    def news(state: State) -> bool:
        return state.seq > seen or run.is_idle(state)

    while True:
        state = await run.until(news)
        done = await run.is_settled(state)
        events = await run.events(seen)
        seen = events[-1].seq if events else seen
        board.show(state, events)
        if done:
            return state
        if may_be_placed(state) or may_start(state):
            look()
        await asyncio.sleep(_LOOK_EVERY_S)


@asynccontextmanager
async def _places(asking: QueryBackend, run: str) -> AsyncIterator[Callable[[], None]]:
    """Return a function to call once a step may wait for a place: it prints the reason, once for each pool or label."""
    news = asyncio.Event()
    telling = asyncio.create_task(_tell_places(asking, run, news), name="holdfast-places")
    try:
        yield news.set
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_places(asking: QueryBackend, run: str, news: asyncio.Event) -> None:
    told: set[tuple[str | None, str | None]] = set()
    pause_s: float | None = None
    while True:  # until it is called off
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await news.wait()
        await asyncio.sleep(_PLACED_S if pause_s is None else _MISSED_S)
        news.clear()
        try:
            waits = await tell_waits(asking, run, told)
        except HoldfastError:  # the run is followed without it
            waits = True
        pause_s = min(2 * (pause_s or _PLACED_S), _LOOKS_AGAIN_S) if waits else None


async def tell_waits(asking: QueryBackend, run: str, reported: set[tuple[str | None, str | None]]) -> bool:
    """Print what of it was not `reported`; True while a step of the run waits for a place."""
    from holdfast.cli.page.waiting import words

    waiting = (await asking.row(query.Run(run)))["waiting_for"]
    if not any(each["kind"] in ("slot", "worker") for each in waiting):
        return False
    now_ms = asking.now_ms()
    for each in await asking.rows(query.Queue(run)):
        why = each["pool"], "slot" if each["waits_for"] == "slot" else each["lacking"]
        is_new = why not in reported and why not in ((None, None), (None, "capacity"))
        stays = each["pool"] is not None and not each["possible"]
        if is_new and (stays or each["workers"]) and (stays or now_ms - each["since_ms"] >= 1000 * _MISSED_S):
            reported.add(why)
            terminal.say(words(each, now_ms, {}))
    return True


async def listen(service: Backend, run: str) -> tuple[View, Collection[str]]:
    """Print what happens in a run that goes on elsewhere, as a log keeps it, until it has ended or needs a person. Return how
    it stands then, and the failures that were printed."""
    after, formatter = 0, EventFormatter()

    def print_event(event: View) -> None:
        nonlocal after
        after = event["seq"]
        recorded = view.recorded_of(event)
        if (line := formatter.line(recorded)) is not None:
            _say(line, recorded)

    async def hear(look: Callable[[], None]) -> None:
        async with aclosing(service.watch(run, 0)) as watching:
            async for event in watching:
                print_event(event)
                look()

    async with _places(service, run) as look:
        hearing = asyncio.create_task(hear(look), name="holdfast-hearing")
        try:
            found = await service.settled(run)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
    for event in await service.rows(query.Events(run=run, cursor=str(after))):
        print_event(event)
    return found, formatter.reported


def _say(line: str, recorded: Recorded) -> None:
    """Print the line of an event, with the ids of its run and of its step's attempt."""
    of_run = log_ids.here()
    step, attempt = (getattr(recorded.event, name, None) for name in ("step", "attempt"))
    log_ids.enter(replace(of_run, step_id=step or "", attempt=(step and attempt) or 0))
    try:
        terminal.say(line)
    finally:
        log_ids.enter(of_run)


class Lines:
    """One line for each change, as a log keeps it."""

    def __init__(self) -> None:
        self._formatter = EventFormatter()

    @property
    def reported(self) -> Collection[str]:
        return self._formatter.reported

    def show(self, state: State, news: Sequence[Recorded]) -> None:
        for recorded in news:
            line = self._formatter.line(recorded)
            if line is not None:
                _say(line, recorded)

    def hear(self, event: View) -> None:
        """A log is no place for half sentences: `holdfast runs stream` has them."""


class Board:
    """A table of the nodes, with the run's money below it."""

    reported: Collection[str] = ()
    """A table has no room for a whole failure."""

    def __init__(self, live: Live, graph: Graph, now_ms: Callable[[], int]) -> None:
        self._live = live
        self._graph = graph
        self._now_ms = now_ms
        self._operations = Operations()
        self._spinners: dict[str, RenderableType] = {}
        self._table: list[RenderableType] = []
        self._said = ""
        """The unfinished line of the text. The lines before it stand above the table."""
        self._words = StreamPrinter(self._write)

    def hear(self, event: View) -> None:
        self._words.hear(event)
        *lines, self._said = self._said.split("\n")
        if lines:
            self._live.console.print("\n".join(lines), markup=False, soft_wrap=True)
        self._draw()

    def _write(self, words: str) -> None:
        self._said += words

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        self._live.update(Group(*([Text(self._said)] if self._said.strip() else []), *self._table), refresh=True)

    def show(self, state: State, news: Sequence[Recorded]) -> None:
        from rich.table import Table
        from rich.text import Text

        nodes = Table.grid(padding=(0, 2))
        names = [name for name in (*self._graph.order, COMPENSATE) if name in state.steps]
        for recorded in news:
            self._operations.add(recorded)
        below: dict[str, list[OperationRow]] = {}
        for row in self._operations.rows(_MAX_OPERATIONS):
            below.setdefault(row.step, []).append(row)
        for name in names[-_MAX_ROWS:]:
            step = state.steps[name]
            kind = self._graph.nodes[name].kind if name in self._graph.nodes else ""
            mark = self._mark(step.id, "failed" if step.provisional else step.status)
            since = ElapsedTime(step.status, step.began_ms, step.since_ms, self._now_ms)
            nodes.add_row(mark, Text(named(step.id)), kind, since, _detail(step))
            for row in below.get(step.id, ()):
                mark = self._mark(f"{step.id}/{row.path}", row.status)
                since = ElapsedTime(row.status, row.began_at_ms, row.ended_at_ms or 0, self._now_ms)
                nodes.add_row(mark, Text(f"  {row.name}"), Text(row.kind, style="dim"), since, _said_of(row))
        waiting = [name for name in self._graph.order if name not in state.steps]
        for name in waiting[: max(0, _MAX_ROWS - len(names))]:
            nodes.add_row(" ", Text(name, style="dim"), Text(self._graph.nodes[name].kind, style="dim"), "", "")
        self._table = [nodes, _money(state, self._now_ms)]
        self._draw()

    def _mark(self, place: str, status: str) -> RenderableType:
        from rich.spinner import Spinner
        from rich.text import Text

        if status in ("active", "running"):
            return self._spinners.setdefault(place, Spinner("dots", style="cyan"))
        mark, style = _MARKS[status]
        return Text(mark, style=style)


def _detail(step: Step) -> RenderableType:
    from rich.text import Text

    if step.status == "completed":
        result = job_result(step.output, is_failure=step.provisional)
        if result != "completed":
            return Text(terminal.line(result), style="red", overflow="ellipsis", no_wrap=True)
        return Text(", ".join(step.decisions or ()), style="green")
    if step.error is not None and step.status in ("failed", "retrying"):
        return Text(terminal.line(failure(step.error)), style="red", overflow="ellipsis", no_wrap=True)
    waits = [op.name for _, op in step.unsettled() if op.status in ("open", "deferred", "in_doubt")]
    words = step.reason or ", ".join(waits) or ("" if step.status == "active" else step.status)
    return Text(terminal.line(words), style="dim")


def _said_of(row: OperationRow) -> RenderableType:
    from rich.text import Text

    cost = f"${usd(row.cost_nanousd)}" if row.cost_nanousd else ""
    waits = f"waits for {short(describe(row.wait))}" if row.wait is not None else ""
    answer = row.decision + (f" by {row.by}" if row.by else "") if row.decision is not None else ""
    if row.error is not None and row.status in ("failed", "retrying"):
        return Text(terminal.line(failure(row.error)), style="red", overflow="ellipsis", no_wrap=True)
    return Text(terminal.line(answer or waits or cost), style="dim", overflow="ellipsis", no_wrap=True)


def _money(state: State, now_ms: Callable[[], int]) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    budget = state.budget
    now = status(state)
    line = Table.grid(padding=(0, 2))
    cells: list[RenderableType] = [Text(now, style=terminal.STYLES.get(now, ""))]
    spent = f"${usd(budget.settled_nanousd)}"
    if budget.limit_nanousd is not None:
        spent += f" of ${usd(budget.limit_nanousd)}"
        cells.append(ProgressBar(total=budget.limit_nanousd or 1, completed=budget.committed_nanousd, width=_BAR))
    aside = budget.held_nanousd + budget.in_doubt_nanousd
    cells.append(Text(spent + (f", ${usd(aside)} held" if aside else "")))
    cells.append(RunTimer(state, now_ms))
    line.add_row(*cells)
    return line


class ElapsedTime:
    """The elapsed time of a step or an operation, as of the moment at which it is drawn."""

    def __init__(self, status: str, began_ms: int, since_ms: int, now_ms: Callable[[], int]) -> None:
        self._status, self._began_ms, self._since_ms, self._now_ms = status, began_ms, since_ms, now_ms

    def __rich__(self) -> str:
        return f"[dim]{took(self._status, self._began_ms, self._since_ms, self._now_ms())}" if self._began_ms else ""


class RunTimer:
    """The start of a run, and how long it has taken."""

    def __init__(self, state: State, now_ms: Callable[[], int]) -> None:
        self._started_ms, self._ended_ms, self._now_ms = state.started_at_ms, state.ended_at_ms, now_ms

    def __rich__(self) -> str:
        return f"[dim]{clock(self._started_ms)[11:]} +{span((self._ended_ms or self._now_ms()) - self._started_ms)}"
