"""The memory that the code of a waiting flow holds: its variables, and what they lead to.

An estimate from a bounded walk, as a flow is measured at each of its waits. Of a large collection it looks at the first items.

Never here: what is kept in memory (residents).
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import Iterable
from itertools import chain, islice
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

_MAX_OBJECTS: Final = 500
"""At some two microseconds each."""
_MAX_ITEMS: Final = 20
"""Of one collection."""
_OURS: Final = "holdfast.engine."
_PLAIN: Final = frozenset({str, bytes, int, float, bool, type(None)})
_NOT_HELD: Final = (ModuleType, type, BuiltinFunctionType, CodeType, FrameType, asyncio.AbstractEventLoop)
"""What it shares with other code of its process."""


def held_bytes(roots: Iterable[object]) -> int:
    """Return about how many bytes these objects and what they lead to take: coroutines, for one, lead to their variables."""
    waiting: deque[tuple[Any, float]] = deque((each, 1.0) for each in roots)
    seen: set[int] = set()
    held = looked_at = 0.0
    while waiting and len(seen) < _MAX_OBJECTS:
        each, times = waiting.popleft()
        if id(each) in seen or issubclass(type(each), _NOT_HELD):  # without asking an object of the user's
            continue
        seen.add(id(each))
        looked_at += times
        held += times * _size(each)
        if type(each) not in _PLAIN and not type(each).__module__.startswith(_OURS):
            inner, more = _inner(each)
            waiting.extend((one, times * more) for one in inner)
    left = sum(times for _, times in waiting)
    return int(held * (1 + left / looked_at)) if looked_at else 0


def _size(it: Any) -> int:
    try:
        return sys.getsizeof(it)
    except Exception:  # noqa: BLE001 - user code may answer
        return 0


def _inner(it: Any) -> tuple[Iterable[Any], float]:
    """Return the objects that it refers to, or a part of them, and how many times as many there are."""
    kind = type(it)
    if kind is FunctionType:
        return it.__closure__ or (), 1
    if kind is dict:
        items: Iterable[Any] = chain.from_iterable(islice(it.items(), _MAX_ITEMS))
    elif kind in (list, tuple, set, frozenset, deque):
        items = islice(it, _MAX_ITEMS)
    else:
        return gc.get_referents(it), 1
    return [*items], max(1.0, len(it) / _MAX_ITEMS)
