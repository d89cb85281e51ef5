"""The same done to many runs, and what it would do told before."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Shell
from tests.cli.test_runs import started


def test_all_of_some_runs_are_changed_and_one_that_refuses_keeps_no_other(shell: Shell) -> None:
    runs = [started(shell, "patient", "--tenant", "acme") for _ in range(3)]
    other = started(shell, "patient")
    ended = started(shell, "broken", "--tenant", "acme")

    def statuses() -> list[str]:
        return [shell("runs", "show", run, "--json").data["status"] for run in (*runs, other)]

    asked = shell("runs", "pause", "--all", "--tenant", "acme")
    assert (asked.code, "3 runs (3 waiting)" in asked.err, "Confirm with --yes" in asked.err) == (2, True, True)
    would = shell("runs", "pause", "--all", "--tenant", "acme", "--dry-run", "--json").data
    assert sorted(each["run_id"] for each in would) == sorted(runs)
    assert statuses() == ["waiting"] * 4
    assert shell("runs", "pause", "--all", "--tenant", "acme", "--yes").code == 0
    assert statuses() == ["paused"] * 3 + ["waiting"]
    limited = shell("runs", "resume", "--all", "--yes", "--limit", "2", "--json").data
    assert (len(limited["done"]), limited["more"]) == (2, True)
    found = shell("runs", "cancel", "--all", "--tenant", "acme", "--status", "waiting,paused,failed", "--yes", "--json")
    assert found.code == 4
    assert [each["run_id"] for each in found.data["refused"]] == [ended]
    assert sorted(each["run_id"] for each in found.data["done"]) == sorted(runs)
    assert shell("runs", "resume", "--all", "--yes").code == 0  # of none
    assert [each["run_id"] for each in shell("runs", "retry", "--all", "--yes", "--json").data["done"]] == [ended]


def test_every_run_is_never_meant_by_saying_nothing(shell: Shell) -> None:
    run = started(shell, "patient")
    for words in (["--all", "--yes"], [], [run, "--all"], [run, "--status", "waiting"]):
        assert shell("runs", "cancel", *words).code == 2, words
    assert shell("runs", "show", run, "--json").data["status"] == "waiting"


def test_a_dry_run_tells_what_cancelling_would_undo_and_what_is_in_flight(shell: Shell) -> None:
    shell("run", "flow:booking")
    (row,) = shell("runs", "list", "--json").data
    run = row["run_id"]
    (would,) = shell("runs", "cancel", run, "--dry-run", "--json").data
    assert [each["tool"] for each in would["compensated"]] == ["reserve", "reserve"]
    assert [each["call"].split(":")[1] for each in would["compensated"]] == ["second#1", "first#1"]
    assert would["called_off"] == ["pay#1"]
    assert [each["policy"] for each in would["in_flight"]] == ["once"]
    told = shell("runs", "cancel", run, "--dry-run").out
    assert "1. reserve" in told
    assert "a person is asked before the run ends" in told
    assert shell("runs", "show", run, "--json").data["status"] == "requires_attention"


def test_a_signal_and_a_higher_limit_have_a_dry_run(shell: Shell) -> None:
    run = started(shell, "patient")
    for words, says in {
        ("runs", "signal", run[:30], "other"): "no step waits for it: the run would keep it",
        ("runs", "extend", run, "--steps", "2000"): "it would be waiting",
        ("runs", "extend", run, "--steps", "1"): "refused: ",
        ("budget", "raise", run, "2.00"): "refused: ",
    }.items():
        told = shell(*words, "--dry-run")
        assert (told.code, says in told.out, "Nothing was done." in told.err) == (0, True, True), told
    assert "LimitRaised" not in shell("runs", "events", run, "--json").out


def test_dead_letters_are_listed_counted_edited_replayed_and_resolved(shell: Shell) -> None:
    runs = [started(shell, "broken", "--tenant", "acme") for _ in range(3)]
    letters = shell("dead-letters", "list", "--json").data
    assert [each["run_id"] for each in letters] == runs
    assert {each["state"] for each in letters} == {"open"}
    assert runs[0][:8] in shell("dead-letters", "list", "--tenant", "acme", "--error", letters[0]["error_class"]).out
    assert shell("dead-letters", "list", "--error", "nothing", "--json").data == []
    (kind,) = shell("dead-letters", "summary", "--json").data
    assert (kind["open"], kind["resolved"]) == (3, 0)
    assert kind["oldest_open_s"] >= 0
    assert kind["node"] in shell("dead-letters", "summary").out
    assert "Attempts" in shell("dead-letters", "show", runs[0]).out
    assert shell("dead-letters", "show", letters[0]["letter"], "--json").data["status"] == "failed"
    would = shell("dead-letters", "retry", "--all", "--tenant", "acme", "--dry-run", "--json").data
    assert would == [each["letter"] for each in letters]
    assert shell("dead-letters", "retry", "--all").code == 2
    assert shell("dead-letters", "resolve", runs[0]).code == 2  # with what?
    assert shell("dead-letters", "resolve", runs[0], "--fail", "--reason", "gone").code == 0
    assert shell("dead-letters", "resolve", runs[1], "--output", "1").code == 4
    assert shell("dead-letters", "edit", runs[1], "--input", "{").code == 2
    assert shell("dead-letters", "edit", runs[1]).code == 2
    no_call = shell("dead-letters", "edit", runs[1], "--arguments", "{}")
    assert (no_call.code, "edit the run's input instead" in no_call.err) == (4, True)
    edited = shell("dead-letters", "edit", runs[1], "--input", "{}", "--json")
    assert (edited.code, edited.data["status"]) == (0, "failed")
    assert [each["edited"] for each in shell("dead-letters", "list", "--json").data] == [True, False]
    done = shell("dead-letters", "retry", "--all", "--workflow", "broken", "--yes", "--json")
    assert (done.code, [each["letter"] for each in done.data["done"]]) == (0, [each["letter"] for each in letters[1:]])
    assert shell("dead-letters", "list", "--json").data == []
    assert len(shell("dead-letters", "list", "--state", "resolved", "--json").data) == 3
    assert shell("dead-letters", "show", runs[0]).code == 3


def test_all_of_some_runs_are_forked_and_a_dry_run_says_which_would_be(shell: Shell) -> None:
    runs = [started(shell, "broken", "--tenant", "acme") for _ in range(2)]
    (step,) = [each["step"] for each in shell("runs", "show", runs[0], "--json").data["steps"]]
    would = shell("runs", "fork", "--all", "--tenant", "acme", "--from", step, "--dry-run", "--json").data
    assert {(each["run_id"], each["refused"]) for each in would} == {(run, None) for run in runs}
    told = shell("runs", "fork", "--all", "--from", step, "--dry-run")
    words = "0 kept, 0 results reused, 1 step run again with 0 operations; at most $0.00"
    assert f"would be forked from {step}: {words}\n" in told.out
    assert told.err == "fork: 2 of 2 would be forked; $0.00 at most if every model call is made again. Nothing was done.\n"
    assert shell("runs", "fork", "--all", "--from", step).code == 2
    assert shell("runs", "fork", "--from", step).code == 2
    done = shell("runs", "fork", "--all", "--from", step, "--yes", "--json")
    assert (done.code, {each["run_id"] for each in done.data["done"]}) == (0, {*runs})
    assert len({each["fork"] for each in done.data["done"]} - {*runs}) == 2
    again = shell("runs", "fork", "--all", "--from", step, "--yes", "--json")
    assert again.data["done"] == done.data["done"], "said again, it forks nothing twice, and no fork of its own"
    would = shell("runs", "fork", "--all", "--from", step, "--dry-run")
    assert would.out.count("was forked as") == 2
    other = shell("runs", "fork", "--all", "--from", step, "--key", "again", "--limit", "1", "--yes", "--json")
    assert other.data["done"][0]["fork"] not in {each["fork"] for each in done.data["done"]}
    refused = shell("runs", "fork", "--all", "--status", "failed", "--from", "nowhere#1", "--yes", "--json")
    assert (refused.code, len(refused.data["refused"])) == (4, 2)


STAGES = """
from holdfast import Context, flow, step


@step
def stage(number: int) -> int:
    if number == 3:
        raise ValueError("not today")
    return number


@flow
async def stages(ctx: Context, most: int) -> int:
    return sum([await stage(number) for number in range(most)])
"""


def test_the_previews_of_one_fork_and_of_all_count_the_same(shell: Shell, home: Path) -> None:
    (home / "stages.py").write_text(STAGES)
    run = shell("run", "stages.py:stages", "-i", "5", "--json").data["run_id"]
    one = shell("runs", "fork", run, "--from", "flow#1/2", "--dry-run").out
    kept = next(line for line in one.splitlines() if line.startswith("Kept"))
    assert kept.count("step stage") == 2, one
    (all_of_them,) = shell("runs", "fork", "--all", "--from", "flow#1/2", "--dry-run").out.splitlines()
    assert ": 2 kept, " in all_of_them, all_of_them
    assert f"{one.count('executed again,')} operation" in all_of_them
    assert f"{one.count('its recorded result, free')} result" in all_of_them
