"""Values that a step writes while it runs: each goes to the end of a stream of its run, once.

A value is known by its place in the code, and a reply to a model's request by that request: so code that runs again writes
nothing again. Never here: the way to the store (stream_writer), who reads it.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from holdfast.authoring.values.sensitive import as_kept
from holdfast.core.facts.streams import MODEL, TOOLS, result_of
from holdfast.core.values.ids import CallId
from holdfast.engine.attempts.cursor import Suspension, cursor, note_calls
from holdfast.engine.attempts.journal import StepJournal, keep_place
from holdfast.errors import InvalidInput
from holdfast.ports import Piece, StreamName, ToolReply

if TYPE_CHECKING:
    from holdfast.authoring.context import Stream as Promised

_OURS: Final = {MODEL: "that is what models say", TOOLS: "that is what became of what models asked for"}
MAX_BYTES: Final = 64 * 1024
"""Of one value. What is larger is no progress, but a result."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class Stream:
    """One of a step. Every step of a run may write to the same."""

    def __init__(self, journal: StepJournal, name: str) -> None:
        """Raises ValueError for a name that is none."""
        if _NAME.fullmatch(name) is None or name in _OURS:
            why = _OURS.get(name, "use a letter and up to 63 letters, digits, '_' and '-'")
            raise ValueError(f"stream({name!r:.100}): no stream can have this name; {why}")
        self._journal = journal
        self._name = StreamName(journal.run, name)

    async def write(self, value: Any) -> None:
        """Have a value stand next in the stream; see Context."""
        mark = cursor().mark(self._name.stream)
        payloads = self._journal.attempt.services.payloads
        if isinstance(value, str):
            value = as_kept(value)
            border, _ = self._journal.borders.get(self._name.stream) or (payloads.masking_of_texts(), "")
            self._journal.borders[self._name.stream] = border, mark
            told = border.feed(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
            if value and not told:
                return  # all of it waits for the next
            value = told
        else:
            await tell_rest(self._journal, self._name.stream)
        content = payloads.clean(value)
        if len(content) > MAX_BYTES:
            raise InvalidInput(
                f"What is written to the stream {self._name.stream!r} has {len(content)} bytes as JSON; a value of a stream has"
                f" {MAX_BYTES} at most. Write less of it, or keep it as a result. Nothing of it was written."
            )
        await _write(self._journal, Piece(self._name, f"{self._journal.step}:{mark}", 1, content, self._journal.tenant))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until everything written is in the store."""
        if kind is None:
            await tell_rest(self._journal, self._name.stream)
            await self._journal.attempt.services.streams.flushed()


note_calls(Stream, "stream", "write", "__aexit__")


async def tell_rest(journal: StepJournal, stream: str) -> None:
    """Write what has waited of the last text of a stream, because it might have been the beginning of a secret."""
    border, mark = journal.borders.get(stream) or (None, "")
    if border is None or not (rest := border.end()):
        return
    content = journal.attempt.services.payloads.clean(rest.decode("utf-8", "surrogatepass"))
    piece = Piece(StreamName(journal.run, stream), f"{journal.step}:{mark}+", 1, content, journal.tenant)
    if journal.may_send():  # else the process that goes on with the step sends it
        journal.attempt.writes = True
        await journal.attempt.services.streams.write(piece)


async def tell_result(journal: StepJournal, call: CallId | None, reply: ToolReply, message: str) -> ToolReply:
    """Return a model's reply to a request of `call`; readers get it too, unless none of them got the call."""
    if call is None:
        return reply
    payloads, after = journal.attempt.services.payloads, (await journal.attempt.state()).seq
    result = result_of(
        call, reply.name, reply.id, payloads.redact(reply.content), is_error=reply.is_error, after=after, message=message
    )
    piece = Piece(StreamName(journal.run, TOOLS), result.source, 1, msgspec.json.encode(result), journal.tenant)
    journal.told = await _write(journal, piece)
    return reply


async def _write(journal: StepJournal, piece: Piece) -> int:
    if not journal.may_send():
        try:
            await keep_place(journal)
        except Suspension as why:
            cursor().left = why
            raise
    journal.attempt.writes = True
    return await journal.attempt.services.streams.write(piece)


if TYPE_CHECKING:
    _promised: type[Promised] = Stream
