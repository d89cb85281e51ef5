"""What the audience of an example sees: sentences as things happen, a line of figures, and the table at the end.

At a terminal the figures are redrawn in place; elsewhere they come as plain lines now and then. Nothing is asked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 2.0
PLAIN_WIDTH = 118
STYLES = {"kill": "bold red", "good": "green", "quiet": "dim", "": ""}


@dataclass(frozen=True)
class Promise:
    """One promise, whether it was kept, and by what that was judged."""

    words: str
    kept: bool
    evidence: str


@dataclass(frozen=True)
class Figures:
    """A line of the table: the same thing counted by the other side and by Holdfast."""

    what: str
    theirs: str
    ours: str


@dataclass(frozen=True)
class Verdict:
    figures: tuple[Figures, ...]
    promises: tuple[Promise, ...]

    @property
    def kept(self) -> bool:
        return all(promise.kept for promise in self.promises)


class Show:
    """Tells the story to one console."""

    def __init__(self, console: Console | None = None, *, what: str = "tickets") -> None:
        """`what` is counted while it goes on."""
        self._what = what
        self.console = console or Console()
        if not self.console.is_terminal:
            self.console.width = max(self.console.width, PLAIN_WIDTH)
        self._began_s = time.monotonic()
        self._live: Live | None = None
        self._told_s = self._began_s
        self._told = ""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    def say(self, words: str, style: str = "") -> None:
        line = Text(f"{self.elapsed_s:5.1f} s  ", style="dim")
        line.append(words, style=STYLES[style])
        self.console.print(line, soft_wrap=not self.console.is_terminal)

    def title(self, words: str) -> None:
        self.console.print()
        self.console.rule(Text(words, style="bold"), align="left")

    def figures(self, done: int, of: int, facts: Mapping[str, str]) -> None:
        """The state of things now."""
        if self._live is not None:
            self._live.update(_panel(self._what, done, of, facts))
            return
        told = ", ".join(f"{name} {value}" for name, value in facts.items())
        if told != self._told and time.monotonic() - self._told_s >= PLAIN_EVERY_S:
            self._told, self._told_s = told, time.monotonic()
            self.say(f"  … {done} of {of} done; {told}", "quiet")

    def verdict(self, verdict: Verdict) -> None:
        table = Table(title="What happened", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
        table.add_column("")
        table.add_column("counted by the other side")
        table.add_column("in Holdfast's books")
        for line in verdict.figures:
            table.add_row(line.what, line.theirs or "–", line.ours)
        self.console.print()
        self.console.print(table)
        for promise in verdict.promises:
            mark = Text("  kept    ", style="bold green") if promise.kept else Text("  BROKEN  ", style="bold red")
            self.console.print(mark + Text(promise.words))
            self.console.print(Text(" " * len(mark.plain) + promise.evidence, style="dim"), soft_wrap=True)
        self.console.print()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, transient=True, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def many(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _panel(what: str, done: int, of: int, facts: Mapping[str, str]) -> RenderableType:
    bar = Table.grid(padding=(0, 1))
    bar.add_row(Text(what, style="bold"), ProgressBar(total=of, completed=done, width=40), Text(f"{done}/{of}"))
    line = Text()
    for name, value in facts.items():
        line.append(f"{name} ", style="dim")
        line.append(f"{value}   ")
    return Group(Text(), bar, line)
