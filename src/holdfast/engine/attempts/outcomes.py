"""What became of the calls of one attempt: each outcome is addressed to its call, and accepted whatever became of the attempt.

Never here: an intent, what stands in a step's journal (journal).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import CallId
from holdfast.core.values.policies import ErrorRecord
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.utterance import Utterances
from holdfast.platform.masking import MaskingOfTexts


class Outcomes:
    """Keeps the part of ports.Journal that closes calls."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._utterances: Utterances | None = None
        self.borders: dict[str, tuple[MaskingOfTexts, str]] = {}
        """Of the streams that texts are written to: what masks a secret that two of them tell together, and the last mark."""

    async def settle(self, call: CallId, cost_nanousd: int, input_tokens: int, output_tokens: int, output: Any) -> Any:
        kept = await self.attempt.kept(output)
        await self._outcome(cmd.SettleModelCall(call, cost_nanousd, input_tokens, output_tokens, kept))
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
        fallbacks: Sequence[cmd.Offer],
        *,
        doubted: bool,
        partial: str | None = None,
        cost_nanousd: int | None = None,
    ) -> bool:
        command: cmd.CallCommand = cmd.FailModelCall(call, error, fallbacks=tuple(fallbacks))
        if doubted:
            part = None if partial is None else await self.attempt.kept(partial)
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
        kept = None if output is None else await self.attempt.kept(output)
        part = None if partial is None else await self.attempt.kept(partial)
        await self._outcome(cmd.DoubtModelCall(call, error, kept, reopens, part, cost_nanousd))
        return None if kept is None else await self.attempt.value(kept)

    def tells(self, call: CallId) -> Callable[[str, str], None]:
        self._utterances = self._utterances or Utterances(self.attempt.services, self.attempt.run, self.attempt.tenant)
        return self._utterances.begin(call)

    async def complete(self, call: CallId, response: Any) -> Any:
        kept = await self.attempt.kept(response)
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
