"""The streams of runs: output while a run goes on, in pieces, for its listeners.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.core.values.ids import RunId, Seq


class StreamName(NamedTuple):
    """A stream of a run: one sequence, of which each piece has its place."""

    run: RunId
    stream: str


class Piece(NamedTuple):
    """The next piece of a stream, of a run of that `tenant`. `size` is its length: characters of a text, or 1 for a value."""

    name: StreamName
    mark: str
    """Which piece it is, however often it is brought."""
    size: int
    content: bytes
    tenant: str = ""


class Chunk(NamedTuple):
    """A piece at its place, behind the `first` of its stream."""

    name: StreamName
    first: int
    size: int
    content: bytes


class StreamUpdate(NamedTuple):
    """The streams and histories of all runs that have grown, and how far. `mark` is the point up to which that is known."""

    mark: str
    sizes: Mapping[StreamName, int]
    seqs: Mapping[RunId, Seq]


class Streams(Protocol):
    """The streams of runs. No run's course follows from them."""

    async def append(self, pieces: Sequence[Piece]) -> None:
        """Put pieces, in this order, at the ends of their streams, durably and all or nothing. One whose mark is there already
        is passed over, so what was brought in vain, or not known to be there, is brought again as it was. No mark comes twice
        in one call.

        What others see of a stream is its beginning, whoever writes to it at the same time.
        """
        ...

    async def chunks(
        self, runs: Collection[RunId], after_sizes: Mapping[StreamName, int], limit: int, only: str | None = None
    ) -> Sequence[Chunk]:
        """Return at most `limit` pieces of these runs' streams, or of their streams named `only`, in order within each: those
        beyond what is known of it, which is nothing unless given. The first may hold something known. What models think
        (streams named `…:thinking`) comes before all other streams: it is said first, and a limit must not cut it off."""
        ...

    async def news(self, mark: str | None) -> StreamUpdate:
        """Return the streams and histories that have grown since a `mark`, or may have; without one, none. The cost does not
        grow with the number of runs watched. It is a hint: after a failover, a mark of another line of the database may show
        less."""
        ...

    async def sizes(self, runs: Collection[RunId]) -> Mapping[StreamName, int]:
        """Return the size of each stream of these runs."""
        ...

    async def forget(self, names: Collection[StreamName]) -> None:
        """Let go of streams of which everything is kept elsewhere by now."""
        ...
