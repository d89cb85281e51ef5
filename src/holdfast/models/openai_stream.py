"""OpenAI's Chat Completions API, streamed: its chunks become the completion that would have come whole.

The format: platform.openai.com, "Chat Completions", "The chat completion chunk object". The usage comes with a last chunk
that has no choices, if it was asked for, and `[DONE]` after everything.

Never here: a connection, what the completion says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.models import usage
from holdfast.models.openai import THOUGHT_BEGINS, THOUGHT_ENDS, content_text
from holdfast.models.provider_call import UnusableReply
from holdfast.models.stream import Allowance, decoded
from holdfast.ports import ModelDelta, TextDelta, ThinkingDelta, ToolDelta, UsageDelta

ASKED: Final[Mapping[str, Any]] = {"stream": True, "stream_options": {"include_usage": True}}
"""What a request has that is to be answered so."""

_END: Final = b"[DONE]"
_ENDS: Final = re.compile(re.escape(THOUGHT_ENDS))
_EITHER: Final = re.compile(f"{re.escape(THOUGHT_BEGINS)}|{re.escape(THOUGHT_ENDS)}")
_OF_CHUNK: Final = ("id", "service_tier", "usage")


class CompletionAssembly:
    """Keeps stream.Assembly."""

    def __init__(self) -> None:
        self._ended = False
        self._allowance = Allowance()
        self._chunk: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        """By field of the message."""
        self._calls: dict[int, _Call] = {}
        self._spoken = ThinkingFilter()
        self._finish_reason: Any = None
        self._used: UsageDelta | None = None

    def add(self, data: bytes) -> Sequence[ModelDelta]:
        if data == _END:
            self._ended = True
            return _text(self._spoken.rest())
        chunk = decoded(data)
        if error := chunk.get("error"):
            message = error.get("message") if isinstance(error, dict) else error
            raise UnusableReply(f"its stream ended in an error: {message}")
        self._chunk |= {name: chunk[name] for name in _OF_CHUNK if chunk.get(name) is not None}
        deltas = [delta for choice in chunk.get("choices") or () for delta in self._grown(choice)]
        return [*deltas, *self._reported()] if chunk.get("usage") is not None else deltas

    def is_complete(self) -> bool:
        return self._ended

    def body(self) -> dict[str, Any]:
        message: dict[str, Any] = {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._calls[index].whole() for index in sorted(self._calls)]
        return {**self._chunk, "choices": [{"message": message, "finish_reason": self._finish_reason}]}

    def _grown(self, choice: Mapping[str, Any]) -> Sequence[ModelDelta]:
        if choice.get("index", 0) != 0:
            return ()
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta") or {}
        thought = ""
        for name in ("refusal", "reasoning", "reasoning_content"):
            if isinstance(piece := delta.get(name), str):
                self._texts.setdefault(name, []).append(self._allowance.take(piece))
                thought = piece if name != "refusal" and piece else thought  # in both fields it is the same
        content = self._allowance.take(content_text(delta.get("content")))
        if content:
            self._texts.setdefault("content", []).append(content)
        thinks = (ThinkingDelta(thought),) if thought else ()
        return [*thinks, *_text(self._spoken.feed(content)), *map(self._call_delta, delta.get("tool_calls") or ())]

    def _call_delta(self, piece: Mapping[str, Any]) -> ModelDelta:
        """Some servers do not number the calls: then one that has an id is the next."""
        index = piece.get("index")
        if index is None:
            index = len(self._calls) if piece.get("id") else len(self._calls) - 1
        if index not in self._calls:
            self._allowance.take("{")
            self._calls[index] = _Call()
        call, function = self._calls[index], piece.get("function") or {}
        call.id = call.id or piece.get("id")
        call.name = call.name or function.get("name")
        call.extra = call.extra or piece.get("extra_content")
        arguments = self._allowance.take(function.get("arguments") or "")
        call.arguments.append(arguments)
        return ToolDelta(str(call.id or ""), str(call.name or ""), arguments)

    def _reported(self) -> Sequence[ModelDelta]:
        used = usage.of_reply("openai", self._chunk)
        delta = None if used is None else UsageDelta(used, is_final=self._finish_reason is not None)
        if delta is None or delta == self._used:
            return ()
        self._used = delta
        return (delta,)


class _Call:
    """A call of a tool, as it grows."""

    def __init__(self) -> None:
        self.id: Any = None
        self.name: Any = None
        self.extra: Any = None
        self.arguments: list[str] = []

    def whole(self) -> dict[str, Any]:
        call = {"id": self.id, "function": {"name": self.name, "arguments": "".join(self.arguments)}}
        return {**call, "extra_content": self.extra} if self.extra else call


class ThinkingFilter:
    """A streamed answer without the thinking that some servers leave in its content: `openai.without_thinking`,
    piece by piece. A thought is dropped when it ends, and buffered until then."""

    def __init__(self) -> None:
        self._thinks = False
        self._thought: list[str] = []
        self._end = ""
        """What may be the beginning of a tag."""

    def feed(self, piece: str) -> str:
        """Add a piece, and return the text that is certainly part of the answer."""
        shown, text = "", self._end + piece
        while True:
            found = (_ENDS if self._thinks else _EITHER).search(text)
            if found is None:
                break
            if not self._thinks:
                shown += text[: found.start()]
            self._thought, text = [], text[found.end() :]
            self._thinks = found[0] == THOUGHT_BEGINS
        known = len(text) - max(_prefix_length(text, tag) for tag in (THOUGHT_BEGINS, THOUGHT_ENDS))
        self._end = text[known:]
        if self._thinks:
            self._thought.append(text[:known])
            return shown
        return shown + text[:known]

    def rest(self) -> str:
        """Return the buffered text at the end of the stream, which turned out not to be thinking."""
        return "".join([THOUGHT_BEGINS * self._thinks, *self._thought, self._end])


def _prefix_length(text: str, tag: str) -> int:
    """Return the number of letters of `tag` with which the text ends."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)


def _text(text: str) -> Sequence[ModelDelta]:
    return (TextDelta(text),) if text else ()
