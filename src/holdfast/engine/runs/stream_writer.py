"""Streams of the runs of one process on their way into the store: in batches, beside the commits of runs.

The first piece after a pause is written at once; pieces that arrive meanwhile go together. Most of the time is left to others:
on SQLite they share the one writer. While the store is away a model's text gathers here, which is no longer than its reply, and
user code waits as soon as too much of its own text does. Never here: masking, reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.errors import HoldfastError, Unstorable
from holdfast.ports import Clock, Piece, StreamName, Streams

APART_S: Final = 0.01
"""Between two batches at least; a screen shows no more."""
_SHARE: Final = 3
"""So many times as long as a batch took is left to others."""
_BATCH_PIECES: Final = 500
_BATCH_BYTES: Final = 1024 * 1024
_PIECE_CHARACTERS: Final = 16 * 1024
_MAX_PIECES: Final = 10_000
_MAX_BYTES: Final = 8 * 1024 * 1024
"""Of what user code wrote and the store has not got yet, before it waits."""
_FORGET_S: Final = 1.0
"""How long what the history has stays here too: who watches is about to ask for the rest."""
_AWAY_S: Final = 0.5
"""The longest pause between two tries while the store is away."""
_LAST_WORDS_S: Final = 5.0

log = logging.getLogger("holdfast")


class _Text:
    """The part of a text that is not on its way yet."""

    def __init__(self, first: int, tenant: str) -> None:
        self.first = first
        self.tenant = tenant
        self.parts: list[str] = []

    def split(self, name: StreamName) -> list[Piece]:
        text = "".join(self.parts)
        return [
            Piece(name, str(self.first + at), len(part), part.encode("utf-8", "surrogatepass"), self.tenant)
            for at in range(0, len(text), _PIECE_CHARACTERS)
            if (part := text[at : at + _PIECE_CHARACTERS])
        ]


class StreamWriter:
    """The writer of one process."""

    def __init__(self, streams: Streams, clock: Clock, on_written: Callable[[], None] = lambda: None) -> None:
        """`on_written` is called when something is there that was not."""
        self._streams = streams
        self._clock = clock
        self._values: deque[Piece] = deque()
        self._bytes = 0
        self._put = self._written = 0
        """How many values there have been, and how many of them the store has."""
        self._texts: dict[StreamName, _Text] = {}
        self._begun: set[StreamName] = set()
        """The texts of which the store has something."""
        self._told: dict[StreamName, float] = {}
        """Those that stand in the history as well, and since when."""
        self._batch: list[Piece] = []
        """What is on its way: it stays what it is until it is there, for nobody may know whether it is."""
        self._values_in_batch = 0
        self._more = asyncio.Event()
        self._on_written = on_written
        self._turn: asyncio.Future[None] | None = None
        self._loop = BackgroundLoop("holdfast-streams", self._write_on, clock, fault="holdfast can no longer store streams")
        self._outage = Outage("holdfast: the store takes nothing of what runs say meanwhile, which waits: %s", _AWAY_S)

    # --- What comes ---------------------------------------------------------------------------------------------------

    async def write(self, piece: Piece) -> int:
        """Have a value written, soon, and return its number. Waits while too much is on its way."""
        while len(self._values) >= _MAX_PIECES or self._bytes >= _MAX_BYTES:
            await self._next_turn()
        self._values.append(piece)
        self._bytes += len(piece.content)
        self._put += 1
        self._begin()
        return self._put

    def say(self, name: StreamName, first: int, text: str, tenant: str = "") -> None:
        """More of a text of a tenant's run, which goes on at its character `first`."""
        found = self._texts.get(name)
        if found is None:
            found = self._texts[name] = _Text(first, tenant)
        found.parts.append(text)
        self._begin()

    def forget(self, name: StreamName) -> None:
        """All of a text stands in the history by now."""
        self._texts.pop(name, None)
        if name in self._begun:
            self._told[name] = self._clock.monotonic_s()
            self._begin()

    async def flushed(self, number: int | None = None) -> None:
        """Wait until the value of this number is in the store, and all before it; until all that were written so far."""
        put = self._put if number is None else number
        while self._written < put:
            await self._next_turn()

    async def aclose(self) -> None:
        """Write what there is, if the store takes it in time."""
        await self._loop.aclose()
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                while self._has_more:
                    await self._write()
                await self._let_go(list(self._told))
        except (TimeoutError, HoldfastError):
            log.warning("holdfast: the end of what streams of runs say is not in the store, which does not answer")

    # --- On the way to the store --------------------------------------------------------------------------------------

    @property
    def _has_more(self) -> bool:
        return bool(self._batch or self._values or self._texts)

    def _begin(self) -> None:
        self._more.set()
        self._loop.start()

    async def _next_turn(self) -> None:
        """Wait until another batch is in the store."""
        self._begin()
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._turn)

    async def _write_on(self) -> float | None:
        began_s = self._clock.monotonic_s()
        if self._has_more:
            await self._write()
            took_s = self._clock.monotonic_s() - began_s
            await self._clock.sleep(max(APART_S, _SHARE * took_s))
        due_s = {name: since_s + _FORGET_S - began_s for name, since_s in self._told.items()}
        if due := [name for name, left_s in due_s.items() if left_s <= 0]:
            await self._let_go(due)
        elif due_s and not self._has_more:
            await self._until_more(min(due_s.values()))
        return 0.0 if self._has_more or self._told else None

    async def _until_more(self, seconds: float) -> None:
        self._more.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._more.wait()

    async def _write(self) -> None:
        if not self._batch:
            self._values_in_batch, values = self._next_values()
            texts, self._texts = self._texts, {}
            self._batch = [*values, *(piece for name, text in texts.items() for piece in text.split(name))]
            self._begun |= texts.keys()
        await self._bring(self._batch)
        self._batch = []
        for _ in range(self._values_in_batch):
            self._bytes -= len(self._values.popleft().content)
        self._written += self._values_in_batch
        self._on_written()
        turn, self._turn = self._turn, None
        if turn is not None and not turn.done():
            turn.set_result(None)

    def _next_values(self) -> tuple[int, list[Piece]]:
        """So many values are the next, of which none is brought twice."""
        pieces, count, size = dict[tuple[StreamName, str], Piece](), 0, 0
        for piece in self._values:
            size += len(piece.content)
            if count == _BATCH_PIECES or (count and size > _BATCH_BYTES):
                break
            count += 1
            pieces.setdefault((piece.name, piece.mark), piece)
        return count, [*pieces.values()]

    async def _bring(self, batch: list[Piece]) -> None:
        """Have it in the store, however long that takes."""
        while True:
            try:
                await self._streams.append(batch)
            except Unstorable as problem:
                if len(batch) == 1:
                    log.error("holdfast: a piece of a stream cannot be stored, and is left out: %s", problem)
                    return
                for piece in batch:
                    await self._bring([piece])
                return
            except HoldfastError as problem:
                await self._clock.sleep(self._outage.goes_on(problem))
            else:
                self._outage.ends()
                return

    async def _let_go(self, names: list[StreamName]) -> None:
        for name in names:
            del self._told[name]
            self._begun.discard(name)
        with contextlib.suppress(HoldfastError):  # then they stay as long as their runs
            if names:
                await self._streams.forget(names)
