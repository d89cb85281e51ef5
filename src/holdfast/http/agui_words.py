"""A run's streams as AG-UI events: texts, reasoning and tool calls, each begun, sent piece by piece, and ended, and the calls'
results. Also as the messages that a client which has received those events holds.

Never here: what is sent when, a run's own events (agui).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Message,
    ReasoningEndEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from holdfast.core.facts.streams import THINKING, StreamEvent, call_of, request_of

OUR: Final = "holdfast"
"""The key of what is sent beside the protocol."""


class Words:
    """The state of the events sent so far: the open message, and the last text."""

    def __init__(self) -> None:
        self.last = ""
        self.is_again = False
        """Everything is sent again, also what the client itself has sent."""
        self._open: tuple[str, str] | None = None
        """Of which kind, and of which source."""

    def of(self, event: StreamEvent) -> Iterator[BaseEvent]:
        """Yield the events for a piece of a stream."""
        if event.kind == "value":
            yield CustomEvent(name=event.source, value=event.value)
        elif event.kind == "result":
            if event.value is None or self.is_again:
                id_ = event.value or f"{event.run}:{event.source}"
                yield ToolCallResultEvent(message_id=id_, role="tool", **_result(event))
        elif event.kind in ("end", "reset"):
            yield from self.closed()
        else:
            source = f"{event.run}:{event.source}"
            if self._open != (event.kind, source):
                yield from self.closed()
                yield from self._begun(event, source)
                self._open = (event.kind, source)
            yield _piece(event.kind, source, event.text)
            if event.kind == "text":
                self.last += event.text

    def call(self, source: str, tool: str, arguments: Any) -> Iterator[BaseEvent]:
        """A call of a tool that was not streamed in pieces."""
        yield ToolCallStartEvent(tool_call_id=source, tool_call_name=tool)
        yield ToolCallArgsEvent(tool_call_id=source, delta=json.dumps(arguments))
        yield ToolCallEndEvent(tool_call_id=source)

    def whole(self, source: str, text: str) -> Iterator[BaseEvent]:
        """Yield the events of a text that was not streamed in pieces."""
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

    def _begun(self, event: StreamEvent, source: str) -> Iterator[BaseEvent]:
        if event.kind == "text":
            self.last = ""
            yield TextMessageStartEvent(message_id=source, role="assistant")
        elif event.kind == THINKING:
            yield ReasoningStartEvent(message_id=source)
            yield ReasoningMessageStartEvent(message_id=source)
        else:
            yield ToolCallStartEvent(tool_call_id=source, tool_call_name=_tool(event), parent_message_id=_call_id(event))


def _piece(kind: str, source: str, text: str) -> BaseEvent:
    if kind == "text":
        return TextMessageContentEvent(message_id=source, delta=text)
    if kind == THINKING:
        return ReasoningMessageContentEvent(message_id=source, delta=text)
    return ToolCallArgsEvent(tool_call_id=source, delta=text)


def messages_of(events: Iterable[StreamEvent]) -> list[Message]:
    """Return stream events as messages. The result of a call comes after the message that has the call."""
    said: dict[str, AssistantMessage | ReasoningMessage] = {}
    results: dict[str, dict[str, ToolMessage]] = {}
    for each in events:
        id_ = f"{each.run}:{each.source}"
        if each.kind in ("text", THINKING):
            is_text = each.kind == "text"
            message = said.setdefault(id_, AssistantMessage(id=id_) if is_text else ReasoningMessage(id=id_, content=""))
            message.content = (message.content or "") + each.text
        elif each.kind == "arguments":
            _call(said.setdefault(_call_id(each), AssistantMessage(id=_call_id(each))), each).arguments += each.text
        elif each.kind == "result":
            error, id_ = each.text if each.outcome == "failed" else None, each.value or id_
            results.setdefault(_call_id(each), {})[id_] = ToolMessage(id=id_, error=error, **_result(each))
        elif each.kind == "reset":
            said = {name: message for name, message in said.items() if name != id_ and not name.startswith(f"{id_}:")}
    return [message for name, each in said.items() for message in (each, *results.get(name, {}).values())]


def _call(message: Any, event: StreamEvent) -> FunctionCall:
    """The call of a tool, in the message that has it."""
    message.tool_calls = message.tool_calls or []
    id_ = f"{event.run}:{event.source}"
    known = next((each for each in message.tool_calls if each.id == id_), None)
    if known is None:
        known = ToolCall(id=id_, function=FunctionCall(name=_tool(event), arguments=""))
        message.tool_calls.append(known)
    return known.function


def _call_id(event: StreamEvent) -> str:
    """The message that has what a model says in a call, its text and which tools it calls."""
    return f"{event.run}:{call_of(event.source)}"


def _tool(event: StreamEvent) -> str:
    return event.source.removeprefix(f"{call_of(event.source)}:").partition(":")[0]


def _result(event: StreamEvent) -> dict[str, Any]:
    """Return the result of a tool call, with the fields that its event and its message share."""
    failed = {"metadata": {OUR: {"outcome": event.outcome}}} if event.outcome == "failed" else {}
    return {"tool_call_id": f"{event.run}:{request_of(event.source)}", "content": event.text, **failed}
