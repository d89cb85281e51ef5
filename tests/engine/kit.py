"""What the tests of gates, effects and the journal share: a clock of their own, the world outside, names of events.

Never here: a promise.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast import Engine, Run
from holdfast.core.facts.state import State
from holdfast.errors import StoreError
from holdfast.ports import Append
from holdfast.stores.sqlite import SqliteStore

Test = TypeVar("Test", bound=Callable[..., Any])

DAY_S = 86_400
MAX_S = 60.0


class Time:
    """The store's time as the test owns it. It stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000

    def __call__(self) -> int:
        return self.ms

    def forward(self, seconds: float = 0, *, days: float = 0) -> None:
        self.ms += int((seconds + days * DAY_S) * 1000)


def bounded(test: Test) -> Test:
    """Let a test take only as long as a test may take: what hangs fails."""

    @functools.wraps(test)
    async def within(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(MAX_S):
            await test(*args, **kwargs)

    return within  # type: ignore[return-value]


@asynccontextmanager
async def opened(store: str | SqliteStore, **options: Any) -> AsyncIterator[Engine]:
    """An engine on `store`, for as long as a test may take: what hangs fails."""
    async with asyncio.timeout(MAX_S), Engine.open(store, **options) as engine:
        yield engine


@asynccontextmanager
async def engine_at(path: Path, now: Time, **options: Any) -> AsyncIterator[Engine]:
    """An engine whose store's time is `now`."""
    store = await SqliteStore.connect(path / "holdfast.db", machine_ms=now)
    try:
        async with opened(store, **options) as engine:
            yield engine
    finally:
        await store.aclose()


async def eventually(met: Callable[[], Any]) -> None:
    """Wait for something that is in no history."""
    while not met():
        await asyncio.sleep(0.002)


async def names(run: Run) -> list[str]:
    """The run's history, as the names of its events."""
    return [type(recorded.event).__name__ for recorded in await run.events()]


async def gate_of(run: Run, *, number: int = 0) -> str:
    """The id of the run's open gate, once it is open."""
    state = await run.until(lambda state: len(state.gates) > number)
    return list(state.gates)[number]


def call_of(state: State) -> str:
    """The only effect call that has no outcome yet."""
    (call,) = [id_ for id_, call in state.calls.items() if call.kind == "effect"]
    return call


async def lose_lease(engine: Engine) -> None:
    """What a process finds that has stood still for too long: its session is dead, and others may know it."""
    assert engine.runtime.membership.session is not None
    await engine.runtime.store.sessions.close(engine.runtime.membership.session)


def carry_by(engine: Engine, append: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Have appends of the engine carried to the store by `append`, which takes what Flush.append takes."""
    flush = engine.runtime.runs.flush
    flush.append = lambda one, **how: asyncio.ensure_future(append(one, **how))  # type: ignore[method-assign]


async def die(engine: Engine) -> None:
    """What others see of a process that is killed: it says nothing more, and its session is dead."""

    async def silence(append: Append, *, patient: bool) -> None:
        raise StoreError("This process is dead.")

    carry_by(engine, silence)
    await lose_lease(engine)


async def divergence(run: Run) -> dict[str, Any]:
    """What is shown of a step that stopped because its code no longer fits its journal."""
    state = await run.until(lambda state: any(gate.opened.reason == "code_changed" for gate in state.gates.values()))
    (gate,) = [gate.opened for gate in state.gates.values() if gate.opened.reason == "code_changed"]
    shown: dict[str, Any] = gate.shown.value()
    return {**shown, "gate": gate.gate}
