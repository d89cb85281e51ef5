"""Random flows in plain asyncio: groups, races, time limits, errors, locks, queues, callbacks and tasks that nobody awaits.

What a flow does depends on what its operations come to, on their order and on the loop's time; it tells its witness of each
of these in turn (`Trail`). Never here: a judgement (flow_auditor).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from random import Random
from typing import Any, Final, TypeAlias

from holdfast.authoring.context import Context
from holdfast.authoring.flow import Flow, flow
from holdfast.authoring.step import step
from holdfast.errors import OperationFailed
from tests.simulation.chance import spread_s
from tests.simulation.program import Program
from tests.simulation.world import here

Node: TypeAlias = tuple[Any, ...]
"""A kind, what it is about, and what it is made of."""
LEAVES: Final = {"step": 8, "bad": 2, "sleep": 2, "signal": 2, "ask": 1, "pause": 1, "nothing": 1}
CONSTRUCTS: Final = (
    "seq",
    "seq",
    "gather",
    "gather",
    "gather_all",
    "branches",
    "race",
    "leave",
    "each",
    "each_timed",
    "each_step",
    "group",
    "timeout",
    "wait_for",
    "cleanup",
    "catch",
    "catch",
    "lock",
    "queue",
    "shield",
    "orphan",
    "callback",
    "first_error",
    "again",
    "condition",
    "rests",
)
_LEAF: Final = (1.0, 0.6, 0.35, 0.15)
"""How likely a part that may be so deep has no parts."""
_DEEPEST: Final = 3
_TIMES_S: Final = (1, 5, 20)


def draw_node(stream: Random, depth: int = _DEEPEST) -> Node:
    """A program of tasks, races, time limits, errors and cancellations."""
    if stream.random() < _LEAF[depth]:
        kind = stream.choices([*LEAVES], [*LEAVES.values()])[0]
        return kind, stream.randrange(100) if kind in ("step", "bad", "signal") else stream.choice(_TIMES_S)
    kind = stream.choice(CONSTRUCTS)
    parts = [draw_node(stream, depth - 1) for _ in range(stream.randrange(2, 4))]
    return kind, stream.choice(_TIMES_S), parts


def draw_flow(stream: Random, name: str) -> Program:
    """A program that is one flow."""
    return Program(flow_of(draw_node(stream), name), None, {"about": name}, None, f"start-{name}")


def flow_of(node: Node, name: str) -> Flow:
    """A flow that does what a program says. Errors that its parts leave are its result."""

    @flow(name=name)
    async def wandering(ctx: Context, given: Any) -> Any:
        trail = Trail(ctx)
        result: Any
        try:
            result = await trail.perform(node)
        except Exception as problem:
            result = said(problem)
        trail.tell("result", result)
        return {"trail": trail.told}

    return wandering


def said(problem: BaseException) -> str:
    """An error as it counts for the way that a flow goes."""
    if isinstance(problem, BaseExceptionGroup):
        return f"[{', '.join(sorted(said(each) for each in problem.exceptions))}]"
    if isinstance(problem, OperationFailed):
        return f"{problem.error.error_class}: {problem.error.message.partition(' (')[0]}"  # type: ignore[attr-defined]
    return type(problem).__name__


_run: ContextVar[str] = ContextVar("simulated_run")


@step
async def work(number: int, name: str) -> dict[str, int]:
    """Return another number each time: a second result of it would be seen."""
    here().witness.function_began(_run.get(), number)
    chance = here().chance.stream("flow functions")
    await asyncio.sleep(spread_s(chance, 0.001, 30.0))
    if name.startswith("bad"):
        raise ValueError(f"{name} went wrong")
    return {"number": number, "drawn": chance.randrange(1000)}


class Trail:
    """One pass through a flow."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._attempt: int = ctx._attempt.number  # type: ignore[attr-defined]
        self._numbers = 0
        self.told: list[Any] = []
        """What it has come by, in its order."""
        _run.set(ctx.run_id)

    def tell(self, *what: Any) -> None:
        self.told.append([*what])
        time_s = asyncio.get_running_loop().time()
        here().witness.flow_passed(self._ctx.run_id, self._attempt, len(self.told), self.told[-1], time_s)

    async def _work(self, name: str) -> int:
        self._numbers += 1
        number = self._numbers
        result = await work(number, name)
        self.tell(name, number, result["drawn"])
        return result["drawn"]

    def _tasks(self, parts: list[Node]) -> list[asyncio.Task[Any]]:
        return [asyncio.create_task(self.perform(part)) for part in parts]

    async def perform(self, node: Node) -> Any:
        """Do what a program says."""
        kind, about, *rest = node
        if not rest:
            return await self._leaf(kind, about)
        doing: Callable[[int, list[Node]], Coroutine[Any, Any, Any]] = getattr(self, f"_do_{kind}")
        return await doing(about, rest[0])

    async def _leaf(self, kind: str, about: int) -> Any:
        match kind:
            case "step" | "bad":
                return await self._work(f"{kind} {about}")
            case "sleep":
                await self._passing(about, self._ctx.sleep(about))
            case "signal":
                self.tell("signal", (await self._ctx.wait_signal(f"s{about % 3}"))["from"])
            case "ask":
                self.tell("answer", (await self._ctx.ask({"question": about})).decision)
            case "pause":
                await self._passing(about, asyncio.sleep(about))
                self.tell("time", asyncio.get_running_loop().time())
            case _:
                await self._ctx.label(stage=f"{about % 3}", at=None if about % 2 else "here")
        return None

    async def _passing(self, seconds: float, wait: Coroutine[Any, Any, Any]) -> None:
        """Wait for nothing but time, of which the witness hears how much it was."""
        time = asyncio.get_running_loop().time
        before_s = time()
        await wait
        here().witness.flow_slept(self._ctx.run_id, seconds, before_s, time())

    async def _do_seq(self, about: int, parts: list[Node]) -> Any:
        return [await self.perform(part) for part in parts]

    async def _do_rests(self, about: int, parts: list[Node]) -> Any:
        for part in parts:
            await self._passing(about, asyncio.sleep(about))
            await self.perform(part)
        self.tell("rested", asyncio.get_running_loop().time())

    async def _do_gather(self, about: int, parts: list[Node]) -> Any:
        return await asyncio.gather(*map(self.perform, parts))

    async def _do_gather_all(self, about: int, parts: list[Node]) -> Any:
        return outcomes(await asyncio.gather(*map(self.perform, parts), return_exceptions=True))

    async def _do_branches(self, about: int, parts: list[Node]) -> Any:
        return await self._ctx.gather(*map(self.perform, parts))

    async def _do_race(self, about: int, parts: list[Node]) -> Any:
        return await self._race(parts, asyncio.FIRST_COMPLETED, cancels=True)

    async def _do_leave(self, about: int, parts: list[Node]) -> Any:
        return await self._race(parts, asyncio.FIRST_COMPLETED, cancels=False)

    async def _do_first_error(self, about: int, parts: list[Node]) -> Any:
        return await self._race(parts, asyncio.FIRST_EXCEPTION, cancels=True)

    async def _race(self, parts: list[Node], until: str, *, cancels: bool) -> Any:
        made = self._tasks(parts)
        done, waiting = await asyncio.wait(made, return_when=until)
        for task in done:  # in the order of a set
            self.tell("first", made.index(task), await self._work("note"))
        for task in waiting if cancels else ():
            task.cancel()
        return outcomes(await asyncio.gather(*made, return_exceptions=True))

    async def _do_each(self, about: int, parts: list[Node]) -> Any:
        return await self._each(parts, None)

    async def _do_each_timed(self, about: int, parts: list[Node]) -> Any:
        return await self._each(parts, about)

    async def _each(self, parts: list[Node], limit_s: int | None) -> Any:
        for coming in asyncio.as_completed(self._tasks(parts), timeout=limit_s):
            try:
                self.tell("next", await coming)
            except TimeoutError:
                self.tell("no more in time")
                break
            except Exception as problem:
                self.tell(said(problem))
            await self._work("after")
        return len(self.told)

    async def _do_each_step(self, about: int, parts: list[Node]) -> Any:
        first = self._numbers + 1
        self._numbers += len(parts)
        for coming in asyncio.as_completed([work(first + number, "each") for number in range(len(parts))]):
            result = await coming
            self.tell("each", result["number"], result["drawn"])
        return len(self.told)

    async def _do_group(self, about: int, parts: list[Node]) -> Any:
        async with asyncio.TaskGroup() as group:
            made = [group.create_task(self.perform(part)) for part in parts]
        return [task.result() for task in made]

    async def _do_timeout(self, about: int, parts: list[Node]) -> Any:
        try:
            async with asyncio.timeout(about):
                return await self.perform(parts[0])
        except TimeoutError:
            self.tell("time is over")
            return await self.perform(parts[1])

    async def _do_wait_for(self, about: int, parts: list[Node]) -> Any:
        return await asyncio.wait_for(self.perform(parts[0]), about)

    async def _do_cleanup(self, about: int, parts: list[Node]) -> Any:
        try:
            return await self.perform(parts[0])
        finally:
            self.tell("cleaned", await self._work("clean"))

    async def _do_catch(self, about: int, parts: list[Node]) -> Any:
        try:
            return await self.perform(parts[0])
        except Exception as problem:
            self.tell(said(problem))
            return await self.perform(parts[1])

    async def _do_lock(self, about: int, parts: list[Node]) -> Any:
        lock, room = asyncio.Lock(), asyncio.Semaphore(2)

        async def locked(part: Node) -> Any:
            async with room, lock:
                return await self.perform(part)

        return await asyncio.gather(*map(locked, parts))

    async def _do_queue(self, about: int, parts: list[Node]) -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

        async def produce(part: Node) -> None:
            await queue.put(await self.perform(part))

        makers = [asyncio.create_task(produce(part)) for part in parts]
        try:
            for _ in parts:
                self.tell("got", await asyncio.wait_for(queue.get(), 50))
        finally:
            for maker in makers:
                maker.cancel()
            await asyncio.gather(*makers, return_exceptions=True)
        return len(self.told)

    async def _do_shield(self, about: int, parts: list[Node]) -> Any:
        kept = asyncio.ensure_future(self.perform(parts[0]))
        try:
            return await asyncio.wait_for(asyncio.shield(kept), about)
        except TimeoutError:
            return await kept

    async def _do_orphan(self, about: int, parts: list[Node]) -> Any:
        async def unheeded() -> None:
            try:
                await self.perform(parts[0])
            except Exception as problem:
                self.tell("unheeded", said(problem))

        left = asyncio.create_task(unheeded())
        result = await self.perform(parts[1])
        self.tell("orphan", left.done())
        return result

    async def _do_callback(self, about: int, parts: list[Node]) -> Any:
        first, more = asyncio.create_task(self.perform(parts[0])), list[asyncio.Task[Any]]()
        first.add_done_callback(lambda _: more.append(asyncio.create_task(self.perform(parts[1]))))
        await asyncio.wait([first])
        await asyncio.sleep(0)
        return outcomes(await asyncio.gather(first, *more, return_exceptions=True))

    async def _do_again(self, about: int, parts: list[Node]) -> Any:
        """One wait in two races."""
        long = asyncio.ensure_future(self.perform(parts[0]))
        others = list[asyncio.Future[Any]]()
        for part in parts[1:]:
            others.append(asyncio.ensure_future(self.perform(part)))
            done, _ = await asyncio.wait({long, others[-1]}, return_when=asyncio.FIRST_COMPLETED)
            self.tell("won", long in done, others[-1] in done)
        return outcomes(await asyncio.gather(long, *others, return_exceptions=True))

    async def _do_condition(self, about: int, parts: list[Node]) -> Any:
        event = asyncio.Event()

        async def set_it() -> None:
            try:
                await self.perform(parts[0])
            finally:
                event.set()

        setter = asyncio.create_task(set_it())
        await asyncio.gather(event.wait(), self.perform(parts[1]), return_exceptions=True)
        return outcomes(await asyncio.gather(setter, return_exceptions=True))


def outcomes(results: Sequence[Any]) -> list[Any]:
    return [said(each) if isinstance(each, BaseException) else each for each in results]
