"""The events of a run in their order, in words: later ones name calls and children of earlier ones.

Never here: the words for a kind of event (event_words), where a line goes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

import msgspec

from holdfast.cli.page import terminal
from holdfast.cli.page.event_words import WORDS, Place, Words, clipped, failure, named
from holdfast.cli.page.moment import clock, span
from holdfast.core.facts import events as ev
from holdfast.core.values.actor import Actor
from holdfast.core.values.content import labelled
from holdfast.core.values.ids import CallId, StepId, item_name, node_of
from holdfast.core.values.money import usd
from holdfast.core.values.policies import ErrorRecord
from holdfast.service.declarations.query import View

_CLIP: Final = 100
"""How much of a value a line shows; --json has all of it."""
_MACHINERY: Final = re.compile(r"(_hash|_digest|_fingerprint|\bsession|\bcounted|scoped)$")
"""Fields that say nothing to people."""
_OF_ROW: Final = frozenset({"seq", "at", "type", "trace_id", "verified"})
COMBINATION: Final = "combination"
"""The node by which each item of a job's matrix is done (actions)."""
_ERROR: Final = {"error_class", "message"}
_NONE: Final = Words()


class EventFormatter:
    """Formats a run's events in their order. A line reports each failure once: that of an operation is also its step's and its
    run's."""

    def __init__(self) -> None:
        self.reported: set[str] = set()
        """The failures that lines have reported."""
        self._names: dict[str, str] = {}
        """Names of calls and children, by their ids."""
        self._combinations: dict[str, str] = {}
        """The names shown here of the combinations of a job's matrix, and of all together, by the names of their steps."""
        self._failures: Counter[StepId] = Counter()
        """The number of times each step has failed or lost its process."""

    def line(self, recorded: ev.Recorded) -> str | None:
        """Return the line for an event; None for one that only the engine cares about."""
        self._note(recorded.event)
        return self._line(recorded.event, self._place(recorded))

    def sentence(self, recorded: ev.Recorded) -> str:
        """Return a recorded event on one line, for a reader of the whole history."""
        self._note(recorded.event)
        event, place = recorded.event, self._place(recorded)
        line, words = self._line(event, place), WORDS.get(type(event), _NONE)
        if words.sentence is not None:
            return words.sentence(event, place)
        detail = "" if words.detail is None else words.detail(event, place)
        return type(event).__name__ if line is None else f"{line}{detail}"

    def sentence_of_row(self, row: View) -> str:
        """Return the row of an event on one line, for a reader of the whole history."""
        from holdfast.service import view

        try:
            recorded = view.recorded_of(row)
        except (KeyError, TypeError, msgspec.ValidationError):  # of a server of a later version
            fields = {name: value for name, value in row.items() if name not in _OF_ROW}
            return f"{row['type']} {clipped(fields)}"
        return self.sentence(recorded)

    def _note(self, event: ev.Event) -> None:
        """Note what later events name."""
        match event:
            case ev.ModelCallHeld():
                self._names[event.call] = f"{named(event.step)}: {event.model}"
            case ev.EffectIntended():
                self._names[event.call] = f"{named(event.step)}: {event.tool}"
            case ev.ChildRequested() | ev.ChildAwaited():
                self._names[event.child] = f"{event.workflow}, run {event.child},"
            case ev.AttemptFailed() | ev.AttemptLost() | ev.StepReplayed():
                self._failures[event.step] += 1
            case ev.ItemsMapped() if event.name == COMBINATION:
                job = node_of(event.step)
                self._combinations[event.map] = job
                for number in range(event.count):
                    self._combinations[item_name(event.map, str(number))] = f"{job} ({number + 1} of {event.count})"

    def _place(self, recorded: ev.Recorded) -> Place:
        event = recorded.event
        step: StepId | None = getattr(event, "step", None)
        return Place(self._name(event, step), recorded.at_ms, 0 if step is None else self._failures[step])

    def _name(self, event: ev.Event, step: StepId | None) -> str:
        """Return the name of the call, child or step that an event is about."""
        call: CallId | None = getattr(event, "call", None)
        child: str | None = getattr(event, "child", None)
        if step is not None:
            return named(step)
        if call is not None:
            return self._names.get(call, f"call {call}")
        return "" if child is None else self._names.get(child, f"run {child}")

    def _line(self, event: ev.Event, place: Place) -> str | None:
        words = WORDS.get(type(event), _NONE)
        line, error = None if words.line is None else words.line(event, place), getattr(event, "error", None)
        if line is not None and isinstance(error, ErrorRecord):
            text = failure(error)
            if text in self.reported:
                line = line.replace(f": {text}", "")
            self.reported.add(text)
        return line if line is None or not self._combinations else self._of_combination(event, line)

    def _of_combination(self, event: ev.Event, line: str) -> str:
        """Return a line about a combination of a job's matrix with the name shown here."""
        if isinstance(event, ev.ItemsMapped) and event.name == COMBINATION:
            return f"{node_of(event.step)} has {event.count} combinations"
        step: StepId | None = getattr(event, "step", None)
        name = event.map if isinstance(event, ev.MapEnded | ev.MapReopened) else None if step is None else node_of(step)
        known = None if name is None else self._combinations.get(name)
        return line if name is None or known is None else f"{known}{line.removeprefix(name)}"


def gist(event: View) -> str:
    """Return an event of a history on one line for people: no hashes and no sessions, long values cut short."""
    from holdfast.service import view

    told = [_fact(name, value) for name, value in view.news(event).items() if not _MACHINERY.search(name)]
    if event.get("by") is not None:
        whose = Actor(event["by"], event.get("os_user", ""), event.get("client", ""))
        told = [
            (name, text if name != "by" else json.dumps(str(whose), ensure_ascii=False))
            for name, text in told
            if name not in ("os_user", "client")
        ]
    return "  ".join(f"{name}={text if len(text) <= _CLIP else f'{text[: _CLIP - 1]}…'}" for name, text in told)


def _fact(name: str, value: Any) -> tuple[str, str]:
    """A field by its name without the unit, and its value with it."""
    if isinstance(value, int) and name.endswith("nanousd"):
        return name.removesuffix("nanousd").rstrip("_") or "cost", f"${usd(value)}"
    if isinstance(value, int) and name.endswith("_at_ms"):
        return name.removesuffix("_at_ms"), clock(value)
    if isinstance(value, int) and name.endswith("_ms"):
        return name.removesuffix("_ms"), span(value)
    if isinstance(value, dict) and value.keys() >= _ERROR:
        return name, json.dumps(f"{value['error_class']}: {value['message']}", ensure_ascii=False)
    if isinstance(value, dict) and name == "released" and "nanousd" in value:
        return name, f"${usd(value['nanousd'])}"
    return name, json.dumps(labelled(value), ensure_ascii=False)


def tell_run(row: dict[str, Any], as_json: bool = False) -> None:
    """Print how a run stands after a command, and how it goes on where that was asked for (`next_steps.with_next`)."""
    if as_json:
        terminal.emit(row)
        return
    terminal.say(f"Run {row['run_id']}: {row['status']}.")
    for line in row.get("next", ()):
        terminal.say(line)
