"""`holdfast doctor`: what is wrong around the runs, and what to do about it. Never here: a check (check), reading (facts)."""

from __future__ import annotations

import asyncio
import textwrap
from typing import Annotated, Final

import typer

from holdfast.cli.doctor.check import CHECKS, findings
from holdfast.cli.doctor.facts import gather
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted

_CODES: Final = {"error": 2, "warning": 1, "note": 0}
_WIDTH: Final = 80
EXAMPLES: Final = {"doctor": "--providers"}


def doctor(
    providers: Annotated[
        bool, typer.Option("--providers", help="Also ask each provider's address for an answer, without a key.")
    ] = False,
    thorough: Annotated[bool, typer.Option("--thorough", help="Also read and check the whole file of a SQLite store.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Find what is wrong around the runs, with its remedy.

    Checks the store, the processes and this machine. Exits with 0 if nothing is wrong, with 1 for warnings, and with 2 for
    errors. At a server, only what its queries show is checked.
    """
    found = findings(asyncio.run(gather(store, providers=providers, thorough=thorough)))
    code = max((_CODES[finding.severity] for _, finding in found), default=0)
    if as_json:
        terminal.emit([{"check": name, **finding._asdict()} for name, finding in found])
        return code
    for _, finding in found:
        _show(f"{finding.severity}: {finding.text}", "")
        _show(finding.remedy, "  ")
    if not found:
        terminal.say(f"Nothing is wrong: {counted(len(CHECKS), 'check')}.")
    return code


def _show(text: str, indent: str) -> None:
    terminal.show_text(
        textwrap.fill(
            terminal.line(text), _WIDTH, initial_indent=indent, subsequent_indent=indent or "  ", break_on_hyphens=False
        )
    )
