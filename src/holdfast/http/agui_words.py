"""What a run says as AG-UI's events: texts, reasoning and calls of tools, each begun, told piece by piece, and ended.

Never here: what is told when, a run's own events (agui).
"""

from __future__ import annotations

from collections.abc import Iterator

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

from holdfast.core.streams import THINKING, Told, call_of


class Words:
    """What was told so far: what is open, and the last text."""

    def __init__(self) -> None:
        self.last = ""
        self._open: tuple[str, str] | None = None
        """Of which kind, and of which source."""

    def of(self, told: Told) -> Iterator[BaseEvent]:
        """What says a piece of a stream."""
        if told.kind == "value":
            yield CustomEvent(name=told.source, value=told.value)
        elif told.kind in ("end", "reset"):
            yield from self.closed()
        else:
            source = f"{told.run}:{told.source}"
            if self._open != (told.kind, source):
                yield from self.closed()
                yield from self._begun(told, source)
                self._open = (told.kind, source)
            yield _piece(told.kind, source, told.text)
            if told.kind == "text":
                self.last += told.text

    def whole(self, source: str, text: str) -> Iterator[BaseEvent]:
        """A text that nobody has said in pieces."""
        yield TextMessageStartEvent(message_id=source, role="assistant")
        yield TextMessageContentEvent(message_id=source, delta=text)
        yield TextMessageEndEvent(message_id=source)

    def closed(self) -> Iterator[BaseEvent]:
        """The end of what is open."""
        if self._open is None:
            return
        kind, source = self._open
        self._open = None
        if kind == "text":
            yield TextMessageEndEvent(message_id=source)
        elif kind == THINKING:
            yield ReasoningMessageEndEvent(message_id=source)
            yield ReasoningEndEvent(message_id=source)
        else:
            yield ToolCallEndEvent(tool_call_id=source)

    def _begun(self, told: Told, source: str) -> Iterator[BaseEvent]:
        if told.kind == "text":
            self.last = ""
            yield TextMessageStartEvent(message_id=source, role="assistant")
        elif told.kind == THINKING:
            yield ReasoningStartEvent(message_id=source)
            yield ReasoningMessageStartEvent(message_id=source)
        else:
            call = call_of(told.source)
            tool = told.source.removeprefix(f"{call}:").partition(":")[0]
            yield ToolCallStartEvent(tool_call_id=source, tool_call_name=tool, parent_message_id=f"{told.run}:{call}")


def _piece(kind: str, source: str, text: str) -> BaseEvent:
    if kind == "text":
        return TextMessageContentEvent(message_id=source, delta=text)
    if kind == THINKING:
        return ReasoningMessageContentEvent(message_id=source, delta=text)
    return ToolCallArgsEvent(tool_call_id=source, delta=text)
