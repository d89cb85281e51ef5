"""Schedules, and when they fire next. Never here: printing, who may see it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict

import msgspec

from holdfast.core.nouns.schedules import Overlap, nominal_times
from holdfast.core.views.status import Status
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Dollars, Time, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.nouns.schedules import Schedule
    from holdfast.service.control.control import Control
    from holdfast.service.control.schedule import BackfilledRun


_NEXT_TIMES: Final = 5
"""Of a schedule, that are shown."""


class BackfilledRow(TypedDict):
    """A run that was started for a past time of a schedule."""

    time: Annotated[Time, doc("The time for which it was started.")]
    run_id: field.RunId


class ScheduleRow(TypedDict):
    """A schedule, with the state of its last run and its next times."""

    name: Annotated[str, doc("Name of the schedule.")]
    tenant: field.Tenant
    workflow: Annotated[str, doc("Name of the workflow that it starts.")]
    version: Annotated[int | None, doc("The version that it starts; null for the highest.")]
    cron: Annotated[str, doc("Five fields as in cron, or six with the seconds first.")]
    timezone: Annotated[str, doc("The time zone of `cron`, an IANA name: `Europe/Berlin`.")]
    input: Annotated[Any, doc("The input of its runs.")]
    time_field: Annotated[str | None, doc("The field of the input that is set to the nominal time.")]
    team: field.Team
    team_budget: Annotated[str | None, doc("The team budget that its runs are charged to.")]
    agent: Annotated[str | None, doc("The agent of the team budget that its runs are charged to.")]
    cost_limit_usd: Annotated[Dollars | None, doc("The cost limit of each run; null for that of the workflow.")]
    jitter_s: Annotated[float, doc("The most seconds by which a run starts later than its time.")]
    overlap: Annotated[Overlap, doc("Action while the previous run is active.")]
    catch_up_s: Annotated[float, doc("Skip runs that were missed by more than this, in seconds.")]
    paused: Annotated[bool, doc("True if it is paused and starts no runs.")]
    by: Annotated[str | None, doc("The person who set it last.")]
    created_at: Annotated[Time, doc("Time at which it was set first.")]
    next_times: Annotated[list[Time], doc("The next times at which it starts a run; none while it is paused.")]
    queued_time: Annotated[Time | None, doc("The time whose run waits for the run before to end.")]
    last_time: Annotated[Time | None, doc("The time of its last run.")]
    last_run_id: Annotated[str | None, doc("Id of its last run; null before the first.")]
    last_status: Annotated[Status | None, doc("The status of its last run.")]
    fired: Annotated[int, doc("Number of runs that it has started.")]
    skipped: Annotated[int, doc("Number of times without a start, because the previous run had not ended.")]
    missed: Annotated[int, doc("Number of times that passed while no process was there to start a run.")]
    uncounted_s: Annotated[int, doc("Seconds whose missed times are not counted because they were too many.")]
    problem: Annotated[str | None, doc("Reason why it could not start its last run; null if it could.")]


def of_backfilled(made_up: BackfilledRun) -> BackfilledRow:
    """A time of a schedule, and its run."""
    return {"time": iso(made_up.nominal_ms), "run_id": made_up.run}


async def of_schedule(control: Control, schedule: Schedule) -> ScheduleRow:
    """A schedule, with how the run stands that it has started last, and what comes next."""
    last = None if schedule.last_run is None else await control.store.views.run(schedule.last_run)
    soon = [] if schedule.paused else islice(nominal_times(schedule, control.store.clock.now_ms()), _NEXT_TIMES)
    return {
        "name": schedule.name,
        "tenant": schedule.tenant,
        "workflow": schedule.workflow,
        "version": schedule.version,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "input": msgspec.json.decode(schedule.input),
        "time_field": schedule.time_field,
        "team": schedule.team,
        "team_budget": schedule.team_budget,
        "agent": schedule.agent,
        "cost_limit_usd": maybe_usd(schedule.limit_nanousd),
        "jitter_s": schedule.jitter_s,
        "overlap": schedule.overlap,
        "catch_up_s": schedule.catch_up_s,
        "paused": schedule.paused,
        "by": schedule.by.name,
        "created_at": iso(schedule.created_ms),
        "next_times": [iso(at_ms) for at_ms in soon],
        "queued_time": iso(schedule.queued_ms),
        "last_time": iso(schedule.last_nominal_ms),
        "last_run_id": schedule.last_run,
        "last_status": None if last is None else last.status,
        "fired": schedule.fired,
        "skipped": schedule.skipped,
        "missed": schedule.missed,
        "uncounted_s": schedule.uncounted_s,
        "problem": schedule.problem,
    }
