"""`holdfast runs trace`: the spans of a run and of its children as a tree, as OTLP, or as a file for trace viewers.

Never here: how spans follow from a history, the names of a convention.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.option import AsJson, RunArgument, Store
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import NotFound, UsageError
from holdfast.service.declarations import query

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend
    from holdfast.telemetry.otlp import Exported

_MAX_RUNS: Final = 100
"""Runs of a tree that are shown."""
_WIDTH: Final = 80
_PAGE: Final = 1000
_NANO: Final = 1_000_000_000
_LEAST_NAME: Final = 24

Row = dict[str, Any]


def trace(
    run: RunArgument,
    chrome: Annotated[
        Path | None,
        typer.Option("--chrome", metavar="FILE", help="File for the trace viewer of Chrome or Perfetto; it must not exist."),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Show what took time in a run and its children, within what, as a tree. With --json, as an OTLP request."""
    rows, is_cut = asyncio.run(_read(run, store))
    if chrome is not None:
        _write(chrome, rows)
    elif as_json:
        terminal.emit(_encoder().request(_exported(rows)))
    else:
        for line in tree(rows, terminal.width() or _WIDTH):
            terminal.show_text(terminal.line(line))
    if is_cut:
        terminal.say(f"More than {_MAX_RUNS} runs are below this one; the others are left out. Ask for one of them.")


async def _read(run: str, store: str | None) -> tuple[list[Row], bool]:
    """Return the rows of a run and of its children, and whether some were left out."""
    rows: list[Row] = []
    async with backend(store, resolve_actor(None)) as service:
        waiting, seen = [await reference.run_id(service, run)], set[str]()
        while waiting and len(seen) < _MAX_RUNS:
            named = waiting.pop(0)
            seen.add(named)
            try:
                found = await _rows_of(service, named)
            except NotFound:
                if len(seen) == 1:
                    raise
                continue  # a child that is not this caller's to see, or was removed
            rows += found
            children = dict.fromkeys(row["facts"]["child"] for row in found if row["kind"] == "child")
            waiting += [child for child in children if child not in seen]
    return rows, bool(waiting)


async def _rows_of(service: Backend, run: str) -> list[Row]:
    rows: list[Row] = []
    cursor: str | None = None
    while True:
        page = await service.query(query.Spans(run=run, cursor=cursor, limit=_PAGE))
        rows += page.rows
        if (cursor := page.cursor) is None:
            return rows


# --- As a tree --------------------------------------------------------------------------------------------------------


def tree(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Yield a line for each span, set in below the one around it, with when it began, how long it took and what it cost."""
    known = {row["span_id"] for row in rows}
    below: dict[str | None, list[Row]] = {}
    for row in rows:
        below.setdefault(row["parent_id"] if row["parent_id"] in known else None, []).append(row)
    began_ms = min((moment.ms(row["began_at"]) for row in rows), default=0)
    yield _line("SPAN", "BEGAN", "TOOK", "COST", width)
    stack = [(row, "", "") for row in reversed(_ordered(below.get(None, ())))]
    while stack:
        row, mark, indent = stack.pop()
        began = _length(moment.ms(row["began_at"]) - began_ms)
        took = "open" if row["took_ms"] is None else _length(row["took_ms"])
        cost = "" if row["cost_usd"] is None else f"${row['cost_usd']}"
        yield _line(mark + _described(row), f"+{began}", took, cost, width)
        inner = _ordered(below.get(row["span_id"], ()))
        for place, each in reversed(list(enumerate(inner))):
            is_last = place == len(inner) - 1
            stack.append((each, indent + ("└ " if is_last else "├ "), indent + ("  " if is_last else "│ ")))


def _length(ms: int) -> str:
    return f"{ms} ms" if ms < _MS_SHOWN else moment.span(ms)


_MS_SHOWN: Final = 10_000


def _ordered(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["began_at"], row["kind"] == "wait", row["seq"]))


def _line(name: str, began: str, took: str, cost: str, width: int) -> str:
    figures = f"{began:>9} {took:>8} {cost:>11}"
    room = max(_LEAST_NAME, width - len(figures) - 1)
    shown = name if len(name) <= room else f"{name[: room - 1]}…"
    return f"{shown:<{room}} {figures}".rstrip()


def _described(row: Row) -> str:
    """Return the words for a span: its kind and name, and how it ended if that is not as hoped."""
    facts = row["facts"]
    match row["kind"]:
        case "run" if facts["part"] > 1:
            words = f"run {row['name']}, part {facts['part']}"
        case "attempt":
            words = f"attempt {facts['attempt']}"
        case "wait":
            words = f"waits for {_WAITS.get(facts['wait'], facts['wait'])} ({row['name']})"
        case kind:
            words = f"{kind.replace('_call', '').replace('_', ' ')} {row['name']}"
    if row["error_class"] is not None:
        return f"{words}: {row['error_class']}"
    return words if row["outcome"] in _AS_HOPED else f"{words}: {row['outcome']}"


_WAITS: Final = {"person": "a person", "timer": "time", "signal": "a signal", "child": "a child", "map": "its items"}
_AS_HOPED: Final = frozenset(
    {"completed", "open", "placed", "requested", "waiting", "suspended", "delivered", "fired", "ended"}
)


# --- For programs -----------------------------------------------------------------------------------------------------


def _exported(rows: Sequence[Row]) -> list[Exported]:
    """Return the spans that have ended, as they are exported."""
    from holdfast.core.views.span_parts import Span
    from holdfast.telemetry.names import Run
    from holdfast.telemetry.otlp import Exported

    found = []
    workflows = {row["run_id"]: row["name"] for row in rows if row["kind"] == "run"}
    for row in rows:
        if row["ended_at"] is None:
            continue
        facts = {name: value for name, value in row["facts"].items() if not name.endswith("_usd")}
        for shown, name in (("cost_usd", "cost_nanousd"), ("run_cost_usd", "run_cost_nanousd")):
            said = row["cost_usd"] if shown == "cost_usd" else row["facts"].get(shown)
            if said is not None:
                facts[name] = int(Decimal(said) * _NANO)
        span = Span(
            row["trace_id"],
            row["span_id"],
            row["parent_id"] or "",
            row["kind"],
            row["name"],
            moment.ms(row["began_at"]),
            moment.ms(row["ended_at"]),
            row["seq"],
            row["outcome"],
            row["error_class"] or "",
            facts,
            tuple((link["trace_id"], link["span_id"]) for link in row["links"]),
        )
        found.append(Exported(span, Run(row["run_id"], row["tenant"], workflows.get(row["run_id"], ""), row["version"])))
    return found


def _encoder() -> Any:
    from holdfast import __version__
    from holdfast.telemetry.otlp import Encoder

    return Encoder(_naming(), {"service.name": "holdfast"}, __version__)


def _naming() -> Any:
    from holdfast.models.family import family_of
    from holdfast.telemetry.names import Naming

    return Naming("1.41.0", family_of)


def _write(file: Path, rows: Sequence[Row]) -> None:
    from holdfast.telemetry.chrome import trace_file

    content = trace_file(_exported(rows), _naming())
    try:
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as into:
            into.write(content)
    except FileExistsError:
        raise UsageError(f"{file} exists already. Nothing was written.") from None
    except OSError as problem:
        raise UsageError(f"{file} cannot be written: {problem.strerror}. Nothing was written.") from None
    terminal.say(f"Wrote {file}. Open it in Perfetto, or in Chrome under chrome://tracing.")
