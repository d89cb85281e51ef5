"""Schedules: when runs are started by the calendar, and what becomes of times that could not be kept.

A schedule goes from nominal time to nominal time. What is to be started is written down before it is (`pending`): whoever looks
next starts that first, and nothing is decided about other times before its run is known. So the overlap policy holds whatever
dies in between. Each time is one start key, so whoever fires it, and however often, starts one run.

Times of a zone follow Debian's cron where its clocks are put forward or back: what would fall into the hour that is left out
fires when it is over, what would fall twice fires once, and what repeats within hours goes by elapsed time (cronsim).

Never here: a clock, starting a run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from holdfast.core.values.actor import NOBODY, Actor
from holdfast.core.values.ids import RunId
from holdfast.errors import Misfit

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

Overlap = Literal["skip", "queue", "allow", "cancel"]
"""What happens at a nominal time while the run before has not ended.

- `skip`: nothing is started then. The default
- `queue`: one is started as soon as the other has ended; of several times that pass meanwhile, the last
- `allow`: both go on at once
- `cancel`: the other is cancelled, and the new one started at once

Of several times that passed while nobody was there, all are made up for with `allow`, else the last.
"""

LONGEST_JITTER_S: Final = 86_400
LONGEST_CATCH_UP_S: Final = 366 * 86_400
MAX_FIRED: Final = 100
"""Times of one schedule that are fired in one go; the rest follows at once, after the others."""
MAX_COUNTED: Final = 5_000
"""Times that are counted in one go: a tenth of a second's work. Where more have passed, the rest is passed over."""
QUEUE_LOOK_MS: Final = 2_000
_RAREST_LOOK_MS: Final = 60_000
"""How often it is looked whether the run before has ended: the rarer, the longer that takes, for each look is written down."""
_YEARS_AHEAD_MS: Final = 30 * 366 * 86_400_000
"""A line that does not fire within the calendar's longest gap, the leap days around 2100, never does."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Starts runs of `workflow` (its highest version, unless `version` says) at the times of `cron`.

    `cron` has five fields, as in Debian's cron, or six with seconds first; its times are those of `timezone`, an IANA name.
    `input` is JSON; its field `time_field`, if one is named, is set to the nominal time. A run starts up to `jitter_s` after
    its time, always the same for the same time. A time that was missed by more than `catch_up_s` is left out.

    `checked_ms` is the last nominal time that has been dealt with. At `due_at_ms` somebody must look; None where nobody has to.
    """

    tenant: str
    name: str
    workflow: str
    cron: str
    timezone: str = "UTC"
    version: int | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    time_field: str | None = None
    team: str | None = None
    team_budget: str | None = None
    agent: str | None = None
    """As whom its runs count in the team budget."""
    limit_nanousd: int | None = None
    jitter_s: float = 0
    overlap: Overlap = "skip"
    catch_up_s: float = 3600
    by: Actor = NOBODY
    authors: tuple[str, ...] = ()
    """Those who have set it since it was made, and who made their keys; who set it last is in `by` too."""
    created_ms: int = 0
    paused: bool = False
    checked_ms: int = 0
    due_at_ms: int | None = None
    queued_ms: int | None = None
    """The nominal time that waits for the run before."""
    pending: tuple[int, ...] = ()
    """Nominal times whose runs are to be started now, oldest first; perhaps they are."""
    last_run: RunId | None = None
    last_nominal_ms: int | None = None
    fired: int = 0
    skipped: int = 0
    """Times at which nothing was started because the run before had not ended."""
    missed: int = 0
    """Times that passed while no process was there, and were not made up for."""
    uncounted_s: int = 0
    """Seconds of which the missed times are not counted, because there were too many."""
    problem: str | None = None
    """Why the last firing could start nothing; None once one has."""


class Turn(NamedTuple):
    """The due part of a schedule: the schedule with that written down. `is_all` is false if more is due."""

    after: Schedule
    is_all: bool


def problems(schedule: Schedule) -> Iterator[Misfit]:
    """Yield each problem of a field, with what to do."""
    if not schedule.name.strip():
        yield Misfit("its name is empty", ["name"])
    try:
        zone(schedule.timezone)
    except ValueError as problem:
        yield Misfit(str(problem), ["timezone"])
    else:
        try:
            if next(nominal_times(schedule, schedule.created_ms), None) is None:
                yield Misfit(f"the line {schedule.cron!r:.100} names a time that never comes", ["cron"])
        except ValueError as problem:
            yield Misfit(str(problem), ["cron"])
    if not 0 <= schedule.jitter_s <= LONGEST_JITTER_S:
        yield Misfit(f"jitter_s is {schedule.jitter_s}; it is 0 to {LONGEST_JITTER_S} seconds (a day)", ["jitter_s"])
    if not 0 <= schedule.catch_up_s <= LONGEST_CATCH_UP_S:
        yield Misfit(f"catch_up_s is {schedule.catch_up_s}; it is 0 to {LONGEST_CATCH_UP_S} seconds (a year)", ["catch_up_s"])
    if schedule.overlap not in ("skip", "queue", "allow", "cancel"):
        yield Misfit(f"overlap is {schedule.overlap!r}; it is skip, queue, allow or cancel", ["overlap"])


@lru_cache(256)
def zone(name: str) -> ZoneInfo:
    """Raises ValueError for an unknown one."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - most commands know schedules by name only

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r:.100}; use an IANA name, like Europe/Berlin or UTC") from None


def nominal_times(schedule: Schedule, after_ms: int) -> Iterator[int]:
    """Its nominal times after that one, in order. Raises ValueError for a line that is none."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - most commands know schedules by name only

    began = datetime.fromtimestamp(after_ms // 1000, zone(schedule.timezone))
    try:
        found = CronSim(schedule.cron, began)
    except CronSimError as problem:
        if str(problem) == "Bad day-of-month":
            raise ValueError(f"{schedule.cron!r:.100} names a day that its months do not have") from None
        raise ValueError(
            f"{schedule.cron!r:.100} is not a cron expression ({str(problem).lower()}); use five fields, minute, hour, day of"
            " the month, month and weekday, like '30 2 * * MON-FRI', or six with the seconds first"
        ) from None
    until_ms = after_ms + _YEARS_AHEAD_MS
    for moment in found:
        at_ms = int(moment.timestamp()) * 1000
        if at_ms > until_ms:
            return
        if at_ms > after_ms:
            yield at_ms
            after_ms, until_ms = at_ms, at_ms + _YEARS_AHEAD_MS


def starts_at_ms(schedule: Schedule, nominal_ms: int) -> int:
    """Return when the run of a nominal time is to start. The jitter of a time is the same in every process."""
    chance = zlib.crc32(f"{schedule.tenant}/{schedule.name}/{nominal_ms}".encode()) / 2**32
    return nominal_ms + int(chance * schedule.jitter_s * 1000)


def key_of(schedule: Schedule, nominal_ms: int) -> str:
    """The start key of the run of a nominal time."""
    return f"schedule/{schedule.name}/{stamp(nominal_ms)}"


def claim_of(schedule: Schedule) -> Actor:
    """Return the actor of its runs: the person who set it or, if none was named, the schedule itself."""
    return schedule.by if schedule.by.name else schedule.by._replace(name=f"schedule {schedule.name}")


def stamp(at_ms: int) -> str:
    """A nominal time as text: `2026-11-23T02:30:00Z`."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def input_of(schedule: Schedule, nominal_ms: int) -> bytes:
    """The input of the run of a nominal time, as JSON."""
    if schedule.time_field is None:
        return bytes(schedule.input)
    return msgspec.json.encode({**msgspec.json.decode(schedule.input), schedule.time_field: stamp(nominal_ms)})


def armed(schedule: Schedule, now_ms: int) -> Schedule:
    """The schedule as it goes on from now: times that have passed are no longer its."""
    at_ms = next(nominal_times(schedule, now_ms), None)
    due_ms = None if at_ms is None or schedule.paused else starts_at_ms(schedule, at_ms)
    return msgspec.structs.replace(schedule, checked_ms=now_ms, due_at_ms=now_ms if schedule.pending else due_ms)


def begun(schedule: Schedule, runs: Sequence[RunId]) -> Schedule:
    """The schedule once the `runs` of the first of its pending times are there."""
    if not runs:
        return schedule
    done, rest = schedule.pending[: len(runs)], schedule.pending[len(runs) :]
    next_ms = None if schedule.paused else next(nominal_times(schedule, schedule.checked_ms), None)
    due_ms = None if next_ms is None else starts_at_ms(schedule, next_ms)
    return msgspec.structs.replace(
        schedule,
        pending=rest,
        last_run=runs[-1],
        last_nominal_ms=done[-1],
        fired=schedule.fired + len(done),
        problem=None,
        due_at_ms=schedule.due_at_ms if rest else due_ms,
    )


def hindered(schedule: Schedule, problem: str, again_at_ms: int) -> Schedule:
    """The schedule where the run of its next pending time could not be started: that is due again then, with whatever comes
    meanwhile."""
    due_ms = None if schedule.paused else again_at_ms
    checked_ms = min(schedule.checked_ms, schedule.pending[0] - 1)
    return msgspec.structs.replace(schedule, pending=(), checked_ms=checked_ms, due_at_ms=due_ms, problem=problem)


def turn(schedule: Schedule, now_ms: int, *, last_has_ended: bool) -> Turn:
    """Return the part that is due now. `last_has_ended`: the run that it has started last is over, or there is none."""
    oldest_ms = now_ms - int(schedule.catch_up_s * 1000)
    if schedule.queued_ms is None:
        schedule = _passed_over(schedule, oldest_ms - int(schedule.jitter_s * 1000) - 1)
    most = MAX_FIRED if schedule.overlap == "allow" else MAX_COUNTED
    due = list(islice(_due(schedule, now_ms), most + 1))
    if len(due) > most and schedule.overlap != "allow":  # only the last counts
        schedule = _passed_over(schedule, _shortly_before(schedule, now_ms))
        due = list(islice(_due(schedule, now_ms), most + 1))
    is_all, due = len(due) <= most, due[:most]
    kept = [at_ms for at_ms in due if at_ms == schedule.queued_ms or starts_at_ms(schedule, at_ms) >= oldest_ms]
    if kept:  # what is too old after them is counted once they have their runs: until then it is looked at again
        due = due[: due.index(kept[-1]) + 1]
    missed, skipped = len(due) - len(kept), 0
    if schedule.overlap != "allow":  # of several, the last is the one that counts
        kept, passed = (kept[-1:], len(kept[:-1])) if is_all else ([], len(kept))
        missed, skipped = (missed + passed, 0) if last_has_ended else (missed, passed)
    waits = bool(kept) and not last_has_ended and schedule.overlap == "queue"
    if kept and not last_has_ended and schedule.overlap == "skip":
        kept, skipped = [], skipped + 1
    checked_ms = kept[-1] - 1 if waits else due[-1] if due else schedule.checked_ms
    next_ms = next(nominal_times(schedule, checked_ms), None)
    due_ms = (
        now_ms + _look_again_ms(now_ms - kept[-1]) if waits else None if next_ms is None else starts_at_ms(schedule, next_ms)
    )
    pending = () if waits else tuple(kept)
    after = msgspec.structs.replace(
        schedule,
        checked_ms=checked_ms,
        due_at_ms=now_ms if pending else due_ms,
        pending=pending,
        missed=schedule.missed + missed,
        skipped=schedule.skipped + skipped,
        queued_ms=kept[-1] if waits else None,
    )
    return Turn(after, is_all)


def _passed_over(schedule: Schedule, until_ms: int) -> Schedule:
    """Return the schedule with all times up to then missed: counted as far as that is little work."""
    if schedule.checked_ms >= until_ms:
        return schedule
    times = takewhile(lambda at_ms: at_ms <= until_ms, nominal_times(schedule, schedule.checked_ms))
    passed = list(islice(times, MAX_COUNTED))
    is_counted = next(times, None) is None
    return msgspec.structs.replace(
        schedule,
        checked_ms=until_ms,
        missed=schedule.missed + len(passed),
        uncounted_s=schedule.uncounted_s + (0 if is_counted else (until_ms - passed[-1]) // 1000),
    )


def _shortly_before(schedule: Schedule, now_ms: int) -> int:
    """Return a moment after which the last time comes whose run is to have started by now, and not many others."""
    certain_ms, span_ms = now_ms - int(schedule.jitter_s * 1000), 1_000
    while certain_ms - span_ms > schedule.checked_ms:
        first = next(nominal_times(schedule, certain_ms - span_ms), now_ms)
        if first <= certain_ms:
            return certain_ms - span_ms
        span_ms *= 2
    return schedule.checked_ms


def _look_again_ms(waited_ms: int) -> int:
    return min(max(waited_ms // 10, QUEUE_LOOK_MS), _RAREST_LOOK_MS)


def _due(schedule: Schedule, now_ms: int) -> Iterator[int]:
    """The nominal times whose runs are to have started by now."""
    for at_ms in nominal_times(schedule, schedule.checked_ms):
        if starts_at_ms(schedule, at_ms) > now_ms:
            return
        yield at_ms
