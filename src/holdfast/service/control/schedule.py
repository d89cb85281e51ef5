"""Schedules: set, looked at, paused, made up for.

Never here: when one fires (core.nouns.schedules), firing it (engine.background.firing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.authoring.values.plain import encode, refusal
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.contribution import bounded, of_claim
from holdfast.core.nouns import schedules
from holdfast.core.nouns.schedules import Overlap, Schedule
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import INLINE_BYTES
from holdfast.engine.background import schedule_runner
from holdfast.engine.runs.starting import scopes_of_run
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import InvalidInput, NotFound
from holdfast.ports import MAX_LISTED
from holdfast.service.control.base import named_budget, word
from holdfast.service.control.change import changed
from holdfast.service.control.command import Commands
from holdfast.service.control.naming import DEFAULT_TENANT

MAX_MADE_UP_FOR: Final = 1_000
"""Times of one backfill."""


class BackfilledRun(NamedTuple):
    """A nominal time, in Unix milliseconds, and its run."""

    nominal_ms: int
    run: RunId


class Schedules(Commands):
    """Schedules: they start runs by the calendar, for as long as any process works on the store."""

    async def set_schedule(
        self,
        name: str,
        workflow: Workflow | StoredWorkflow | str,
        cron: str,
        *,
        timezone: str = "UTC",
        input: Any = None,  # noqa: A002 - the word of the public surface
        time_field: str | None = None,
        version: int | None = None,
        tenant: str = DEFAULT_TENANT,
        team: str | None = None,
        team_budget: str | None = None,
        agent: str | None = None,
        cost_limit_usd: float | str | Decimal | None = None,
        jitter_s: float = 0,
        overlap: Overlap = "skip",
        catch_up_s: float = 3600,
        by: str | Actor | None = None,
    ) -> Schedule:
        """Set a schedule, which starts a run of a workflow at each time of a cron line, or replace it. Started runs stay, and
        so does a pause. `by` contributes to each run until the schedule is removed.

        Other options are those of `start`. A team budget that no longer knows the agent appears in the schedule's `problem`.

        Args:
            workflow: The workflow, or its name.

        Raises:
            InvalidInput: An option cannot be used.
            NotFound: The store does not know the workflow.
        """
        meant = await self._resolve_workflow(workflow, version, tenant)
        tenant, name = word("tenant", tenant), word("name of the schedule", name)
        now_ms = self.store.clock.now_ms()
        budget = named_budget(team_budget)
        with _nothing_changed():
            await scopes_of_run(self.store, tenant, budget, agent, meant.graph)
            limit_nanousd = None if cost_limit_usd is None else self._cost_limit(cost_limit_usd)
        kept = await self._input_of(tenant, name, meant, input, time_field, now_ms)
        schedule = Schedule(
            tenant=tenant,
            name=name,
            workflow=meant.name,
            cron=cron,
            timezone=timezone,
            version=version,
            input=msgspec.Raw(kept),
            time_field=time_field,
            team=None if team is None else word("team", team),
            team_budget=budget,
            agent=agent,
            limit_nanousd=limit_nanousd,
            jitter_s=jitter_s,
            overlap=overlap,
            catch_up_s=catch_up_s,
            by=self._claim(by)._replace(trace_id=None, traceparent=""),
            created_ms=now_ms,
        )
        if problems := list(schedules.problems(schedule)):
            words = f"Schedule {name!r:.130} cannot be stored: {'; '.join(problems)}. Nothing was changed."
            raise InvalidInput(words, misfits=problems)
        if isinstance(meant, Workflow):
            await self.runtime.catalog.add(meant)
        armed = schedules.armed(schedule, now_ms)
        if await self.store.schedules.add(armed):
            return armed
        return await self._changed(tenant, name, lambda before: _in_place_of(before, schedule, now_ms))

    async def _input_of(
        self, tenant: str, name: str, workflow: Workflow | StoredWorkflow, value: Any, time_field: str | None, now_ms: int
    ) -> bytes:
        """Return the input as it is kept, as JSON; with a time in it, it has to fit too."""
        if time_field is not None:
            if not isinstance(value or {}, dict):
                words = f"time_field={time_field!r} needs an input that is an object. Nothing was changed."
                raise InvalidInput(words, field="time_field")
            value = {**(value or {}), time_field: schedules.stamp(now_ms)}
        with self.sensitive(tenant), _nothing_changed():
            valid = await self._valid_input(workflow, value)
        try:
            encoded = encode(self.payloads.plain(valid))
        except InvalidInput as problem:
            raise InvalidInput(refusal(f"The input of {workflow.name!r}", problem.message) + " Nothing was changed.") from None
        if len(encoded) > INLINE_BYTES:
            raise InvalidInput(
                f"The input of schedule {name!r:.130} has {len(encoded)} bytes; {INLINE_BYTES} are kept at most. Put what is"
                " large where the run can read it. Nothing was changed."
            )
        return encoded

    async def schedules(
        self, tenant: str | None = None, *, after: tuple[str, str] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[Schedule]:
        """Return schedules, by tenant and name.

        Args:
            after: Tenant and name of the last row of the page before.
        """
        return [kept.schedule for kept in await self.store.schedules.page(tenant, after, limit)]

    async def schedule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Schedule:
        """Return a schedule.

        Raises:
            NotFound: The schedule does not exist.
        """
        found = await self.store.schedules.find(word("tenant", tenant), word("name of the schedule", name))
        if found is None:
            raise no_schedule(name, tenant)
        return found.schedule

    async def pause_schedule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Schedule:
        """Pause a schedule. It starts no run until you resume it; started runs go on.

        Raises:
            NotFound: The schedule does not exist.
        """
        now_ms = self.store.clock.now_ms()
        return await self._changed(tenant, name, lambda before: _armed(before, now_ms, paused=True))

    async def resume_schedule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Schedule:
        """Resume a paused schedule from now. Times that passed meanwhile are skipped; `backfill_schedule` starts their runs.

        Raises:
            NotFound: The schedule does not exist.
        """
        now_ms = self.store.clock.now_ms()
        return await self._changed(tenant, name, lambda before: _armed(before, now_ms, paused=False))

    async def remove_schedule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Remove a schedule; started runs go on.

        Raises:
            NotFound: The schedule does not exist.
        """
        if not await self.store.schedules.remove(word("tenant", tenant), word("name of the schedule", name)):
            raise no_schedule(name, tenant)

    async def backfill_schedule(
        self, name: str, since_ms: int, until_ms: int, *, tenant: str = DEFAULT_TENANT, by: str | Actor | None = None
    ) -> Sequence[BackfilledRun]:
        """Start the runs of a schedule's past times, all at once. A time that has had its run gets no second one. `by`
        contributes to them, and so decides none of their questions with four eyes.

        Args:
            until_ms: Last time, inclusive, in Unix milliseconds; not in the future.

        Raises:
            NotFound: The schedule does not exist.
            InvalidInput: A time is not past, or the times are more than 1,000.
        """
        schedule = await self.schedule(name, tenant=tenant)
        if since_ms > until_ms:
            raise InvalidInput("These times end before they begin. Nothing was started: say the earlier moment as since.")
        if since_ms < 0:
            raise InvalidInput("These times begin before 1970. Nothing was started: say a later moment as since.")
        if until_ms > self.store.clock.now_ms():
            raise InvalidInput("Only times that are past can be made up for. Nothing was started.")
        found = islice(schedules.nominal_times(schedule, since_ms - 1), MAX_MADE_UP_FOR + 1)
        times = [*takewhile(lambda at_ms: at_ms <= until_ms, found)]
        if len(times) > MAX_MADE_UP_FOR:
            raise InvalidInput(
                f"Between these moments schedule {name!r:.130} has more than {MAX_MADE_UP_FOR} times. Nothing was started:"
                " make up for a shorter while."
            )
        claim = self._claim(by)
        return [BackfilledRun(at_ms, await schedule_runner.start(self.runtime, schedule, at_ms, claim)) for at_ms in times]

    async def _changed(self, tenant: str, name: str, change: Callable[[Schedule], Schedule]) -> Schedule:
        tenant, name = word("tenant", tenant), word("name of the schedule", name)

        async def attempt() -> Schedule | None:
            found = await self.store.schedules.find(tenant, name)
            if found is None:
                raise no_schedule(name, tenant)
            after = change(found.schedule)
            return after if await self.store.schedules.replace(after, found.revision) else None

        return await changed(f"Schedule {name!r:.130}", attempt)


@contextmanager
def _nothing_changed() -> Iterator[None]:
    """Say of what a start would refuse that no schedule was changed."""
    try:
        yield
    except InvalidInput as problem:
        words = problem.message.replace("No run was started", "Nothing was changed")
        raise InvalidInput(words, field=problem.field, misfits=problem.misfits) from None


def _in_place_of(before: Schedule, schedule: Schedule, now_ms: int) -> Schedule:
    kept = {
        field: getattr(before, field)
        for field in ("created_ms", "last_run", "last_nominal_ms", "fired", "skipped", "missed", "uncounted_s", "pending")
    }
    authors = bounded((*before.authors, *of_claim(before.by), *of_claim(schedule.by)))
    return _armed(msgspec.structs.replace(schedule, **kept, authors=authors), now_ms, paused=before.paused)


def _armed(schedule: Schedule, now_ms: int, *, paused: bool) -> Schedule:
    return schedules.armed(msgspec.structs.replace(schedule, paused=paused, queued_ms=None, problem=None), now_ms)


def no_schedule(name: str, tenant: str) -> NotFound:
    return NotFound(
        f"There is no schedule {name!r:.130} of tenant {tenant!r:.130} in this store; `holdfast schedules list` shows those"
        " that are."
    )
