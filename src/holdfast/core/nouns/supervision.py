"""Supervision: which worker takes a task, when none is taken, and which worker is taken out.

A supervisor is one record: its workers and what became of their last tasks, the tasks at work, and those that wait. Each
change is decided on what was read, and kept only where nobody else was first. So two processes cannot let in one too many,
and a task leaves those at work in the change that counts it, once. That it is at work is written down before its run is
started under a key of its id: whoever does that again, after a crash or beside another, starts nothing new. Scopes, in which
runs wait for places, would hand these out in order of arrival, to a worker that was chosen at the start; here the first by
priority goes to the worker with the least to do.

The rules are those of "7 AI Agent Orchestration Patterns", pattern 1 (BackpressureSupervisor). How a worker that is out comes
back is a circuit breaker's (Nygard, Release It!): one task after a while, and that decides.

Never here: a clock, starting a run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.values.actor import NOBODY, Actor
from holdfast.core.values.ids import RunId
from holdfast.errors import Conflict, InvalidInput

DEFAULT_MAX_QUEUE: Final = 100
THRESHOLD: Final = 0.8
DEFAULT_MAX_CONCURRENT: Final = 3
TIMEOUT_S: Final = 60.0
COOL_DOWN_S: Final = 30.0

MAX_WORKERS: Final = 100
MAX_CONCURRENT: Final = 1_000
MAX_QUEUED: Final = 10_000
"""All of them stand in the record, which each change writes anew."""
MAX_NAME_BYTES: Final = 128
"""Of a supervisor's name, and of a task's id: a start key is made of both."""
KEPT_MS: Final = 7 * 86_400_000
"""What became of a task is known for a week after its end; its run stays as long as any."""
LONGEST_TIMEOUT_S: Final = 30 * 86_400
LONGEST_COOL_DOWN_S: Final = 600.0
LONGEST_RETRY_S: Final = 60.0
MAX_PRIORITY: Final = 1_000_000

WINDOW: Final = 20
"""Of its tasks, the last that count for taking a worker out. The document counts all there ever were: then a worker of long
standing could fail for days before it is out."""
_AFTER: Final = 5
_ERROR_RATE: Final = 0.5
_NEW: Final = 0.1
"""What the latest task weighs in a worker's average."""
_UNKNOWN_MS: Final = 1_000.0
"""How long a task is taken to last where none has ended yet."""
_CALL_OFF_AGAIN_MS: Final = 5_000
_JITTER: Final = 0.25

Why = Literal["overloaded", "queue_full", "unavailable"]
"""Why a task is not taken: no worker of its type is free while the supervisor's load is at its threshold; the queue is full;
or all workers of its type are out."""
Fate = Literal["completed", "failed", "timed_out", "cancelled"]
"""How a task has ended. That a person has called it off says nothing of its worker."""
WorkerState = Literal["idle", "busy", "overloaded", "failed", "half_open"]


class Worker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Does tasks of `task_types` by runs of `workflow`, `max_concurrent` at once, each within `timeout_s`.

    `recent` are its last tasks, a `+` for each that completed and a `-` for each error. It is out where `out_until_ms` is a
    moment; from then on one task at a time may show that it can be let in again. It was taken out `outs` times in a row.
    """

    name: str
    workflow: str
    task_types: tuple[str, ...]
    max_concurrent: int = DEFAULT_MAX_CONCURRENT
    timeout_s: float = TIMEOUT_S
    completed: int = 0
    errors: int = 0
    avg_ms: float | None = None
    recent: str = ""
    out_until_ms: int | None = None
    outs: int = 0


class QueuedTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that waits. Of the lowest `priority` the one that came first is next."""

    priority: int
    number: int
    task: str
    task_type: str
    timeout_s: float | None = None


class Active(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task at work: its run, once that is known. A `probe` decides whether its worker is let in again. One that has taken too
    long is called off, and has been at `called_off_ms`."""

    task: str
    worker: str
    began_ms: int
    deadline_ms: int
    run: RunId | None = None
    probe: bool = False
    called_off_ms: int | None = None


class Supervisor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Its workers, and the tasks that it has taken and that have not ended. What its runs spend counts in the `shared` scopes
    of a team budget, as what the worker spends."""

    tenant: str
    name: str
    workers: tuple[Worker, ...]
    max_queue: int = DEFAULT_MAX_QUEUE
    threshold: float | None = THRESHOLD
    cool_down_s: float = COOL_DOWN_S
    team: str | None = None
    shared: tuple[str, ...] = ()
    taken: int = 0
    queue: tuple[QueuedTask, ...] = ()
    """In the order in which they are to begin."""
    active: tuple[Active, ...] = ()
    revision: int = 0
    """Counts its changes, so that no writer overwrites what it has not seen."""

    @property
    def load(self) -> float:
        """Return the part of its workers' capacity that is in use: 0 to 1."""
        return len(self.active) / sum(each.max_concurrent for each in self.workers)


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A submitted task and, once it has ended, its outcome."""

    id: str
    task_type: str
    payload: msgspec.Raw
    at_ms: int
    priority: int = 0
    timeout_s: float | None = None
    by: Actor = NOBODY
    fate: Fate | None = None
    worker: str | None = None
    run: RunId | None = None
    error: str | None = None
    duration_ms: int | None = None
    ended_ms: int | None = None


class Change(msgspec.Struct, frozen=True):
    """A supervisor as it is from now on, and the tasks that are new or other."""

    supervisor: Supervisor
    tasks: tuple[Task, ...] = ()


class Accepted(NamedTuple):
    """An accepted task, which will be done."""

    task_id: str
    """Id of the task."""
    worker: str | None
    """Name of the worker, if the task begins at once."""
    position: int
    """Position in the queue, from 1; 0 if the task begins at once."""


class Rejected(NamedTuple):
    """A rejected task, of which nothing was kept."""

    reason: Why
    """Reason of the rejection."""
    retry_after_s: float
    """Seconds after which to try again."""


class TaskOutcome(NamedTuple):
    """The outcome of a task's run, and its duration; None if it could not be started."""

    fate: Fate
    duration_ms: int
    error: str | None = None


class WorkerView(msgspec.Struct, frozen=True):
    """A worker, as people look at it. `load` is the part of `max_concurrent` that is `active`; `queued` tasks wait for it, or
    for another of their type."""

    state: WorkerState
    load: float
    active: int
    max_concurrent: int
    queued: int
    completed: int
    errors: int
    avg_ms: float


class Dashboard(msgspec.Struct, frozen=True):
    """A supervisor, as people look at it."""

    system_load: float
    queue_size: int
    max_queue: int
    workers: dict[str, WorkerView]


def problems(supervisor: Supervisor) -> Iterator[str]:
    """Yield each problem, with what to do."""
    workers = supervisor.workers
    if not 0 < len(workers) <= MAX_WORKERS:
        yield f"it has {len(workers)} workers; it has 1 to {MAX_WORKERS}"
    if len({each.name for each in workers}) < len(workers):
        yield "two of its workers have the same name"
    for each in workers:
        if not each.task_types:
            yield f"worker {each.name!r:.80} has no task types; name one at least"
        if not 0 < each.max_concurrent <= MAX_CONCURRENT:
            yield f"max_concurrent of {each.name!r:.80} is {each.max_concurrent}; it is 1 to {MAX_CONCURRENT}"
        if not 0 < each.timeout_s <= LONGEST_TIMEOUT_S:
            yield f"timeout_s of {each.name!r:.80} is {each.timeout_s}; it is above 0, to {LONGEST_TIMEOUT_S} (30 days)"
    if not 0 <= supervisor.max_queue <= MAX_QUEUED:
        yield f"max_queue is {supervisor.max_queue}; it is 0 to {MAX_QUEUED}"
    if supervisor.threshold is not None and not 0 < supervisor.threshold <= 1:
        yield f"threshold is {supervisor.threshold}; it is above 0, to 1, or None: then only a full queue refuses"
    if not 0 < supervisor.cool_down_s <= LONGEST_COOL_DOWN_S:
        yield f"cool_down_s is {supervisor.cool_down_s}; it is above 0, to {LONGEST_COOL_DOWN_S:g}"


def declared_anew(before: Supervisor, now: Supervisor) -> Supervisor:
    """Return the supervisor as declared `now`, with all tasks that the one `before` has taken, and the figures of workers that
    both have. Raises Conflict if a task that it has taken would be left without a worker."""
    known = {each.name: each for each in before.workers}
    types = {task_type for each in now.workers for task_type in each.task_types}
    waiting = {each.task_type for each in before.queue} - types
    working = {each.worker for each in before.active} - {each.name for each in now.workers}
    if waiting or working:
        who = (
            f"workers {', '.join(sorted(working)):.300} have tasks at work"
            if working
            else (f"tasks of type {', '.join(sorted(waiting)):.300} wait")
        )
        raise Conflict(
            f"Of supervisor {now.name!r} {who}, for which no worker would be left. Nothing was changed: let them be done first."
        )
    workers = tuple(
        each
        if (was := known.get(each.name)) is None
        else msgspec.structs.replace(
            each,
            completed=was.completed,
            errors=was.errors,
            avg_ms=was.avg_ms,
            recent=was.recent,
            out_until_ms=was.out_until_ms,
            outs=was.outs,
        )
        for each in now.workers
    )
    return msgspec.structs.replace(
        now, workers=workers, taken=before.taken, queue=before.queue, active=before.active, revision=before.revision
    )


def key_of(supervisor: Supervisor, task: str) -> str:
    """The start key of the run of a task."""
    return f"{_KEY}{quote(supervisor.name, safe='')}/{task}"


def named_by(key: str | None) -> str | None:
    """The supervisor of whose task this is the start key."""
    return unquote(key.split("/")[1]) if key is not None and key.startswith(_KEY) else None


_KEY: Final = "supervisor/"


def takers(supervisor: Supervisor, task_type: str) -> Sequence[Worker]:
    """The workers for tasks of a type. Raises InvalidInput where there is none: that is no load, and waiting does not help."""
    found = [each for each in supervisor.workers if task_type in each.task_types]
    if not found:
        known = sorted({each for worker in supervisor.workers for each in worker.task_types})
        raise InvalidInput(
            f"No worker of supervisor {supervisor.name!r} takes tasks of type {task_type!r:.100}; there are"
            f" {', '.join(known):.500}. Nothing was submitted."
        )
    return found


# --- A task comes -------------------------------------------------------------------------------------------------------


def submitted(supervisor: Supervisor, task: Task, now_ms: int) -> tuple[Accepted | Rejected, Supervisor]:
    """Take a task, or not; the supervisor as it is then."""
    able = takers(supervisor, task.task_type)
    if not any(_free(supervisor, each, now_ms) for each in able):
        why = _refusal(supervisor, able)
        if why is not None:
            return Rejected(why, retry_after_s(supervisor, task, able, now_ms)), supervisor
    queued = QueuedTask(task.priority, supervisor.taken + 1, task.id, task.task_type, task.timeout_s)
    queue = tuple(sorted((*supervisor.queue, queued), key=_place))
    after = dispatched(msgspec.structs.replace(supervisor, taken=queued.number, queue=queue), now_ms)
    return accepted(after, task.id), after


def accepted(supervisor: Supervisor, task: str) -> Accepted:
    """Return the place of a task that was taken."""
    worker = next((each.worker for each in supervisor.active if each.task == task), None)
    position = next((at for at, each in enumerate(supervisor.queue, 1) if each.task == task), 0)
    return Accepted(task, worker, position)


def _place(queued: QueuedTask) -> tuple[int, int]:
    return queued.priority, queued.number


def _refusal(supervisor: Supervisor, able: Sequence[Worker]) -> Why | None:
    """Return why a task without a free worker is not even allowed to wait."""
    if all(each.out_until_ms is not None for each in able):
        return "unavailable"
    if supervisor.threshold is not None and supervisor.load >= supervisor.threshold:
        return "overloaded"
    return "queue_full" if len(supervisor.queue) >= supervisor.max_queue else None


def retry_after_s(supervisor: Supervisor, task: Task, able: Sequence[Worker], now_ms: int) -> float:
    """Return the seconds after which another attempt makes sense: when the first of its ejected workers may take a probe; else
    when the others have done what waits for them, each at its average. At most a minute, and up to a quarter more, by the
    task's id, so that not all come back at once."""
    fit = [each for each in able if each.out_until_ms is None]
    if fit:
        known = [each.avg_ms for each in fit if each.avg_ms is not None]
        average_ms = sum(known) / len(known) if known else _UNKNOWN_MS
        types = {task_type for each in fit for task_type in each.task_types}
        ahead = 1 + sum(each.task_type in types for each in supervisor.queue)
        wait_s = average_ms * ahead / sum(each.max_concurrent for each in fit) / 1000
    else:
        wait_s = min((each.out_until_ms or 0) - now_ms for each in able) / 1000
    chance = zlib.crc32(task.id.encode()) / 2**32
    return round(min(max(wait_s, 0.1), LONGEST_RETRY_S) * (1 + _JITTER * chance), 3)


# --- Tasks begin ----------------------------------------------------------------------------------------------------------


def dispatched(supervisor: Supervisor, now_ms: int) -> Supervisor:
    """Return the supervisor with waiting tasks placed as far as workers are free: in their order, each with the worker that has
    the least to do for its capacity."""
    after = supervisor
    for queued in supervisor.queue:
        able = (each for each in after.workers if queued.task_type in each.task_types)
        free = [each for each in able if _free(after, each, now_ms)]
        if not free:
            continue
        worker = min(free, key=lambda each: _active(after, each) / each.max_concurrent)
        timeout_s = worker.timeout_s if queued.timeout_s is None else queued.timeout_s
        active = Active(
            task=queued.task,
            worker=worker.name,
            began_ms=now_ms,
            deadline_ms=now_ms + int(timeout_s * 1000),
            probe=worker.out_until_ms is not None,
        )
        rest = tuple(each for each in after.queue if each is not queued)
        after = msgspec.structs.replace(after, queue=rest, active=(*after.active, active))
    return after


def _active(supervisor: Supervisor, worker: Worker) -> int:
    return sum(each.worker == worker.name for each in supervisor.active)


def _free(supervisor: Supervisor, worker: Worker, now_ms: int) -> bool:
    """True if the worker may take a task now; an ejected one only as a probe."""
    if _active(supervisor, worker) >= worker.max_concurrent:
        return False
    return worker.out_until_ms is None or (worker.out_until_ms <= now_ms and not _is_probed(supervisor, worker))


def _is_probed(supervisor: Supervisor, worker: Worker) -> bool:
    return any(each.probe and each.worker == worker.name for each in supervisor.active)


def begun(supervisor: Supervisor, task: str, run: RunId) -> Supervisor:
    """The run of a task is there."""
    active = tuple(msgspec.structs.replace(each, run=run) if each.task == task else each for each in supervisor.active)
    return msgspec.structs.replace(supervisor, active=active)


# --- Tasks end ------------------------------------------------------------------------------------------------------------


def ended(supervisor: Supervisor, task: Task, status: TaskOutcome, now_ms: int) -> tuple[Supervisor, Task]:
    """A task at work is over: it counts for its worker, and there is room for the next."""
    (over,) = (each for each in supervisor.active if each.task == task.id)
    fate: Fate = "timed_out" if status.fate == "cancelled" and over.called_off_ms is not None else status.fate
    workers = tuple(
        _counted(each, over, fate, status.duration_ms, supervisor.cool_down_s, now_ms) if each.name == over.worker else each
        for each in supervisor.workers
    )
    active = tuple(each for each in supervisor.active if each is not over)
    took_s = (over.deadline_ms - over.began_ms) / 1000
    error = f"It took longer than {took_s:g} s and was called off." if fate == "timed_out" else status.error
    done = msgspec.structs.replace(
        task, fate=fate, worker=over.worker, run=over.run, error=error, duration_ms=status.duration_ms, ended_ms=now_ms
    )
    return msgspec.structs.replace(supervisor, workers=workers, active=active), done


def _counted(worker: Worker, over: Active, fate: Fate, duration_ms: int, cool_down_s: float, now_ms: int) -> Worker:
    if fate == "cancelled":
        return worker
    if fate == "completed":
        average_ms = duration_ms if worker.avg_ms is None else worker.avg_ms * (1 - _NEW) + duration_ms * _NEW
        worker = msgspec.structs.replace(worker, completed=worker.completed + 1, avg_ms=average_ms)
    else:
        worker = msgspec.structs.replace(worker, errors=worker.errors + 1)
    if worker.out_until_ms is not None:
        if not over.probe:
            return worker  # it began before: what it says is known
        return _let_in(worker) if fate == "completed" else _taken_out(worker, cool_down_s, now_ms)
    recent = (worker.recent + ("+" if fate == "completed" else "-"))[-WINDOW:]
    worker = msgspec.structs.replace(worker, recent=recent)
    is_bad = len(recent) > _AFTER and recent.count("-") / len(recent) > _ERROR_RATE
    return _taken_out(worker, cool_down_s, now_ms) if is_bad else worker


def _taken_out(worker: Worker, cool_down_s: float, now_ms: int) -> Worker:
    """Out for a while, which doubles with each probe that fails."""
    out_s = min(cool_down_s * 2 ** min(worker.outs, 20), LONGEST_COOL_DOWN_S)
    return msgspec.structs.replace(worker, out_until_ms=now_ms + int(out_s * 1000), outs=worker.outs + 1)


def _let_in(worker: Worker) -> Worker:
    return msgspec.structs.replace(worker, out_until_ms=None, outs=0, recent="")


def overdue(supervisor: Supervisor, now_ms: int) -> Sequence[Active]:
    """The tasks at work whose runs are to be called off now, for the first time or again."""
    return [each for each in supervisor.active if each.run is not None and _call_off_at_ms(each) <= now_ms]


def called_off(supervisor: Supervisor, tasks: Sequence[Active], now_ms: int) -> Supervisor:
    """It is written down before it is done, so that the ends of their runs are known for what they are."""
    active = tuple(msgspec.structs.replace(each, called_off_ms=now_ms) if each in tasks else each for each in supervisor.active)
    return msgspec.structs.replace(supervisor, active=active)


def _call_off_at_ms(active: Active) -> int:
    return active.deadline_ms if active.called_off_ms is None else active.called_off_ms + _CALL_OFF_AGAIN_MS


def due_at_ms(supervisor: Supervisor) -> int | None:
    """Return when the supervisor needs attention, whatever its runs do: a task is to be started or called off, or a worker may
    be let in for what waits. None if it needs none."""
    if any(each.run is None for each in supervisor.active):
        return 0
    moments = [_call_off_at_ms(each) for each in supervisor.active]
    types = {each.task_type for each in supervisor.queue}
    moments += [
        each.out_until_ms
        for each in supervisor.workers
        if each.out_until_ms is not None and types & {*each.task_types} and not _is_probed(supervisor, each)
    ]
    return min(moments, default=None)


# --- As people look at it ----------------------------------------------------------------------------------------------------


def dashboard(supervisor: Supervisor, now_ms: int) -> Dashboard:
    """Return its load and the health of its workers."""
    return Dashboard(
        round(supervisor.load, 3),
        len(supervisor.queue),
        supervisor.max_queue,
        {each.name: _view(supervisor, each, now_ms) for each in supervisor.workers},
    )


def _view(supervisor: Supervisor, worker: Worker, now_ms: int) -> WorkerView:
    active = _active(supervisor, worker)
    load = active / worker.max_concurrent
    queued = sum(each.task_type in worker.task_types for each in supervisor.queue)
    state: WorkerState = "overloaded" if load > _OVERLOADED else "busy" if active else "idle"
    if worker.out_until_ms is not None:
        state = "half_open" if worker.out_until_ms <= now_ms else "failed"
    return WorkerView(
        state,
        round(load, 3),
        active,
        worker.max_concurrent,
        queued,
        worker.completed,
        worker.errors,
        round(worker.avg_ms or 0, 1),
    )


_OVERLOADED: Final = 0.8
