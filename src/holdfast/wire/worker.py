"""A worker that is connected to a serving process: says who it is, does what it is given, comes back when the stream breaks.

What it has done and the server has not taken yet it says again on the next stream, to the same server; and so what it asks
and has no answer to. Never here: a store, a provider's key.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc
import msgspec

from holdfast.core.values.policies import ERROR, NETWORK, TIMEOUT, VALIDATION, gravest
from holdfast.core.values.trace import TraceContext, trace_context_of
from holdfast.errors import HoldfastError, StepError, UsageError
from holdfast.platform.border import bare, fact, leaves, text_of
from holdfast.platform.current_span import continue_trace
from holdfast.platform.log_ids import NOWHERE, LogIds, enter
from holdfast.platform.machine import RandomIds
from holdfast.platform.threads import Threads
from holdfast.service.access.identity import split
from holdfast.wire import credential
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES, OPTIONS, Stub
from holdfast.wire.capabilities import WorkerCapabilities
from holdfast.wire.credential import Trust
from holdfast.wire.outbox import Outbox
from holdfast.wire.task import CallFailed, Job, Tasks

log = logging.getLogger("holdfast")

_JOB: Final = re.compile(r"([^/]+)/(.+?)/(\d{1,9})(?:/.*)?", re.DOTALL)
"""The id of a job: its run, its step, its attempt, and perhaps a part."""

_BACKOFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Before the next try, the last again and again; each address is tried before any is waited for."""
_REGISTERED_S: Final = 5.0
"""What a server gets to answer a registration."""
_MAX_WORDS: Final = 4000
_MAX_LINES: Final = 500
"""Of messages that wait: with so many a script that prints waits too. The server has room for twice as many of a job."""
_MAX_WAITING: Final = 10_000
"""Maximum number of messages that wait to be sent. With half as many, progress is no longer sent: the reader is slow."""


class _Refusal(HoldfastError):
    """The server does not take this worker. Attributes: `again`, whether it may later."""

    again: bool = False


class Worker:
    """A worker that connects to the first server of a list that accepts it, and executes tasks until it is drained.

    Args:
        tasks: The tasks.
        addresses: Addresses of servers, `HOST:PORT`.
        offer: Offer of the worker: its name, slots, labels and resources.
        trust: Token and certificates; by default none.
        tell: Function that receives lines about the worker's progress.

    Raises:
        UsageError: An address is invalid, or there is no task.
    """

    def __init__(
        self,
        tasks: Tasks,
        addresses: Sequence[str],
        offer: WorkerCapabilities,
        trust: Trust | None = None,
        tell: Callable[[str], None] = log.info,
    ) -> None:
        """`tell` receives lines about the worker's progress. Raises UsageError for an invalid address."""
        for address in addresses:
            split(address)
        if not tasks.bodies:
            raise UsageError("There is no task to offer; define one with @tasks.task('name').")
        self._bodies = tasks.bodies
        self._addresses = list(addresses)
        self._offer = offer
        self._trust = trust if trust is not None else Trust()
        self._notify = tell
        self._instance = RandomIds().session()
        self._threads = Threads(min(offer.slots, 64))
        self._outbox: Outbox[wire.FromWorker] | None = None
        """What is to be said on the stream that stands."""
        self._connected = asyncio.Event()
        """Whether one does."""
        self._jobs: dict[str, tuple[Job, asyncio.Task[None]]] = {}
        self._results: dict[str, wire.Result] = {}
        """What was done and is not known to be the server's yet."""
        self._calls: dict[tuple[str, int], tuple[wire.Call, asyncio.Future[Any]]] = {}
        """What was asked and has no answer yet."""
        self._draining = False
        self._leaving = False
        self._idle = asyncio.Event()
        self._heard_s = 0.0

    @property
    def at_work(self) -> int:
        """The number of jobs that run."""
        return len(self._jobs)

    def drain(self) -> None:
        """Accept no more jobs. `run` returns when the running jobs are done."""
        self._draining = True
        self._say(drain=wire.Drain())
        self._rest()

    # --- Connecting ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until drained.

        Raises:
            UsageError: A server refuses this worker or its token.
        """
        tries = 0
        try:
            while not (self._draining and not self._jobs and not self._results):
                address = self._addresses[0]
                try:
                    await self._stream(address)
                    tries = 0
                except (grpc.aio.AioRpcError, TimeoutError, _Refusal) as problem:
                    tries = self._reconnect(address, problem, tries)
                self._addresses.append(self._addresses.pop(0))
                round_, place = divmod(tries, len(self._addresses))
                if tries and not place and not self._idle.is_set():
                    await asyncio.sleep(_BACKOFF_S[min(round_, len(_BACKOFF_S)) - 1])
        finally:
            self._leaving = True
            tasks = [task for _, task in self._jobs.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._threads.close()

    def _reconnect(self, address: str, problem: Exception, tries: int) -> int:
        if isinstance(problem, _Refusal) and not problem.again:
            raise UsageError(f"The server at {address} does not take this worker: {problem.message}")
        if isinstance(problem, grpc.aio.AioRpcError):
            words = f"{problem.code().name}: {problem.details()}"
            if problem.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
                raise UsageError(f"The server at {address} refuses this worker: {problem.details()}")
        else:
            words = str(problem) or "it does not answer"
        if tries < len(self._addresses):
            self._notify(f"Not connected to {address}: {words}. Trying on.")
        return tries + 1

    async def _stream(self, address: str) -> None:
        """One stream, from registration to its end."""
        async with credential.channel(address, self._trust, OPTIONS) as channel:
            outbox = Outbox[wire.FromWorker](_MAX_WAITING)
            call = Stub(channel, "Workers").Work(outbox.messages(), metadata=credential.metadata(self._trust))
            outbox.say(wire.FromWorker(register=self._registration()))
            try:
                async with asyncio.timeout(_REGISTERED_S):
                    first = await call.read()
                if first is grpc.aio.EOF:
                    raise TimeoutError("it ended the stream")
                if first.WhichOneof("said") != "registered":
                    raise _Refusal(first.refused.reason or "It did not say why.", again=first.refused.again)
                self._notify(f"Connected to {address} as {self._offer.name}: {', '.join(sorted(self._bodies))}.")
                await self._talk(call, outbox, first)
            finally:
                self._hang_up(outbox)
                call.cancel()

    def _hang_up(self, outbox: Outbox[wire.FromWorker]) -> None:
        outbox.close()
        self._outbox = None
        self._connected.clear()

    def _registration(self) -> wire.Register:
        offer = self._offer
        return wire.Register(
            name=offer.name,
            instance=self._instance,
            tasks=list(self._bodies),
            labels=offer.labels,
            tags=offer.tags,
            slots=offer.slots,
            cpu_m=offer.cpu_m,
            memory_mb=offer.memory_mb,
            gpus=offer.gpus,
            jobs=[*self._jobs, *self._results],
        )

    def _say(self, **message: Any) -> None:
        """Send on the current stream; without one, send on the next if the message must arrive."""
        if self._outbox is not None and not self._outbox.say(wire.FromWorker(**message)):
            self._notify("The server does not read its messages; connecting again.")
            self._hang_up(self._outbox)

    async def _talk(self, call: Any, outbox: Outbox[wire.FromWorker], first: wire.ToWorker) -> None:
        """Say again what may not have arrived, then hear and do, until the stream ends or there is nothing more to do."""
        self._outbox = outbox
        self._connected.set()
        for result in self._results.values():
            self._say(result=result)
        for asked, _ in self._calls.values():
            self._say(call=asked)
        if self._draining:
            self._say(drain=wire.Drain())
            self._rest()
        for each in first.more:
            self._heed(each)
        self._heard_s = asyncio.get_running_loop().time()
        parts = [
            asyncio.create_task(self._read_messages(call)),
            asyncio.create_task(self._beat(first.registered)),
            asyncio.create_task(self._idle.wait()),
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        for part in done:
            part.result()

    async def _beat(self, terms: wire.Registered) -> None:
        """Speak again and again; ends when the server has been silent for too long, or does not read."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + min(terms.heartbeat_s, terms.lease_s / 4)
            await asyncio.sleep(due_s - loop.time())
            if self._outbox is None:
                return  # a client that does not read may go on sending for ever
            self._say(heartbeat=wire.Heartbeat())
            if loop.time() - due_s > terms.lease_s / 2:
                self._heard_s = loop.time()  # this process stood still; what it was sent lies unread
            if loop.time() - self._heard_s > terms.lease_s:
                self._notify(f"The server has been silent for {terms.lease_s:g} s; connecting again.")
                return

    # --- What the server says -----------------------------------------------------------------------------------------

    async def _read_messages(self, call: Any) -> None:
        while (said := await call.read()) is not grpc.aio.EOF:
            self._heard_s = asyncio.get_running_loop().time()
            for each in (said, *said.more):
                self._heed(each)

    def _heed(self, message: wire.ToWorker) -> None:
        match message.WhichOneof("said"):
            case "assign":
                self._take(message.assign)
            case "answer":
                self._answered(message.answer)
            case "taken":
                self._results.pop(message.taken.job, None)
                self._rest()
            case "cancel":
                self._cancel(message.cancel)
            case "drain":
                self._notify("The server takes leave: it has no more work, what runs is finished.")
            case _:
                pass  # a heartbeat, or what a later version says

    def _take(self, assign: wire.Assign) -> None:
        body = self._bodies.get(assign.task)
        declined = "It takes nothing new." if self._draining else "" if body is not None else f"It has no {assign.task!r}."
        if assign.job not in self._jobs and assign.job not in self._results and (declined or body is None):
            self._say(ack=wire.Ack(job=assign.job, declined=declined))
            return
        self._say(ack=wire.Ack(job=assign.job))
        if assign.job in self._jobs or assign.job in self._results or body is None:
            return  # sent again: it is at work
        job = Job(assign.job, self, assign.pools, assign.timeout_s or None, assign.traceparent)
        task = asyncio.create_task(self._do(job, body, assign), name=f"holdfast-job-{assign.job}")
        self._jobs[assign.job] = (job, task)

    async def _do(self, job: Job, body: Callable[..., Any], assign: wire.Assign) -> None:
        enter(_ids_of(assign))
        try:
            result = await self._result(job, body, assign.arguments_json)
            if not job.cancelled:
                self._results[job.id] = result
                self._say(result=result)
        finally:
            del self._jobs[job.id]
            for key in [key for key in self._calls if key[0] == job.id]:
                self._calls.pop(key)[1].cancel()
            self._rest()

    async def _result(self, job: Job, body: Callable[..., Any], arguments_json: str) -> wire.Result:
        """Run the body and return its result, which may be an error."""
        try:
            arguments = msgspec.json.decode(arguments_json)
            names = list(inspect.signature(body).parameters)
            if (trace := trace_context_of(job.traceparent)) is not None:
                continue_trace(trace)
            output = await self._threads.run(body, dict(zip(names, (job, arguments), strict=False)))
            encoded = msgspec.json.encode(output)
        except asyncio.CancelledError:
            if job.cancelled or self._leaving:
                raise
            return wire.Result(job=job.id, failure=_failure(StepError("The task was cancelled in its worker.")))
        except Exception as problem:  # noqa: BLE001 - whatever a user's function raises becomes data
            return wire.Result(job=job.id, failure=_failure(problem))
        if len(encoded) > MESSAGE_BYTES - 4096:
            words = f"The output has {len(encoded)} bytes, and a message at most {MESSAGE_BYTES}. Return where it is instead."
            return wire.Result(job=job.id, failure=wire.Failure(error_class=VALIDATION, message=words))
        return wire.Result(job=job.id, output_json=encoded.decode())

    def _cancel(self, cancel: wire.Cancel) -> None:
        if not cancel.number:
            self._results.pop(cancel.job, None)
        job, task = self._jobs.get(cancel.job, (None, None))
        if job is not None and cancel.number:
            job.break_off(cancel.number)
        elif job is not None and task is not None:
            job.cancelled = True
            task.cancel()
        self._rest()

    def _rest(self) -> None:
        """Mark the worker as idle if it drains, and no job and no result is left."""
        if self._draining and not self._jobs and not self._results:
            self._idle.set()

    # --- What jobs ask for --------------------------------------------------------------------------------------------

    async def call(self, job: str, number: int, **request: Any) -> Any:
        """Keeps task.Asks."""
        call = wire.Call(job=job, number=number)
        if "done" in request:
            done = request["done"]
            call.next.CopyFrom(wire.Next(done_json="" if done is None else msgspec.json.encode(done).decode()))
        elif "tool" in request:
            arguments = msgspec.json.encode(request["arguments"]).decode()
            call.tool.CopyFrom(wire.ToolCall(name=request["tool"], arguments_json=arguments, key=request["key"] or ""))
        else:
            user = msgspec.json.encode(request["user"]).decode()
            call.model.CopyFrom(
                wire.ModelCall(
                    model=request["model"],
                    system=request["system"],
                    user_json=user,
                    max_tokens=request["max_tokens"] or 0,
                    temperature=request["temperature"],
                )
            )
        if call.ByteSize() > MESSAGE_BYTES:
            raise CallFailed(
                f"This call has {call.ByteSize()} bytes, and a message at most {MESSAGE_BYTES}.", error_class=VALIDATION
            )
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[job, number] = (call, answer)
        self._say(call=call)
        try:
            return await answer
        finally:
            self._calls.pop((job, number), None)

    def _answered(self, answer: wire.Answer) -> None:
        _, waiting = self._calls.get((answer.job, answer.number), (None, None))
        if waiting is None or waiting.done():
            return
        if answer.WhichOneof("came") == "failure":
            said = answer.failure
            waiting.set_exception(
                CallFailed(said.message, error_class=said.error_class, retryable=said.retryable, number=answer.number)
            )
        else:
            waiting.set_result(msgspec.json.decode(answer.value_json))

    def progress(self, job: str, text: str) -> None:
        """Keeps task.Asks."""
        if self._outbox is not None and len(self._outbox) < _MAX_WAITING // 2:
            self._say(progress=wire.Progress(job=job, text=text))

    async def line(self, job: str, text: str) -> None:
        """Keeps task.Asks."""
        await self._connected.wait()
        while self._outbox is None or not await self._outbox.has_room(_MAX_LINES):
            await self._connected.wait()
        self._say(progress=wire.Progress(job=job, text=text))


def _failure(problem: Exception) -> wire.Failure:
    """An exception of a body as data: what kind it is, and whether trying again may help."""
    inner = bare(problem)
    if isinstance(inner, CallFailed):
        return wire.Failure(error_class=inner.error_class, message=inner.message, retryable=inner.retryable, call=inner.number)
    kinds = [_kind(each) for each in leaves(problem)]
    klass, retryable = gravest([klass for klass, _ in kinds]), all(may for _, may in kinds)
    return wire.Failure(error_class=klass, message=text_of(problem)[:_MAX_WORDS], retryable=retryable)


def _kind(problem: BaseException) -> tuple[str, bool]:
    """The class of an error, and whether trying again may help."""
    kind = type(problem)
    if issubclass(kind, StepError):
        said = fact(problem, "error_class")
        return said if type(said) is str else ERROR, fact(problem, "retryable") is True
    return TIMEOUT if issubclass(kind, TimeoutError) else NETWORK if issubclass(kind, ConnectionError) else ERROR, True


def _ids_of(assign: wire.Assign) -> LogIds:
    """Return the ids that lines of a job have in the log of this process."""
    if (found := _JOB.fullmatch(assign.job)) is None:
        return NOWHERE
    run, step, attempt = found.groups()
    ids = LogIds(run, step, int(attempt), assign.tenant, assign.workflow)
    if assign.trace_id:  # a server of an earlier version names none
        ids.traceparent, ids.root = TraceContext(assign.trace_id).traceparent, run
    return ids
