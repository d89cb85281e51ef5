"""Tables: aligned columns under their names, which fit the terminal that shows them. Elsewhere nothing is cut.

Where there is no room, ids are shortened to as much as tells them apart, and columns without content are left out. Then
columns are cut to what they can do with, and those that matter least are left out: `show` of the thing has all of it. Never
here: what stands in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from holdfast.cli.page import terminal

_GAP: Final = 2
_CUT: Final = "…"


class Column(NamedTuple):
    """A column: its name, to how many cells it may be cut (None: not at all), and when it goes: 0 never, 1 first. In it stands
    `of` a row: a field, by default that of the column's name, or what a function makes of the row."""

    name: str
    least: int | None = None
    goes: int = 0
    of: str | Callable[[dict[str, Any]], object] = ""

    def cell(self, row: dict[str, Any]) -> str:
        """Return the text for a row, `-` for nothing."""
        found = self.of(row) if callable(self.of) else row[self.of or self.name.replace(" ", "_")]
        return "-" if found is None else str(found)


ID: Final = 18
"""Marks a column of ids: these are shortened, and never cut."""
_LEAST_OF_ID: Final = 13
"""Of a run's id, the time of its start to the millisecond. A beginning is enough wherever an id is taken."""
_EMPTY: Final = ("", "-")


def shortened(ids: Sequence[str]) -> list[str]:
    """Return ids with as much of their run's as tells them apart: `019aa8b2-6f41:draft#1:0`. What follows the run is whole."""
    parts = [each.partition(":") for each in ids]
    runs = {run for run, _, _ in parts}
    most = max(map(len, runs), default=0)
    room = next((n for n in range(_LEAST_OF_ID, most) if len({run[:n] for run in runs}) == len(runs)), most)
    return ["".join((run[:room], *rest)) for run, *rest in parts]


def show_rows(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table of what each column has of them."""
    show(columns, [[each.cell(row) for each in columns] for row in rows])


def show(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout; at a terminal it has its width, and a status its colour."""
    from rich.cells import set_cell_size

    lines = [[each.name.upper() for each in columns], *([_clean(cell) for cell in row] for row in rows)]
    columns, lines = _tightened(columns, lines, terminal.width())
    widths = fitting(columns, lines, terminal.width())
    for number, line in enumerate(lines):
        parts: list[tuple[str, str]] = []
        for cell, room in zip(line, widths, strict=True):
            if room:
                style = terminal.STYLES.get(cell, "") if number else "bold"
                parts += [(" " * _GAP, ""), (set_cell_size(cut(cell, room), room), style)]
        terminal.show_styled(parts[1:])


def _tightened(columns: Sequence[Column], lines: list[list[str]], room: int | None) -> tuple[Sequence[Column], list[list[str]]]:
    """Return columns and lines with shorter ids, and without columns that hold nothing, where there is no room for all."""
    if room is None or _sum(_widths(lines), set(range(len(columns)))) <= room:
        return columns, lines
    rows = lines[1:]
    for i in (i for i, each in enumerate(columns) if each.least == ID):
        for row, cell in zip(rows, shortened([row[i] for row in rows]), strict=True):
            row[i] = cell
    columns = [each._replace(least=None) if each.least == ID else each for each in columns]
    if _sum(_widths(lines), set(range(len(columns)))) <= room:
        return columns, lines
    kept = [i for i in range(len(columns)) if not rows or any(row[i] not in _EMPTY for row in rows)]
    return [columns[i] for i in kept], [[line[i] for i in kept] for line in lines]


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]


def fitting(columns: Sequence[Column], lines: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """The cells that each column has of `room`; 0 for one that is left out. The last columns are cut first."""
    wide = _widths(lines)
    if room is None:
        return wide
    least = [min(has, has if each.least is None else each.least) for has, each in zip(wide, columns, strict=True)]
    stays = set(range(len(columns)))
    for i in sorted((i for i in stays if columns[i].goes), key=lambda i: columns[i].goes):
        if _sum(least, stays) > room:
            stays.remove(i)
    over = _sum(wide, stays) - room
    for i in sorted(stays, reverse=True):
        less = max(0, min(over, wide[i] - least[i]))
        wide[i], over = wide[i] - less, over - less
    for i in sorted(stays, reverse=True):  # what may not be cut is cut all the same before a line is too long
        less = max(0, min(over, wide[i] - 1))
        wide[i], over = wide[i] - less, over - less
    return [cells if i in stays else 0 for i, cells in enumerate(wide)]


def _sum(cells: Sequence[int], stays: set[int]) -> int:
    return sum(cells[i] for i in stays) + _GAP * (len(stays) - 1)


def cut(text: str, room: int | None) -> str:
    """`text` in so many cells; all of it where there is no bound."""
    from rich.cells import cell_len, set_cell_size

    return text if room is None or cell_len(text) <= room else set_cell_size(text, room - 1) + _CUT


def _clean(cell: str) -> str:
    return terminal.line(cell.replace("\n", " "))


def wrapped(text: str, room: int | None) -> list[str]:
    """Return `text` in lines of so many cells, parted at blanks; a longer word, such as an id, has a line of its own."""
    from rich.cells import cell_len

    if room is None or cell_len(text) <= room:
        return [text]
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
