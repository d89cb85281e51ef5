"""What people write with asyncio in flows, and what comes of each: the tests prove it, and
docs/guide/what-a-flow-may-do.md is written from it.

Never here: a flow (flows), how one is carried on and killed (test_idioms).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.authoring.flow import Flow
from tests.engine.idioms import flows

Verdict = Literal["right", "durable", "refused", "fails", "asks", "by chance"]
"""In a word, what comes of an idiom."""
VERDICTS: dict[Verdict, str] = {
    "right": "works as in plain asyncio, also in a replay",
    "durable": "works as in plain asyncio, with its time in the store",
    "refused": "the run fails with an error that names the remedy; no code can catch it",
    "fails": "the run fails",
    "asks": "stops and asks a person if a replay requests other operations",
    "by chance": "goes wrong, and Holdfast cannot detect it",
}


@dataclass(frozen=True)
class Returned:
    value: Any


@dataclass(frozen=True)
class Failed:
    """`words` stand in the error of the run."""

    words: str


@dataclass(frozen=True)
class Cancelled:
    pass


@dataclass(frozen=True)
class Asked:
    """A person is asked about changed code, once the flow was replayed; before, the flow returns this."""

    value: Any


@dataclass(frozen=True)
class Act:
    """Something that happens to a run when it waits."""

    kind: Literal["signal", "time", "cancel"]


SIGNAL, TIME, CANCEL = Act("signal"), Act("time"), Act("cancel")


@dataclass(frozen=True)
class Idiom:
    """`happens` is a remark for the page, if one is needed; `calls` says how often each function is called if no process dies; `paths` where results stand, and `timers` which."""

    code: str
    verdict: Verdict
    happens: str
    flow: Flow
    comes_to: Returned | Failed | Cancelled | Asked
    acts: tuple[Act, ...] = ()
    calls: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    timers: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.flow.name


PAID = {"pay a": 1, "pay b": 1}

IDIOMS: list[Idiom] = [
    Idiom(
        "`await a(); await b()`",
        "right",
        "",
        flows.one_after_another,
        Returned(["a", "b"]),
        calls=PAID,
        paths={"a": "0", "b": "1"},
        timers=(),
    ),
    Idiom(
        "`await asyncio.gather(a(), b())`",
        "right",
        "",
        flows.gathered,
        Returned(["a", "b"]),
        calls={"later a": 1, "pay b": 1},
        paths={"a": "~0.0", "b": "~1.0"},
    ),
    Idiom(
        "`await ctx.gather(a(), b())`",
        "right",
        "at most 200 at a time",
        flows.gathered_by_ctx,
        Returned(["a", "b"]),
        calls={"later a": 1, "pay b": 1},
        paths={"a": "0.0.0", "b": "0.1.0"},
    ),
    Idiom(
        "`asyncio.gather(…, return_exceptions=True)`",
        "right",
        "",
        flows.gathered_with_exceptions,
        Returned(["a", True]),
        calls={"pay a": 1, "broken b": 1},
    ),
    Idiom(
        "`asyncio.gather(…)`, one fails and is caught",
        "right",
        "the others end before the run completes",
        flows.gathered_where_one_fails,
        Returned("c"),
        calls={"broken a": 1, "later b": 1, "pay c": 1},
        paths={"b": "~1.0", "c": "0"},
    ),
    Idiom(
        "`task = asyncio.create_task(a()); …; await task`",
        "right",
        "",
        flows.a_task,
        Returned(["a", "b"]),
        calls=PAID,
        paths={"a": "~0.0", "b": "0"},
    ),
    Idiom(
        "`asyncio.create_task(a())`, never awaited",
        "right",
        "done before the run completes",
        flows.a_task_that_nobody_awaits,
        Returned("a"),
        calls={"pay a": 1, "pay b": 1, "pay c": 1},
        paths={"a": "0", "b": "~0.0", "c": "~0.1"},
    ),
    Idiom(
        "`asyncio.create_task(a())`, never awaited, and `a()` fails",
        "fails",
        "its error fails the run",
        flows.a_task_that_fails_unseen,
        Failed("b is broken"),
        calls={"pay a": 1, "broken b": 1},
    ),
    Idiom(
        "`asyncio.Task(a(), loop=…)`",
        "refused",
        "use `asyncio.create_task`",
        flows.a_task_made_by_hand,
        Failed("Make the task with asyncio.create_task"),
    ),
    Idiom(
        "`async with asyncio.TaskGroup()`",
        "right",
        "",
        flows.a_group,
        Returned(["a", "b"]),
        calls={"later a": 1, "pay b": 1},
        paths={"a": "~0.0", "b": "~1.0"},
    ),
    Idiom(
        "`asyncio.TaskGroup`, one task fails",
        "right",
        "",
        flows.a_group_where_one_fails,
        Returned(1),
        calls={"never a": 1, "broken b": 1},
    ),
    Idiom(
        "`asyncio.wait({signal, sleep}, return_when=FIRST_COMPLETED)`",
        "durable",
        "the first in the history wins",
        flows.a_race_of_a_signal_and_time,
        Returned("ok"),
        (SIGNAL,),
    ),
    Idiom(
        "`asyncio.wait({signal, sleep}, return_when=FIRST_COMPLETED)`",
        "durable",
        "the first in the history wins",
        flows.a_race_of_a_signal_and_time,
        Returned("nobody answered"),
        (TIME,),
    ),
    Idiom(
        "`asyncio.wait({a, b}, return_when=FIRST_COMPLETED)`, then `cancel()`",
        "right",
        "the first in the history wins",
        flows.a_race_of_steps,
        Returned(["fast"]),
        calls={"never slow": 1, "pay fast": 1},
    ),
    Idiom(
        "`asyncio.wait(…, return_when=FIRST_EXCEPTION)`",
        "right",
        "the first in the history wins",
        flows.a_wait_until_one_fails,
        Returned([1, 1]),
        calls={"never a": 1, "broken b": 1},
    ),
    Idiom(
        "`asyncio.wait(…, timeout=86_400)`",
        "durable",
        "a recorded timer",
        flows.a_wait_with_a_limit,
        Returned([1, 1]),
        (TIME,),
        calls={"pay a": 1},
        timers=("@0",),
    ),
    Idiom(
        "`for each in asyncio.as_completed(tasks)`",
        "right",
        "in the order of the history",
        flows.as_each_is_done,
        Returned(["b", "a"]),
        calls={"later a": 1, "pay b": 1},
        paths={"a": "~0.0", "b": "~1.0"},
    ),
    Idiom(
        "`asyncio.as_completed([a(), b()])` of steps",
        "right",
        "in the order of the history",
        flows.as_each_step_is_done,
        Returned(["b", "a"]),
        calls={"later a": 1, "pay b": 1},
    ),
    Idiom(
        "`asyncio.as_completed([helper(a), helper(b)])` of your own coroutines",
        "refused",
        "make tasks first",
        flows.as_each_coroutine_is_done,
        Failed("asyncio.as_completed"),
    ),
    Idiom(
        "`async with asyncio.timeout(86_400)` around a wait",
        "durable",
        "a recorded timer; at its end the wait is cancelled, and a gate withdrawn",
        flows.a_time_limit_that_ends_a_wait,
        Returned("reminder"),
        (TIME,),
        calls={"pay reminder": 1},
        paths={"reminder": "1-0"},
        timers=("@0",),
    ),
    Idiom(
        "`asyncio.timeout(86_400)` around a wait that ends in time",
        "durable",
        "",
        flows.a_time_limit_that_is_kept,
        Returned("ok"),
        (SIGNAL,),
        timers=("@0",),
    ),
    Idiom(
        "`async with asyncio.timeout(…)` around a step",
        "right",
        "at its end an `async def` step is cancelled, and never called again",
        flows.a_time_limit_that_ends_a_step,
        Returned("b"),
        calls={"never a": 1, "pay b": 1},
    ),
    Idiom(
        "`asyncio.timeout(…)` around a step that ends in time",
        "right",
        "",
        flows.a_time_limit_around_a_step,
        Returned("a"),
        calls={"pay a": 1},
        paths={"a": "0"},
        timers=(),
    ),
    Idiom(
        "`asyncio.wait_for(signal, 86_400)`",
        "durable",
        "a recorded timer; at its end the wait is cancelled, and a gate withdrawn",
        flows.waiting_for_a_signal_with_a_limit,
        Returned("too late"),
        (TIME,),
    ),
    Idiom(
        "`asyncio.wait_for(a(), …)`, in time",
        "right",
        "",
        flows.waiting_for_a_step_with_a_limit,
        Returned("a"),
        calls={"pay a": 1},
        paths={"a": "0"},
        timers=(),
    ),
    Idiom("`asyncio.shield(task)`", "right", "", flows.a_shield, Returned(["late", "ok"]), (TIME, SIGNAL)),
    Idiom(
        "`asyncio.sleep(86_400)`",
        "durable",
        "needs no process; `loop.time()` is a recorded time",
        flows.a_long_sleep,
        Returned(True),
        (TIME,),
        timers=("@0",),
    ),
    Idiom(
        "`Lock`, `Semaphore`", "right", "", flows.a_lock, Returned(["a", "b", "c"]), calls={"pay a": 1, "pay b": 1, "pay c": 1}
    ),
    Idiom("`Queue`", "right", "", flows.a_queue, Returned(["a", "b"]), calls=PAID),
    Idiom("`Condition`, `Barrier`, `Event`", "right", "", flows.a_condition_and_a_barrier, Returned(["a", "b"]), calls=PAID),
    Idiom(
        "an `Event` that no code sets",
        "refused",
        "nothing can wake the flow (noticed within a minute)",
        flows.an_event_that_nobody_sets,
        Failed("waits for"),
        calls={"pay a": 1},
    ),
    Idiom(
        "`while not task.done(): await asyncio.sleep(0)`",
        "refused",
        "no result can arrive while the flow loops",
        flows.polling_without_a_pause,
        Failed("round"),
    ),
    Idiom(
        "`while not task.done(): await asyncio.sleep(60)`",
        "durable",
        "a timer for each round; better await the task",
        flows.polling_with_a_pause,
        Returned("ok"),
        (SIGNAL, TIME),
    ),
    Idiom(
        "`asyncio.to_thread`, a subprocess, streams",
        "right",
        "repeated on every replay; better a step",
        flows.a_thread_and_a_process_of_its_own,
        Returned([3, "b", "a"]),
        calls={"pay a": 1},
    ),
    Idiom(
        "`asyncio.gather(client.get(…), client.get(…))` of httpx or aiohttp",
        "right",
        "repeated on every replay; better a step",
        flows.requests_at_the_same_time,
        Returned(["hello", "hello", "a"]),
        calls={"pay a": 1},
    ),
    Idiom(
        "a thread, a subprocess, a stream or a request, while another task awaits an operation or sleeps",
        "refused",
        "their order is not recorded; use a step",
        flows.a_thread_beside_a_task,
        Failed("Put it into a step"),
    ),
    Idiom(
        "`loop.call_soon_threadsafe(…)` from a thread beside such a task",
        "refused",
        "their order is not recorded; use a step",
        flows.a_thread_that_calls_in,
        Failed("thread"),
    ),
    Idiom(
        "`task.add_done_callback(…)` that makes a task",
        "right",
        "",
        flows.a_callback_that_makes_a_task,
        Returned(["a", "b"]),
        calls=PAID,
        paths={"a": "~0.0", "b": "~1.0"},
    ),
    Idiom(
        "`task.cancel()`",
        "right",
        "the operations that it awaits are cancelled",
        flows.a_task_that_is_cancelled,
        Returned(["a", True, "b"]),
        calls=PAID,
    ),
    Idiom(
        "`task.cancel()` of a task that waits in `ctx.gather`",
        "right",
        "the operations that it awaits are cancelled",
        flows.a_gather_that_is_cancelled,
        Returned(["a", True]),
        calls={"pay a": 1},
    ),
    Idiom(
        "`finally: await release()` when the run is cancelled",
        "right",
        "its operations run for at most a minute",
        flows.cleaning_up_when_the_run_is_cancelled,
        Cancelled(),
        (CANCEL,),
        calls={"pay reserve": 1, "pay release": 1},
    ),
    Idiom(
        "`finally` without operations, around a wait",
        "right",
        "also runs if the flow leaves memory at the wait; put effects into a step",
        flows.plain_cleaning_up_at_a_wait,
        Returned("ok"),
        (SIGNAL,),
    ),
    Idiom(
        "`finally: await release()` around a wait",
        "right",
        "runs once, after the wait",
        flows.cleaning_up_around_a_wait,
        Returned("ok"),
        (SIGNAL,),
        calls=PAID,
        paths={"a": "0", "b": "~0.1"},
    ),
    Idiom(
        "a task with an endless loop",
        "right",
        "cancelled when the function returns",
        flows.a_heartbeat,
        Returned(["a", False]),
        calls={"pay a": 1},
    ),
    Idiom(
        "`anyio.create_task_group()`, `anyio.move_on_after(86_400)`",
        "durable",
        "",
        flows.scopes_of_anyio,
        Returned([True, "a", "b"]),
        (TIME,),
        calls=PAID,
    ),
    Idiom(
        "an asynchronous generator with operations",
        "right",
        "",
        flows.an_async_generator,
        Returned(["a", "b"]),
        calls=PAID,
        paths={"a": "0", "b": "1"},
    ),
    Idiom(
        "`async with contextlib.aclosing(generator)`, left before its end",
        "right",
        "",
        flows.a_generator_that_is_closed,
        Returned("d"),
        calls={"pay a": 1, "pay c": 1, "pay d": 1},
        paths={"c": "1", "d": "2"},
    ),
    Idiom(
        "a generator with an operation in its `finally`, left before its end without `aclosing`",
        "refused",
        "Python closes it at an unrecorded time",
        flows.a_generator_that_is_left_early,
        Failed("contextlib.aclosing"),
    ),
    Idiom(
        "a task that is cancelled before it begins",
        "right",
        "",
        flows.tasks_that_are_cancelled_before_they_begin,
        Returned(["group", "h"]),
        calls={"pay h": 1},
    ),
    Idiom(
        "`a()` without `await`",
        "fails",
        "it did not run; the error names its line",
        flows.a_call_without_await,
        Failed("Write `await pay(...)`"),
    ),
    Idiom(
        "`helper()` of your own, without `await`",
        "right",
        "",
        flows.a_coroutine_without_await,
        Returned("b"),
        calls={"pay b": 1},
    ),
    Idiom(
        "`asyncio.run(a())` in `asyncio.to_thread`",
        "refused",
        "the result cannot reach another event loop",
        flows.a_step_in_a_loop_of_its_own,
        Failed("Await the step in the flow itself"),
    ),
    Idiom(
        "`asyncio.run(a())` in `loop.run_in_executor`",
        "refused",
        "the result cannot reach another event loop",
        flows.a_step_in_a_thread_of_an_executor,
        Failed("Await the step in the flow itself"),
    ),
    Idiom(
        "`asyncio.run(a())` in a `threading.Thread` of your own",
        "by chance",
        "the step is called again in each replay",
        flows.a_step_in_a_thread_that_it_starts,
        Returned("b"),
        calls=PAID,
    ),
    Idiom(
        "`random`, `time.time()`, the order of a set of texts",
        "asks",
        "use `ctx.uuid()`, `ctx.now()` and sorted lists",
        flows.chance,
        Asked(["b", "a"]),
    ),
    Idiom(
        "the order of a set of `asyncio.gather(…)` futures",
        "by chance",
        "use a list, or tasks",
        flows.a_set_of_gathers,
        Returned(["a", "b", "c"]),
        calls={"pay a": 1, "pay b": 1, "pay c": 1},
    ),
]
