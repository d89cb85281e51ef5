"""The streams of runs, watched: what models say while they say it, and what user code writes.

Never here: what is sent of them (core.facts.streams), how it is heard of (engine.runs.listening).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from holdfast.core.facts.streams import MODEL, Cursor, Follower, StreamEvent
from holdfast.errors import InvalidInput
from holdfast.service.control.base import ControlBase

START = "start"
NOW = "now"


class Streams(ControlBase):
    """The streams of all runs, wherever they are executed."""

    async def watch_stream(
        self, run_id: str, name: str | None = None, *, since: str | int = START, follow: bool = True
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield what is written to a run's streams. A reader that returns with its last cursor misses nothing and gets nothing
        twice. Replies that were generated without readers come as a whole.

        Args:
            name: Stream: `model`, one that code writes to, or the source of a text (a call, `draft#1:0:1`). None for all.
            since: Where to begin: `start`, `now`, the `cursor` of the last item, or a position. A position is a character of
                the call, or a value of the stream; a negative one counts the last values.
            follow: True to go on until the run has ended; False to return at the end of what exists.

        Raises:
            NotFound: The run does not exist.
            InvalidInput: `since` or `name` cannot be used.
        """
        row = await self.find(run_id)
        listening = self.executor.services.listening
        if isinstance(since, int):
            if name in (None, MODEL):
                raise InvalidInput(
                    f"{since} is no place in all streams of a run together: name a stream, or a call (`draft#1:0:1`)."
                )
            cursor = await listening.cursor_at(row.run, str(name), since)
        else:
            cursor = Cursor() if since in (START, NOW) else Cursor.read(since)
        is_over = row.ended_at_ms is not None and row.seq <= cursor.seq
        follower = Follower(row.run, cursor, name, is_over=is_over)
        async for told in listening.listen(row.run, row.tenant, follower, follow=follow, mute=since == NOW):
            yield told
