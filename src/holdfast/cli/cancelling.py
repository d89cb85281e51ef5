"""A preview of a command to runs, before it happens.

Never here: finding out what it does (service.preview).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import OK
from holdfast.service.declarations.query import RunQuote

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend
    from holdfast.service.declarations.field import RunAction


_LISTS: Final = {"called_off": "called off", "goes_on": "would continue", "gates_withdrawn": "gates withdrawn"}


async def tell_all(asking: QueryBackend, name: str, runs: Sequence[str], as_json: bool) -> int:
    """Say what the command `name` would do to each."""
    found = [await asking.row(RunQuote(run=run, action=cast("RunAction", name))) for run in runs]
    if as_json:
        terminal.emit(found)
        return OK
    for each in found:
        terminal.show(f"{each['run_id']}  {each['status']}")
        for line in _lines(each):
            terminal.show(f"  {line}")
    terminal.say(f"{name}: {len(found)} would be affected. Nothing was done.")
    return OK


def _lines(row: dict[str, Any]) -> list[str]:
    if row["refused"] is not None:
        return [f"refused: {row['refused']}"]
    lines = [f"{words}: {', '.join(row[name])}" for name, words in _LISTS.items() if row[name]]
    lines += [f"{call['name']} ({call['call']}) is called again under its key" for call in row["calls_again"]]
    for call in row["in_flight"]:
        policy = f", {call['policy']}" if call["policy"] else ""
        known = "its outcome is unknown" if call["doubted"] else "in flight; its outcome still counts"
        lines.append(f"{call['name']} ({call['call']}{policy}): {known}")
    for number, each in enumerate(row["compensated"], 1):
        by = "by itself" if each["with"] is None else f"with {each['with']}"
        lines.append(f"{number}. {each['tool']} ({each['call']}) is undone {by}")
    if row["asked"]:
        lines.append("if the outcome of a once-only call in flight is lost, a person is asked before the run ends")
    if row["action"] == "cancel":
        return lines or ["nothing is in flight, and nothing would be undone"]
    return [*lines, f"it would be {row['status_after']}"]
