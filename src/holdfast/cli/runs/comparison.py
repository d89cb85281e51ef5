"""`holdfast runs diff`: the paths of two runs beside each other. Never here: where they part (holdfast.evaluation)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import reference
from holdfast.cli.connect import listing
from holdfast.cli.option import AsJson, RunArgument, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.service.declarations.query import Events

if TYPE_CHECKING:
    from holdfast.core.views.comparison import Comparison

_MARKS = {"both": " ", "first": "-", "second": "+"}


def diff(
    run: RunArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Run to compare with, like its fork.")],
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Compare the paths of two runs: nodes that only one reached (-, +), and other differences."""
    found = asyncio.run(_compare(run, other, store))
    if as_json:
        from msgspec import to_builtins

        terminal.emit({**to_builtins(found), "same_way": found.same_way})
        return
    tell(found)


def tell(comparison: Comparison) -> None:
    """Print where two paths part."""
    for part in comparison.nodes:
        terminal.show(f"{_MARKS[part.of]} {part.node}")
    different = _different(comparison)
    if different:
        terminal.show("")
        terminal.sheet(different)


async def _compare(run: str, other: str, store: str | None) -> Comparison:
    from holdfast.core.views.comparison import compare
    from holdfast.core.views.trajectory import trajectory
    from holdfast.service.view import recorded_of

    async with listing(store, resolve_actor(None)) as service:
        named = [await reference.run_id(service, each) for each in (run, other)]
        first, second = [map(recorded_of, await service.rows(Events(run=each))) for each in named]
    return compare(trajectory(first), trajectory(second))


def _different(comparison: Comparison) -> list[tuple[str, str]]:
    from holdfast.core.values.money import usd

    lines = [("status", " → ".join(comparison.status))] if comparison.status else []
    lines += [
        (gate, " → ".join(", ".join(said) or "no answer" for said in pair)) for gate, pair in comparison.decisions.items()
    ]
    lines += [
        (tool, f"called {counted(abs(count), 'time')} {'more' if count > 0 else 'less'}")
        for tool, count in comparison.tools.items()
    ]
    for name, (one, two) in comparison.totals.items():
        if name == "cost_nanousd":
            lines.append(("cost", f"${usd(one)} → ${usd(two)}"))
        else:
            lines.append((name.replace("_ms", " in ms").replace("_", " "), f"{one} → {two}"))
    return lines
