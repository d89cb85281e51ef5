"""`Engine.open(...)` as something to enter, which says so to those who use it as an engine.

Never here: what is opened.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

from holdfast.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")

_ENTER: Final = "Write `async with Engine.open(...) as engine:`, and use the engine inside"


class EngineOpener(AbstractAsyncContextManager[T]):
    """An engine that is opened when it is entered."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._opened = context

    async def __aenter__(self) -> T:
        engine = await self._opened.__aenter__()
        _entered.add(self)
        return engine

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        _entered.discard(self)
        return await self._opened.__aexit__(kind, problem, trace)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{_ENTER}: what Engine.open returns is not open yet, and has no {name!r}.")

    def __await__(self) -> NoReturn:
        raise UsageError(f"{_ENTER}: it is entered, not awaited. Nothing was opened.")

    def __enter__(self) -> NoReturn:
        raise UsageError(f"{_ENTER}; a plain `with` takes holdfast.sync.open(...). Nothing was opened.")

    def __exit__(self, *_: object) -> None: ...


_entered: Final[set[EngineOpener[Any]]] = set()
"""Those whose engines are open: in a notebook nothing else may refer to one, and to collect it would close its engine."""


def opening(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    """The same as `asynccontextmanager`, for users of an engine."""
    made: Callable[P, Any] = asynccontextmanager(function)

    @functools.wraps(function)
    def opened(*args: P.args, **options: P.kwargs) -> AbstractAsyncContextManager[T]:
        return EngineOpener(made(*args, **options))

    return opened
