"""The screen of `holdfast top`, in Textual. Never here: reading (overview), an action on a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from holdfast.cli.page import terminal
from holdfast.cli.page.moment import ago, clock, ms
from holdfast.cli.page.waiting import short
from holdfast.cli.runs.explanation import paragraphs
from holdfast.cli.top.overview import ERRORS_MS, MAX_RUNS, MINUTE_MS, Filter, Overview, Watch
from holdfast.core.values.money import usd
from holdfast.errors import HoldfastError
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

POLL_S: Final = 1.0
_RUN: Final = 13
"""Characters of a run's id: the time of its start to the millisecond."""
_MAX_ROWS: Final = 50
_TEXT: Final = 76
"""Columns of an explanation, beside a scroll bar in 80."""


class TopApp(App[None]):
    """The live view: runs, waits with their reasons, pools, processes, costs and errors."""

    CSS = """
    #head, #money { height: 1; }
    #head.away { background: darkred; color: white; }
    #runs { height: 1fr; }
    #panels { height: 7; }
    #panels Static, #errors { text-wrap: nowrap; text-overflow: ellipsis; }
    #panels Static { width: 1fr; border-top: solid gray; padding: 0 1 0 0; }
    #errors { height: 4; border-top: solid gray; }
    ExplanationScreen, FilterScreen { align: center middle; }
    #explained { width: 100%; height: 100%; background: $surface; padding: 0 1; }
    #filter { width: 60; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "explain", "Explain run"),
        Binding("t", "filter('tenant')", "Tenant"),
        Binding("w", "filter('workflow')", "Workflow"),
        Binding("q", "quit", "Quit"),
    ]
    ENABLE_COMMAND_PALETTE = False
    TITLE = "holdfast top"

    def __init__(self, asking: QueryBackend, place: str, chosen: Filter) -> None:
        super().__init__()
        self._asking = asking
        self._place = place
        self._chosen = chosen
        self._watch = Watch()
        self._runs: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Static(id="money", markup=False)
        table: DataTable[Text] = DataTable(id="runs", cursor_type="row", zebra_stripes=True)
        yield table
        with Horizontal(id="panels"):
            yield Static(id="waits", markup=False)
            yield Static(id="pools", markup=False)
            yield Static(id="workers", markup=False)
        yield Static(id="errors", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one("#runs", DataTable)
        for name, width in (("run", _RUN), ("workflow", 14), ("status", 11), ("age", 6), ("waits for", 24)):
            table.add_column(name, width=width)
        table.focus()
        self.run_worker(self._follow(), exclusive=True)

    async def _follow(self) -> None:
        """Poll until the screen is closed, also while the store or server is away."""
        while True:  # until the screen is closed
            try:
                self._show(await self._watch.look(self._asking, self._chosen))
            except (HoldfastError, OSError) as problem:
                self._say(f"{self._place} does not answer; retrying: {problem}", is_away=True)
            await asyncio.sleep(POLL_S)

    def _say(self, text: str, *, is_away: bool) -> None:
        head = self.query_one("#head", Static)
        head.set_class(is_away, "away")
        head.update(terminal.line(text))

    def _show(self, seen: Overview) -> None:
        self._say(f"{clock(seen.now_ms)}  {self._chosen}  {self._place}", is_away=False)
        many = "+" if MAX_RUNS in (len(seen.running), len(seen.waiting)) else ""
        self._put(
            "money",
            f"{len(seen.running)} running, {len(seen.waiting)} waiting{many}; ${usd(seen.cost_nanousd)}"
            f" {reach(seen.since_ms, seen.now_ms, MINUTE_MS, 'minute')}, {seen.events} events",
        )
        self._show_runs([*seen.running, *seen.waiting][:_MAX_ROWS], seen.now_ms)
        self._put("waits", _panel("WAITS FOR", [f"{count:>4} {what}" for what, count in seen.waits]))
        self._put("pools", _panel("POOLS", [_pool(each) for each in seen.pools]))
        self._put("workers", _panel("WORKERS", [_worker(each) for each in seen.workers]))
        errors = [f"{clock(at_ms)[11:19]} {run[:_RUN]} {text}" for at_ms, run, text in seen.errors]
        span = reach(seen.since_ms, seen.now_ms, ERRORS_MS, "15 min")
        self._put("errors", _panel(f"ERRORS {span}" if errors else f"ERRORS: none {span}", errors))

    def _show_runs(self, rows: Sequence[View], now_ms: int) -> None:
        table = self.query_one("#runs", DataTable)
        place = table.cursor_row
        chosen = self._runs[place] if place < len(self._runs) else None
        table.clear()
        self._runs = [each["run_id"] for each in rows]
        for each in rows:
            waits = ", ".join(dict.fromkeys(map(short, each["waiting_for"]))) or "-"
            workflow = f"{each['workflow']} {each['version']}"
            cells = (each["run_id"][:_RUN], workflow, each["status"], ago(ms(each["started_at"]), now_ms), waits)
            table.add_row(*(Text(terminal.line(cell)) for cell in cells))
        if chosen in self._runs:
            table.move_cursor(row=self._runs.index(chosen))

    def _put(self, id_: str, text: str) -> None:
        self.query_one(f"#{id_}", Static).update(text)

    async def action_explain(self) -> None:
        place = self.query_one("#runs", DataTable).cursor_row
        if place >= len(self._runs):
            return
        try:
            row = await self._asking.row(query.Explanation(self._runs[place]))
        except HoldfastError as problem:
            self._say(problem.message, is_away=True)
            return
        lines = paragraphs(row, [], self._asking.now_ms(), with_commands=False, width=_TEXT)
        await self.push_screen(ExplanationScreen("\n".join(lines)))

    async def on_data_table_row_selected(self) -> None:
        await self.action_explain()

    def action_filter(self, field: str) -> None:
        def choose(value: str | None) -> None:
            if value is not None:
                self._watch = Watch()  # what was seen is of other runs
                self._chosen = msgspec.structs.replace(self._chosen, **{field: value or None})
                self._say(str(self._chosen), is_away=False)

        _ = self.push_screen(FilterScreen(field), choose)


class ExplanationScreen(ModalScreen[None]):
    """A run in sentences, over the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter", "dismiss", "Back")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="explained"):
            yield Static(self._text, markup=False)
        yield Footer()


class FilterScreen(ModalScreen[str | None]):
    """A name to type; none for all."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel")]

    def __init__(self, field: str) -> None:
        super().__init__()
        self._field = field

    def compose(self) -> ComposeResult:
        yield Input(placeholder=f"Name of the {self._field}; empty for all", id="filter")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        _ = self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        _ = self.dismiss(None)


def reach(since_ms: int, now_ms: int, most_ms: int, words: str) -> str:
    """Return the span that is known: the last so long, or since what is read began."""
    return f"in the last {words}" if now_ms - since_ms >= most_ms else f"since {clock(since_ms)}"


def _panel(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(terminal.line(each) for each in lines[:_MAX_ROWS])])


def _pool(row: View) -> str:
    free = row["limit"] - row["in_use"]
    rate = f"/{row['per_s']} s" if row["per_s"] is not None else ""
    return f"{free}/{row['limit']}{rate} free {row['name']}"


def _worker(row: View) -> str:
    if "worker" not in row:
        return f"{row['workers']} processes, {row['free']} of {row['slots']} free"
    if row["state"] == "lost":
        return f"{row['worker']} LOST"
    return f"{row['free']}/{row['slots']} free {row['worker']}"
