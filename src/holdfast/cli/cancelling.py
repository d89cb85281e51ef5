"""What cancelling a run would do, told before anybody does it.

Never here: cancelling (the engine does that).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli import terminal
from holdfast.cli.exit_code import OK

if TYPE_CHECKING:
    from holdfast.control.control import Control
    from holdfast.core.state import State


def of(state: State) -> dict[str, Any]:
    """What would be called off, what is in flight and may have happened, and what would be undone, in that order."""
    from holdfast.core.status import status

    calls = [
        {
            "call": id_, "kind": call.kind, "name": call.name, "step": call.step, "doubted": call.doubted,
            "policy": call.policy if call.kind == "effect" else None,
        }
        for id_, call in state.calls.items()
    ]  # fmt: skip
    ended = bool(state.ended)
    return {
        "run_id": state.run,
        "status": status(state),
        "called_off": [] if ended else [state.steps[name].id for name in state.unfinished],
        "in_flight": [] if ended else calls,
        "compensated": [] if ended else [
            {"call": each.child or each.call, "tool": each.tool, "with": each.compensation or None}
            for each in reversed(state.compensable)
        ],
        "asked": [] if ended else [
            call["call"] for call in calls if call["kind"] == "effect" and call["policy"] == "once"
        ],
    }  # fmt: skip


async def tell_all(control: Control, name: str, runs: Sequence[str], as_json: bool) -> int:
    """Say what `name` would do to each; of cancelling all that follows from it."""
    found = [of(await control.run(run).state()) for run in runs]
    if name != "cancel":
        found = [{"run_id": each["run_id"], "status": each["status"]} for each in found]
    if as_json:
        terminal.emit(found)
        return OK
    for each in found:
        terminal.show(f"{each['run_id']}  {each['status']}")
        for line in _lines(each) if name == "cancel" else ():
            terminal.show(f"  {line}")
    terminal.say(f"{name}: {len(found)} would be told to. Nothing was done.")
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
        lines.append("if the outcome of one in flight that happens once is lost, a person is asked before the run ends")
    return lines or ["nothing is in flight, and nothing would be undone"]
