"""The outcomes of the calls of one attempt, and what its model calls say until then. Each outcome is addressed to its call, and
accepted whatever became of the attempt. What is said is masked, and on its way to whoever watches.

The place of a piece is counted in what is told, so that the reply in the history goes on where the pieces end. Never here: an
intent, what stands in a step's journal (journal), the way to the store (stream_writer).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Unpack

from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.streams import source_of
from holdfast.core.values.ids import CallId, RunId
from holdfast.core.values.policies import ErrorRecord
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.step_services import StepServices
from holdfast.platform.masking import Masking
from holdfast.ports import CacheUse, StreamName


class _Part:
    """Of what is said in a call: its text, or something besides."""

    def __init__(self, name: StreamName, masking: Masking) -> None:
        self.name = name
        self.masking = masking
        self.told = 0


class ReplyTexts:
    """The running texts of one attempt."""

    def __init__(self, services: StepServices, run: RunId, tenant: str) -> None:
        self._writer = services.streams
        self._masking = services.payloads.masking
        self._run = run
        self._tenant = tenant
        self._open: dict[CallId, dict[str, _Part]] = {}

    def begin(self, call: CallId) -> Callable[[str, str], None]:
        """Return the sink for the text of a call: it takes a part's name and more of its text."""
        parts = self._open[call] = {}

        def tell(part: str, text: str) -> None:
            if call not in self._open:
                return
            known = parts.get(part)
            if known is None:
                known = parts[part] = _Part(StreamName(self._run, source_of(call, part)), self._masking())
            if more := known.masking.feed(text.encode("utf-8", "replace")).decode():
                self._writer.say(known.name, known.told, more, self._tenant)
                known.told += len(more)

        return tell

    def end(self, call: CallId, future: asyncio.Future[Any] | None) -> None:
        """Note that the outcome of a call is in the history, or will be when `future` says so."""
        if call not in self._open:
            return
        names = [part.name for part in self._open.pop(call).values()]

        def forget() -> None:
            for name in names:
                self._writer.forget(name)

        if future is None:
            forget()
            return

        def on_done(_: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                forget()

        future.add_done_callback(on_done)


class Outcomes:
    """Keeps the part of ports.Journal that closes calls."""

    attempt: Attempt
    _utterances: ReplyTexts | None = None

    async def settle(
        self, call: CallId, cost_nanousd: int, input_tokens: int, output_tokens: int, output: Any, **cache: Unpack[CacheUse]
    ) -> Any:
        kept = await self.attempt.store_value(output)
        await self._outcome(cmd.SettleModelCall(call, cost_nanousd, input_tokens, output_tokens, kept, **cache))
        return await self.attempt.value(kept)

    async def refuse(self, call: CallId, error: ErrorRecord) -> None:
        await self._outcome(cmd.FailModelCall(call, error))

    async def unsent(self, call: CallId, error: ErrorRecord) -> NoReturn:
        await self._outcome(cmd.FailModelCall(call, error, reopens=True))
        raise Suspension

    async def withdraw(self, call: CallId, error: ErrorRecord) -> None:
        await self.attempt.report(cmd.FailModelCall(call, error, reopens=True))

    async def pass_on(
        self,
        call: CallId,
        error: ErrorRecord,
        fallbacks: Sequence[cmd.CallCandidate],
        *,
        doubted: bool,
        partial: str | None = None,
        cost_nanousd: int | None = None,
    ) -> bool:
        command: cmd.CallCommand = cmd.FailModelCall(call, error, fallbacks=tuple(fallbacks))
        if doubted:
            part = None if partial is None else await self.attempt.store_value(partial)
            command = cmd.DoubtModelCall(call, error, partial=part, cost_nanousd=cost_nanousd, fallbacks=tuple(fallbacks))
        told = await self.attempt.report(command)
        if self._utterances is not None:
            self._utterances.end(call, None)
        return any(isinstance(event, ev.ModelCallFailed | ev.ModelCallInDoubt) and event.reopens for event in told)

    async def doubt(
        self,
        call: CallId,
        error: ErrorRecord,
        output: Any = None,
        *,
        reopens: bool = False,
        partial: str | None = None,
        cost_nanousd: int | None = None,
    ) -> Any:
        kept = None if output is None else await self.attempt.store_value(output)
        part = None if partial is None else await self.attempt.store_value(partial)
        await self._outcome(cmd.DoubtModelCall(call, error, kept, reopens, part, cost_nanousd))
        return None if kept is None else await self.attempt.value(kept)

    def tells(self, call: CallId) -> Callable[[str, str], None]:
        self._utterances = self._utterances or ReplyTexts(self.attempt.services, self.attempt.run, self.attempt.tenant)
        return self._utterances.begin(call)

    async def complete(self, call: CallId, response: Any) -> Any:
        kept = await self.attempt.store_value(response)
        await self._outcome(cmd.CompleteEffect(call, kept))
        return await self.attempt.value(kept)

    async def fail(self, call: CallId, error: ErrorRecord) -> None:
        await self._outcome(cmd.FailEffect(call, error))

    async def release(self, call: CallId) -> NoReturn:
        await self.attempt.report(cmd.ReleaseEffect(call))
        raise Suspension

    async def doubt_effect(self, call: CallId, error: ErrorRecord, *, reopens: bool = False) -> None:
        for event in await self.attempt.report(cmd.DoubtEffect(call, error, reopens)):
            if isinstance(event, ev.EffectInDoubt) and not reopens:
                raise Suspension  # its lookup or a person will say

    async def reopen(self, call: CallId) -> None:
        await self._outcome(cmd.ReopenEffect(call))

    async def _outcome(self, command: cmd.CallCommand) -> None:
        """Have an outcome committed: it is accepted whatever became of this attempt.

        In the engine's own steps it is only posted, and leaves with the command that follows from it in the same turn.
        No user's code runs in between, and nothing more leaves the process before it is durable.
        """
        told = self.attempt.post(command) if self.attempt.posts_outcomes else None
        if told is None:
            await self.attempt.report(command)
        if self._utterances is not None:
            self._utterances.end(command.call, told)
