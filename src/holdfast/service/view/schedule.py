"""Schedules, and when they fire next. Never here: printing, who may see it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.nouns.schedules import nominal_times
from holdfast.service.view.plain import iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.control.control import Control
    from holdfast.control.schedule import Backfilled
    from holdfast.core.nouns.schedules import Schedule


_NEXT_TIMES: Final = 5
"""Of a schedule, that are shown."""


def of_backfilled(made_up: Backfilled) -> dict[str, Any]:
    """A time of a schedule, and its run."""
    return {"time": iso(made_up.nominal_ms), "run_id": made_up.run}


async def of_schedule(control: Control, schedule: Schedule) -> dict[str, Any]:
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
