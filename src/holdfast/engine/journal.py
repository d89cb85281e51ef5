"""The journal of one attempt: `ctx`, with which a step's code does things that must not be done twice.

A handler that runs again gets the recorded outcomes back and carries on at the first operation that has none. Paths are
positions; only `gather` gives concurrent branches paths of their own. Never here: rules (core), calling anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

import msgspec
from pydantic import BaseModel

from holdfast.authoring.plain import encode
from holdfast.authoring.tool import Tool
from holdfast.authoring.view import fields
from holdfast.core import commands as cmd
from holdfast.core import events as ev
from holdfast.core.events import Event
from holdfast.core.fence import match_operation
from holdfast.core.gates import TOOL_APPROVAL
from holdfast.core.graph import COMPENSATE
from holdfast.core.ids import (
    CallId,
    EffectKey,
    Path,
    RunId,
    StepId,
    Unique,
    gathers_around,
    named_effect_key,
    node_of,
    tenant_effect_key,
)
from holdfast.core.payload import NULL, Payload, digest
from holdfast.core.policies import ErrorRecord
from holdfast.core.state import Operation, State, Step
from holdfast.engine.remote import RemoteWorker, worker_of
from holdfast.errors import BlobLost, InvalidInput, NonDeterministicStep, OperationFailed, StaleAttempt, Suspended
from holdfast.ports import Clock, ModelReply, ModelRequest, Pace, PoolWaited, Recall, UserTurn

if TYPE_CHECKING:
    from holdfast.authoring.context import Context
    from holdfast.engine.attempt import Attempt
    from holdfast.engine.job_log import JobLog
    from holdfast.engine.payloads import Storage
    from holdfast.settings import ScriptLimits

T = TypeVar("T")

MOST_OPERATIONS: Final = 100_000
"""In one step; beyond that it should be a loop in the graph."""
MOST_AT_ONCE: Final = 200
"""Branches of one gather that are under way at a time: two appends' worth, one on its way to the disk and one gathering.
What is under way is looked through at each decision."""
_LONGEST_WAIT_S: Final = 10 * 366 * 86_400
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_GATHER: Final = "gather"
_PAGE: Final = 1000
_MOST_SHOWN: Final = 2000
"""Characters of arguments that a question shows."""
_RECORDED: Final = (ev.EffectIntended, ev.GateOpened, ev.TimerStarted)
_RESULT: Final = "result"
"""The kind of what `record` keeps."""


class Suspension(BaseException):
    """Leaves a handler whose step waits. Not an Exception, so that a handler's `except Exception` lets it through."""


class Abandonment(Suspension):
    """Leaves a handler whose attempt fails for a reason that no journal has: a replay may not meet it, so the code may
    not go on with it either."""

    def __init__(self, error: ErrorRecord) -> None:
        super().__init__(error.message)
        self.error = error


class Divergence(Suspension):
    """Leaves a handler whose code does not ask any more for what stands in the journal at `path`."""

    def __init__(self, path: Path, stands: Path, op: Operation, kind: str, name: str, asked: Any) -> None:
        """`stands` is where the operation is: at `path`, or in a branch of the gather that was there."""
        super().__init__(str(path))
        self.path = path
        self.stands = stands
        self.op = op
        self.asked = (kind, name, asked)


class Cursor:
    """Where a step, or a branch of a gather in it, is in its journal."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._next = 0
        self._busy = False
        self.left: Suspension | None = None
        """Why the code has to be left at a place here; it may have caught what said so."""

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        """The next place, for one operation at a time."""
        if self.left is not None:
            raise self.left
        if self._busy:
            raise NonDeterministicStep(
                "Two operations of one step overlap, so their places in the journal would depend on chance."
                " Use ctx.gather(...) for operations that are to run at the same time."
            )
        if self._next >= MOST_OPERATIONS:
            raise NonDeterministicStep(f"A step may have {MOST_OPERATIONS} operations; make it a loop in the graph.")
        self._busy = True
        path = Path(f"{self.prefix}{self._next}")
        self._next += 1
        try:
            yield path
        except Suspension as why:
            self.left = why
            raise
        finally:
            self._busy = False


_cursor: ContextVar[Cursor] = ContextVar("holdfast_cursor")


class Talk(Protocol):
    """One exchange with a model inside a step, as `conversation.talk` has it."""

    def __call__(
        self, context: StepContext, prompt: Any, *, model: str, max_tokens: int | None, output: type[BaseModel] | None,
        temperature: float | None,
    ) -> Awaitable[Any]: ...  # fmt: skip


class StepContext:
    """What a handler gets as `ctx`. Keeps the Journal port for the gateway and the tool executor."""

    def __init__(self, attempt: Attempt, talk: Talk) -> None:
        """`talk` has an exchange with a model, operation by operation of this very context."""
        self._attempt = attempt
        self._talk = talk
        self._services = attempt.services
        self._runtime = attempt.services.runtime
        self._values: list[cmd.Value] = []
        self.run: RunId = attempt.run
        self.tenant: str = attempt.tenant
        self.step: StepId = attempt.step
        self.provisional = False
        """Set by a handler whose output tells of a failure: should the run fail and be taken up, the step is too."""
        self._before = Step(attempt.step)
        """The step as this attempt found it: what earlier attempts left in its journal."""
        self._gathered: dict[Path, Path] = {}
        """The places of gathers in what earlier attempts left, and of each its first operation."""
        self._diverged: Divergence | None = None
        """Why nothing more is to be begun here."""
        self._keys: dict[CallId, EffectKey] = {}
        self._sent_ms: dict[CallId, int] = {}

    # --- What handlers call ------------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return self.run

    @property
    def failures(self) -> int:
        """How many attempts of this step have failed so far; lost and suspended ones do not count."""
        return self._before.failures

    @property
    def pace(self) -> Pace | None:
        """Within what its model calls have to stay; None where nothing was reserved for the step."""
        return self._attempt.pace

    @property
    def worker(self) -> RemoteWorker | None:
        """The connected worker that does this step's work; None where this process does it."""
        return worker_of(self._attempt)

    @property
    def clock(self) -> Clock:
        """For how long something takes; what the time is, `now` says."""
        return self._runtime.clock

    def redact(self, text: str) -> str:
        """`text` without the value of any known secret, for what leaves by another way than the history."""
        return self._services.payloads.redact(text)

    @property
    def script_limits(self) -> ScriptLimits:
        """How far a script may go, where its file says nothing."""
        return self._services.script_limits

    @contextmanager
    def tidying(self) -> Iterator[bool]:
        """For what is done after this attempt was called off: whether that was because its run is cancelled. Only then is
        it let finish, and it sees to a bound itself. Nothing of it is recorded."""
        self._attempt.is_tidying = self._attempt.run_is_cancelled
        try:
            yield self._attempt.run_is_cancelled
        finally:
            self._attempt.is_tidying = False

    def keep_in(self, storage: Storage) -> None:
        """Where the values of this attempt go from now on: its output, and what it records."""
        self._attempt.storage = storage

    def kept_log(self, job: str) -> JobLog:
        """Where what the step prints is kept for people; `job` is what they call it."""
        return self._services.job_logs.begin(self._attempt.run, job, self._attempt.number)

    async def aside(self, work: Callable[[], T]) -> T:
        """What `work` returns, worked out in a thread: the event loop is not kept from others."""
        done: T = await self._services.threads.run(work, {})
        return done

    def secret(self, name: str) -> str:
        """A secret's value, which is replaced wherever it would be stored. Raises MissingSecret."""
        return self._services.secrets.get(name)

    def now(self) -> datetime.datetime:
        """The time, in UTC; a replay sees the same. Recorded with the next commit."""
        with self._place() as path:
            op = self._match(self._before, path, "now", "now", "")
            if op is None or op.outcome is None:
                at_ms = self._runtime.store.now_ms()
                self._values.append(cmd.Value(path, "now", at_ms))
            else:
                at_ms = op.outcome.value()
        return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)

    def uuid(self) -> uuid.UUID:
        """A UUID that belongs to this place in this step: a replay gets the same."""
        with self._place() as path:
            self._match(self._before, path, "uuid", "uuid", "")
            return uuid.uuid5(uuid.NAMESPACE_OID, f"{self.run}/{self.step}/{path}")

    async def model(
        self,
        model: str,
        user: Any = None,
        *,
        system: str = "",
        max_tokens: int | None = None,
        output: type[BaseModel] | None = None,
        temperature: float | None = None,
    ) -> Any:
        """One model call: its text, or with `output` an object that fits that model (with one chance to mend it)."""
        prompt = {"system": system, "user": user}
        return fields(
            await self._talk(self, prompt, model=model, max_tokens=max_tokens, output=output, temperature=temperature)
        )

    async def tool(
        self, name: str | Tool, arguments: dict[str, Any] | None = None, /, *, key: str | None = None,
        unique: Unique = "run", **named: Any,
    ) -> Any:  # fmt: skip
        """Call a tool that this node lists, its arguments as an object or by name.

        `key` names the effect by what it is, `unique` in the run or in the tenant: whoever means the same thing gets the
        same outcome, and waits for it while another has it in flight.
        """
        label = name.name if isinstance(name, Tool) else name
        if unique not in ("run", "tenant") or (unique == "tenant" and key is None):
            raise ValueError(
                f"unique={unique!r}: an effect's key is unique in the 'run' or, where one is given, 'tenant'"
            )
        return await self.call_tool(label, {**(arguments or {}), **named}, key=key, unique=unique)

    async def sleep(
        self,
        seconds: float = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Wait, for seconds or months; nothing is held meanwhile."""
        wait_s = seconds + 60 * minutes + 3600 * hours + 86_400 * days
        if not 0 <= wait_s <= _LONGEST_WAIT_S:
            raise ValueError(f"a step can sleep for 0 to {_LONGEST_WAIT_S} seconds, not for {wait_s}")
        with self._place() as path:
            await self._timer(path, digest(["sleep", wait_s]), int(wait_s * 1000))

    async def ask(
        self,
        question: Any,
        *,
        form: type[BaseModel] | None = None,
        reviewers: Sequence[str] = (),
        timeout_s: float | None = None,
        remind_every_s: float | None = None,
        cancel_after_s: float | None = None,
        decisions: Sequence[str] = ("answer", "approve", "edit", "reject"),
    ) -> Any:
        """Ask a person; returns `decision`, `data`, `by` and `reason`. Nothing is held while nobody answers."""
        with self._place() as path:
            args_hash = digest(["question", msgspec.json.decode(encode(question))])
            shape = form.model_json_schema() if form is not None else None
            answer = await self._gate(
                path, "question", args_hash, shown=question, allowed=tuple(decisions), form=shape, filled={},
                reviewers=tuple(reviewers), timeout_s=timeout_s, remind_every_s=remind_every_s,
                cancel_after_s=cancel_after_s,
            )  # fmt: skip
        return fields(answer)

    async def wait_signal(self, name: str, *, timeout_s: float | None = None) -> Any:
        """The data of the next signal `name`. Raises OperationFailed (class `timeout`) after `timeout_s`."""
        with self._place() as path:
            args_hash = digest(["signal", name, timeout_s])
            known = await self.recall(path, "signal", name, args_hash, {"timeout_s": timeout_s})
            if known is None:
                timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
                await self._send(
                    cmd.AwaitSignal(self.step, self._number, path, name, args_hash, timeout_ms, values=self._take())
                )
                known = await self._settled(path, "signal", name, args_hash)
        return fields(_value(known, path))

    async def gather(self, *branches: Awaitable[Any]) -> list[Any]:
        """Run operations at the same time, each branch with a place of its own; their results in order.

        Every branch gets as far as it can, at most 200 of them at a time: more than that begin as others end or have to
        wait. Then the first branch without a result (by position, so that a replay sees the same) decides: its error is
        raised, or the step waits for it.
        """
        turn = asyncio.Semaphore(MOST_AT_ONCE)

        async def in_turn(branch: Awaitable[Any], prefix: str) -> Any:
            async with turn:
                return await _branch(branch, prefix)

        with self._place() as path:
            try:
                self._match(self._before, path, _GATHER, _GATHER, "")
            except Divergence:
                for branch in filter(asyncio.iscoroutine, branches):
                    branch.close()
                raise
            tasks = [asyncio.create_task(in_turn(branch, f"{path}.{i}.")) for i, branch in enumerate(branches)]
            try:
                results = await asyncio.gather(*tasks, return_exceptions=True)
            except asyncio.CancelledError:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for branch in filter(asyncio.iscoroutine, branches):
                    branch.close()  # those whose turn had not come
                raise
        diverged = [result for result in results if isinstance(result, Divergence)]
        for result in (*diverged, *results):
            if isinstance(result, Suspension):
                _cursor.get().left = result
            if isinstance(result, BaseException):
                raise result
        return list(results)

    async def apart(self, name: str, branch: Awaitable[T]) -> T:
        """Run operations at a place that has a name instead of a position: what comes before it may differ from attempt
        to attempt. A name stands for one place in its step, or in its branch of a gather; it has no '.' and no ':'.

        Branches under different names may run at the same time.
        """
        cursor = _cursor.get()
        task = asyncio.create_task(_branch(branch, f"{self._named(name)}."))
        try:
            return await task
        except Suspension as why:
            cursor.left = why
            raise

    async def record(self, name: str, result: Any) -> None:
        """Keep what this step, or its branch of a gather, has come to under a name: from now on `recorded` gives it to every
        later attempt, also to one that follows a failure. `result` is JSON data, not null."""
        path, kept = self._named(name), await self._keep(result)
        values = (*self._take(), cmd.Value(path, _RESULT, None, kept))
        await self._send(cmd.RecordValues(self.step, self._number, values))

    async def recorded(self, name: str) -> Any:
        """What an earlier attempt of this step has recorded at this place under a name; None if none has."""
        op = self._match(self._before, self._named(name), _RESULT, _RESULT, "")
        return None if op is None else await self.value(op.outcome or NULL)

    # --- What the engine's own steps call ----------------------------------------------------------------------------

    async def call_model(self, request: ModelRequest, cheaper: Sequence[ModelRequest] = ()) -> ModelReply:
        with self._place() as path:
            return await self._services.gateway.call(self, path, request, cheaper)

    async def call_tool(
        self, name: str, arguments: Any, *, key: str | None = None, unique: Unique = "run",
        compensates: CallId | None = None,
        allowed: Mapping[str, Tool] | None = None,
    ) -> Any:  # fmt: skip
        asked = self._services.payloads.redact(name)  # of a tool that nobody offered, any text
        with self._place() as path:
            return fields(
                await self._services.tools.call(
                    self, path, asked, arguments, allowed=self._attempt.tools if allowed is None else allowed, key=key,
                    unique=unique, compensates=compensates,
                )
            )  # fmt: skip

    async def open_gate(self, shown: dict[str, Any], **options: Any) -> None:
        """The gate that is the whole step; the person's decision completes it."""
        args_hash = digest(["gate", shown])
        self._match(self._before, Path("0"), "gate", "approval", args_hash, shown)
        await self._open(Path("0"), "approval", args_hash, shown=shown, completes_step=True, **options)

    async def open(self) -> None:
        """See what earlier attempts left. Raises StaleAttempt if the step has moved on already."""
        self._before = self._current(await self._attempt.state())
        self._gathered = {place: path for path in reversed(self._before.journal) for place in gathers_around(path)}

    def take_values(self) -> tuple[cmd.Value, ...]:
        """What the step looked at since its last commit, for the command that carries it."""
        return self._take()

    # --- The Journal port --------------------------------------------------------------------------------------------

    async def recall(self, path: Path, kind: str, name: str, args_hash: str, asked: Any = None) -> Recall | None:
        state = await self._attempt.state()
        op = self._match(self._current(state), path, kind, name, args_hash, asked)
        if op is None or op.status in ("reopened", "deferred"):
            return None
        if op.status == "done":
            return Recall(await self.value(op.outcome or NULL))
        if op.status == "failed":
            return Recall(error=op.error)
        if op.status == "unverified" and op.call is not None:
            call = state.calls[op.call]
            self._keys[op.call], self._sent_ms[op.call] = call.key or EffectKey(""), call.at_ms
            return Recall(unverified=call, call=op.call)
        raise Suspension

    def error(
        self, error_class: str, message: str, *, retryable: bool = False, tool: str | None = None,
        retry_after_s: float | None = None, trace: str | None = None,
    ) -> ErrorRecord:  # fmt: skip
        text, told = self.redact(message), None if trace is None else self.redact(trace)
        return ErrorRecord(
            node_of(self.step), error_class, text, retryable, self._runtime.store.now_ms(), tool, retry_after_s, told
        )

    def waited(self, model: str, pools: Sequence[str], took_s: float) -> None:
        if self._runtime.runs.observers:
            self._runtime.runs.observers.notify(PoolWaited(self.run, self.step, model, tuple(pools), took_s))

    def may_send(self) -> bool:
        return self._runtime.membership.alive(self._attempt.session)

    async def outside(self, call: Coroutine[Any, Any, T]) -> T:
        return await self._attempt.outside(call)

    async def hold(self, path: Path, model: str, args_hash: str, offers: Sequence[cmd.Offer]) -> tuple[CallId, int]:
        command = cmd.HoldModelCall(self.step, self._number, path, model, args_hash, tuple(offers), values=self._take())
        for event in await self._intend(command):
            if isinstance(event, ev.ModelCallHeld):
                return event.call, event.offer
        raise Suspension  # the money is not there, or another call of this operation is in flight

    async def settle(self, call: CallId, cost_nanousd: int, input_tokens: int, output_tokens: int, output: Any) -> Any:
        kept = await self._keep(output)
        await self._outcome(cmd.SettleModelCall(call, cost_nanousd, input_tokens, output_tokens, kept))
        return await self.value(kept)

    async def refuse(self, call: CallId, error: ErrorRecord) -> None:
        await self._outcome(cmd.FailModelCall(call, error))

    async def unsent(self, call: CallId, error: ErrorRecord) -> NoReturn:
        await self._outcome(cmd.FailModelCall(call, error, reopens=True))
        raise Suspension

    async def withdraw(self, call: CallId, error: ErrorRecord) -> None:
        await self._attempt.report(cmd.FailModelCall(call, error, reopens=True))

    async def doubt(self, call: CallId, error: ErrorRecord, output: Any = None, *, reopens: bool = False) -> Any:
        kept = None if output is None else await self._keep(output)
        await self._outcome(cmd.DoubtModelCall(call, error, kept, reopens))
        return None if kept is None else await self.value(kept)

    async def intend(
        self, path: Path, tool: str, policy: str, args_hash: str, request: Any, *, key_name: str | None, unique: Unique,
        settles_within_s: float | None, compensation: str | None, compensates: CallId | None,
    ) -> CallId | Recall:  # fmt: skip
        wide = unique == "tenant"
        key = None
        if key_name is not None:
            key = (
                tenant_effect_key(self.tenant, key_name, tool) if wide
                else named_effect_key(self.tenant, self.run, key_name, tool)
            )  # fmt: skip
        command = cmd.IntendEffect(
            self.step, self._number, path, tool, policy, args_hash, await self._keep(request), key, settles_within_s,
            compensation, compensates, values=self._take(), tenant_wide=wide,
        )  # fmt: skip
        for event in await self._intend(command):
            if isinstance(event, ev.EffectIntended):
                self._keys[event.call] = event.key
                return event.call
        known = await self.recall(path, "tool", tool, args_hash)
        if known is None:
            raise Suspension  # another call means the same effect and is in flight
        return known

    def key_of(self, call: CallId) -> EffectKey:
        return self._keys[call]

    def sent_at_ms(self, call: CallId) -> int:
        return self._sent_ms[call]

    async def complete(self, call: CallId, response: Any) -> Any:
        kept = await self._keep(response)
        await self._outcome(cmd.CompleteEffect(call, kept))
        return await self.value(kept)

    async def fail(self, call: CallId, error: ErrorRecord) -> None:
        await self._outcome(cmd.FailEffect(call, error))

    async def release(self, call: CallId) -> NoReturn:
        await self._attempt.report(cmd.ReleaseEffect(call))
        raise Suspension

    async def doubt_effect(self, call: CallId, error: ErrorRecord, *, reopens: bool = False) -> None:
        for event in await self._attempt.report(cmd.DoubtEffect(call, error, reopens)):
            if isinstance(event, ev.EffectInDoubt) and not reopens:
                raise Suspension  # its lookup or a person will say

    def abandon(self, error: ErrorRecord) -> NoReturn:
        raise Abandonment(error)

    async def reopen(self, call: CallId) -> None:
        await self._outcome(cmd.ReopenEffect(call))

    async def deny(self, path: Path, tool: str, args_hash: str, error: ErrorRecord) -> None:
        await self._send(cmd.DenyToolCall(self.step, self._number, path, tool, args_hash, error, values=self._take()))

    async def approve(self, path: Path, tool: str, args_hash: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask a person about one call of a tool, with the tool's schema as the form."""
        answer: dict[str, Any] = await self._gate(
            Path(f"{path}.approval"), TOOL_APPROVAL, args_hash,
            shown={"tool": tool, "arguments": arguments}, allowed=("approve", "edit", "reject"),
            form=self._attempt.tools[tool].schema, filled=arguments,
        )  # fmt: skip
        return answer

    async def wait_until(self, path: Path, due_at_ms: int) -> None:
        await self._timer(path, digest(["until", due_at_ms]), max(0, due_at_ms - self._runtime.store.now_ms()))

    # --- How it is done ----------------------------------------------------------------------------------------------

    @property
    def _number(self) -> int:
        return self._attempt.number

    def _match(
        self, step: Step, path: Path, kind: str, name: str, args_hash: str, asked: Any = None
    ) -> Operation | None:
        """The operation at `path`. Where another one stands there, or a part of one, the step is left, whatever its code makes
        of that; only what undoes a run hears of it as of an error, about which a person is asked anyway."""
        if self._diverged is not None:
            raise self._diverged
        stands = path if path in step.journal or kind == _GATHER else self._gathered.get(path, path)
        try:
            return match_operation(step, stands, kind, name, args_hash)
        except NonDeterministicStep:
            if node_of(self.step) == COMPENSATE:
                raise
            self._diverged = Divergence(path, stands, step.journal[stands], kind, name, asked)
            raise self._diverged from None

    async def told(self, left: Divergence) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the journal holds and what the code asks for, for people."""
        kind, name, asked = left.asked
        recorded = await self._recorded(left.stands)
        return self._described(left.op.kind, left.op.name, recorded), self._described(kind, name, asked)

    def _described(self, kind: str, name: str, arguments: Any) -> dict[str, Any]:
        redact = self._services.payloads.redact
        try:
            text = redact(encode(arguments).decode())
        except InvalidInput:
            text = redact(repr(arguments))
        shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"
        operation = kind if kind == name else f"{kind} {redact(name)!r}"
        return {"operation": operation} if arguments is None else {"operation": operation, "arguments": shown}

    async def _recorded(self, path: Path) -> Any:
        """The arguments of the operation at `path`, as far as the history has them: not what a model was asked."""
        store, found, after = self._runtime.store, None, 0
        while page := await self._attempt.patiently(partial(store.events, self.run, after, _PAGE)):
            for each in page:
                event: Any = each.event
                if isinstance(event, _RECORDED) and (event.step, event.path) == (self.step, path):
                    found = each
            after = page[-1].seq
        match found.event if found is not None else None:
            case ev.EffectIntended() as intent:
                return await self._shown(intent.request)
            case ev.GateOpened() as gate:
                return await self._shown(gate.shown)
            case ev.TimerStarted() as timer if found is not None:
                return {"seconds": (timer.due_at_ms - found.at_ms) / 1000}
            case _:
                return None

    async def _shown(self, payload: Payload) -> Any:
        try:
            return await self.value(payload)
        except BlobLost as lost:
            return lost.message

    def _named(self, name: str) -> Path:
        """The place of that name in this step, or in this branch of it."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no place; use a letter, followed by letters, digits, '_' and '-'")
        return Path(f"{_cursor.get().prefix}{name}")

    def _place(self) -> contextlib.AbstractContextManager[Path]:
        return _cursor.get().place()

    def _take(self) -> tuple[cmd.Value, ...]:
        taken, self._values = tuple(self._values), []
        return taken

    async def _keep(self, value: Any) -> Payload:
        now_ms = self._attempt.keeping_ms
        return await self._attempt.patiently(
            lambda: self._services.payloads.keep(value, self.tenant, now_ms, self._attempt.storage)
        )

    async def value(self, payload: Payload) -> Any:
        """What `payload` holds."""
        if payload.blob is None:
            return payload.value()
        return await self._attempt.patiently(lambda: self._services.payloads.value(payload, self.tenant))

    async def _send(self, command: cmd.AttemptCommand) -> list[Event]:
        """Have an intent committed; leave the step when nothing new may begin."""
        try:
            return await self._attempt.send(command)
        except Suspended:
            raise Suspension from None

    async def _intend(self, command: cmd.AttemptCommand) -> list[Event]:
        """The same for the intent of a call."""
        try:
            return await self._attempt.intend(command)
        except Suspended:
            raise Suspension from None

    async def _outcome(self, command: cmd.CallCommand) -> None:
        """Have an outcome committed: it is accepted whatever became of this attempt.

        In the engine's own steps it is only posted, and leaves with the command that follows from it in the same turn.
        No user's code runs in between, and nothing more leaves the process before it is durable.
        """
        if self._attempt.posts_outcomes:
            self._attempt.post(command)
        else:
            await self._attempt.report(command)

    def _current(self, state: State) -> Step:
        step = state.step(self.step)
        if step is None or step.attempt != self._number or step.status != "active":
            raise StaleAttempt(f"Attempt {self._number} of step {self.step} is over; what follows is another's work.")
        return step

    async def _settled(self, path: Path, kind: str, name: str, args_hash: str) -> Recall:
        """The outcome at `path`, if its commit brought one at once; leaves the step if not."""
        known = await self.recall(path, kind, name, args_hash)
        if known is None:
            raise Suspension
        return known

    async def _timer(self, path: Path, args_hash: str, wait_ms: int) -> None:
        known = await self.recall(path, "sleep", "sleep", args_hash, {"seconds": wait_ms / 1000})
        if known is None:
            await self._send(cmd.StartTimer(self.step, self._number, path, args_hash, wait_ms, values=self._take()))
            raise Suspension

    async def _gate(self, path: Path, reason: str, args_hash: str, **options: Any) -> Any:
        known = await self.recall(path, "gate", reason, args_hash, options["shown"])
        if known is None:
            await self._open(path, reason, args_hash, **options)
            known = await self._settled(path, "gate", reason, args_hash)
        return _value(known, path)

    async def _open(
        self, path: Path, reason: str, args_hash: str, *, shown: Any, allowed: tuple[str, ...],
        form: dict[str, Any] | None, filled: Any, reviewers: tuple[str, ...] = (), four_eyes: bool = False,
        timeout_s: float | None = None, remind_every_s: float | None = None, cancel_after_s: float | None = None,
        completes_step: bool = False,
    ) -> None:  # fmt: skip
        kept = await self._keep(shown)
        asked = tuple(self._services.payloads.redact(name) for name in reviewers)
        await self._send(
            cmd.OpenGate(
                self.step, self._number, path, reason, args_hash, kept, digest(await self.value(kept)), allowed,
                form, await self._keep(filled), asked, four_eyes, _ms(timeout_s), _ms(remind_every_s),
                _ms(cancel_after_s), completes_step, values=self._take(),
            )
        )  # fmt: skip


if TYPE_CHECKING:
    _promised: type[Context] = StepContext


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _value(known: Recall, path: Path) -> Any:
    if known.error is not None:
        raise OperationFailed(known.error.message, error=known.error, path=path)
    return known.value


async def _branch(branch: Awaitable[T], prefix: str) -> T:
    _cursor.set(Cursor(prefix))
    return await heeding(branch)


async def heeding(code: Awaitable[T]) -> T:
    """Run a step's code, or a branch of it. Where an operation has to be waited for it is left, even if the code has
    caught what said so (a bare `except:`, a task group): what it made of that counts for nothing."""
    try:
        result = await code
    except (Suspension, asyncio.CancelledError):
        raise
    except BaseException:
        if (left := _cursor.get().left) is not None:
            raise left from None
        raise
    if (left := _cursor.get().left) is not None:
        raise left
    return result


def begin() -> None:
    """Put the journal's position at the start of the step, in this task's context."""
    _cursor.set(Cursor(""))


def prompt_turns(user: Any) -> tuple[UserTurn, ...]:
    """A prompt's user part as turns; what is not text goes as JSON."""
    return (UserTurn(user if isinstance(user, str) else encode(user).decode()),)
