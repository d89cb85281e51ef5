"""The read models of the runs that were asked for latest, kept as far as their histories were read: a page, or another look at
a run that goes on, reads and folds only what is new.

Never here: a fold (core.views.read_model, core.views.trajectory), who may see it: the caller finds the run first.
"""

from __future__ import annotations

from asyncio import Lock, TimerHandle, get_running_loop
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId, Seq
from holdfast.ports import Log

MAX_MODELS: Final = 16
"""Read models that are kept: both of eight runs."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""Memory for read models, as `EVENT_BYTES` and the events' own sizes estimate it. One that is larger is not kept."""
EVENT_BYTES: Final = 1_200
"""Memory that a read model takes for an event beside its data: measured, at most, over the golden histories."""
IDLE_S: Final = 300.0
"""Time after which an unused read model is dropped."""
_PAGE: Final = 250
"""Events that are folded before other tasks have their turn, 25 ms at most."""


class Folded(Protocol):
    """A read model: a fold of a history, event by event."""

    def add(self, recorded: Recorded) -> None:
        """Take an event of the history in, in its order."""
        ...


M = TypeVar("M", bound=Folded)
_Key: TypeAlias = tuple[RunId, type]


class _Entry(Generic[M]):
    """A read model and the position up to which it is folded."""

    def __init__(self, model: M) -> None:
        self.model = model
        self.seq = Seq(0)
        self.size_bytes = 0
        self.looked_s = 0.0
        self.lock = Lock()


class ReadModels:
    """The read models of some runs."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[_Key, _Entry[Any]] = OrderedDict()
        self._timer: TimerHandle | None = None
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, log: Log, run: RunId, make: Callable[[], M]) -> M:
        """Return the read model of a run as of now, which `make` begins. Callers at the same time share one fold.

        It is read before the next `await`: other callers go on with it.
        """
        begun = make()
        key = run, type(begun)
        entry: _Entry[M] = self._kept.setdefault(key, _Entry(begun))
        self._kept.move_to_end(key)
        async with entry.lock:
            try:
                entry = await self._extended(log, key, entry, make)
            except Exception:  # what was erased, or cannot be read, is not shown from memory either
                self._drop(key)
                raise
            entry.looked_s = get_running_loop().time()
            while len(self._kept) > MAX_MODELS or (self.size_bytes > self._max_bytes and self._kept):
                self._drop(next(iter(self._kept)))
            self._expire()
            return entry.model

    def let_go(self, now_s: float) -> None:
        """Forget what was not used for a while, by the loop's clock: it may have been erased since."""
        self._timer = None
        for key, entry in [*self._kept.items()]:
            if now_s - entry.looked_s >= IDLE_S:
                self._drop(key)
        self._expire()

    def _expire(self) -> None:
        if self._kept and self._timer is None:
            loop = get_running_loop()
            self._timer = loop.call_later(IDLE_S, lambda: self.let_go(loop.time()))

    async def _extended(self, log: Log, key: _Key, entry: _Entry[M], make: Callable[[], M]) -> _Entry[M]:
        run, _ = key
        after = max(0, entry.seq - 1)  # the latest event is read again: it is there as long as the history is
        found = await log.events(run, after, _PAGE)
        if not found and entry.seq:
            self._drop(key)
            return _Entry(make())
        while found:
            for recorded in found:
                if recorded.seq > entry.seq:
                    self._add(key, entry, recorded)
            if len(found) < _PAGE:
                break
            found = await log.events(run, entry.seq, _PAGE)
        return entry

    def _add(self, key: _Key, entry: _Entry[M], recorded: Recorded) -> None:
        entry.model.add(recorded)
        entry.seq = recorded.seq
        more = EVENT_BYTES + len(msgspec.json.encode(recorded.event))
        entry.size_bytes += more
        if self._kept.get(key) is entry:
            self.size_bytes += more

    def _drop(self, key: _Key) -> None:
        if (entry := self._kept.pop(key, None)) is not None:
            self.size_bytes -= entry.size_bytes
