"""The facts that a handler gets about its attempt, and what it may use of its process besides operations.

Never here: anything that the journal records (context).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from holdfast.authoring.tool import Tool
from holdfast.authoring.values.content import Audio, Document, Image
from holdfast.authoring.values.view import StartedBy, StateView
from holdfast.core.capacity.estimates import Report
from holdfast.core.values.content import ContentPart
from holdfast.core.values.ids import RunId, StepId
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.attempts.remote import RemoteWorker, worker_of
from holdfast.engine.attempts.residents import Flow
from holdfast.engine.runs.job_log import JobLog
from holdfast.engine.runs.payloads import Storage
from holdfast.platform.current_span import StepSpan
from holdfast.ports import Clock
from holdfast.settings import ScriptLimits

T = TypeVar("T")


class AttemptContext:
    """The part of `ctx` that is the same whatever was recorded."""

    flow: Flow | None = None
    """The flow that it is the `ctx` of, once that has begun."""
    _span: StepSpan | None = None
    """The span of its code, the same for each attempt in which that goes on."""

    def __init__(self, attempt: Attempt, journal: StepJournal) -> None:
        self._attempt = attempt
        self._journal = journal
        self._services = attempt.services
        self.run_id: RunId = attempt.run
        self.tenant: str = attempt.tenant
        self.started_by: StartedBy = attempt.started_by
        self.step_id: StepId = attempt.step
        self.log_ids = attempt.log_ids
        self.provisional = False
        """Set by a handler whose output tells of a failure: should the run fail and be taken up, the step is too."""

    def enter_span(self) -> None:
        """Make the step's span the current one; for a run that is in a trace."""
        ids, propagation = self.log_ids, self._services.propagation
        if self._span is None:
            self._span = StepSpan(
                lambda: propagation.begin(ids.traceparent, RunId(ids.root)),
                self.run_id,
                self.step_id,
                exports=propagation.exports,
            )
        self._span.enter(ids.attempt)

    def go_on(self, attempt: Attempt) -> None:
        """Belong to the attempt in which its flow goes on."""
        self._attempt = self._journal.attempt = attempt
        self._journal.number = attempt.number
        self.log_ids.attempt = attempt.number  # its tasks have these ids
        self.provisional = False

    @property
    def journal(self) -> StepJournal:
        """The step's journal, for the engine's own code."""
        return self._journal

    @property
    def failures(self) -> int:
        """Return the number of attempts of this step that have failed so far; lost and suspended ones do not count."""
        return self._journal.before.failures

    async def view(self) -> StateView:
        """The run as this attempt sees it: an item's function is given nothing but the item."""
        return await self._attempt.view()

    @property
    def worker(self) -> RemoteWorker | None:
        """The connected worker that does this step's work; None where this process does it."""
        return worker_of(self._attempt)

    @property
    def clock(self) -> Clock:
        """For how long something takes; what the time is, `now` says."""
        return self._services.runtime.clock

    def redact(self, text: str) -> str:
        """`text` without the value of any known secret, for what leaves by another way than the history."""
        return self._services.payloads.redact(text)

    async def keep_part(self, part: Image | Audio | Document) -> ContentPart:
        """A content part that has no address, kept by its hash."""
        contents, now_ms = self._services.contents, self._attempt.keeping_ms
        return await self._attempt.patiently(lambda: contents.store_part(part, self.tenant, now_ms))

    @property
    def fetching(self) -> Tool:
        """Return the tool that fetches and keeps content."""
        return self._services.contents.tool(self.tenant, self._attempt.keeping_ms)

    @property
    def script_limits(self) -> ScriptLimits:
        """Return the limits of a script if its file sets none."""
        return self._services.script_limits

    @property
    def pools(self) -> Mapping[str, int]:
        """Return the amounts of pools that were reserved for this step."""
        return self._attempt.pools

    def report(self, reports: Iterable[Report]) -> None:
        """Take reports of scripts on their use of pools; they are learned once the step has completed."""
        self._attempt.reports.extend(reports)

    @contextmanager
    def tidying(self) -> Iterator[bool]:
        """For what is done after this attempt was called off: whether that was because its run is cancelled. Only then is
        it let finish, and it sees to a bound itself. Nothing of it is recorded."""
        self._attempt.is_tidying = self._attempt.run_is_cancelled
        try:
            yield self._attempt.run_is_cancelled
        finally:
            self._attempt.is_tidying = False

    @property
    def stopping(self) -> asyncio.Event:
        """Set when it is to end soon, because another item of its map has failed; never where the map does not ask for that."""
        return asyncio.Event() if self._attempt.item is None else self._attempt.item.stopping

    @property
    def now_ms(self) -> int:
        """The store's time; it is not recorded."""
        return self._services.runtime.store.clock.now_ms()

    def keep_in(self, storage: Storage) -> None:
        """Set where the values of this attempt go from now on: its output, and what it records."""
        self._attempt.storage = storage

    def kept_log(self, job: str) -> JobLog:
        """Return the log in which the step's output is kept for people, under the name `job`."""
        return self._services.job_logs.begin(self._attempt.run, job, self._attempt.number, self.tenant)

    async def aside(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in a thread, so that it does not block the event loop."""
        done: T = await self._services.threads.run(work, {})
        return done

    def secret(self, name: str) -> str:
        """A secret's value, which is replaced wherever it would be stored. Raises MissingSecret."""
        return self._services.secrets.get(name)
