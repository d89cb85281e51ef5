"""Anthropic's Messages API, streamed: its events become the message that would have come whole.

The format: docs.claude.com, "Streaming messages". Token counts of `message_delta` are those so far; new kinds of events may
come and are passed over.

Never here: a connection, what the message says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.models import usage
from holdfast.models.anthropic import UnparsedArguments
from holdfast.models.provider_call import UnusableReply
from holdfast.models.stream import Allowance, decoded, parsed_object
from holdfast.ports import ModelDelta, TextDelta, ThinkingDelta, ToolDelta, UsageDelta

ASKED: Final[Mapping[str, Any]] = {"stream": True}
"""What a request has that is to be answered so."""

_PIECES: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""In which field a delta of a block has its piece."""


class Block:
    """A block of content, as it grows."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.begun = start
        self._pieces: dict[str, list[str]] = {}

    def grow(self, field: str, piece: str) -> None:
        self._pieces.setdefault(field, []).append(piece)

    def whole(self) -> dict[str, Any]:
        texts = {field: "".join(pieces) for field, pieces in self._pieces.items()}
        arguments = texts.pop("partial_json", "")
        block = {**self.begun, **{field: self.begun.get(field, "") + text for field, text in texts.items()}}
        if arguments:
            block["input"] = UnparsedArguments(arguments) if (given := parsed_object(arguments)) is None else given
        return block


class MessageAssembly:
    """Keeps stream.Assembly."""

    def __init__(self) -> None:
        self._ended = False
        self._allowance = Allowance()
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, Block] = {}
        self._report: dict[str, Any] = {}
        self._used: UsageDelta | None = None

    def add(self, data: bytes) -> Sequence[ModelDelta]:
        event = decoded(data)
        match event["type"]:
            case "message_start":
                self._message = dict(event["message"])
                return self._reported(self._message.get("usage"))
            case "content_block_start":
                return self._start_block(event["index"], event["content_block"])
            case "content_block_delta":
                return self._grown(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._message |= event["delta"]
                return self._reported(event.get("usage"))
            case "message_stop":
                self._ended = True
            case "error":
                error = event["error"]
                raise UnusableReply(f"its stream ended in an error: {error['type']}: {error['message']}")
            case _:  # a ping, the end of a block, a kind that came later
                pass
        return ()

    def is_complete(self) -> bool:
        return self._ended

    def body(self) -> dict[str, Any]:
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return {**self._message, "content": content, **({"usage": self._report} if self._report else {})}

    def _start_block(self, index: int, block: Mapping[str, Any]) -> Sequence[ModelDelta]:
        for word in ("{", *(value for value in block.values() if isinstance(value, str))):
            self._allowance.take(word)
        self._blocks[index] = Block(block)
        if block["type"] == "tool_use":
            return (ToolDelta(block["id"], block["name"], ""),)
        if block["type"] == "thinking" and block["thinking"]:
            return (ThinkingDelta(block["thinking"]),)
        return (TextDelta(block["text"]),) if block["type"] == "text" and block["text"] else ()

    def _grown(self, block: Block, delta: Mapping[str, Any]) -> Sequence[ModelDelta]:
        field = _PIECES.get(delta["type"])
        if field is None:
            return ()
        piece = self._allowance.take(delta[field])
        block.grow(field, piece)
        if field == "text":
            return (TextDelta(piece),)
        if field == "thinking":
            return (ThinkingDelta(piece),)
        return (ToolDelta(block.begun["id"], block.begun["name"], piece),) if field == "partial_json" else ()

    def _reported(self, report: Mapping[str, Any] | None) -> Sequence[ModelDelta]:
        self._report |= {name: value for name, value in (report or {}).items() if value is not None}
        used = usage.of_reply("anthropic", {"usage": self._report})
        delta = None if used is None else UsageDelta(used, is_final=self._message.get("stop_reason") is not None)
        if delta is None or delta == self._used:
            return ()
        self._used = delta
        return (delta,)
