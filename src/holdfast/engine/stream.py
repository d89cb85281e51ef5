"""What the code of a step says while it runs: values that go to the end of a stream of its run, each once.

A value is known by its place in the code, so code that runs again writes nothing again. Never here: the way to the store
(stream_writer), who reads it.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.engine.cursor import Suspension, cursor
from holdfast.engine.journal import StepJournal
from holdfast.errors import InvalidInput
from holdfast.ports import Piece, StreamName

if TYPE_CHECKING:
    from holdfast.authoring.context import Stream as Promised

MODEL: Final = "model"
"""The stream that is not the user's: what models say."""
MOST_BYTES: Final = 64 * 1024
"""Of one value. What is larger is no progress, but a result."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class Stream:
    """One of a step. Every step of a run may write to the same."""

    def __init__(self, journal: StepJournal, name: str) -> None:
        """Raises ValueError for a name that is none."""
        if _NAME.fullmatch(name) is None or name == MODEL:
            why = (
                "that is what models say" if name == MODEL else "use a letter and up to 63 letters, digits, '_' and '-'"
            )
            raise ValueError(f"stream({name!r:.100}): no stream can have this name; {why}")
        self._journal = journal
        self._name = StreamName(journal.run, name)

    async def write(self, value: Any) -> None:
        """Have a value stand next in the stream; see Context."""
        attempt = self._journal.attempt
        mark = cursor().mark(self._name.stream)
        content = attempt.services.payloads.clean(value)
        if len(content) > MOST_BYTES:
            raise InvalidInput(
                f"What is written to the stream {self._name.stream!r} has {len(content)} bytes as JSON; a value of a stream has"
                f" {MOST_BYTES} at most. Write less of it, or keep it as a result. Nothing of it was written."
            )
        if not self._journal.may_send():
            raise Suspension  # frozen past its lease: somebody else may already be at it
        attempt.writes = True
        piece = Piece(self._name, f"{self._journal.step}:{mark}", 1, content)
        await attempt.services.streams.write(piece)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What was written is in the store."""
        if kind is None:
            await self._journal.attempt.services.streams.flushed()


if TYPE_CHECKING:
    _promised: type[Promised] = Stream
