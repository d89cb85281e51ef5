"""An event loop in which time is a number and the order of what is ready is drawn from a seed.

Each simulated process has a lane. What is ready in different lanes runs in random order; a lane can stand still or
vanish with everything in it, as a process does. Nothing in here waits: when nothing is ready, time jumps.

Never here: a selector, a socket, a thread, the machine's clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
import warnings
from asyncio import events as running
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_STEPS: Final = 400_000
"""A program that takes more is going in circles."""


class Stuck(Exception):
    """Nothing is ready and nothing will ever be: whoever still waits, waits for ever."""


class TooLong(Exception):
    """The program took more steps than any sound program does."""


class Lane:
    """What one process has to run."""

    __slots__ = ("dead", "frozen", "name", "ready")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.frozen = False
        self.dead = False

    def __repr__(self) -> str:
        return f"<lane {self.name}>"


_lane: ContextVar[Lane] = ContextVar("simulated_lane")


def current_lane() -> Lane:
    """The lane of whoever asks."""
    return _lane.get()


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs callbacks one at a time, jumping through virtual time."""

    def __init__(self, chance: Random, *, shuffles: bool = False, most_steps: int = MAX_STEPS) -> None:
        """With `shuffles`, callbacks of one lane overtake each other too, which no real loop does."""
        self._chance = chance
        self._shuffles = shuffles
        self._most_steps = most_steps
        self._now_s = 1000.0
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle, Lane]] = []
        self._number = 0
        self._graves: list[asyncio.Task[Any]] = []
        self._last: list[Callable[[], Any]] = []
        self._task_factory: Any = None
        self.world = Lane("world")
        self._lanes = [self.world]
        self._outside = copy_context()
        self._outside.run(_lane.set, self.world)
        self._halted = False
        self._closed = False
        self.steps = 0
        self.problems: list[dict[str, Any]] = []
        """What nobody was there to be told: callbacks that raised, errors that nobody asked for."""

    # --- Lanes --------------------------------------------------------------------------------------------------------

    def lane(self, name: str) -> Lane:
        """A new lane, for a new process."""
        lane = Lane(name)
        self._lanes.append(lane)
        return lane

    def spawn(self, lane: Lane, work: Coroutine[Any, Any, Any]) -> None:
        """Begin `work` in `lane`; whatever it begins is in that lane too."""
        context = self._outside.copy()
        context.run(_lane.set, lane)
        context.run(asyncio.ensure_future, work, loop=self)  # type: ignore[unused-awaitable]

    def tell(self, variable: ContextVar[T], value: T) -> None:
        """Have everything that is spawned from now on know a context variable."""
        self._outside.run(variable.set, value)

    def kill(self, lane: Lane) -> None:
        """The process is gone: nothing that is its own runs ever again."""
        # What it was doing is kept to the end: let go of, it would tidy up after itself, which the dead do not.
        self._graves.extend(asyncio.all_tasks(self))
        lane.dead = True
        lane.ready.clear()
        self._lanes.remove(lane)

    def at_last(self, tidy: Callable[[], Any]) -> None:
        """Have something let go of when all is over, that lives in the memory of a process, and is no task of it."""
        self._last.append(tidy)

    def later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Have something happen outside of all processes."""
        return self.call_at(self._now_s + delay_s, callback, *args, context=self._outside)

    # --- Running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until `halt`. Raises Stuck, TooLong."""
        before = running._get_running_loop()
        running._set_running_loop(self)
        try:
            while not self._halted:
                self._step()
        finally:
            running._set_running_loop(before)

    def halt(self) -> None:
        """Stop after this callback."""
        self._halted = True

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise TooLong(f"{self._most_steps} steps")
        handle: Any = self._next()
        if handle._cancelled:
            return
        try:
            handle._context.run(handle._callback, *handle._args)
        except Exception as problem:
            self.call_exception_handler({"message": f"{handle!r} raised", "exception": problem})

    def _next(self) -> asyncio.Handle:
        while True:
            able = [lane for lane in self._lanes if lane.ready and not lane.frozen]
            if able:
                lane = able[0] if len(able) == 1 else able[int(self._chance.random() * len(able))]
                if self._shuffles and len(lane.ready) > 1:
                    lane.ready.rotate(-int(self._chance.random() * len(lane.ready)))
                return lane.ready.popleft()
            self._jump()

    def _jump(self) -> None:
        """Go to the moment at which something is due."""
        while self._timers:
            when_s, _, _, handle, lane = heapq.heappop(self._timers)
            if handle._cancelled or lane.dead:
                continue
            self._now_s = max(self._now_s, when_s)
            lane.ready.append(handle)
            if not lane.frozen:
                return
        raise Stuck

    def dissolve(self) -> None:
        """Let go of everything that has not ended, without a word from it. Call it outside of `run`."""
        self._graves.extend(asyncio.all_tasks(self))
        self._closed = True
        with _silence():
            for tidy in self._last:
                tidy()
            self._last.clear()
            for lane in self._lanes:
                lane.dead = True
                lane.ready.clear()
            self._timers.clear()
            for task in self._graves:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
            self._graves.clear()

    # --- What asyncio asks of a loop ----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        lane = _lane.get() if context is None else context[_lane]
        handle = asyncio.Handle(callback, args, self, context)
        if not lane.dead:
            lane.ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        lane = _lane.get() if context is None else context[_lane]
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not lane.dead:
            self._number += 1
            # Of two things that are due at the same moment, either may come first.
            heapq.heappush(self._timers, (when, self._chance.random(), self._number, handle, lane))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio; a cancelled timer is dropped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        options: dict[str, Any] = {"name": name or "task", "context": context}
        if self._task_factory is not None:
            made: asyncio.Task[Any] = self._task_factory(self, coro, **options)
            return made
        return asyncio.Task(coro, loop=self, **options)

    def get_task_factory(self) -> Any:
        return self._task_factory

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as problem:
            done.set_exception(problem)
        return done

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.problems.append(context)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nobody is told what goes wrong while the remains of dead processes are taken apart, nor what they never began."""
    heard = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        sys.unraisablehook = heard
