"""The journal of one attempt: the intents and outcomes of the operations that must not be done twice.

A handler that runs again gets the recorded outcomes back and carries on at the first operation that has none. Never here:
rules (core), calling anything, what a handler may call (context).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import msgspec

from holdfast.authoring import trace
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Event
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import FUNCTION, LOOKED_AT, MAP, TOOL_APPROVAL, Operation, State, Step
from holdfast.core.nouns.model_estimates import Experience, ModelUse
from holdfast.core.nouns.tool_policy import StandingApproval, ToolRule, ToolTerms, proposed
from holdfast.core.rules.fence import SAID, is_new, match_operation
from holdfast.core.values.ids import (
    CallId,
    EffectKey,
    Path,
    StepId,
    Unique,
    approval_at,
    gathers_around,
    named_effect_key,
    node_of,
    root_of,
    run_of,
    tenant_effect_key,
)
from holdfast.core.values.payload import NULL, digest
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.proposal import Proposal, masked
from holdfast.engine.attempts import standing_approvals
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.cursor import Abandonment, Displacement, Divergence, Suspension, certain
from holdfast.engine.attempts.kept_requests import EarlierRequests
from holdfast.engine.attempts.outcomes import Outcomes
from holdfast.engine.runs import failure, raised
from holdfast.errors import HoldfastError, NonDeterministicStep, OperationFailed, StaleAttempt, Suspended
from holdfast.platform.masking import MaskingOfTexts
from holdfast.ports import EditedCall, PoolWaited, RateLimiter, Recall, ReplayRequest, Reservation, Usage, WaitingCall

if TYPE_CHECKING:
    from holdfast.ports import Journal

T = TypeVar("T")

_MOMENT_S: Final = 1.0
"""How long a call waits for pools before its history says so."""
GATHER: Final = "gather"
"""The kind and the name of what stands where branches run beside one another."""


PLAYED: Final = frozenset({"model", "tool", FUNCTION, "sleep", "signal", "gate", MAP, GATHER, "uuid"})
"""The operations that a run which is replayed goes through as any other does: only the call itself is answered for."""
_NOT_SEEN: Final = Step(StepId(""))
_NOTHING_PROPOSED: Final = Proposal()


class StepJournal(Outcomes):
    """Keeps the Journal port for the gateway and the tool executor."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.run = attempt.run
        self.tenant = attempt.tenant
        self.step, self.number = attempt.step, attempt.number
        self._runtime = attempt.services.runtime
        self.redact = attempt.services.payloads.redact
        self.contents = attempt.contents
        self._values: list[cmd.Value] = []
        self.before = _NOT_SEEN
        """The step as this attempt found it: what earlier attempts left in its journal."""
        self._asks_before_repeats = False
        self._gathered: dict[Path, Path] = {}
        """The places of gathers in what earlier attempts left, and of each its first operation."""
        self._diverged: Divergence | None = None
        """Why nothing more is to be begun here."""
        self._keys: dict[CallId, EffectKey] = {}
        self._sent_ms: dict[CallId, int] = {}
        self.ends: list[Callable[[], Awaitable[None]]] = []
        """What is done when the code of a flow was left."""
        self.borders: dict[str, tuple[MaskingOfTexts, str]] = {}
        """Of the streams that texts are written to: what masks a secret that two of them tell together, and the last mark."""
        self.rejection = ""
        """The words for the latest answer of a person to the code, if that was a rejection."""
        self.told = 0
        """The number of the last result that was written for those who watch; it may not be in the store yet."""

    async def open(self) -> None:
        """See what earlier attempts left. Raises StaleAttempt if the step has moved on already."""
        state = await self.attempt.state()
        self._asks_before_repeats = state.origin is not None and not state.origin.repeats_effects
        self._see(state)

    def _see(self, state: State) -> None:
        self.before = self.current(state)
        if self.before.journal:
            self._gathered = {place: path for path in reversed(self.before.journal) for place in gathers_around(path)}

    @cached_property
    def _requests(self) -> EarlierRequests:
        return EarlierRequests()  # most attempts ask no model

    @property
    def pace(self) -> RateLimiter | None:
        return self.attempt.pace

    # --- What the step looked at --------------------------------------------------------------------------------------

    def note(self, value: cmd.Value) -> None:
        """The step looked at something that will not be the same again: recorded with its next commit."""
        assert value.kind in LOOKED_AT, value.kind
        self._values.append(value)

    def noted(self) -> tuple[cmd.Value, ...]:
        """Return what the step has looked at, to be recorded with what comes next."""
        return tuple(self._values)

    def take(self) -> tuple[cmd.Value, ...]:
        """Return what the step looked at since its last commit, for the command that carries it."""
        taken, self._values = tuple(self._values), []
        return taken

    async def record(self, *values: cmd.Value, timers: tuple[cmd.Timer, ...] = ()) -> None:
        """Have values recorded now, and not with what comes next; and timers started."""
        await self.send(cmd.RecordValues(self.step, self.number, (*self.take(), *values), timers))

    # --- What stands in it --------------------------------------------------------------------------------------------

    def find(self, path: Path, kind: str, name: str, args_hash: str = "", request: Any = None) -> Operation | None:
        """Return what earlier attempts left at `path`; leaves the step if another operation stands there."""
        return self._match(self.before, path, kind, name, args_hash, request)

    def _match(self, step: Step, path: Path, kind: str, name: str, args_hash: str, request: Any = None) -> Operation | None:
        """The operation at `path`. Where another one stands there, or a part of one, the step is left, whatever its code makes
        of that; only what undoes a run hears of it as of an error, about which a person is asked anyway."""
        if self._diverged is not None:
            raise self._diverged
        stands = path if path in step.journal or kind == GATHER else self._gathered.get(path, path)
        if kind not in ("tool", GATHER) and stands not in step.journal and approval_at(path) in step.journal:
            stands = approval_at(path)  # a call was asked about here, and may have been answered without being made
        try:
            op = match_operation(step, stands, kind, name, args_hash)
        except NonDeterministicStep:
            if node_of(self.step) == COMPENSATE:
                raise
            self.diverge(Divergence(path, stands, step.journal[stands], kind, name, request))
        stand_in = self.attempt.services.stand_in
        if op is None and stand_in is not None and kind not in PLAYED:
            return stand_in.operation(ReplayRequest(self.run, self.step, path, kind, name, args_hash))
        return op

    def diverge(self, divergence: Divergence) -> NoReturn:
        self._diverged = divergence
        raise divergence from None

    async def recall(self, path: Path, kind: str, name: str, args_hash: str, request: Any = None) -> Recall | None:
        state = await self.attempt.state()
        op = self._match(self.current(state), path, kind, name, args_hash, request)
        if op is None and self.before.may_reuse:
            op = await _reused(self, path, kind, name, args_hash)
        if op is None or op.status in ("reopened", "deferred"):
            return None
        if op.status == "done":
            if op.request_kept and op.call is not None and run_of(op.call) == self.run and "turns" in request:
                self._requests.add(op.call, request)  # a later request is kept as what it adds to this one
            return Recall(await self.attempt.value(op.outcome or NULL), child=op.child)
        if op.status == "failed":
            return Recall(error=op.error, child=op.child)
        if op.status == "unverified" and op.call is not None:
            call = state.calls[op.call]
            self._keys[op.call], self._sent_ms[op.call] = call.key or EffectKey(""), call.at_ms
            return Recall(unverified=call, call=op.call)
        raise Suspension

    async def call_at(self, path: Path) -> CallId | None:
        """The call whose outcome stands at `path`."""
        op = self.current(await self.attempt.state()).journal.get(path)
        return None if op is None else op.call

    def current(self, state: State) -> Step:
        step = state.step(self.step)
        if step is None or step.attempt != self.number or step.status != "active":
            raise StaleAttempt(f"Attempt {self.number} of step {self.step} is over; what follows is another's work.")
        return step

    # --- Calls --------------------------------------------------------------------------------------------------------

    def error(
        self,
        error_class: str,
        message: str,
        *,
        retryable: bool = False,
        tool: str | None = None,
        retry_after_s: float | None = None,
        problem: BaseException | None = None,
    ) -> ErrorRecord:
        now_ms = self._runtime.store.clock.now_ms()
        error = ErrorRecord(node_of(self.step), error_class, message, retryable, now_ms, tool, retry_after_s)
        return _recorded(self, error, problem)

    def failure(self, error: ErrorRecord, path: Path | None, *, spent: bool = False) -> OperationFailed:
        return raised.again(error, path, _home(self.attempt), spent=spent)

    async def counted_pools(self) -> Sequence[DeclaredPool]:
        return await self.attempt.patiently(lambda: self.attempt.services.call_pools.counted(self.tenant))

    async def reserve(self, path: Path, model: str, amounts: Mapping[str, int]) -> Reservation:
        if (turn := certain()) is not None:
            await turn
        return await _reserved(self, cmd.AwaitPools(self.step, self.number, path, model, tuple(amounts)), amounts)

    def unable(self, path: Path) -> Collection[str]:
        op, now_ms = self.before.journal.get(path), self._runtime.store.clock.now_ms()
        return () if op is None else {model for model, until_ms in op.unable.items() if now_ms < until_ms}

    async def experience(self) -> Experience:
        return await self.attempt.services.models.of(*self._kind)

    def learn(self, model: str, usage: Usage, took_s: float, quoted_nanousd: int, cost_nanousd: int) -> None:
        at_ms, took_ms = self._runtime.store.clock.now_ms(), int(took_s * 1000)
        self.attempt.services.models.take(
            ModelUse(*self._kind, model, usage.output_tokens, took_ms, quoted_nanousd, cost_nanousd, at_ms)
        )

    @property
    def _kind(self) -> tuple[str, str]:
        """The workflow and the node under which is learned what its calls are like."""
        return self.attempt.graph.definition.name, root_of(self.attempt.name)

    def close_pool(self, name: str, for_s: float) -> None:
        self.attempt.services.call_pools.close(name, for_s)

    def may_send(self) -> bool:
        return self._runtime.membership.alive(self.attempt.session)

    def stood_in(
        self, path: Path, kind: str, name: str, args_hash: str, hold_nanousd: int = 0, request: Any = None
    ) -> Recall | None:
        stand_in = self.attempt.services.stand_in
        if stand_in is None:
            return None
        if request is not None:  # as it would be kept
            request = msgspec.json.decode(self.attempt.services.payloads.clean(request))
        return stand_in.call(ReplayRequest(self.run, self.step, path, kind, name, args_hash, request), hold_nanousd)

    async def outside(self, call: Coroutine[Any, Any, T]) -> T:
        if (turn := certain()) is not None:
            await turn
        return await self.attempt.outside(call)

    async def hold(
        self, path: Path, model: str, args_hash: str, offers: Sequence[cmd.CallCandidate], question: Any = None
    ) -> tuple[CallId, int, cmd.CallCandidate]:
        form = (
            None if question is None else self.attempt.services.requests.form(self.attempt.workflow, question, self._requests)
        )
        request = None if form is None else await self.attempt.store_value(form)
        # A reader of the call finds the results that it is given.
        await self.attempt.services.streams.flushed(self.told)
        begun = (self.step, self.number, path, model, args_hash)
        for event in await self._intend(cmd.HoldModelCall(*begun, tuple(offers), values=self.take(), request=request)):
            if isinstance(event, ev.ModelCallHeld):
                if event.request is not None:
                    self._requests.add(event.call, question)
                return event.call, event.offer, cmd.CallCandidate(event.sent_to, event.hold_nanousd, event.tokens)
        raise Suspension  # the money is not there, or another call of this operation is in flight

    async def intend(
        self,
        path: Path,
        tool: str,
        policy: str,
        args_hash: str,
        request: Any,
        *,
        key_name: str | None,
        unique: Unique,
        settles_within_s: float | None,
        compensation: str | None,
        compensates: CallId | None,
        hold_nanousd: int = 0,
    ) -> CallId | Recall:
        key = None if key_name is None else _named_key(self, key_name, unique, tool)
        command = cmd.IntendEffect(
            self.step,
            self.number,
            path,
            tool,
            policy,
            args_hash,
            await self.attempt.store_value(request),
            key,
            settles_within_s,
            compensation,
            compensates,
            values=self.take(),
            tenant_wide=unique == "tenant",
            hold_nanousd=hold_nanousd,
        )
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

    def abandon(self, error: ErrorRecord) -> NoReturn:
        raise Abandonment(error)

    async def deny(self, path: Path, tool: str, args_hash: str, error: ErrorRecord) -> None:
        await self.send(cmd.DenyToolCall(self.step, self.number, path, tool, args_hash, error, values=self.take()))

    # --- Waits --------------------------------------------------------------------------------------------------------

    async def approve(
        self,
        path: Path,
        tool: str,
        args_hash: str,
        arguments: dict[str, Any],
        form: dict[str, Any],
        rule: ToolRule | None,
        terms: ToolTerms,
    ) -> dict[str, Any]:
        self._expect_call(path, tool, args_hash, arguments)
        return await _approved(self, path, tool, args_hash, arguments, form, rule, terms)

    def _expect_call(self, path: Path, tool: str, args_hash: str, request: Any) -> None:
        """Leave the step if anything else than a call of that tool stands at `path`: no person is asked about one there."""
        known = self.before.journal
        op = known.get(path if path in known else self._gathered.get(path, path))
        if op is not None and (op.kind, op.name) != ("tool", tool):
            self._match(self.before, path, "tool", tool, args_hash, request)

    async def standing(
        self, path: Path, tool: str, arguments: Mapping[str, Any], rule: ToolRule | None
    ) -> StandingApproval | None:
        return await standing_approvals.used(self, path, tool, arguments, rule)

    @property
    def tool_rules(self) -> Sequence[ToolRule]:
        return self.attempt.graph.definition.tool_rules

    async def edited(self, path: Path, tool: str) -> EditedCall | None:
        edit = self.before.edits.get(path)
        if edit is None or edit.tool != tool:
            return None
        return EditedCall(await self.attempt.value(edit.arguments), edit.number)

    def repeats(self, path: Path, tool: str, args_hash: str) -> bool:
        return self._asks_before_repeats and is_new(self.before, path, "tool", tool, args_hash)

    async def wait_until(self, path: Path, due_at_ms: int) -> None:
        await self.sleep(path, digest(["until", due_at_ms]), max(0, due_at_ms - self._runtime.store.clock.now_ms()))

    async def sleep(self, path: Path, args_hash: str, wait_ms: int) -> None:
        """Let the step wait for a timer, if that is not over."""
        known = await self.recall(path, "sleep", "sleep", args_hash, {"seconds": wait_ms / 1000})
        if known is None:
            await self.send(cmd.StartTimer(self.step, self.number, path, args_hash, wait_ms, values=self.take()))
            raise Suspension

    async def ask(self, path: Path, reason: str, args_hash: str, **options: Any) -> Any:
        """Return a person's answer, once there is one; `options` as `open_gate` takes them. Raises OperationFailed."""
        known = await self.recall(path, "gate", reason, args_hash, options["content"])
        if known is None:
            await self.open_gate(path, reason, args_hash, **options)
            known = await self._settled(path, "gate", reason, args_hash)
        return _value(known, path)

    async def open_gate(
        self,
        path: Path,
        reason: str,
        args_hash: str,
        *,
        content: Any,
        allowed: tuple[str, ...],
        form: dict[str, Any] | None,
        filled: Any,
        reviewers: tuple[str, ...] = (),
        four_eyes: bool = False,
        timeout_s: float | None = None,
        remind_every_s: float | None = None,
        cancel_after_s: float | None = None,
        expires_after_s: float | None = None,
        completes_step: bool = False,
        not_by: tuple[str, ...] = (),
        quorum: int = 1,
        hash_optional: bool = False,
        proposal: Proposal = _NOTHING_PROPOSED,
        terms: ToolTerms | None = None,
    ) -> None:
        kept = await self.attempt.store_value(content)
        asked = tuple(self.redact(name) for name in reviewers)
        await self.send(
            cmd.OpenGate(
                self.step,
                self.number,
                path,
                reason,
                args_hash,
                kept,
                digest(await self.attempt.value(kept)),
                allowed,
                form,
                await self.attempt.store_value(filled),
                asked,
                four_eyes,
                _ms(timeout_s),
                _ms(remind_every_s),
                _ms(cancel_after_s),
                completes_step,
                _ms(expires_after_s),
                tuple(self.redact(name) for name in not_by),
                values=self.take(),
                quorum=quorum,
                hash_optional=hash_optional,
                proposal=masked(proposal, self.redact),
                terms=terms,
            )
        )

    async def _settled(self, path: Path, kind: str, name: str, args_hash: str) -> Recall:
        """The outcome at `path`, if its commit brought one at once; leaves the step if not."""
        known = await self.recall(path, kind, name, args_hash)
        if known is None:
            raise Suspension
        return known

    # --- On the way to the store --------------------------------------------------------------------------------------

    async def send(self, command: cmd.AttemptCommand) -> list[Event]:
        """Have an intent committed; leave the step when nothing new may begin."""
        return await _carried(self, command, self.attempt.send(command))

    async def _intend(self, command: cmd.AttemptCommand) -> list[Event]:
        """The same for the intent of a call."""
        return await _carried(self, command, self.attempt.intend(command))


if TYPE_CHECKING:
    _kept: type[Journal] = StepJournal


def has_noted(journal: StepJournal, paths: Collection[Path]) -> bool:
    """Return True if what the step looked at at one of these places is still to be recorded."""
    return bool(journal._values) and any(value.path in paths for value in journal._values)


async def look_again(journal: StepJournal) -> None:
    """See what this attempt has left so far, as another would: one of its operations is done from the beginning."""
    if journal._values:
        await journal.record()
    journal._see(await journal.attempt.state())


def let_wait(journal: StepJournal) -> None:
    """Forget what earlier attempts left, until the next one opens it."""
    journal.before, journal._gathered = _NOT_SEEN, {}


async def keep_place(journal: StepJournal) -> None:
    """Wait while it is not known whether the process still has its session. Leaves the step where it has lost it."""
    if not await journal.attempt.services.runtime.membership.keeps(journal.attempt.session):
        raise Displacement


def _named_key(journal: StepJournal, name: str, unique: Unique, tool: str) -> EffectKey:
    if unique == "tenant":
        return tenant_effect_key(journal.tenant, name, tool)
    return named_effect_key(journal.tenant, journal.run, name, tool)


def _home(attempt: Attempt) -> str:
    """The module of the code that an attempt runs; nothing where it runs none."""
    return "" if attempt.definition is None else str(getattr(attempt.definition.handler, "__module__", ""))


def error_of(journal: StepJournal, problem: BaseException) -> tuple[ErrorRecord, Path | None]:
    """Return the record of an exception of the user's code, and the place of the operation it came from, if it came from
    one."""
    node, at_ms = node_of(journal.step), journal.attempt.services.runtime.store.clock.now_ms()
    error, path = failure.record(problem, node, at_ms)
    is_known = issubclass(type(problem), OperationFailed)
    if journal.rejection and not is_known and failure.is_slip(problem):
        error = failure.after(journal.rejection, error)
    error = msgspec.structs.replace(error, node=node, at_ms=at_ms)
    return _recorded(journal, error, None if is_known else problem), path


def _recorded(journal: StepJournal, error: ErrorRecord, problem: BaseException | None) -> ErrorRecord:
    """An error with no secret in it, and with what is recorded of the exception behind it, if it has one of its own."""
    where, exception = error.trace, error.exception
    if problem is not None:
        where, exception = where or trace.of(problem), raised.of(problem, journal.attempt.services.payloads.clean)
    return msgspec.structs.replace(
        error,
        message=journal.redact(error.message),
        trace=None if where is None else journal.redact(where),
        exception=exception,
    )


async def _approved(
    journal: StepJournal,
    path: Path,
    tool: str,
    args_hash: str,
    arguments: dict[str, Any],
    form: dict[str, Any],
    rule: ToolRule | None,
    terms: ToolTerms,
) -> dict[str, Any]:
    """Return a person's answer about a call. A call whose outcome was given in advance is not made, and asks no person."""
    before = journal.before
    said = before.journal.get(path) or before.inherited.get(path)
    if said is not None and said.args_hash == SAID:
        return {"decision": "approve", "data": arguments}
    asked: dict[str, Any] = {"proposal": proposed(tool, arguments, rule)}
    if rule is not None:
        asked |= {"reviewers": rule.reviewers, "four_eyes": rule.four_eyes, "expires_after_s": rule.expires_after_s}
        asked |= {"quorum": rule.quorum, "hash_optional": rule.hash_optional}
    answer: dict[str, Any] = await journal.ask(
        approval_at(path),
        TOOL_APPROVAL,
        args_hash,
        content={"tool": tool, "arguments": arguments},
        allowed=("approve", "edit", "reject", "answer"),
        form=form,
        filled=arguments,
        terms=terms,
        **asked,
    )
    return answer


async def _reused(journal: StepJournal, path: Path, kind: str, name: str, args_hash: str) -> Operation | None:
    """Return what the step has from elsewhere for what it asks for at `path`."""
    values = journal.take()
    if not await journal.send(cmd.ReuseOperation(journal.step, journal.number, path, kind, name, args_hash, values)):
        for value in values:
            journal.note(value)
    return journal.current(await journal.attempt.state()).journal.get(path)


async def _carried(journal: StepJournal, command: cmd.AttemptCommand, sent: Coroutine[Any, Any, list[Event]]) -> list[Event]:
    """Return what the command caused. If it is refused, what the step looked at and the command was to carry goes with the
    next."""
    if (turn := certain()) is not None:
        try:
            await turn
        except BaseException:
            sent.close()
            raise
    try:
        return await sent
    except HoldfastError as refusal:
        values = getattr(command, "values", ())
        is_last_its_own = isinstance(command, cmd.RecordValues)  # and not something that it was to carry
        for value in values[: len(values) - is_last_its_own]:
            journal.note(value)
        if isinstance(refusal, Suspended):
            raise Suspension from None
        raise


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)


def _value(recall: Recall, path: Path) -> Any:
    if recall.error is not None:
        raise OperationFailed(recall.error.message, error=recall.error, path=path)
    return recall.value


async def _reserved(journal: StepJournal, awaited: cmd.AwaitPools, amounts: Mapping[str, int]) -> Reservation:
    attempt = journal.attempt
    tenant, since_ms = journal.tenant, attempt.services.runtime.store.clock.now_ms()
    call = WaitingCall(
        journal.run, journal.step, awaited.path, tenant, attempt.workflow, awaited.model, dict(amounts), since_ms
    )
    reservation = await attempt.services.call_pools.reserve(
        amounts, partial(_stand_aside, attempt, awaited, call), tenant=tenant, priority=attempt.priority
    )
    if observers := attempt.services.runtime.runs.observers:
        waited = PoolWaited(journal.run, journal.step, awaited.model, tuple(amounts), reservation.waited_s)
        observers.notify(waited)
    return reservation


async def _stand_aside(attempt: Attempt, awaited: cmd.AwaitPools, call: WaitingCall, future: asyncio.Future[None]) -> None:
    """Wait without a slot until a call can go. Should that take long, `awaited` is for the history and `call` for those who
    ask what waits for a pool, in this order: so each call that is listed is a wait of its run."""
    with attempt.aside():
        await asyncio.wait([future], timeout=_MOMENT_S)
        if not future.done():
            await attempt.send(awaited)
            attempt.services.call_pools.describe(future, call)
        await future
