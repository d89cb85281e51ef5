"""When a schedule fires, in every zone and after every absence; and that it is said what was left out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.core.nouns.schedules import (
    MAX_COUNTED,
    MAX_FIRED,
    QUEUE_LOOK_MS,
    Schedule,
    armed,
    begun,
    hindered,
    input_of,
    key_of,
    nominal_times,
    problems,
    stamp,
    starts_at_ms,
    turn,
)
from holdfast.core.values.ids import RunId

HOUR_MS = 3_600_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def schedule(cron: str = "0 * * * *", begun: str = "2026-11-23T00:00:00", **given: Any) -> Schedule:
    made = Schedule(tenant="default", name="nightly", workflow="report", cron=cron, created_ms=ms(begun), **given)
    assert list(problems(made)) == []
    return armed(made, ms(begun))


def stamps(found: Any) -> list[str]:
    return [stamp(each) for each in found]


def times(cron: str, zone: str, after: str, count: int) -> list[str]:
    found = nominal_times(schedule(cron, timezone=zone), ms(after))
    return [stamp(next(found)) for _ in range(count)]


@pytest.mark.parametrize(
    ("cron", "after", "expected"),
    [
        # Clocks go from 2 to 3 on 29 March: what is due at half past two is due when they do.
        ("30 2 * * *", "2026-03-27T12:00", ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        # They go from 3 back to 2 on 25 October: it is due once.
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        # What repeats within hours goes on evenly.
        ("*/30 * * * *", "2026-10-25T00:10", ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"]),
        ("0 9 * * MON-FRI", "2026-11-20T12:00", ["2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z"]),
    ],
)
def test_times_of_a_zone_whose_clocks_change(cron: str, after: str, expected: list[str]) -> None:
    assert times(cron, "Europe/Berlin", after, len(expected)) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cron": "30 2 * *"}, "'30 2 * *' is not a cron expression (wrong number of fields)"),
        ({"cron": "61 2 * * *"}, "'61 2 * * *' is not a cron expression (bad minute)"),
        ({"cron": "0 0 31 2 *"}, "names a day that its months do not have"),
        ({"cron": "0 0 */30 2 1#5"}, "names a time that never comes"),
        ({"timezone": "Mars/Olympus"}, "there is no time zone 'Mars/Olympus'"),
        ({"timezone": "../../etc/passwd"}, "there is no time zone"),
        ({"jitter_s": -1}, "jitter_s is -1"),
        ({"catch_up_s": float("nan")}, "catch_up_s is nan"),
        ({"overlap": "often"}, "overlap is 'often'"),
        ({"name": " "}, "its name is empty"),
    ],
)
def test_what_cannot_be_is_said_in_words(given: dict[str, Any], said: str) -> None:
    asked = {"tenant": "default", "name": "n", "workflow": "w", "cron": "0 0 * * *"} | given
    assert said in "; ".join(problems(Schedule(**asked)))


def test_a_leap_day_comes_although_the_calendar_leaves_one_out() -> None:
    assert times("0 0 29 2 *", "UTC", "2096-03-01T00:00", 2) == ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]


def test_each_time_is_fired_once_and_the_next_is_known() -> None:
    one = schedule()
    assert turn(one, ms("2026-11-23T00:59:59"), last_has_ended=True).after.pending == ()
    found, is_all = turn(one, ms("2026-11-23T01:00:00"), last_has_ended=True)
    assert (stamps(found.pending), is_all) == (["2026-11-23T01:00:00Z"], True)
    assert found.due_at_ms == ms("2026-11-23T01:00:00"), "what is to be started is due until it is"
    after = begun(found, [RunId("r")])
    assert (after.pending, after.last_run, after.fired, after.last_nominal_ms) == ((), "r", 1, found.due_at_ms)
    assert after.due_at_ms == ms("2026-11-23T02:00:00")
    assert turn(after, ms("2026-11-23T01:30:00"), last_has_ended=True).after.pending == ()


@pytest.mark.parametrize(
    ("overlap", "has_ended", "fired", "skipped"),
    [
        ("skip", False, [], 1),
        ("skip", True, ["01"], 0),
        ("allow", False, ["01"], 0),
        ("cancel", False, ["01"], 0),
        ("queue", False, [], 0),
        ("queue", True, ["01"], 0),
    ],
)
def test_what_happens_while_the_run_before_goes_on(overlap: Any, has_ended: bool, fired: list[str], skipped: int) -> None:
    found = turn(schedule(overlap=overlap), ms("2026-11-23T01:00:00"), last_has_ended=has_ended)
    assert [each[11:13] for each in stamps(found.after.pending)] == fired
    assert (found.after.skipped, found.after.missed) == (skipped, 0)


def test_a_queued_schedule_waits_for_its_last_run_and_then_starts_the_latest_time() -> None:
    found = schedule(overlap="queue", catch_up_s=60)
    for hour in (1, 2, 3):
        now_ms = ms(f"2026-11-23T0{hour}:00:00")
        found = turn(found, now_ms, last_has_ended=False).after
        assert (found.queued_ms, found.due_at_ms) == (now_ms, now_ms + QUEUE_LOOK_MS)
    for waited_s, again_s in ((15, 2), (100, 10), (3_000, 60)):
        look_ms = now_ms + waited_s * 1000
        assert turn(found, look_ms, last_has_ended=False).after.due_at_ms == look_ms + again_s * 1000
    after, _ = turn(found, ms("2026-11-23T03:59:59"), last_has_ended=True)
    assert stamps(after.pending) == ["2026-11-23T03:00:00Z"]
    assert (after.skipped, after.missed, after.queued_ms) == (2, 0, None)


def test_what_is_too_old_while_one_waits_for_the_run_before_is_missed_once() -> None:
    found = turn(schedule(overlap="queue", catch_up_s=60), ms("2026-11-23T01:00:00"), last_has_ended=False).after
    late_ms = ms("2026-11-23T04:30:00")
    for _ in range(3):
        found = turn(found, late_ms, last_has_ended=False).after
    assert (stamps([found.queued_ms]), found.missed) == (["2026-11-23T01:00:00Z"], 0)
    found = turn(found, late_ms, last_has_ended=True).after
    assert stamps(found.pending) == ["2026-11-23T01:00:00Z"]
    again = turn(hindered(found, "no such workflow", late_ms), late_ms, last_has_ended=True).after
    assert (again.pending, again.missed) == ((), 4), "by now it is too old itself"
    found = begun(found, [RunId("r")])
    assert found.due_at_ms == ms("2026-11-23T02:00:00")
    found = turn(found, late_ms, last_has_ended=False).after
    assert (found.pending, found.missed, found.skipped) == ((), 3, 0)


@pytest.mark.parametrize(
    ("overlap", "fired", "missed"), [("allow", 3, 69), ("skip", 1, 71), ("queue", 1, 71), ("cancel", 1, 71)]
)
def test_after_three_days_away_only_what_is_not_too_old_is_made_up_for(overlap: Any, fired: int, missed: int) -> None:
    found = turn(schedule(overlap=overlap, catch_up_s=2 * 3600), ms("2026-11-26T00:00:00"), last_has_ended=True)
    assert stamps(found.after.pending)[-1] == "2026-11-26T00:00:00Z"
    assert (len(found.after.pending), found.after.missed, found.after.skipped) == (fired, missed, 0)


def test_more_than_fit_into_one_go_come_in_the_next() -> None:
    found = turn(schedule("* * * * *", overlap="allow", catch_up_s=86_400), ms("2026-11-23T02:00:00"), last_has_ended=True)
    assert (len(found.after.pending), found.is_all) == (MAX_FIRED, False)
    rest = turn(begun(found.after, [RunId("r")] * MAX_FIRED), ms("2026-11-23T02:00:00"), last_has_ended=True)
    assert (len(rest.after.pending), rest.is_all) == (120 - MAX_FIRED, True)


@pytest.mark.parametrize(("cron", "counted"), [("* * * * *", 1439), ("* * * * * *", MAX_COUNTED)])
def test_the_latest_time_counts_even_if_too_many_times_were_missed(cron: str, counted: int) -> None:
    found = turn(schedule(cron, catch_up_s=86_400), ms("2026-11-24T00:00:00"), last_has_ended=True)
    assert stamps(found.after.pending) == ["2026-11-24T00:00:00Z"]
    assert (found.after.missed, found.is_all) == (counted, True)
    assert found.after.missed + found.after.uncounted_s == pytest.approx(counted if counted < MAX_COUNTED else 86_399, abs=1)


@pytest.mark.parametrize("overlap", ["allow", "skip", "queue", "cancel"])
def test_after_a_year_away_it_fires_in_the_first_go_and_reports_what_was_not_counted(overlap: Any) -> None:
    away = schedule("*/4 * * * * *", overlap=overlap, catch_up_s=8)
    found, is_all = turn(away, ms("2027-11-23T00:00:00"), last_has_ended=True)
    assert (stamps(found.pending)[-1], is_all) == ("2027-11-23T00:00:00Z", True)
    assert found.missed == MAX_COUNTED + (0 if overlap == "allow" else 2)
    assert found.uncounted_s == 365 * 86_400 - 4 * MAX_COUNTED - 9
    later = turn(begun(found, [RunId("r")] * len(found.pending)), ms("2027-11-23T00:00:04"), last_has_ended=True).after
    assert (stamps(later.pending), later.uncounted_s) == (["2027-11-23T00:00:04Z"], found.uncounted_s)


def test_the_jitter_of_what_is_almost_too_old_is_looked_at() -> None:
    """A time that is too old may have a run that is not, because it starts later."""
    away = schedule("* * * * *", overlap="allow", catch_up_s=600, jitter_s=3600)
    now_ms = ms("2026-11-23T20:00:00")
    found = turn(away, now_ms, last_has_ended=True).after
    wanted = [at for at in range(ms("2026-11-23T00:01:00"), now_ms, 60_000) if now_ms - 600_000 <= starts_at_ms(away, at)]
    first_not_due = next(at for at in range(ms("2026-11-23T00:01:00"), now_ms, 60_000) if starts_at_ms(away, at) > now_ms)
    assert [*found.pending] == [at for at in wanted if at < first_not_due]


def test_what_is_to_be_started_stays_so_whatever_a_person_changes_until_it_is() -> None:
    found = turn(schedule(), ms("2026-11-23T01:00:00"), last_has_ended=True).after
    paused = armed(msgspec.structs.replace(found, paused=True), ms("2026-11-23T01:00:01"))
    assert (paused.pending, paused.due_at_ms) == (found.pending, ms("2026-11-23T01:00:01"))
    assert begun(paused, [RunId("r")]).due_at_ms is None


def test_what_could_not_be_started_is_due_again_with_what_comes_meanwhile() -> None:
    one = schedule(overlap="allow", catch_up_s=86_400)
    found = turn(one, ms("2026-11-23T03:00:00"), last_has_ended=True).after
    after = hindered(begun(found, [RunId("r")]), "no such workflow", ms("2026-11-23T03:01:00"))
    assert (after.pending, after.fired, after.problem) == ((), 1, "no such workflow")
    assert after.due_at_ms == ms("2026-11-23T03:01:00")
    again = turn(after, ms("2026-11-23T04:00:00"), last_has_ended=True).after
    assert [each[11:13] for each in stamps(again.pending)] == ["02", "03", "04"]


def test_a_paused_one_is_never_due_and_goes_on_from_when_it_is_resumed() -> None:
    paused = armed(msgspec.structs.replace(schedule(), paused=True), ms("2026-11-23T00:30:00"))
    assert paused.due_at_ms is None
    resumed = armed(msgspec.structs.replace(paused, paused=False), ms("2026-11-25T00:30:00"))
    assert turn(resumed, ms("2026-11-25T01:00:00"), last_has_ended=True).after.missed == 0


def test_the_jitter_of_a_time_is_the_same_everywhere_and_within_its_bound() -> None:
    one = schedule(jitter_s=600)
    late = [starts_at_ms(one, at_ms) - at_ms for at_ms in range(0, 100 * HOUR_MS, HOUR_MS)]
    assert late == [starts_at_ms(one, at_ms) - at_ms for at_ms in range(0, 100 * HOUR_MS, HOUR_MS)]
    assert 0 <= min(late) < 100_000
    assert 500_000 < max(late) <= 600_000
    assert turn(one, one.due_at_ms - 1, last_has_ended=True).after.pending == ()
    assert len(turn(one, one.due_at_ms, last_has_ended=True).after.pending) == 1


def test_a_time_is_a_start_key_and_may_stand_in_the_input() -> None:
    one = schedule(input=msgspec.Raw(b'{"of":"sales"}'), time_field="at", last_run=RunId("r"))
    assert key_of(one, ms("2026-11-23T01:00:00")) == "schedule/nightly/2026-11-23T01:00:00Z"
    assert input_of(one, ms("2026-11-23T01:00:00")) == b'{"of":"sales","at":"2026-11-23T01:00:00Z"}'
    assert input_of(msgspec.structs.replace(one, time_field=None), 0) == b'{"of":"sales"}'
