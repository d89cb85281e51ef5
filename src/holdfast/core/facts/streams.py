"""Streams of a run as their readers get them, and the places of readers: a fold of the history and of the pieces that arrived.

A piece is addressed by its source and its offset there. The source of a text is a model call, of which the offset counts
characters: the pieces of a running call and the reply in the history answer the same addresses, so a reader of a part of one
gets the rest from the other. Thinking, and the arguments of each tool call, are texts of their own, each with its place. The
answer to a tool call is one more text, in one piece; such pieces are counted, as are the values that user code writes, which
have their stream as their source. An answer from a cache appears as that of a call which was never made, its attempt 0.

Never here: reading any of it, waiting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, Self
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import CallId, RunId
from holdfast.errors import InvalidInput

MODEL: Final = "model"
"""The stream of what models say; its sources are calls."""
TOOLS: Final = "tools"
"""The stream of what became of the requests of models."""
TEXT: Final = ""
THINKING: Final = "thinking"
"""Parts of what a call says; any other are the arguments of a tool, `send_email:toolu_1`."""
Kind = Literal["text", "thinking", "arguments", "result", "value", "reset", "end"]
Outcome = Literal["completed", "failed", "in_doubt"]
_ENDS: Final = (ev.RunCompleted, ev.RunFailed, ev.RunCancelled)
_NAME_CHARACTERS: Final = 64
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")
_RESULT: Final = ":result"
_MAX_RESULT_CHARACTERS: Final = 8_000
"""Maximum number of characters of a tool result that watchers get: with each escaped it fits into a piece of a stream."""


class StreamEvent(msgspec.Struct, frozen=True):
    """One thing that is told of a run's streams.

    `text` is what `source`, a model call, says from its character `offset` on; what it thinks (`thinking`) and what it calls a
    tool with (`arguments`) have sources of their own: the call, and the name of the part. `result` is what the model is told in
    answer to a request, whole: its source is that of the arguments and `result`, its `outcome` is `failed` for an error, its
    `value` the id of the message with which a front end brought it.
    `value` is the one with the number `offset` in the stream `source`. `reset`: what was told of that call counts for nothing,
    because it is made again. `end`: no more of it will come; `outcome` says why. Who goes on after `cursor` misses nothing and
    is told nothing twice.
    """

    run: RunId
    stream: str
    kind: Kind
    source: str
    offset: int
    cursor: str
    text: str = ""
    value: Any = None
    outcome: Outcome | None = None


def source_of(call: CallId, part: str = TEXT) -> str:
    """A call as the source of a text: `draft#1:0:1`, its step, its place there, and which try it is; with the name of a part,
    `draft#1:0:1:thinking`."""
    source = call.partition(":")[2]
    return f"{source}:{part}" if part else source


class Result(msgspec.Struct, frozen=True, array_like=True):
    """A reply to a model's request, as a piece of the stream `tools`. It belongs behind the event `after` of the history:
    behind the reply that asked, before the call that is given the result."""

    source: str
    text: str
    is_error: bool
    after: int | None = None
    """None in pieces of earlier versions."""
    message: str = ""
    """The id of the message with which a front end brought it."""


def result_of(
    call: CallId, tool: str, request: str, text: str, *, is_error: bool, after: int | None = None, message: str = ""
) -> Result:
    """Return the piece for an answer to a request; of a long one the beginning."""
    more = len(text) - _MAX_RESULT_CHARACTERS
    told = text if more <= 0 else f"{text[:_MAX_RESULT_CHARACTERS]}… ({more:,} characters more)"
    return Result(source_of(call, f"{arguments_of(tool, request)}{_RESULT}"), told, is_error, after, message)


def place_of(result: bytes) -> int | None:
    """Return the event behind which a piece of the stream `tools` belongs."""
    return msgspec.json.decode(result, type=Result).after


def request_of(source: str) -> str:
    """The source of the arguments of the request to which a result is the answer."""
    return source.removesuffix(_RESULT)


def arguments_of(tool: str, request: str) -> str:
    """The part of a call that the arguments of a request are: what a provider calls them, harmless in the name of a stream."""
    return f"{_word(tool)}:{_word(request)}"


def _word(name: str) -> str:
    return _ODD.sub("_", name[:_NAME_CHARACTERS])


def call_of(source: str) -> str:
    """The call that a text is of, `draft#1:0:1`."""
    return ":".join(source.split(":", 3)[:3])


def is_call(source: str) -> bool:
    """True if a source is a call; a stream of the user's has no colon in its name."""
    return ":" in source


class Cursor(msgspec.Struct):
    """A reader's place in the streams of a run: behind the event `seq`, and behind an offset in each source that may go on."""

    seq: int = 0
    told: dict[str, int] = {}

    def __str__(self) -> str:
        return ",".join([f"@{self.seq}", *(f"{quote(source, safe='#:!')}={size}" for source, size in self.told.items())])

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises InvalidInput for a text that is none."""
        seq, *entries = text.removeprefix("@").split(",")
        told = {unquote(source): size for source, _, size in (each.rpartition("=") for each in entries)}
        numbers = [seq, *told.values()]
        if (
            not text.startswith("@")
            or not all(each.isascii() and each.isdecimal() and len(each) < 16 for each in numbers)
            or "" in told
        ):
            raise InvalidInput(
                f"{text!r:.80} is no place in the streams of a run: say the `cursor` of the last piece that was dealt with, or"
                " `start` or `now`."
            )
        return cls(int(seq), {source: int(size) for source, size in told.items()})


class Follower:
    """One who watches a run."""

    def __init__(self, run: RunId, cursor: Cursor, only: str | None = None, *, is_over: bool = False) -> None:
        """`only`: the stream, or the call, that he wants to hear of. `is_over`: the run has ended by an event that he has
        heard of."""
        self._run = run
        self._only = only
        self.cursor = cursor
        self.is_over = is_over
        """Whether the run has ended, as far as he has heard."""

    @cached_property
    def place(self) -> str:
        """Its place. Two at the same place get the same. Asked for, it must stay where it is."""
        return f"{self._only} {self.is_over} {self.cursor}"

    def copy(self) -> Follower:
        """Another one, at the same place."""
        cursor = Cursor(self.cursor.seq, dict(self.cursor.told))
        return Follower(self._run, cursor, self._only, is_over=self.is_over)

    def event(
        self, seq: int, event: ev.Event, text: str | None, besides: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[StreamEvent]:
        """Yield what an event of the history adds; `text` is the text of the reply, or of a partial one, that it holds, and
        `besides` its other parts."""
        if seq <= self.cursor.seq:
            return
        self.cursor.seq = seq - 1
        self.is_over = isinstance(event, _ENDS) or (self.is_over and not isinstance(event, ev.RunReopened))
        match event:
            case ev.ModelCallHeld(call=call):
                yield from self._begun(source_of(call), seq)
            case ev.ModelCallSettled(call=call):
                yield from self._ended(source_of(call), seq, text, besides, "completed")
            case ev.ModelCallFailed(call=call):
                yield from self._ended(source_of(call), seq, text, besides, "failed")
            case ev.ModelCallInDoubt(call=call):
                yield from self._ended(source_of(call), seq, text, besides, "in_doubt")
            case ev.ValueRecorded(step=step, path=path) if text is not None:
                yield from self._answered(f"{step}:{path}:0", seq, text)
            case _:
                pass
        self.cursor.seq = seq

    def chunk(self, source: str, first: int, content: bytes) -> Iterator[StreamEvent]:
        """Yield what a piece adds that stands behind the `first` of its source. Events that were there before it come first."""
        if not is_call(source):
            known = self.cursor.told.get(source)
            if first < (known or 0):
                return
            result = msgspec.json.decode(content, type=Result) if source == TOOLS else None
            if self._wants(source, source if result is None else result.source):
                self.cursor.told[source] = first + 1
                yield self._counted(source, first, content, result)
        elif call_of(source) in self.cursor.told:
            text = content.decode("utf-8", "surrogatepass")
            yield from self._text(source, text[max(self.cursor.told.get(source, 0) - first, 0) :])

    def _counted(self, stream: str, number: int, content: bytes, result: Result | None) -> StreamEvent:
        if result is None:
            return self._event(stream, "value", stream, number, value=msgspec.json.decode(content))
        outcome: Outcome = "failed" if result.is_error else "completed"
        return self._event(stream, "result", result.source, 0, text=result.text, outcome=outcome, value=result.message or None)

    def _begun(self, source: str, seq: int) -> Iterator[StreamEvent]:
        self.cursor.seq = seq
        place, _, number = source.rpartition(":")
        earlier = f"{place}:{int(number) - 1}"
        size, is_void = self.cursor.told.get(earlier, 0), self._forget(earlier)
        if self._wants(MODEL, source) or call_of(self._only or "") == source:
            self.cursor.told.setdefault(source, 0)
        if is_void:
            yield self._event(MODEL, "reset", earlier, size)

    def _answered(self, source: str, seq: int, text: str) -> Iterator[StreamEvent]:
        """Yield the answer of a cache, as that of a call which was never made."""
        if self._wants(MODEL, source):
            self.cursor.told.setdefault(source, 0)
            yield from self._ended(source, seq, text, {}, "completed")

    def _ended(
        self, source: str, seq: int, reply_text: str | None, besides: Mapping[str, str], outcome: Outcome
    ) -> Iterator[StreamEvent]:
        if source not in self.cursor.told:
            return
        whole = {source: reply_text or "", **{f"{source}:{part}": text for part, text in besides.items()}}
        for name in sorted(whole, key=lambda name: not name.endswith(f":{THINKING}")):  # that came first
            known = self.cursor.told.get(name, 0)
            yield from self._text(name, whole[name][known:])  # whose cursor is before the event, which tells of an end too
        self.cursor.seq = seq
        size = self.cursor.told[source]
        is_told = size > 0 or any(call_of(name) == source for name in self.cursor.told if name != source)
        if outcome == "completed" or not is_told:
            self._forget(source)
        if is_told:
            yield self._event(MODEL, "end", source, size, outcome=outcome)

    def _forget(self, call: str) -> bool:
        """Forget all that was sent of a call. Return True if that was anything."""
        parts = [name for name in self.cursor.told if is_call(name) and call_of(name) == call]
        return sum(self.cursor.told.pop(name) for name in parts) > 0

    def _text(self, source: str, text: str) -> Iterator[StreamEvent]:
        if text and self._wants(MODEL, source):
            offset = self.cursor.told.get(source, 0)
            self.cursor.told[source] = offset + len(text)
            part = source[len(call_of(source)) + 1 :]
            kind: Kind = "text" if part == TEXT else "thinking" if part == THINKING else "arguments"
            yield self._event(MODEL, kind, source, offset, text=text)

    def _wants(self, stream: str, source: str) -> bool:
        return self._only in (None, stream, source) or (is_call(source) and self._only == call_of(source))

    def _event(self, stream: str, kind: Kind, source: str, offset: int, **event: Any) -> StreamEvent:
        return StreamEvent(self._run, stream, kind, source, offset, str(self.cursor), **event)
