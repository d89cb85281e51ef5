"""Notices about calls that have left when their process is to end: what is waited for, and what will be asked if no outcome
arrives.

Never here: waiting (the engine does that).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from holdfast.cli.page import terminal
from holdfast.core.values.ids import node_of

if TYPE_CHECKING:
    from holdfast.core.facts.state import OpenCall
    from holdfast.core.values.ids import CallId, RunId
    from holdfast.engine.steps.executor import Executor

_AFTERWARDS: Final = {
    "once": "a person will be asked whether it happened, before the run continues",
    "verify": "its own lookup will be asked whether it happened",
}
"""What becomes of a call whose outcome is lost, by its policy; any other is made again under the same key."""


def announce_calls(executor: Executor, run: RunId) -> Callable[[], Mapping[CallId, OpenCall]]:
    """Say what is waited for at the end of this process, second by second at a terminal; what is in flight, to ask."""
    last: dict[CallId, OpenCall] = {}
    said: list[bool] = []

    def tell(left_s: float) -> None:
        last.clear()
        last.update(executor.in_flight(run))
        awaited = {id_: call for id_, call in last.items() if not call.doubted}
        if awaited and left_s and (not said or terminal.is_live()):
            said.append(True)
            terminal.say(f"Waiting for {_named(awaited)}: {left_s:.0f} s at most. Interrupt again to leave at once.")

    def now() -> Mapping[CallId, OpenCall]:
        return last if executor.closing and said else executor.in_flight(run)

    executor.services.calls.on_parting = tell
    return now


def describe_open_calls(calls: Mapping[CallId, OpenCall]) -> str:
    """Return what will be asked about calls that were left without an outcome."""
    lines = [
        f"\n{call.name} ({id_}) has left and its outcome is not known here: {_AFTERWARDS.get(call.policy, 'it is made again')}."
        if call.kind == "effect"
        else f"\nA call of {call.name} has left and its cost is not known here: it counts as spent, and the call is made again."
        for id_, call in calls.items()
    ]
    return "".join(lines)


def _named(calls: Mapping[CallId, OpenCall]) -> str:
    return ", ".join(f"{call.name} in {node_of(call.step)}" for call in calls.values())
