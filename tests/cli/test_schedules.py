"""`holdfast schedules`: what starts runs by the calendar."""

from __future__ import annotations

import re

from tests.cli.conftest import Shell

SET = ("schedules", "set", "nightly", "tests.cli.flows:patient", "--cron", "30 2 * * *")


def test_a_schedule_is_set_shown_paused_made_up_for_and_removed(shell: Shell) -> None:
    made = shell(*SET, "--timezone", "Europe/Berlin", "--overlap", "queue", "--as", "ann", "--json")
    assert made.code == 0, made.err
    assert (made.data["name"], made.data["overlap"], made.data["by"], made.data["fired"]) == ("nightly", "queue", "ann", 0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT0[01]:30:00.000Z", made.data["next_times"][0])
    head, row, *_ = shell("schedules", "list").out.splitlines()
    assert head.split() == ["SCHEDULE", "WORKFLOW", "CRON", "ZONE", "NEXT", "LAST", "RUN", "STATUS"]
    assert row.split()[:2] == ["nightly", "patient"]
    assert re.search(r"Times +0 started, 0 skipped, 0 missed", shell("schedules", "show", "nightly").out)
    assert shell("schedules", "pause", "nightly", "--json").data["next_times"] == []
    assert "paused" in shell("schedules", "list").out
    assert shell("schedules", "resume", "nightly", "--json").data["paused"] is False
    backfill = ("schedules", "backfill", "nightly", "--since", "2d", "--json")
    made_up = shell(*backfill).data
    assert shell(*backfill).data == made_up
    assert len(made_up) == 2
    assert {each["run_id"] for each in shell("runs", "list", "--json").data} == {each["run_id"] for each in made_up}
    assert shell("schedules", "remove", "nightly", "--json").data["removed"] is True
    assert shell("schedules", "list", "--json").data == []


def test_what_cannot_be_set_is_refused_in_words(shell: Shell) -> None:
    assert shell(*SET).code == 0
    for words, code, said in (
        ((*SET[:-1], "0 0 31 2 *"), 2, "names a day that its months do not have"),
        ((*SET, "--timezone", "Mars"), 2, "there is no time zone 'Mars'"),
        (("schedules", "set", "x", "nothing", "--cron", "0 0 * * *"), 3, "There is no workflow 'nothing'"),
        (("schedules", "show", "other"), 3, "There is no schedule 'other'"),
        (("schedules", "backfill", "nightly", "--since", "soon"), 2, "is not a time"),
        (("schedules", "list", "--after", "nonsense"), 2, "cursor"),
    ):
        told = shell(*words)
        assert (told.code, told.out) == (code, ""), told.err
        assert said in told.err
    assert len(shell("schedules", "list", "--json").data) == 1
