"""What user code may raise: anything. It becomes an error of its step; no run hangs, no slot is lost, no process ends."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, model_serializer

from holdfast import Context, Engine, RunFailed, Workflow, check, flow, map_node, step, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.core.views.status import status, waiting_for
from holdfast.platform.border import EscapedException, leaves, text_of
from tests.engine.history import events_of
from tests.engine.kit import bounded, opened


class Panic(BaseException):
    """As extension modules raise it that are written in Rust."""


class Unprintable(Exception):
    def __str__(self) -> str:
        body: dict[str, str] = {}
        return body["detail"]


class NoText(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307


class Unreadable(Exception):
    """Each look at it raises."""

    def __init__(self) -> None:
        super().__init__("it")

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"nobody looks at {name}")


def raising(problem: BaseException) -> Callable[[], Any]:
    def run() -> Any:
        raise problem

    return run


KINDS: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing is next": (lambda: next(iter([])), "StopIteration"),
    "nothing is next asynchronously": (raising(StopAsyncIteration()), "StopAsyncIteration"),
    "exit": (lambda: sys.exit(2), "its code asked the process to exit with 2"),
    "exit in words": (lambda: sys.exit("no file"), "its code asked the process to exit with 1 (no file)"),
    "interrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
    "generator exit": (raising(GeneratorExit()), "GeneratorExit"),
    "panic": (raising(Panic("index out of bounds")), "Panic: index out of bounds"),
    "cancelled": (raising(asyncio.CancelledError()), "CancelledError"),
    "unprintable": (raising(Unprintable()), "Unprintable"),
    "no text": (raising(NoText()), "NoText"),
    "unreadable": (raising(Unreadable()), "Unreadable"),
}


def in_plain_step(fail: Callable[[], Any]) -> Workflow:
    @step
    def work() -> Any:
        return fail()

    @flow
    async def fails(ctx: Context) -> Any:
        return await work()

    return fails


def in_async_step(fail: Callable[[], Any]) -> Workflow:
    @step
    async def work() -> Any:
        return fail()

    @flow
    async def fails(ctx: Context) -> Any:
        return await work()

    return fails


def in_flow(fail: Callable[[], Any]) -> Workflow:
    @flow
    async def fails(ctx: Context) -> Any:
        return fail()

    return fails


def in_branch(fail: Callable[[], Any]) -> Workflow:
    async def work() -> Any:
        return fail()

    @flow
    async def fails(ctx: Context) -> Any:
        return await ctx.gather(work(), work())

    return fails


def in_plain_task(fail: Callable[[], Any]) -> Workflow:
    wf = Workflow("fails")
    wf.node("work")(task(lambda state: fail()))
    return wf


def in_async_task(fail: Callable[[], Any]) -> Workflow:
    wf = Workflow("fails")

    @wf.node("work")
    @task
    async def work(state: Any) -> Any:
        return fail()

    return wf


def in_check(fail: Callable[[], Any]) -> Workflow:
    wf = Workflow("fails")
    wf.node("work")(check(lambda state: fail()))
    return wf


def in_plain_tool(fail: Callable[[], Any]) -> Workflow:
    @tool(effect="once")
    def pay() -> Any:
        return fail()

    wf = Workflow("fails")
    wf.node("work")(tool_node(name=pay)(lambda state: {}))
    return wf


def in_async_tool(fail: Callable[[], Any]) -> Workflow:
    @tool(effect="once")
    async def pay() -> Any:
        return fail()

    wf = Workflow("fails")
    wf.node("work")(tool_node(name=pay)(lambda state: {}))
    return wf


def in_approval(fail: Callable[[], Any]) -> Workflow:
    @tool(effect="once", approval=lambda arguments: bool(fail()))
    def pay() -> None:
        pass

    wf = Workflow("fails")
    wf.node("work")(tool_node(name=pay)(lambda state: {}))
    return wf


def in_item(fail: Callable[[], Any]) -> Workflow:
    @step
    def work(item: int) -> Any:
        return fail()

    @flow
    async def fails(ctx: Context) -> Any:
        return await ctx.map(work, [1, 2])

    return fails


def in_code_of_an_item(fail: Callable[[], Any]) -> Workflow:
    @flow
    async def fails(ctx: Context) -> Any:
        return await ctx.map(work, [1, 2])

    async def work(ctx: Context, item: int) -> Any:
        return fail()

    return fails


def in_map_node(fail: Callable[[], Any]) -> Workflow:
    wf = Workflow("fails")

    @wf.node("work")
    @map_node(lambda state: [1, 2])
    @task
    def work(state: Any, item: int) -> Any:
        return fail()

    return wf


def in_guard(fail: Callable[[], Any]) -> Workflow:
    wf = Workflow("fails")
    wf.node("first")(task(lambda state: 1))
    wf.node("second")(task(lambda state: 2))
    wf.edge("first", "second", guard=lambda state: bool(fail()))
    return wf


PLACES = [
    in_plain_step,
    in_async_step,
    in_flow,
    in_branch,
    in_plain_task,
    in_async_task,
    in_check,
    in_plain_tool,
    in_async_tool,
    in_approval,
    in_item,
    in_code_of_an_item,
    in_map_node,
    in_guard,
]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", slots=2) as engine:
        yield engine


@step
def fine() -> str:
    return "fine"


@flow
async def completes(ctx: Context) -> str:
    return await fine()


# --- The border -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@bounded
async def test_whatever_user_code_raises_is_an_error_of_its_step(
    engine: Engine, place: Callable[..., Workflow], caplog: pytest.LogCaptureFixture
) -> None:
    now: list[Callable[[], Any]] = []
    workflow = place(lambda: now[-1]())
    for kind, (fail, words) in KINDS.items():
        now.append(fail)
        run = await engine.start(workflow)
        state = await run.settled()
        if kind == "cancelled" and place in (in_plain_tool, in_async_tool):
            assert [wait.reason for wait in waiting_for(state)] == ["effect_unknown"], "it may have happened before"
            continue
        assert (kind, status(state)) == (kind, "failed")
        assert state.error is not None
        told = state.error.message
        assert words in told or (words == "StopIteration" and "RuntimeError" in told), (kind, told)
    assert await (await engine.start(completes)).result() == "fine"
    assert (engine.executor.working, engine.executor.slots.free) == (0, 2)
    assert engine.runtime.membership.broken is None
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text


@bounded
async def test_two_exhausted_iterators_leave_both_slots_to_others(engine: Engine) -> None:
    failing = in_plain_step(lambda: next(iter([])))
    stuck = [await engine.start(failing) for _ in range(2)]
    assert await (await engine.start(completes)).result() == "fine"
    for run in stuck:
        with pytest.raises(RunFailed, match="StopIteration"):
            await run.result()


@bounded
async def test_a_step_that_awaits_a_cancelled_task_of_its_own_fails(engine: Engine) -> None:
    @step
    async def call() -> None:
        other = asyncio.ensure_future(asyncio.sleep(9))
        other.cancel()
        await other

    @flow
    async def catches(ctx: Context) -> str:
        try:
            await call()
        except Exception as problem:
            return type(problem).__name__
        return "nothing was raised"

    assert await (await engine.start(catches)).result() == "OperationFailed"


@bounded
async def test_a_step_that_cancels_its_own_task_fails(engine: Engine) -> None:
    @step
    async def call() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(9)

    @flow
    async def calls(ctx: Context) -> None:
        await call()

    with pytest.raises(RunFailed, match="CancelledError"):
        await (await engine.start(calls)).result()
    assert engine.executor.working == 0


@bounded
async def test_a_cancelled_run_still_calls_its_step_off(engine: Engine) -> None:
    begun = asyncio.Event()

    @step
    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    @flow
    async def calls(ctx: Context) -> None:
        await waits()

    run = await engine.start(calls)
    await begun.wait()
    await engine.cancel(run.id)
    state = await run.settled()
    assert state.ended == "cancelled"
    assert not await events_of(run, ev.FunctionFailed)


@bounded
async def test_an_error_of_the_store_that_user_code_raises_is_its_steps_own(engine: Engine) -> None:
    from holdfast.errors import CorruptHistory, StoreBusy, StoreGone, Unstorable

    now: list[Exception] = []
    failing = in_flow(lambda: raising(now[-1])())
    for kind in (StoreBusy, StoreGone, Unstorable, CorruptHistory):
        now.append(kind("another store"))
        with pytest.raises(RunFailed, match="another store"):
            await (await engine.start(failing)).result()
    assert engine.runtime.membership.broken is None


@bounded
async def test_what_a_step_sets_in_a_context_variable_stays_with_it(engine: Engine) -> None:
    who = contextvars.ContextVar("who", default="flow")
    seen = []

    @step
    async def sets() -> None:
        await asyncio.sleep(0)
        who.set("async step")

    @step
    def sets_too() -> None:
        who.set("step")

    @flow
    async def looks(ctx: Context) -> None:
        await sets()
        seen.append(who.get())
        await sets_too()
        seen.append(who.get())

    await (await engine.start(looks)).result()
    assert seen == ["flow", "flow"]


@bounded
async def test_an_observer_that_exits_is_reported(tmp_path: Path) -> None:
    def observer(observation: Any) -> None:
        sys.exit(3)

    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", observers=[observer]) as engine:
        assert await (await engine.start(completes)).result() == "fine"


# --- Tasks that the code of a step makes itself ---------------------------------------------------------------------------


EXITS: dict[str, tuple[Callable[[], Any], str]] = {
    "exit": (lambda: sys.exit(2), "exit with 2"),
    "interrupt": (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
}


def step_of(code: Callable[[], Any]) -> Workflow:
    @step
    async def work() -> Any:
        return await code()

    @flow
    async def does(ctx: Context) -> Any:
        return await work()

    return does


def task_of(code: Callable[[], Any]) -> Workflow:
    wf = Workflow("does")

    @wf.node("work")
    @task
    async def work(state: Any) -> Any:
        return await code()

    return wf


def tool_of(code: Callable[[], Any]) -> Workflow:
    @tool(effect="read")
    async def look() -> Any:
        return await code()

    wf = Workflow("does")
    wf.node("work")(tool_node(name=look, retry=1)(lambda state: {}))
    return wf


@pytest.mark.parametrize("kind", EXITS)
@pytest.mark.parametrize("place", [step_of, task_of, tool_of])
@bounded
async def test_a_task_that_user_code_makes_does_not_end_the_process(
    engine: Engine, place: Callable[..., Workflow], kind: str
) -> None:
    """Awaited, it fails its step; left alone, it is reported like any other task that has failed."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    fail, words = EXITS[kind]

    async def exits() -> None:
        await asyncio.sleep(0)
        fail()

    async def awaits() -> None:
        await asyncio.create_task(exits())

    async def leaves() -> str:
        task = asyncio.create_task(exits())
        while not task.done():
            await asyncio.sleep(0)
        return "left"

    now: list[Callable[[], Any]] = [awaits]
    workflow = place(lambda: now[-1]())
    state = await (await engine.start(workflow)).settled()
    assert state.error is not None
    assert words in state.error.message
    now.append(leaves)
    state = await (await engine.start(workflow)).settled()
    assert state.ended == "completed"
    gc.collect()
    assert [type(each["exception"]) for each in reported] == [EscapedException]
    assert await (await engine.start(completes)).result() == "fine"


@bounded
async def test_the_task_factory_of_a_loop_is_kept_and_restored(tmp_path: Path) -> None:
    made: list[str] = []

    def theirs(loop: asyncio.AbstractEventLoop, code: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(code.__qualname__)
        return asyncio.Task(code, loop=loop, **options)

    async def inner() -> int:
        return asyncio.current_task().get_coro().cr_frame is not None and 1  # type: ignore[union-attr]

    @task
    async def makes(state: Any) -> int:
        return sum(await asyncio.gather(asyncio.create_task(inner()), inner()))

    wf = Workflow("makes")
    wf.node("work")(makes)
    loop = asyncio.get_running_loop()
    loop.set_task_factory(theirs)
    async with opened(f"sqlite:///{tmp_path / 'a.db'}", workflows=[wf]) as engine:
        async with opened(f"sqlite:///{tmp_path / 'b.db'}"):
            assert await (await engine.start(wf)).result() == 2
        assert await (await engine.start(wf)).result() == 2
        assert loop.get_task_factory() is not theirs
        async with opened(f"sqlite:///{tmp_path / 'a.db'}", execute=False):
            pass
    assert loop.get_task_factory() is theirs
    assert sum(name.endswith("inner") for name in made) == 4


@bounded
async def test_an_engine_opens_in_a_loop_without_task_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: Any, *factory: Any) -> Any:
        raise NotImplementedError  # as asyncio.AbstractEventLoop has it

    for name in ("get_task_factory", "set_task_factory"):
        monkeypatch.setattr(type(asyncio.get_running_loop()), name, none, raising=False)
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        assert await (await engine.start(completes)).result() == "fine"


@bounded
async def test_a_task_that_is_called_off_before_it_begins_leaves_no_warning(engine: Engine) -> None:
    """As without Holdfast: what is wrapped counts as begun."""

    async def never() -> None:
        pass

    async def calls_off() -> str:
        task = asyncio.create_task(never())
        task.cancel()
        await asyncio.wait([task])
        return f"{task.cancelled()}"

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert await (await engine.start(step_of(calls_off))).result() == "True"
        gc.collect()
    assert [str(each.message) for each in heard if "never" in str(each.message)] == []


# --- An end that cannot be made out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["report", "error_of"])
@bounded
async def test_an_attempt_that_cannot_say_how_it_ended_fails_and_is_logged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """A fault of the engine, made here: it costs its step, and no other run."""
    from holdfast.engine.steps import execution

    faulty = RuntimeError("a fault of the engine")
    real = getattr(execution, "_report" if where == "report" else "error_of")

    def breaks(*given: Any) -> Any:
        monkeypatch.setattr(execution, real.__name__, real)
        raise faulty

    monkeypatch.setattr(execution, real.__name__, breaks)
    run = await engine.start(in_flow(raising(ValueError("x"))))
    state = await run.settled()
    assert status(state) == "failed"
    assert state.error is not None
    assert "a fault of the engine" in state.error.message
    assert "please report it" in caplog.text
    assert await (await engine.start(completes)).result() == "fine"


@bounded
async def test_an_attempt_that_ends_without_a_word_is_logged_and_its_step_fails(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from holdfast.engine.steps import execution

    async def breaks(*given: Any) -> None:
        monkeypatch.undo()
        raise RuntimeError("a fault of the engine")

    monkeypatch.setattr(execution, "execute", breaks)
    run = await engine.start(completes)
    with pytest.raises(RunFailed, match="could not record how"):
        await run.result()
    assert "has ended without a word" in caplog.text
    assert engine.executor.slots.free == 2
    assert engine.runtime.membership.broken is None


# --- Groups ---------------------------------------------------------------------------------------------------------------


def group(*problems: BaseException) -> Callable[[], Any]:
    return raising(BaseExceptionGroup("unhandled errors in a TaskGroup", problems))


@pytest.mark.parametrize(
    ("problems", "is_asked"),
    [
        ([TimeoutError("no answer")], True),
        ([ValueError("no"), TimeoutError("no answer")], True),
        ([ExceptionGroup("inner", [ConnectionResetError("gone")])], True),
        ([ValueError("no"), KeyError("x")], False),
        ([ConnectionRefusedError("no"), ValueError("no")], False),
    ],
)
@bounded
async def test_a_group_of_errors_leaves_an_effect_unknown_if_one_of_them_does(
    engine: Engine, problems: list[Exception], is_asked: bool
) -> None:
    run = await engine.start(in_async_tool(group(*problems)))
    state = await run.settled()
    assert [wait.reason for wait in waiting_for(state)] == (["effect_unknown"] if is_asked else [])
    assert bool(await events_of(run, ev.EffectInDoubt)) is is_asked


@pytest.mark.parametrize(
    ("problems", "calls"),
    [
        ([ConnectionResetError("gone")], 3),
        ([ConnectionResetError("gone"), TimeoutError("late")], 3),
        ([ConnectionResetError("gone"), ValueError("no")], 1),
        ([PermissionError("no"), TimeoutError("late")], 1),
    ],
)
@bounded
async def test_a_group_of_errors_is_tried_again_where_each_of_them_is(
    engine: Engine, problems: list[Exception], calls: int
) -> None:
    count = []

    @step(retry=_soon())
    async def asks() -> None:
        count.append(1)
        raise ExceptionGroup("unhandled errors in a TaskGroup", problems)

    @flow
    async def calls_it(ctx: Context) -> None:
        await asks()

    with pytest.raises(RunFailed):
        await (await engine.start(calls_it)).result()
    assert len(count) == calls


def _soon() -> Any:
    from holdfast import RetryPolicy

    return RetryPolicy(max_attempts=3, initial_s=0.001, only_transient=True)


@bounded
async def test_a_group_of_one_is_shown_as_its_member(engine: Engine) -> None:
    @step
    async def look(n: int) -> int:
        return n

    @flow
    async def overlaps(ctx: Context) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_await(look(1)))
            tasks.create_task(_fail())

    with pytest.raises(RunFailed) as failed:
        await (await engine.start(overlaps)).result()
    assert "KeyError: 'customer'" in failed.value.message
    assert "ExceptionGroup" not in failed.value.message
    assert "at once" not in failed.value.message


async def _await(code: Any) -> Any:
    return await code


async def _fail() -> None:
    raise KeyError("customer")


def test_a_group_names_its_first_three_leaves() -> None:
    inner = ExceptionGroup("inner", [KeyError("a"), EscapedException(SystemExit(2))])
    problem = ExceptionGroup("outer", [ValueError("first"), inner, *(OSError(str(n)) for n in range(4))])
    assert len(leaves(problem)) == 7
    assert text_of(problem) == (
        "7 errors at once: ValueError: first; KeyError: 'a'; its code asked the process to exit with 2; and 4 more"
    )
    assert text_of(ExceptionGroup("a", [ExceptionGroup("b", [ValueError("only")])])) == "ValueError: only"


class Poison:
    """A class whose instances answer no question."""

    asked: ClassVar[int] = 0

    @property
    def status_code(self) -> int:
        raise SystemExit(4)


@bounded
async def test_an_answer_that_raises_when_it_is_kept_leaves_no_call_open(engine: Engine) -> None:
    class Answer(BaseModel):
        total: int

        @model_serializer
        def tell(self) -> Any:
            sys.exit(5)

    @tool(effect="once")
    async def pay() -> Any:
        return Answer(total=3)

    wf = Workflow("pays")
    wf.node("work")(tool_node(name=pay)(lambda state: {}))
    state = await (await engine.start(wf)).settled()
    assert [wait.reason for wait in waiting_for(state)] == ["effect_unknown"]


@bounded
async def test_a_model_that_exits_leaves_its_call_in_doubt(tmp_path: Path) -> None:
    class Model:
        async def prepare(self, model: str) -> None:
            pass

        async def request(self, request: Any) -> Any:
            sys.exit(6)

    @flow(cost_limit_usd=1)
    async def asks(ctx: Context) -> str:
        return str(await ctx.model("claude-haiku-4-5", "x", max_tokens=10))

    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", model=Model()) as engine:
        with pytest.raises(RunFailed, match="exit with 6"):
            await (await engine.start(asks)).result()
        assert await (await engine.start(completes)).result() == "fine"


@bounded
async def test_a_property_of_a_tools_exception_may_raise(engine: Engine) -> None:
    class ApiError(Exception):
        @property
        def response(self) -> Any:
            raise SystemExit(3)

    class Failed(Exception):
        response = Poison()

    now: list[Exception] = []
    failing = in_async_tool(lambda: raising(now[-1])())
    for kind in (ApiError, Failed):
        now.append(kind("no"))
        run = await engine.start(failing)
        with pytest.raises(RunFailed, match=f"{kind.__name__}: no"):
            await run.result()
