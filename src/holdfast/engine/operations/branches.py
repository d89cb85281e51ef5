"""Operations of one step at the same time, or at a place of their own: gather and apart.

Never here: the operations themselves (context), how they are recorded (journal).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from holdfast.engine.attempts.cursor import Cursor, Displacement, Divergence, Refusal, Suspension, Tasks, cursor, in_branch
from holdfast.engine.attempts.journal import GATHER, StepJournal

T = TypeVar("T")

MAX_AT_ONCE: Final = 200
"""Branches of one gather that are under way at a time: two appends' worth, one on its way to the disk and one gathering.
What is under way is looked through at each decision."""


async def gather(journal: StepJournal, *branches: Awaitable[Any]) -> list[Any]:
    """Run them at the same time, each with a place of its own; see StepContext."""
    if (tasks := cursor().tasks) is not None:
        return await _gathered(journal, tasks, branches)
    turn = asyncio.Semaphore(MAX_AT_ONCE)

    async def in_turn(branch: Awaitable[Any], prefix: str) -> Any:
        async with turn:
            return await in_branch(branch, prefix)

    with _letting_go(*branches), cursor().place() as path:
        journal.find(path, GATHER, GATHER)
        begun = [asyncio.create_task(in_turn(branch, f"{path}.{i}.")) for i, branch in enumerate(branches)]
        try:
            results = await asyncio.gather(*begun, return_exceptions=True)
        except asyncio.CancelledError:
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)
            raise
    # What a branch has raised or returned is the user's: isinstance would ask the object itself.
    final = [result for result in results if issubclass(type(result), Divergence | Refusal)]
    displaced = [result for result in results if issubclass(type(result), Displacement)]  # who only waits must not hide it
    for result in (*final, *displaced, *results):
        if issubclass(type(result), Suspension):
            cursor().left = result  # type: ignore[assignment]
        if issubclass(type(result), BaseException):
            raise result
    return list(results)


async def _gathered(journal: StepJournal, tasks: Tasks, branches: Sequence[Awaitable[Any]]) -> list[Any]:
    """The same in a flow, the branches in its loop."""
    with _letting_go(*branches), (here := cursor()).place() as path:
        journal.find(path, GATHER, GATHER)
        begun = [_begun(tasks, here, branch, f"{path}.{i}.") for i, branch in enumerate(branches)]
        return await tasks.gather(path, begun)


def _begun(tasks: Tasks, here: Cursor, branch: Awaitable[T], prefix: str) -> asyncio.Future[T]:
    """Begin a branch whose places begin with `prefix`; what is a task already has places of its own."""
    if asyncio.isfuture(branch):
        return branch
    code = branch if asyncio.iscoroutine(branch) else _awaited(branch)
    return tasks.branch(code, tasks.row(prefix, here))


async def _awaited(branch: Awaitable[T]) -> T:
    return await branch


async def apart(name: str, branch: Awaitable[T]) -> T:
    """Run it at a place that has a name instead of a position; see StepContext."""
    here = cursor()
    if here.tasks is not None:
        with _letting_go(branch):
            return await _begun(here.tasks, here, branch, f"{here.named(name)}.")
    with _letting_go(branch):
        task = asyncio.create_task(in_branch(branch, f"{here.named(name)}."))
        try:
            with here.beside(task):
                return await task
        except Suspension as why:
            here.left = here.left or why
            raise


@contextmanager
def _letting_go(*branches: Awaitable[Any]) -> Iterator[None]:
    """At its end, whatever that is, those of them which have not begun never will: asyncio complains of unawaited
    coroutines."""
    try:
        yield
    finally:
        for branch in filter(asyncio.iscoroutine, branches):
            if inspect.getcoroutinestate(branch) == inspect.CORO_CREATED:  # what has begun is its task's
                branch.close()
