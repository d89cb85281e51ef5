"""A runner at a connected worker, which asks what to run next and says with that what became of the script before.

The worker drives nothing and knows no workflow: it has one script at a time, and a directory until there are no more.
Never here: a connection, running a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from holdfast.actions.jobs.attempt import Attempt, Worker
from holdfast.actions.jobs.runner import OnLine
from holdfast.actions.shell import Limits, Script, ScriptEnd
from holdfast.core.values.demand import SHELL
from holdfast.errors import HoldfastError, InvalidInput, OutcomeUnknown, RemoteFailed, StepError, ToolFailed

_PROBLEMS: Final[dict[str, type[HoldfastError]]] = {each.__name__: each for each in (InvalidInput, ToolFailed, OutcomeUnknown)}
"""What may have become of a script that has no ending."""
_LEAVE_S: Final = 60.0
"""What a worker gets to remove its directory before it is left to itself with that."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The next script that a worker is to run. The script's `folder` is below the directory that it has for this job."""

    script: Script
    limits: Limits


class ScriptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a script: its ending, or a `problem` (InvalidInput, ToolFailed or OutcomeUnknown). With neither, the script
    was broken off. `lines` is the number of lines of its log that were sent."""

    ending: ScriptEnd | None = None
    problem: str | None = None
    message: str = ""
    lines: int = 0

    def outcome(self) -> ScriptEnd:
        """Return the ending. Raises its problem."""
        if self.ending is not None:
            return self.ending
        raise _PROBLEMS.get(self.problem or "", OutcomeUnknown)(self.message or "The script was broken off.")

    @classmethod
    def failed(cls, problem: InvalidInput | ToolFailed | OutcomeUnknown, lines: int) -> ScriptOutcome:
        return cls(problem=type(problem).__name__, message=problem.message, lines=lines)


class _Question:
    """A worker's question for the next script. It brings the result of the script before, `said`, and waits for its
    `answer`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.said: asyncio.Future[Any] = loop.create_future()
        self.answer: asyncio.Future[Any] = loop.create_future()


class _Conversation:
    """Keeps ports.Calls: what the worker asks and says, one question after the other."""

    def __init__(self, attempt: Attempt) -> None:
        self.run = attempt.run_id
        self.step = attempt.step_id
        self._redact = attempt.redact
        self._number = 1
        self._now = _Question()
        self._before = self._now
        """Its answer may have been lost on its way, and is asked for again."""
        self.on_line: OnLine | None = None
        self.heard = 0

    def answer(self, order: Any) -> asyncio.Future[Any]:
        """Answer the question that stands or comes; what will be said with the next."""
        self._before, self._now = self._now, _Question()
        self._number += 1
        self._before.answer.set_result(order)
        return self._now.said

    @property
    def answered(self) -> int:
        """The number of the question that was answered last."""
        return self._number - 1

    async def next(self, number: int, data: Any) -> Any:
        question = {self._number: self._now, self._number - 1: self._before}.get(number)
        if question is None:
            raise StepError(f"Question {number} comes out of turn, after {self._number - 1}.")
        if not question.said.done():
            question.said.set_result(data)
        return await asyncio.shield(question.answer)

    async def line(self, text: str) -> None:
        if self.on_line is not None:
            self.heard += 1
            await self.on_line(self._redact(text))

    async def model(self, number: int, *_: Any, **__: Any) -> Any:
        raise StepError("A script calls no models.")

    async def tool(self, number: int, *_: Any, **__: Any) -> Any:
        raise StepError("A script calls no tools.")


class RemoteRunner:
    """Keeps runner.JobRunner."""

    def __init__(self, name: str, worker: Worker, conversation: _Conversation, errand: asyncio.Task[Any]) -> None:
        self._name = name
        self._worker = worker
        self._conversation = conversation
        self._errand = errand

    async def run(self, script: Script, limits: Limits, on_line: OnLine) -> ScriptEnd:
        conversation = self._conversation
        conversation.on_line, conversation.heard = on_line, 0
        said = conversation.answer(msgspec.to_builtins(Order(script=script, limits=limits)))
        try:
            await self._until(said)
        except asyncio.CancelledError:
            self._worker.break_off(self._name, conversation.answered)
            await self._until(said)
            raise
        done = _read(said.result())
        if lost := done.lines - conversation.heard:
            await on_line(f"({lost} lines of this log were lost on their way.)")
        return done.outcome()

    async def _until(self, reply: asyncio.Future[Any]) -> None:
        """Until the worker has said it. Raises what ended the errand instead."""
        await asyncio.wait((reply, self._errand), return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            self._errand.result()
            raise RemoteFailed("The worker left its job before there were no more scripts.")

    async def leave(self) -> None:
        """There are no more scripts. What the worker makes of that changes nothing: it has said all that there was."""
        said = self._conversation.answer(None)
        await asyncio.wait((self._errand,), timeout=_LEAVE_S)
        said.cancel()


@asynccontextmanager
async def remote_runner(attempt: Attempt, worker: Worker, name: str) -> AsyncIterator[RemoteRunner]:
    """A runner at `worker`, gone afterwards. `name` tells it from the step's other runners."""
    conversation = _Conversation(attempt)
    errand = asyncio.create_task(worker.perform(name, SHELL, None, conversation), name=f"holdfast-runner-{name}")
    runner = RemoteRunner(name, worker, conversation, errand)
    try:
        yield runner
        await runner.leave()
    finally:
        errand.cancel()
        await asyncio.gather(errand, return_exceptions=True)


def _read(data: Any) -> ScriptOutcome:
    """Raises RemoteFailed for what is no word of a shell's."""
    try:
        return msgspec.convert(data, ScriptOutcome)
    except msgspec.ValidationError as problem:
        raise RemoteFailed(f"The worker's report about a script cannot be read: {problem}.") from None
