"""Calls tools: access, arguments, approval, intent, the call itself, its outcome — in this order, each journaled.

No call begins from a state that shows its completion. Never here: a model, the store, the meaning of a lost outcome
for the run (core.rules.calls decides that).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, Final

from holdfast.authoring.tool import Tool
from holdfast.authoring.values.plain import refusal, render_value
from holdfast.core.facts.state import REPEATABLE
from holdfast.core.nouns.tool_policy import ToolRule, ToolTerms, matching_rule
from holdfast.core.values.ids import CallId, Path, Unique
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import (
    DENIED,
    EXPIRED,
    LOST,
    NEVER_RETRIED,
    REJECTED,
    SCHEMA,
    TOOL,
    UNKNOWN,
    VALIDATION,
    ErrorRecord,
)
from holdfast.errors import HoldfastError, InvalidInput, OperationFailed, SchemaMismatch
from holdfast.platform.border import is_cut_off, is_ours
from holdfast.platform.current_span import trace_headers
from holdfast.ports import Journal, Recall, RecordedCall, Threads
from holdfast.settings import Secrets
from holdfast.tools.outcome import describe, error_class, knowledge, retry_after_s

DEFAULT_TIMEOUT_S: Final = 300.0
_MAX_SHOWN: Final = 1_000
"""Characters of an answer that a person is shown."""
_MAX_MASKED: Final = 1_000_000
"""Characters that are looked through for secrets, so that the loop is not held for long."""
"""A tool that says nothing else is given this long: a call without an end would hold its slot for ever."""


class ToolContext:
    """The `ctx` that a tool receives: the run it works for, its key, and secrets by name."""

    def __init__(self, tool: Tool, journal: Journal, key: str, secrets: Secrets, call: CallId | None = None) -> None:
        self.run_id: str = journal.run
        self.tenant = journal.tenant
        self.key = key
        self.may_send = journal.may_send
        """Whether this process still holds its lease: for a tool that takes its time before anything leaves."""
        self.trace_headers = trace_headers(call)
        """Headers by which a server that is called continues the trace (W3C Trace Context); empty without one."""
        self._tool = tool
        self._secrets = secrets

    def secret(self, name: str) -> str:
        """The secret's value, which is replaced wherever it would be stored. Raises MissingSecret."""
        if self._tool.secrets and name not in self._tool.secrets:
            from_ = ", ".join(self._tool.secrets)
            raise PermissionError(f"tool {self._tool.name!r} may ask for {from_}, not for {name!r}")
        return self._secrets.get(name)


class ToolExecutor:
    """Calls tools for steps. Plain functions run in `threads`."""

    def __init__(self, secrets: Secrets, threads: Threads) -> None:
        self._secrets = secrets
        self._threads = threads

    async def call(
        self,
        journal: Journal,
        path: Path,
        name: str,
        arguments: Any,
        *,
        allowed: Mapping[str, Tool],
        key: str | None = None,
        unique: Unique = "run",
        compensates: CallId | None = None,
    ) -> Any:
        """The tool's response. Raises OperationFailed with the recorded error; lets the engine's suspensions through.

        A tool that `allowed` does not list and arguments that do not validate are recorded as denied, never called.
        """
        try:
            tool = _find_allowed(journal, name, allowed)
            if compensates is None and (edited := await journal.edited(path, name)) is not None:
                arguments, key = edited.arguments, None if key is None else f"{key}~{edited.number}"
            if compensates is not None and tool.irreversible:
                message = f"{name!r} is irreversible, and its use as a compensation was not approved. It was not called."
                raise _Refusal(journal.error(DENIED, message, tool=name))
            valid = _valid(journal, tool, arguments)
            rule = _rule(journal, tool, valid) if compensates is None else None
            if compensates is None and await self._is_asked(journal, path, tool, valid, rule, key):
                answer = await self._answer(journal, path, tool, valid, rule)
                if answer["decision"] == "answer":
                    return answer["data"]  # a person in the tool's place: nothing is intended, nothing is sent
                valid = _valid(journal, tool, answer["data"])
                _rule(journal, tool, valid)
        except _Refusal as refusal:
            known = await self._record_refusal(journal, path, name, arguments, key, refusal.error)
        else:
            known = await self._call(journal, path, tool, valid, key, unique, compensates)
        if known.error is not None:
            raise journal.failure(known.error, path)
        return known.value

    async def retell(self, journal: Journal, call: RecordedCall) -> None:
        """Record a call that a step made in the run that is replayed, and what it came to. Nothing is called."""
        if await journal.recall(call.path, "tool", call.tool, call.args_hash) is not None:
            return
        started = await journal.intend(
            call.path,
            call.tool,
            call.policy,
            call.args_hash,
            call.request,
            key_name=None,
            unique="run",
            settles_within_s=None,
            compensation=None,
            compensates=None,
        )
        if not isinstance(started, Recall):
            await _stood_in(journal, started, Recall(call.value, call.error))

    async def _is_asked(
        self, journal: Journal, path: Path, tool: Tool, arguments: dict[str, Any], rule: ToolRule | None, key: str | None
    ) -> bool:
        """Return True if the call needs a person's approval now, and no pre-approval covers it."""
        if _repeats(journal, path, tool, arguments, key):
            return True
        if not _asks(tool, arguments, rule):
            return False
        return await journal.standing(path, tool.name, arguments, rule) is None

    async def _call(
        self,
        journal: Journal,
        path: Path,
        tool: Tool,
        arguments: dict[str, Any],
        key: str | None,
        unique: Unique,
        compensates: CallId | None,
    ) -> Recall:
        args_hash = digest([tool.name, arguments, key])
        known = await journal.recall(path, "tool", tool.name, args_hash, arguments)
        if known is not None and known.unverified is not None and known.call is not None:
            known = await self._verified(journal, path, tool, arguments, known.call)
        if known is not None:
            return known
        answer = journal.stood_in(path, "tool", tool.name, args_hash)
        started = await journal.intend(
            path,
            tool.name,
            tool.policy,
            args_hash,
            arguments,
            key_name=key,
            unique=unique,
            settles_within_s=tool.settles_within_s,
            compensation=tool.compensation_name if compensates is None else None,
            compensates=compensates,
            hold_nanousd=tool.price_nanousd if compensates is None else 0,
        )
        if isinstance(started, Recall):
            return started
        if answer is not None:
            return await _stood_in(journal, started, answer)
        return await self._send(journal, tool, arguments, started)

    async def _record_refusal(
        self, journal: Journal, path: Path, name: str, arguments: Any, key: str | None, error: ErrorRecord
    ) -> Recall:
        """Return the outcome of a call that may not be made: its refusal, recorded once. If the call was made before it was
        forbidden, its recorded outcome stands."""
        args_hash = _hash_of(name, arguments, key)
        known = await journal.recall(path, "tool", name, args_hash, arguments)
        if known is None:
            await journal.deny(path, name, args_hash, error)
        return known if known is not None and known.unverified is None else Recall(error=error)

    async def _answer(
        self, journal: Journal, path: Path, tool: Tool, arguments: dict[str, Any], rule: ToolRule | None
    ) -> dict[str, Any]:
        """Return a person's approval, with the arguments as shown or edited. Raises _Refusal if the person declines, or the
        request expires."""
        args_hash = digest([tool.name, arguments])
        try:
            answer = await journal.approve(path, tool.name, args_hash, arguments, tool.schema, rule, _terms(tool))
        except OperationFailed as unanswered:
            error: ErrorRecord = getattr(unanswered, "error")  # noqa: B009 - a fact of the error, not of its class
            if error.error_class != EXPIRED:
                raise
            message = f"{tool.name!r} was not approved in time. It was not called."
            raise _Refusal(journal.error(EXPIRED, message, tool=tool.name)) from None
        if answer["decision"] == "reject":
            why = f": {answer['reason']}" if answer.get("reason") else ""
            message = f"{answer['by'] or 'A reviewer'} did not approve {tool.name!r}{why}."
            raise _Refusal(journal.error(REJECTED, message, tool=tool.name))
        return answer

    async def _send(self, journal: Journal, tool: Tool, arguments: dict[str, Any], call: CallId) -> Recall:
        """Make the call and record what became of it."""
        return await journal.outside(self._conclude(journal, tool, arguments, call))

    async def _conclude(self, journal: Journal, tool: Tool, arguments: dict[str, Any], call: CallId) -> Recall:
        if not journal.may_send():
            # Frozen past its lease between intent and send: another process may already be at it.
            await journal.release(call)
        given: dict[str, Any] = {}
        if "key" in tool.given:
            given["key"] = journal.key_of(call)
        if "ctx" in tool.given:
            given["ctx"] = ToolContext(tool, journal, journal.key_of(call), self._secrets, call)
        timer = asyncio.timeout(limit_s := tool.timeout_s or DEFAULT_TIMEOUT_S)
        try:
            async with timer:
                response = await self._threads.run(tool.function, {**tool.typed(arguments), **given})
        except BaseException as raised:  # noqa: BLE001 - it is raised again, or recorded
            problem = _ending(raised, limit_s if timer.expired() else None)
            if not is_ours(problem):  # whatever a user's function raises becomes data
                return await self._record_loss(journal, tool, call, problem)
            if isinstance(problem, asyncio.CancelledError):
                message = f"{tool.name!r} was given up before it answered: its step took too long, or its process stopped."
                error = journal.error(LOST, message, retryable=tool.policy in REPEATABLE, tool=tool.name)
                await journal.doubt_effect(call, error, reopens=True)
            raise problem from None
        try:
            return Recall(await journal.complete(call, tool.returns.dump(response)))
        except BaseException as problem:
            if not _is_about_the_answer(problem):
                raise
            # It happened; only its answer cannot be kept. The person who is asked sees what it was.
            answer = "not shown, for it has sensitive fields." if tool.returns.is_sensitive else self._excerpt(response)
            message = f"{refusal(f'The answer of {tool.name!r}', describe(problem))} It was: {answer}"
            error = journal.error(VALIDATION, message, tool=tool.name)
            await journal.doubt_effect(call, error)
            return Recall(error=error)

    def _excerpt(self, response: Any) -> str:
        """Return the beginning of an answer as text, masked before it is cut, so that no part of a secret is left."""
        text = self._secrets.redact(render_value(response)[:_MAX_MASKED])
        more = len(text) - _MAX_SHOWN
        return text if more <= 0 else f"{text[:_MAX_SHOWN]}… ({more:,} characters more)"

    async def _record_loss(self, journal: Journal, tool: Tool, call: CallId, problem: BaseException) -> Recall:
        """Record an exception of the tool as what it says about the world."""
        said = knowledge(problem)
        repeatable = tool.policy in REPEATABLE or said == "not_sent"
        klass = error_class(problem)
        if said == "unknown" and klass == TOOL:
            klass = UNKNOWN  # it is not the tool that says that it failed
        retryable = repeatable and klass not in NEVER_RETRIED
        message = f"{tool.name!r}: {describe(problem)}"
        after_s = retry_after_s(problem)
        error = journal.error(klass, message, retryable=retryable, tool=tool.name, retry_after_s=after_s, problem=problem)
        if said == "unknown":
            await journal.doubt_effect(call, error)
        else:
            await journal.fail(call, error)
        return Recall(error=error)

    async def _verified(
        self, journal: Journal, path: Path, tool: Tool, arguments: dict[str, Any], call: CallId
    ) -> Recall | None:
        """Ask the tool's own lookup about a call of unknown outcome; None when it is to be made again.

        "Not found" counts only after the time that the tool declares it takes to settle.
        """
        assert tool.verify is not None
        key = journal.key_of(call)
        context = ToolContext(tool, journal, key, self._secrets)
        lookup = _accepted_arguments(tool.verify, {**tool.typed(arguments), "key": key, "ctx": context})
        for number in range(2):
            try:
                async with asyncio.timeout(tool.timeout_s or DEFAULT_TIMEOUT_S):
                    found = await self._threads.run(tool.verify, lookup, copy_context())
            except Exception as problem:  # noqa: BLE001 - whatever a user's function raises becomes data
                message = f"the lookup of {tool.name!r}: {describe(problem)}"
                klass, after_s = error_class(problem), retry_after_s(problem)
                error = journal.error(
                    UNKNOWN if klass == TOOL else klass,
                    message,
                    retryable=True,
                    tool=tool.name,
                    retry_after_s=after_s,
                    problem=problem,
                )
                journal.abandon(error)
            if found is not None:
                return Recall(await journal.complete(call, tool.returns.dump(found)))
            if number == 0 and tool.settles_within_s:
                since_ms = journal.sent_at_ms(call)
                place = Path(f"{path}.settle{call.rpartition(':')[2]}")
                await journal.wait_until(place, since_ms + int(tool.settles_within_s * 1000))
            else:
                break
        await journal.reopen(call)
        return None


def _ending(problem: BaseException, expired_s: float | None) -> BaseException:
    """Return the exception that ended a call: where it was cut off, that, and not what its clean-up has raised."""
    if is_ours(problem) or knowledge(problem, is_cut_off=True) != "unknown":
        return problem
    if is_cut_off():
        return asyncio.CancelledError()
    if expired_s is not None and knowledge(problem) != "unknown":
        return TimeoutError(f"It took longer than {expired_s:g} s. It was cut off, and raised {describe(problem)}")
    return problem


def _is_about_the_answer(problem: BaseException) -> bool:
    """True for what an answer raises that cannot be kept, whose own code may run when it is encoded; not the store's word."""
    kind = type(problem)
    return issubclass(kind, InvalidInput) or not (is_ours(problem) or issubclass(kind, HoldfastError))


async def _stood_in(journal: Journal, call: CallId, answer: Recall) -> Recall:
    """Record what a call came to in the run that is replayed."""
    if answer.error is None:
        return Recall(await journal.complete(call, answer.value))
    await journal.fail(call, answer.error)
    return answer


class _Refusal(Exception):
    """A call that may not be made, and why."""

    def __init__(self, error: ErrorRecord) -> None:
        super().__init__(error.message)
        self.error = error


def _accepted_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `arguments` for which the function has a parameter; all of them if it takes any name."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(arguments)
    return {name: arguments[name] for name in parameters if name in arguments}


def _find_allowed(journal: Journal, name: str, tools: Mapping[str, Tool]) -> Tool:
    tool = tools.get(name)
    if tool is None:
        listed = ", ".join(tools) or "none"
        message = f"This node may not call {name!r}; it lists: {listed}. It was not called."
        raise _Refusal(journal.error(DENIED, message, tool=name))
    return tool


def _valid(journal: Journal, tool: Tool, arguments: Any) -> dict[str, Any]:
    try:
        return tool.arguments(arguments)
    except SchemaMismatch as problem:
        raise _Refusal(journal.error(SCHEMA, problem.message, tool=tool.name)) from None


def _hash_of(name: str, arguments: Any, key: str | None) -> str:
    """Return the hash of a request that has not been validated: of data that are no JSON, only the type counts."""
    try:
        return digest([name, arguments, key])
    except (TypeError, ValueError, RecursionError, OverflowError):
        return digest([name, type(arguments).__name__, key])


def _repeats(journal: Journal, path: Path, tool: Tool, arguments: dict[str, Any], key: str | None) -> bool:
    return tool.policy == "once" and journal.repeats(path, tool.name, digest([tool.name, arguments, key]))


def _asks(tool: Tool, arguments: dict[str, Any], rule: ToolRule | None) -> bool:
    """Return True if a person is asked about a call. No rule lets an irreversible call through unasked."""
    if rule is not None and not tool.irreversible:
        return rule.action == "ask"
    return tool.approval(arguments) if callable(tool.approval) else tool.approval


def _terms(tool: Tool) -> ToolTerms:
    return ToolTerms(tool.policy, tool.compensation_name, tool.irreversible, tool.price_nanousd)


def _rule(journal: Journal, tool: Tool, arguments: dict[str, Any]) -> ToolRule | None:
    """Return the workflow's rule for a call, also for one that a person has edited. Raises _Refusal if it denies the call."""
    rule = matching_rule(journal.tool_rules, tool.name, arguments, journal.tenant)
    if rule is None or rule.action != "deny":
        return rule
    why = f" {rule.reason.rstrip('.')}." if rule.reason else ""
    message = f"The workflow's rules deny this call of {tool.name!r}.{why} It was not called."
    raise _Refusal(journal.error(DENIED, message, tool=tool.name))
