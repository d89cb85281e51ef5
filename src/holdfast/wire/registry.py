"""The connected workers: who is there, who has gone, and the work that each is at.

A worker is there as long as it acknowledges what it is given and is heard within its lease. A connection that fails in
either is taken for half open, and its work is another's. A worker whose stream broke keeps its work until its lease is over.

Never here: a port, the choice of a worker (scheduling), a run's rules. What a job asks for is done by its step's own
attempt (ports.Calls).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.values.policies import ERROR, MODEL, NEVER_RETRIED, TOOL, TRANSIENT, VALIDATION
from holdfast.errors import InvalidInput, PlaceLost, RemoteFailed, StepError
from holdfast.platform.fair_share import FairShare
from holdfast.ports import Calls, Work
from holdfast.service.access.identity import ANYBODY, Holder
from holdfast.service.text import decoded
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES
from holdfast.wire.connection import MAX_INBOX, Job, WorkerConnection, WorkerMessage, known_as, problems
from holdfast.wire.outbox import Outbox

if TYPE_CHECKING:
    from holdfast.engine.capacity.placing import StepPlacer

log = logging.getLogger("holdfast")

_CLASSES: Final = TRANSIENT | NEVER_RETRIED | {ERROR, MODEL, TOOL}
"""The classes of errors that a worker may name."""
_MAX_PROGRESS: Final = 64 * 1024
_MAX_WORDS: Final = 4000


class Bounds(msgspec.Struct, frozen=True):
    """The limits of connections and messages.

    A worker may be silent for `lease_s`. Each side speaks at least every `heartbeat_s`, and an acknowledgement may take
    `ack_s`. There may be `workers` in all (of one token, half of what others leave), `messages` on their way to one worker, and
    `calls` of one job at a time.
    """

    lease_s: float = 6.0
    heartbeat_s: float = 2.0
    ack_s: float = 2.0
    workers: int = 2_000
    messages: int = 1_000
    calls: int = 16


class WorkerRegistry:
    """Keeps ports.WorkerGateway."""

    def __init__(self, bounds: Bounds, notify: Callable[[str], None] = log.info, *, tells_tenants_apart: bool = False) -> None:
        """`notify` receives a line for each worker that comes or goes. `tells_tenants_apart`: some workers may not be given
        every tenant's jobs."""
        self.bounds = bounds
        self.tells_tenants_apart = tells_tenants_apart
        self._notify = notify
        self._connections: dict[str, WorkerConnection] = {}
        self._names = FairShare(bounds.workers, "workers are connected")
        """Of each token: those that it has registered."""
        self._placing: StepPlacer | None = None
        self._draining = False

    @property
    def connections(self) -> list[WorkerConnection]:
        return list(self._connections.values())

    def open(self, placing: StepPlacer) -> None:
        """Have steps placed with connected workers, now and from now on."""
        self._placing = placing
        for connection in self.connections:
            self._offer(connection)

    def _offer(self, connection: WorkerConnection) -> None:
        """Say what the worker can be given."""
        if self._placing is not None:
            self._placing.join(connection.capacity)

    def drain(self) -> None:
        """Have all workers know that there is no new work here."""
        self._draining = True
        for connection in self.connections:
            connection.say(drain=wire.Drain())

    # --- Coming and going ---------------------------------------------------------------------------------------------

    def register(
        self, registration: wire.Register, outbox: Outbox[wire.ToWorker], holder: Holder = ANYBODY
    ) -> WorkerConnection | wire.Refused:
        """Register a worker: it is there from now on, or gets the reason why not. One that comes back within its lease, with
        the same token, goes on with its jobs."""
        if wrong := "; ".join(problems(registration, holder)):
            return wire.Refused(reason=f"This worker cannot be registered: {wrong}.", again=False)
        if self._draining:
            return wire.Refused(reason="This server is stopping.", again=True)
        name = known_as(registration.name, holder)
        known = self._connections.get(name)
        if known is not None and known.holder != holder:
            return wire.Refused(reason=f"{registration.name} is the name of a worker that has another token.", again=True)
        if known is not None and known.instance == registration.instance:
            return self._come_back(known, registration, outbox)
        if known is not None and known.outbox is not None:
            return wire.Refused(reason=f"A worker called {registration.name} is connected already.", again=True)
        if known is not None:
            self._lose(known, "it was restarted")
        if not self._names.take((holder.name,)):
            reason = f"Too many workers are connected with the token {holder.name!r}, or in all: no more may be."
            return wire.Refused(reason=reason, again=True)
        connection = self._connections[name] = WorkerConnection(registration, outbox, self._now_s(), holder)
        self._welcome(connection)
        for job in registration.jobs:
            connection.say(cancel=wire.Cancel(job=job, reason="This server does not know the job."))
        self._watch(connection)
        self._notify(
            f"Worker {connection.name} is connected: {', '.join(sorted(registration.tasks))}; {registration.slots} slots."
        )
        self._offer(connection)
        return connection

    def _come_back(
        self, connection: WorkerConnection, registration: wire.Register, outbox: Outbox[wire.ToWorker]
    ) -> WorkerConnection:
        if connection.outbox is not None:
            connection.outbox.close()
        connection.outbox, connection.offer, connection.draining = outbox, registration, False
        connection.heard_s = self._now_s()
        self._welcome(connection)
        for job in registration.jobs:
            if job not in connection.jobs:
                connection.say(cancel=wire.Cancel(job=job, reason="The job is another's, or over."))
        its_own = frozenset(registration.jobs)
        for id_, job in connection.jobs.items():
            if id_ in its_own:
                self._acknowledge(job)
                if job.broken_off:
                    self._break_off(connection, job)
            else:
                self._send(connection, job)  # it never arrived
        self._notify(f"Worker {connection.name} is back, at {len(connection.jobs)} jobs.")
        self._offer(connection)
        return connection

    def _welcome(self, connection: WorkerConnection) -> None:
        bounds = self.bounds
        connection.say(
            registered=wire.Registered(
                lease_s=bounds.lease_s, heartbeat_s=bounds.heartbeat_s, ack_s=bounds.ack_s, message_bytes=MESSAGE_BYTES
            )
        )

    def leave(self, connection: WorkerConnection, outbox: Outbox[wire.ToWorker]) -> None:
        """End a stream. Its worker may come back, unless it has announced that it goes and has nothing left to do."""
        if connection.outbox is not outbox:
            return  # it has another by now
        connection.outbox = None
        self._offer(connection)
        if connection.draining and not connection.jobs:
            self._lose(connection, "it has finished its work")
        else:
            self._notify(f"Worker {connection.name} is away, at {len(connection.jobs)} jobs; it has {self.bounds.lease_s:g} s.")

    def _lose(self, connection: WorkerConnection, reason: str) -> None:
        """The worker counts no more; what it was at is lost."""
        if self._connections.get(connection.name) is not connection:
            return
        del self._connections[connection.name]
        self._names.give_back((connection.holder.name,))
        if self._placing is not None:
            self._placing.leave(connection.name)
        if connection.timer is not None:
            connection.timer.cancel()
        self._notify(f"Worker {connection.name} is gone: {reason}. It was at {len(connection.jobs)} jobs.")
        for job in connection.jobs.values():
            _put(job, PlaceLost(f"The worker {connection.name} is gone: {reason}."))
        if connection.outbox is not None:
            connection.outbox.close()
            connection.outbox = None

    # --- Liveness -----------------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _watch(self, connection: WorkerConnection) -> None:
        """Speak to the worker again and again, and see that it has spoken."""
        bounds = self.bounds
        every_s = min(bounds.heartbeat_s, bounds.lease_s / 4)
        due_s = self._now_s() + every_s

        def look() -> None:
            now_s = self._now_s()
            if now_s - due_s > bounds.lease_s / 2:
                connection.heard_s = now_s  # this process stood still; what it was sent meanwhile lies unread
            if now_s - connection.heard_s > bounds.lease_s:
                self._lose(connection, f"nothing was heard of it for {bounds.lease_s:g} s")
            elif not connection.say(heartbeat=wire.Heartbeat()):
                self._lose(connection, "it does not read its messages")
            else:
                self._watch(connection)

        connection.timer = asyncio.get_running_loop().call_at(due_s, look)

    def _expect(self, connection: WorkerConnection, job: Job) -> None:
        """See that the worker acknowledges the job."""
        ack_s = self.bounds.ack_s
        due_s = self._now_s() + ack_s

        def look() -> None:
            if self._now_s() - due_s > ack_s / 2:
                self._expect(connection, job)
            elif connection.outbox is not None:
                self._lose(connection, f"it did not acknowledge the job {job.work.job} within {ack_s:g} s")

        job.timer = asyncio.get_running_loop().call_at(due_s, look)

    def _acknowledge(self, job: Job) -> None:
        job.acknowledged = True
        if job.timer is not None:
            job.timer.cancel()

    # --- What workers say ---------------------------------------------------------------------------------------------

    def on_message(self, connection: WorkerConnection, outbox: Outbox[wire.ToWorker], envelope: wire.FromWorker) -> None:
        """A message of a worker. What it says of jobs that are not its own any more counts for nothing."""
        if connection.outbox is not outbox:
            return
        connection.heard_s = self._now_s()
        kind = envelope.WhichOneof("said")
        message = getattr(envelope, kind) if kind is not None else None
        match message:
            case wire.Drain():
                connection.draining = True
                self._offer(connection)
                self._notify(f"Worker {connection.name} takes no more; it finishes {len(connection.jobs)} jobs.")
            case wire.Ack() | wire.Call() | wire.Progress() | wire.Result():
                job = connection.jobs.get(message.job)
                if job is not None:
                    self._on_job_message(connection, job, message)
                elif isinstance(message, wire.Result):
                    connection.say(taken=wire.Taken(job=message.job))
            case _:
                pass  # a heartbeat, or what a later version says

    def _on_job_message(
        self, connection: WorkerConnection, job: Job, message: wire.Ack | wire.Call | wire.Progress | wire.Result
    ) -> None:
        if isinstance(message, wire.Ack) and message.declined:
            connection.draining = True  # whatever its reason, what comes next would meet the same
            self._offer(connection)
            _put(job, PlaceLost(f"The worker {connection.name} does not begin it: {message.declined[:_MAX_WORDS]}"))
            return
        self._acknowledge(job)
        if isinstance(message, wire.Call | wire.Result):
            if isinstance(message, wire.Result):
                job.over = True
                connection.say(taken=wire.Taken(job=message.job), urgent=False)
            if not _put(job, message):
                self._lose(connection, f"it asks for too much in the job {message.job}")
        elif isinstance(message, wire.Progress):
            _put(job, message)  # a line that finds no room is not worth a worker

    # --- The gateway -----------------------------------------------------------------------------------------------------

    async def perform(self, place: str, work: Work, calls: Calls) -> Any:
        if len(work.arguments_json) > MESSAGE_BYTES - 4096:
            raise InvalidInput(
                f"The arguments of {work.task!r} have {len(work.arguments_json)} bytes, and a message at most"
                f" {MESSAGE_BYTES}. Hand over where the data is instead."
            )
        connection = self._connections.get(place)
        if connection is None:
            raise PlaceLost(f"The worker {place} is gone.")
        job = connection.jobs[work.job] = Job(work)
        try:
            self._send(connection, job)
            return await _Performance(self.bounds, connection, job, calls).see_through()
        finally:
            if job.timer is not None:
                job.timer.cancel()
            connection.jobs.pop(work.job, None)
            if not job.over:
                connection.say(cancel=wire.Cancel(job=work.job, reason="Its result counts no more."))

    def break_off(self, place: str, job: str, number: int) -> None:
        connection = self._connections.get(place)
        if connection is not None and (found := connection.jobs.get(job)) is not None:
            found.broken_off = number
            self._break_off(connection, found)

    def _break_off(self, connection: WorkerConnection, job: Job) -> None:
        """One that has broken it off by now, or has ended it, asks on."""
        connection.say(cancel=wire.Cancel(job=job.work.job, reason="Its ending counts no more.", number=job.broken_off))

    def _send(self, connection: WorkerConnection, job: Job) -> None:
        work = job.work
        assign = wire.Assign(
            job=work.job,
            task=work.task,
            arguments_json=work.arguments_json.decode(),
            timeout_s=work.timeout_s or 0.0,
            pools=work.pools,
            traceparent=work.traceparent,
            tenant=work.tenant,
            workflow=work.workflow,
            trace_id=work.trace_id,
        )
        if not connection.say(assign=assign):
            self._lose(connection, "it does not read its messages")
        elif connection.outbox is not None:
            self._expect(connection, job)


class _Performance:
    """One job at one worker: what it asks for, and what comes of it."""

    def __init__(self, bounds: Bounds, connection: WorkerConnection, job: Job, calls: Calls) -> None:
        self._most = bounds.calls
        self._member = connection
        self._job = job
        self._calls = calls
        self._asked: dict[int, asyncio.Task[None]] = {}

    async def see_through(self) -> Any:
        try:
            while True:
                match await self._job.inbox.get():
                    case wire.Call() as call:
                        self._begin(call)
                    case wire.Result() as result:
                        return await self._outcome(result)
                    case wire.Progress() as progress:
                        await self._calls.line(progress.text[:_MAX_PROGRESS])
                    case problem:
                        raise problem
        except asyncio.CancelledError:
            for task in self._asked.values():
                task.cancel()
            raise
        finally:
            if self._asked:
                # What has left brings its outcome home: the next attempt finds it in the journal.
                await asyncio.wait(self._asked.values())

    def _begin(self, call: wire.Call) -> None:
        if call.number in self._asked:
            return  # sent again after a reconnection; its answer is on its way
        if len(self._asked) >= self._most:
            self._reply(call, failure=_failure(VALIDATION, f"At most {self._most} calls of a job may be on their way."))
            return
        task = self._asked[call.number] = asyncio.create_task(self._answer(call))
        task.add_done_callback(lambda done: self._answered(call.number, done))

    def _answered(self, number: int, task: asyncio.Task[None]) -> None:
        del self._asked[number]
        if not task.cancelled() and (problem := task.exception()) is not None:
            _put(self._job, problem)

    async def _answer(self, call: wire.Call) -> None:
        try:
            value = msgspec.json.encode(await self._make_call(call))
        except StepError as problem:
            self._job.failures[call.number] = problem
            record = getattr(problem, "error", None)
            klass = record.error_class if record is not None else getattr(problem, "error_class", ERROR)
            self._reply(call, failure=_failure(klass, problem.message, retryable=bool(record and record.retryable)))
            return
        if len(value) > MESSAGE_BYTES - 4096:
            words = f"The answer has {len(value)} bytes, and a message at most {MESSAGE_BYTES}."
            self._reply(call, failure=_failure(VALIDATION, words))
        else:
            self._reply(call, value_json=value.decode())

    async def _make_call(self, call: wire.Call) -> Any:
        if call.WhichOneof("asked") == "model":
            asked = call.model
            temperature = asked.temperature if asked.HasField("temperature") else None
            return await self._calls.model(
                call.number,
                asked.model,
                await _decoded(asked.user_json, "prompt"),
                system=asked.system,
                max_tokens=asked.max_tokens or None,
                temperature=temperature,
            )
        if call.WhichOneof("asked") == "tool":
            arguments = await _decoded(call.tool.arguments_json, "arguments")
            return await self._calls.tool(call.number, call.tool.name, arguments, key=call.tool.key or None)
        if call.WhichOneof("asked") == "next":
            return await self._calls.next(call.number, await _decoded(call.next.done_json, "report of its work"))
        raise StepError("The worker asks for something that this server does not know.", error_class=VALIDATION)

    def _reply(self, call: wire.Call, **came: Any) -> None:
        self._member.say(answer=wire.Answer(job=call.job, number=call.number, **came))

    async def _outcome(self, result: wire.Result) -> Any:
        if result.WhichOneof("came") != "failure":
            return await _decoded(result.output_json, "result")
        failure = result.failure
        if (failed := self._job.failures.get(failure.call)) is not None:
            raise failed
        klass = failure.error_class if failure.error_class in _CLASSES else ERROR
        raise RemoteFailed(
            failure.message[:_MAX_WORDS] or "The worker did not say why.", error_class=klass, retryable=failure.retryable
        )


def _failure(error_class: str, message: str, *, retryable: bool = False) -> wire.Failure:
    return wire.Failure(error_class=error_class, message=message[:_MAX_WORDS], retryable=retryable)


async def _decoded(text: str, name: str) -> Any:
    """JSON of a worker; nothing is null."""
    try:
        return decoded(text, name)
    except InvalidInput as problem:
        raise RemoteFailed(f"The worker sent data that cannot be read. {problem.message}", error_class=VALIDATION) from None


def _put(job: Job, message: WorkerMessage) -> bool:
    """False where too much waits already."""
    if job.inbox.qsize() >= MAX_INBOX and not isinstance(message, BaseException):
        return False
    job.inbox.put_nowait(message)
    return True
