"""All about a gate, from its run's history: what was asked, of whom, and what became of it.

Never here: what a decision may be (core.gates), words for people.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.control.control import Control
from holdfast.core import events as ev
from holdfast.core.events import GateDecided, GateOpened
from holdfast.core.ids import GateId, run_of
from holdfast.core.projection import RunRow
from holdfast.errors import NotFound
from holdfast.service.view import iso


class Story(NamedTuple):
    """A gate, from its run's history."""

    opened: GateOpened
    opened_at_ms: int
    reminders: int
    escalated_at_ms: int | None
    decided: GateDecided | None
    withdrawn: str | None

    @property
    def state(self) -> str:
        if self.decided is not None:
            return "decided"
        if self.withdrawn is not None:
            return "withdrawn"
        return "open" if self.escalated_at_ms is None else "escalated"


async def story_of(control: Control, gate: str) -> Story:
    """What the history says about a gate. Raises NotFound."""
    row = await control.find(run_of(GateId(gate)))
    story: Story | None = None
    for each in await control.run(row.run).events():
        event = each.event
        if getattr(event, "gate", None) != gate:
            continue
        if isinstance(event, ev.GateOpened):
            story = Story(event, each.at_ms, 0, None, None, None)
        elif story is not None and isinstance(event, ev.GateReminded):
            story = story._replace(reminders=event.number)
        elif story is not None and isinstance(event, ev.GateEscalated):
            story = story._replace(escalated_at_ms=each.at_ms)
        elif story is not None and isinstance(event, ev.GateDecided):
            story = story._replace(decided=event)
        elif story is not None and isinstance(event, ev.GateWithdrawn):
            story = story._replace(withdrawn=event.reason)
    if story is None:
        raise NotFound(f"There is no gate {gate}; `holdfast gates list` shows those that are open.")
    return story


async def whole(control: Control, story: Story, run: RunRow) -> dict[str, Any]:
    """All about a gate: whom it asks what, what they see, and what they decided."""
    opened, decided, value = story.opened, story.decided, control.payloads.value
    return {
        "gate_id": opened.gate,
        "run_id": run.run,
        "step": opened.step,
        "reason": opened.reason,
        "subject": opened.subject,
        "state": story.state,
        "reviewers": list(opened.reviewers),
        "requester": opened.requester,
        "four_eyes": opened.four_eyes,
        "opened_at": iso(story.opened_at_ms),
        "due_at": iso(opened.due_at_ms),
        "reminders": story.reminders,
        "escalated_at": iso(story.escalated_at_ms),
        "allowed": list(opened.allowed),
        "shown_hash": opened.shown_hash,
        "form": opened.form,
        "decision": decided.decision if decided is not None else None,
        "by": decided.by if decided is not None else None,
        "os_user": decided.os_user or None if decided is not None else None,
        "client": decided.client or None if decided is not None else None,
        "roles": list(decided.roles) if decided is not None else [],
        "verified": False,
        "shown": await value(opened.shown, run.tenant),
        "filled": await value(opened.filled, run.tenant),
        "data": await value(decided.data, run.tenant) if decided is not None else None,
    }
