"""A preview of a cancellation, before it happens.

Never here: cancelling (the engine does that).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import OK
from holdfast.service.declarations.query import CancelQuote

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend


async def tell_all(asking: QueryBackend, name: str, runs: Sequence[str], as_json: bool) -> int:
    """Say what `name` would do to each; of cancelling all that follows from it."""
    found = [await asking.row(CancelQuote(run)) for run in runs]
    if name != "cancel":
        found = [{"run_id": each["run_id"], "status": each["status"]} for each in found]
    if as_json:
        terminal.emit(found)
        return OK
    for each in found:
        terminal.show(f"{each['run_id']}  {each['status']}")
        for line in _lines(each) if name == "cancel" else ():
            terminal.show(f"  {line}")
    terminal.say(f"{name}: {len(found)} would be affected. Nothing was done.")
    return OK


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"called off: {', '.join(found['called_off'])}"] if found["called_off"] else []
    for call in found["in_flight"]:
        policy = f", {call['policy']}" if call["policy"] else ""
        known = "its outcome is unknown" if call["doubted"] else "in flight; its outcome still counts"
        lines.append(f"{call['name']} ({call['call']}{policy}): {known}")
    for number, each in enumerate(found["compensated"], 1):
        by = "by itself" if each["with"] is None else f"with {each['with']}"
        lines.append(f"{number}. {each['tool']} ({each['call']}) is undone {by}")
    if found["asked"]:
        lines.append("if the outcome of a once-only call in flight is lost, a person is asked before the run ends")
    return lines or ["nothing is in flight, and nothing would be undone"]
