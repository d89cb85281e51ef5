"""The model calls of a program that a step runs: each answered from the step's journal, or made.

The program has no code here, so a call has no place: it is found by its hash. A program that is started again sends the
requests that it sent before, and gets the recorded replies, until the first that was never answered. Never here: a wire format,
HTTP, the program itself, what a call may cost (models.gateway).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import Operation
from holdfast.core.values.ids import CallId, Path
from holdfast.core.values.model_request import AFTER, restored
from holdfast.core.values.money import usd
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import LIMIT, NON_DETERMINISTIC
from holdfast.engine.attempts.cursor import Suspension, cursor
from holdfast.engine.attempts.journal import StepJournal
from holdfast.errors import CallsStopped
from holdfast.models.forwarded.normal import first_difference
from holdfast.models.forwarded.requests import kept_form
from holdfast.ports import ForwardedReply, ForwardedRequest, ReplyWriter

if TYPE_CHECKING:
    from holdfast.ports import ForwardedCalls

OnChange: TypeAlias = Literal["stop", "live"]
"""The answer to a program that asks for something else than before: its calls are refused, or made."""

PATIENCE_S: Final = 5.0
"""The time that an unrecorded call waits while recorded replies are left: parallel parts of a program send their calls in
another order each time."""
MAX_CALLS: Final = 10_000
"""Of one step."""
MAX_AT_ONCE: Final = 100
_MAX_UNDELIVERED: Final = 64
_PAGE: Final = 1_000


class _Call:
    """A call that is under way, or whose reply waits for its program. Keeps ReplyWriter for the gateway."""

    def __init__(self, args_hash: str) -> None:
        self.args_hash = args_hash
        self.task: asyncio.Task[ForwardedReply] | None = None
        self._writer: ReplyWriter | None = None
        self._pieces: list[str] = []
        self._bought: int | None = None
        self._has_begun = False

    @property
    def is_read(self) -> bool:
        return self._writer is not None

    def begin(self, max_tokens: int | None) -> None:
        self._has_begun, self._bought = True, max_tokens
        if self._writer is not None:
            self._writer.begin(max_tokens)

    def tell(self, piece: str) -> None:
        self._pieces.append(piece)
        if self._writer is not None:
            self._writer.tell(piece)

    async def read(self, writer: ReplyWriter, *, is_stream: bool) -> ForwardedReply:
        """Return the reply, of which `writer` gets all that has come so far and the rest as it comes."""
        assert self.task is not None
        self._writer = writer
        try:
            if self._has_begun:
                writer.begin(self._bought)
                for piece in self._pieces:
                    writer.tell(piece)
            reply = await asyncio.shield(self.task)
            if is_stream and not self._has_begun:  # it was recorded
                writer.begin(reply.max_tokens)
                for piece in reply.pieces:
                    writer.tell(piece)
            return reply
        finally:
            self._writer = None


class _Recorded(NamedTuple):
    """A call that an earlier attempt has begun."""

    path: Path
    operation: Operation

    @property
    def is_answered(self) -> bool:
        return self.operation.status == "done"


class ProgramCalls:
    """Keeps ports.ForwardedCalls for one attempt."""

    def __init__(
        self,
        journal: StepJournal,
        prefix: str,
        *,
        on_change: OnChange = "stop",
        on_difference: Callable[[], None] | None = None,
        may_lower: bool = True,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`prefix` begins the paths of the calls. `on_difference` is called when calls are refused as the program asks for
        something else than before. Without `may_lower` a call has its own maximum of output or is refused."""
        self.run, self.step = journal.run, journal.step
        self.stopped: CallsStopped | None = None
        """Why calls are refused, once they are."""
        self._journal = journal
        self._prefix = prefix
        self._is_live = on_change == "live"
        self._on_difference = on_difference
        self._may_lower = may_lower
        self._patience_s = patience_s
        self._context = copy_context()
        self._left: Suspension | None = None
        """Why the step is to be left when the program has ended."""
        earlier = _recorded_calls(journal, prefix)
        self._recorded = [each for each in earlier if not _is_an_end(each, () if self._is_live else earlier)]
        """Calls of earlier attempts that this program has not asked for yet, in their order."""
        self._next = 1 + max((_number(each.path, prefix) for each in earlier), default=-1)
        self._under_way: set[asyncio.Task[ForwardedReply]] = set()
        self._waiting_for_room = 0
        self._undelivered: dict[str, list[_Call]] = {}
        self._delivered: dict[str, _Call] = {}
        self._moved = asyncio.Event()
        """Set and replaced when a recorded call was asked for, or one under way has ended."""

    async def forward(self, request: ForwardedRequest, writer: ReplyWriter) -> ForwardedReply:
        """Return the reply to a request; see ports.ForwardedCalls."""
        args_hash = digest(request.compared())
        call = self._undelivered_call(args_hash)
        if call is None:
            path = await self._place(request, args_hash)
            call = self._begin(path, request, args_hash)
        try:
            reply = await call.read(writer, is_stream=request.stream)
        except asyncio.CancelledError:
            self._keep_undelivered(call)
            raise
        self._delivered.pop(args_hash, None)
        self._delivered[args_hash] = call
        if len(self._delivered) > _MAX_UNDELIVERED:
            del self._delivered[next(iter(self._delivered))]
        return reply

    def undelivered(self, request: ForwardedRequest) -> None:
        """Have the reply to that request answer the next identical one; see ports.ForwardedCalls."""
        if (call := self._delivered.pop(digest(request.compared()), None)) is not None:
            self._keep_undelivered(call)

    async def finish(self) -> None:
        """Wait for the calls that are under way, once the program has ended, and leave the step where its run has to wait.

        Raises OperationFailed (class `non_deterministic`) where the program has asked for something else than before.
        """
        while self._under_way:
            await asyncio.wait(self._under_way)
        if self._left is not None:
            raise self._left
        if self.stopped is not None:
            error = self._journal.error(NON_DETERMINISTIC, self.stopped.message)
            raise self._journal.failure(error, None)

    async def cancel(self) -> None:
        """Give the calls up that are under way: their outcomes are recorded as of any call whose attempt has ended."""
        self._stop(CallsStopped(f"Step {self.step} has ended. Nothing was called.", reason="left"))
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    # --- Which call it is ---------------------------------------------------------------------------------------------

    def _undelivered_call(self, args_hash: str) -> _Call | None:
        """A call of that request whose reply its program has not got."""
        for call in self._undelivered.get(args_hash, ()):
            if not call.is_read and call.task is not None and not _has_failed(call.task):
                self._undelivered[args_hash].remove(call)
                return call
        self._undelivered.pop(args_hash, None)
        return None

    def _keep_undelivered(self, call: _Call) -> None:
        self._undelivered.setdefault(call.args_hash, []).append(call)
        if len(self._undelivered) > _MAX_UNDELIVERED:
            del self._undelivered[next(iter(self._undelivered))]

    async def _place(self, request: ForwardedRequest, args_hash: str) -> Path:
        """The place of the call in the journal: a recorded one, or the next. Raises CallsStopped."""
        while True:
            found = next((each for each in self._recorded if _is_of(each.operation, request.model, args_hash)), None)
            if found is not None:
                self._recorded.remove(found)
                self._move()
                return found.path
            if self.stopped is not None:
                raise self.stopped
            answered = next((each for each in self._recorded if each.is_answered), None)
            if answered is None or self._is_live:
                break
            if not await self._is_moved():
                refusal = self._stop(await self._difference(answered, request))
                if self._on_difference is not None:
                    self._on_difference()
                raise refusal
        if self._next >= MAX_CALLS or len(self._under_way) >= MAX_AT_ONCE:
            raise CallsStopped(
                f"The program has made {self._next} model calls, {len(self._under_way)} are under way; a step makes at most"
                f" {MAX_CALLS:,}, and {MAX_AT_ONCE} at once. Nothing was called.",
                reason="limit",
            )
        self._next += 1
        return Path(f"{self._prefix}{self._next - 1}")

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _is_moved(self) -> bool:
        """Wait until another recorded call was asked for; False if none was in time."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def _difference(self, recorded: _Recorded, request: ForwardedRequest) -> CallsStopped:
        """Name the call that was recorded, and the field in which the request differs from it."""
        number = _number(recorded.path, self._prefix) + 1
        here = f"Call {number} of the program ({recorded.operation.name}, {recorded.operation.call})"
        before = await _kept_request(self._journal, recorded.operation.call)
        now = self._journal.attempt.services.requests.comparable(self._journal.attempt.workflow, kept_form(request))
        found = None if before is None or now is None else first_difference(before, now)
        what = "is another than it was; of its request only the hash is kept (setting keep_requests)"
        if found is not None:
            was, is_ = (each or "nothing" for each in (found.before, found.now))
            what = f"differs in {found.field.removeprefix('request.').replace('.replay', '')}: it was {was}, and is now {is_}"
        return CallsStopped(
            f"{here} {what}. Nothing was called. Start the program as before, or let it go on live from there.",
            reason="difference",
        )

    # --- Making it ----------------------------------------------------------------------------------------------------

    def _begin(self, path: Path, request: ForwardedRequest, args_hash: str) -> _Call:
        call = _Call(args_hash)
        call.task = task = asyncio.create_task(self._reply(path, request, call), context=self._context)
        self._under_way.add(task)
        task.add_done_callback(self._end)
        return call

    def _end(self, task: asyncio.Task[ForwardedReply]) -> None:
        self._under_way.discard(task)
        self._move()
        if not task.cancelled():
            task.exception()  # its client may be gone

    async def _reply(self, path: Path, request: ForwardedRequest, call: _Call) -> ForwardedReply:
        gateway = self._journal.attempt.services.gateway
        while True:
            try:
                return await gateway.forward(self._journal, path, request, call, may_lower=self._may_lower)
            except Suspension as why:
                if not await self._may_have_room(path):
                    self._left = self._left or why
                    raise self._stop(await self._reason(path)) from None

    async def _may_have_room(self, path: Path) -> bool:
        """Wait for another call of the program to end where this one was deferred: it may leave what this one needs."""
        operation = (await self._step()).get(path)
        if operation is None or operation.status != "deferred" or operation.blocked:
            return False
        if len(self._under_way) - self._waiting_for_room <= 1:
            return False
        self._waiting_for_room += 1
        try:
            await self._moved.wait()
        finally:
            self._waiting_for_room -= 1
        return True

    async def _step(self) -> Mapping[Path, Operation]:
        step = (await self._journal.attempt.state()).step(self.step)
        return {} if step is None else step.journal

    async def _reason(self, path: Path) -> CallsStopped:
        """Say why nothing is called any more."""
        state = await self._journal.attempt.state()
        step, budget = state.step(self.step), state.budget
        operation = None if step is None else step.journal.get(path)
        if operation is None or operation.status != "deferred":
            return CallsStopped(f"Run {self.run} takes no more calls for now. Nothing was called.", reason="left")
        if budget.limit_nanousd is not None and budget.committed_nanousd + operation.needed_nanousd > budget.limit_nanousd:
            return CallsStopped(
                f"Cost limit of run {self.run} reached: ${usd(budget.committed_nanousd)} of ${usd(budget.limit_nanousd)} is"
                f" spent, held or in doubt, and the call may cost ${usd(operation.needed_nanousd)}. Nothing was called. Raise"
                f" it with: holdfast budget raise {self.run}",
                reason=LIMIT,
            )
        return CallsStopped(
            f"A limit of run {self.run} is reached: holdfast runs show {self.run} says which. Nothing was called.", reason=LIMIT
        )

    def _stop(self, reason: CallsStopped) -> CallsStopped:
        self.stopped = self.stopped or reason
        self._move()
        return self.stopped


if TYPE_CHECKING:
    _kept: type[ForwardedCalls] = ProgramCalls


@asynccontextmanager
async def program_calls(journal: StepJournal, name: str, **options: Any) -> AsyncIterator[ProgramCalls]:
    """The calls of a program that runs inside, at places below `name`; see ProgramCalls. At the end none is under way."""
    calls = ProgramCalls(journal, f"{cursor().named(name)}.", **options)
    try:
        yield calls
    except BaseException:
        await calls.cancel()
        raise
    await calls.finish()


def _recorded_calls(journal: StepJournal, prefix: str) -> list[_Recorded]:
    found = [_Recorded(path, op) for path, op in journal.before.journal.items() if _is_call(path, prefix)]
    return sorted(found, key=lambda each: _number(each.path, prefix))


def _is_an_end(call: _Recorded, calls: Sequence[_Recorded]) -> bool:
    """True if this call failed and the program began none of `calls` afterwards: it ended there, and may try again."""
    error = call.operation.error
    if call.operation.status != "failed" or error is None:
        return False
    return all(each is call or each.operation.since_ms < error.at_ms for each in calls)


def _is_call(path: Path, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) :].isdecimal()


def _number(path: Path, prefix: str) -> int:
    return int(path[len(prefix) :])


def _is_of(operation: Operation, model: str, args_hash: str) -> bool:
    return (operation.kind, operation.name, operation.args_hash) == ("model", model, args_hash)


def _has_failed(task: asyncio.Task[ForwardedReply]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _kept_request(journal: StepJournal, call: CallId | None) -> Any:
    """The whole request of a call, as the history keeps it; None where it has only the hash."""
    found: dict[CallId, dict[str, Any]] = {}
    attempt, after = journal.attempt, 0
    log = attempt.services.runtime.store.log
    while page := await attempt.patiently(partial(log.events, journal.run, after, _PAGE)):
        for each in page:
            event = each.event
            if isinstance(event, ev.ModelCallHeld) and event.step == journal.step and event.request is not None:
                stored = await attempt.value(event.request)
                before = found.get(stored.get(AFTER))
                if AFTER not in stored or before is not None:
                    found[event.call] = restored(stored, before)
        after = page[-1].seq
    return None if call is None else found.get(call)
