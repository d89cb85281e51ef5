"""`holdfast runs explain`: a run in sentences, with the commands that a person can type about it.

Never here: the sentences (service.explanation), which commands there are about a wait (next_steps).
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from holdfast.cli import next_steps, reference
from holdfast.cli.connect import backend, typed
from holdfast.cli.option import AsJson, RunArgument, Store
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.moment import around
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

_WIDTH: Final = 80
"""Columns of a line, where no word is longer. Commands are not broken: they are there to be copied."""
_COMMANDS: Final = {
    "failed": (("runs", "retry"),),
    "waiting": (("runs", "cancel"),),
    "requires_attention": (("runs", "cancel"),),
    "budget_blocked": (("runs", "cancel"),),
    "paused": (("runs", "cancel"),),
}
"""Commands about the run as a whole, by its status; those about its waits come with these."""


def explain(
    run: RunArgument,
    no_commands: Annotated[bool, typer.Option("--no-commands", help="Leave out the commands to type.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Explain a run in sentences: what happened, what it waits for, who can do what about it, and what it costs."""
    asyncio.run(_explain(run, no_commands, as_json, store))


async def _explain(run: str, no_commands: bool, as_json: bool, store: str | None) -> None:
    async with backend(store, resolve_actor(None)) as service:
        named = await reference.run_id(service, run)
        row = await service.row(query.Explanation(named))
        whole = None if as_json else await service.row(query.Run(named))
        steps = [] if whole is None else await next_steps.steps_of(service, whole, store)
        now_ms = service.now_ms()
    if as_json:
        terminal.emit(row)
        return
    for line in paragraphs(row, steps, now_ms, with_commands=not no_commands, store=store):
        terminal.show_text(line)


def paragraphs(
    row: View,
    steps: Sequence[next_steps.NextStep],
    now_ms: int,
    *,
    with_commands: bool,
    store: str | None = None,
    width: int = _WIDTH,
) -> Iterator[str]:
    """Yield the lines of an explanation; `steps` are the run's waits with their commands."""
    stands = "" if row["status"] in row["summary"] else f" ({row['status']})"
    yield from _filled(f"Run {row['run_id']} of {row['workflow']} {row['version']}{stands}. {row['summary']}", width=width)
    yield "\nWhat happened"
    for each in row["happened"]:
        at = "" if each["at"] is None else f"{around(moment.ms(each['at']), now_ms)}: "
        yield from _filled(f"{at}{each['text']}", "- ", width)
    if row["waits"]:
        yield "\nWhat it waits for"
        yield from _waits(row, steps, now_ms, width, with_commands=with_commands)
    yield "\nWhat it costs"
    for text in row["costs"]:
        yield from _filled(text, "- ", width)
    yield "\nWhat can be done"
    yield from _filled(row["action"], "- ", width)
    if with_commands:
        own = [command for step in steps if step.wait is None for command in step.commands]
        own += [typed(*words, row["run_id"], store=store) for words in _COMMANDS.get(row["status"], ())]
        yield from (f"    {command}" for command in (*own, typed("runs", "show", row["run_id"], store=store)))


def _waits(row: View, steps: Sequence[next_steps.NextStep], now_ms: int, width: int, *, with_commands: bool) -> Iterator[str]:
    """Yield each wait with its reason, since when, who can end it, and the commands for that."""
    by_wait: dict[str | None, list[next_steps.NextStep]] = {}
    for step in steps:
        by_wait.setdefault(step.wait, []).append(step)
    for wait in row["waits"]:
        own = by_wait.pop(wait["id"], ())
        text = " ".join(each.text if each.text.endswith(".") else f"{each.text}." for each in own) or wait["text"]
        if not own or wait["kind"] not in next_steps.IN_LINE:
            text += f" It has waited since {around(moment.ms(wait['since']), now_ms)}."
        yield from _filled(f"{text} {wait['action']}", "- ", width)
        for each in own:
            yield from (f"    {line}" for line in ((*each.commands, *each.below) if with_commands else each.below))


def _filled(text: str, mark: str = "", width: int = _WIDTH) -> list[str]:
    """Return a text in lines that fit, after a mark; further lines are set in."""
    indent = "  " if mark else ""
    return textwrap.wrap(terminal.line(text), width, initial_indent=mark, subsequent_indent=indent, break_on_hyphens=False)
