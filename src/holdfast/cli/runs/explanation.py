"""`holdfast runs explain`: a run in sentences, with the commands that a person can type about it.

Never here: the sentences (service.explanation), which commands there are about a wait (next_steps).
"""

from __future__ import annotations

import asyncio
import textwrap
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
    _show(f"Run {row['run_id']} of {row['workflow']} {row['version']} ({row['status']}). {row['summary']}")
    terminal.show("\nWhat happened")
    for each in row["happened"]:
        at = "" if each["at"] is None else f"{around(moment.ms(each['at']), now_ms)}: "
        _show(f"{at}{each['text']}", "- ")
    if row["waits"]:
        terminal.show("\nWhat it waits for")
        _show_waits(row, steps, now_ms, no_commands)
    terminal.show("\nWhat it costs")
    for text in row["costs"]:
        _show(text, "- ")
    terminal.show("\nWhat can be done")
    _show(row["action"], "- ")
    own = [command for step in steps if step.wait is None for command in step.commands]
    own += [typed(*words, row["run_id"], store=store) for words in _COMMANDS.get(row["status"], ())]
    for command in () if no_commands else (*own, typed("runs", "show", row["run_id"], store=store)):
        terminal.show(f"    {command}")


def _show_waits(row: View, steps: list[next_steps.NextStep], now_ms: int, no_commands: bool) -> None:
    """Print each wait with its reason, since when, who can end it, and the commands for that."""
    by_wait: dict[str | None, list[next_steps.NextStep]] = {}
    for step in steps:
        by_wait.setdefault(step.wait, []).append(step)
    for wait in row["waits"]:
        own = by_wait.pop(wait["id"], ())
        text = " ".join(each.text if each.text.endswith(".") else f"{each.text}." for each in own) or wait["text"]
        if not own or wait["kind"] not in next_steps.IN_LINE:
            text += f" It waits since {around(moment.ms(wait['since']), now_ms)}."
        _show(f"{text} {wait['action']}", "- ")
        for each in own:
            for line in () if no_commands else each.commands:
                terminal.show(f"    {line}")
            for line in each.below:
                terminal.show(f"    {line}")


def _show(text: str, mark: str = "") -> None:
    """Print a text in lines that fit, after a mark; further lines are set in."""
    indent = "  " if mark else ""
    terminal.show_text(
        textwrap.fill(terminal.line(text), _WIDTH, initial_indent=mark, subsequent_indent=indent, break_on_hyphens=False)
    )
