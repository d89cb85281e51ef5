"""A cost limit for a block of code or a function that calls models with clients of its own: `budget` and `capped`.

Nothing is patched: a client that gets its address and key from the budget comes to the gateway of this process, and one that
does not goes past it. Never here: a hold, a price, a journal, which are those of any run.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast import settings
from holdfast.actions.program.block import Block, Blocks
from holdfast.actions.program.environment import environment_of
from holdfast.core.values.money import usd
from holdfast.errors import Conflict, UsageError
from holdfast.sync import Engine, Run
from holdfast.sync import open as open_engine

if TYPE_CHECKING:
    from holdfast.core.facts.state import State

_MAX_OPEN: Final = 100
_OPEN_LIMIT_S: Final = 60.0


class Budget:
    """`with holdfast.budget("0.50") as budget:` a cost limit for the model calls of a block, which is a run of its own.

    `async with` does the same without blocking the event loop. Any thread, task or process may call with its key while the
    block is open; afterwards calls are refused.

    Args:
        limit_usd: Maximum cost in dollars.
        store: Store that has the run; by default HOLDFAST_STORE, else SQLite in holdfast.db.
    """

    def __init__(self, limit_usd: float | str | Decimal, *, store: str | None = None) -> None:
        if limit_usd is None:
            raise UsageError("Pass a limit in dollars, like 0.50: a budget without one would limit nothing.")
        self._limit_usd = limit_usd
        self._store = store
        self._id = str(uuid.uuid4())
        self._opened: Future[Mapping[str, str | None]] = Future()
        self._block = Block(self._opened.set_result)
        self._engine: Engine | None = None
        self._run: Run | None = None
        self._has_begun = False

    @property
    def run_id(self) -> str:
        """The run that has the calls: `holdfast runs show` lists them with their cost."""
        return self._known_run.id

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, changed so that a child process with it makes its model calls under the limit."""
        return environment_of(os.environ, self._variables)

    def openai_client_kwargs(self) -> dict[str, str]:
        """The arguments `base_url` and `api_key` of openai.OpenAI and AsyncOpenAI."""
        return self._client("OPENAI")

    def anthropic_client_kwargs(self) -> dict[str, str]:
        """The arguments `base_url` and `api_key` of anthropic.Anthropic and AsyncAnthropic."""
        return self._client("ANTHROPIC")

    @property
    def spent_usd(self) -> Decimal:
        """Dollars that its calls have cost so far. A call whose outcome is unknown counts with its worst case."""
        books = self._state().budget
        return Decimal(usd(books.settled_nanousd + books.in_doubt_nanousd))

    @property
    def left_usd(self) -> Decimal:
        """Dollars that are neither spent nor held for a call under way."""
        return Decimal(usd(self._state().budget.available_nanousd or 0))

    def __enter__(self) -> Self:
        if self._has_begun:
            raise UsageError("Call holdfast.budget(...) again for another block: this one was opened before. Nothing was done.")
        self._has_begun = True
        engine, blocks = _opened(self._store)
        blocks.open[self._id] = self._block
        try:
            self._run = engine.start(blocks.workflow, {"block": self._id}, cost_limit_usd=self._limit_usd)
            self._engine = engine
            self._opened.result(_OPEN_LIMIT_S)
        except BaseException as problem:
            del blocks.open[self._id]
            if self._run is not None:
                engine.cancel(self._run.id, reason="its block was not opened")
            if isinstance(problem, TimeoutError):
                raise Conflict(
                    f"The budget could not be opened within {_OPEN_LIMIT_S:.0f} s. This process has at most {_MAX_OPEN} open at"
                    f" once. Its run {self._known_run.id} is cancelled."
                ) from None
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self._close(kind)

    async def __aenter__(self) -> Self:
        opening = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError as problem:
            await asyncio.wait((opening,))
            if opening.exception() is None:
                await asyncio.to_thread(self._close, type(problem))
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._close, kind)

    def _close(self, raised: type[BaseException] | None) -> None:
        """Refuse further calls, and wait for those under way. A run that waits for more money is cancelled."""
        engine, run = self._engine, self._known_run
        assert engine is not None
        ended = self._block.end(raised.__name__ if raised is not None else None)
        engine._of.runtime.loop.awaited(ended)  # type: ignore[attr-defined] # editors are shown what awaits, in its place
        if not run.settled().ended:
            engine.cancel(run.id, reason="its block has ended")
            run.until(lambda state: bool(state.ended))
        _blocks.open.pop(self._id, None)

    @property
    def _known_run(self) -> Run:
        if self._run is None:
            raise UsageError("Write `with holdfast.budget(...) as budget:` before you use it: it is not open.")
        return self._run

    @property
    def _variables(self) -> Mapping[str, str | None]:
        assert self._known_run is not None
        return self._opened.result(0)

    def _client(self, provider: str) -> dict[str, str]:
        variables = self._variables
        return {"base_url": variables[f"{provider}_BASE_URL"] or "", "api_key": variables[f"{provider}_API_KEY"] or ""}

    def _state(self) -> State:
        found: State = self._known_run.state()
        return found


def budget(limit_usd: float | str | Decimal, *, store: str | None = None) -> Budget:
    """Limit what a block of code spends on models: `with holdfast.budget("0.50") as budget:`.

    Clients made with `budget.openai_client_kwargs()` or `budget.anthropic_client_kwargs()`, and child processes with
    `env=budget.env`, make their calls under the limit, with the provider's keys of this process.

    Args:
        limit_usd: Maximum cost in dollars.
        store: Store that has the run; by default HOLDFAST_STORE, else SQLite in holdfast.db.
    """
    return Budget(limit_usd, store=store)


def capped(limit_usd: float | str | Decimal, *, store: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give each call of a function, `def` or `async def`, a budget of its own, as the argument `budget`.

    Args:
        limit_usd: Maximum cost of each call in dollars.
        store: Store that has the run; by default HOLDFAST_STORE, else SQLite in holdfast.db.

    Raises:
        UsageError: The function is a generator, which would outlive its budget.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(
                f"Use `with holdfast.budget(...)` inside {function.__qualname__}: a generator goes on after its call returned."
            )

        @functools.wraps(function)
        def limited(*args: Any, **options: Any) -> Any:
            with budget(limit_usd, store=store) as opened:
                return function(*args, budget=opened, **options)

        @functools.wraps(function)
        async def limited_async(*args: Any, **options: Any) -> Any:
            async with budget(limit_usd, store=store) as opened:
                return await function(*args, budget=opened, **options)

        return limited_async if inspect.iscoroutinefunction(function) else limited

    return decorated


_blocks: Final = Blocks()
_engines: Final[dict[tuple[int, str, str], Engine]] = {}
"""Engines by process, directory and store. Each stays open as long as its process, to refuse calls with the reason."""
_opening: Final = threading.Lock()


def _opened(store: str | None) -> tuple[Engine, Blocks]:
    known = settings.load()
    where = store or known.store
    place = (os.getpid(), os.getcwd(), where)  # noqa: PTH109 - a path in it may be relative
    with _opening:
        engine = _engines.get(place)
        if engine is None or engine.broken is not None:
            engine = open_engine(where, workflows=[_blocks.workflow], settings=known, slots=_MAX_OPEN, shell=False)
            _engines[place] = engine
    return engine, _blocks
