"""`holdfast runs score`: said of a run, and shown with it."""

from __future__ import annotations

from tests.cli.conftest import Shell
from tests.cli.test_runs import started


def test_a_run_is_scored_and_shown_with_what_counts(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}')
    assert "\nScores" not in shell("runs", "show", run).out
    assert shell("runs", "score", run[:30], "helpful", "0.25", "--as", "ann").code == 0
    said = shell("runs", "score", run, "helpful", "-1", "--as", "ann", "--comment", "it is\nrude")
    assert (said.code, said.err.strip()) == (0, f"Run {run}: helpful is -1, by ann.")
    code = shell("runs", "score", run, "short", "true", "--as", "judge", "--source", "code", "--json").data
    assert (code["run_id"], code["value"], code["source"]) == (run, 1.0, "code")
    shown = shell("runs", "show", run).out
    assert shown[shown.index("Scores") :].split("\n\n")[0].split()[:7] == [
        "Scores",
        "NAME",
        "VALUE",
        "BY",
        "AGE",
        "COMMENT",
        "helpful",
    ]
    helpful, short = shell("runs", "show", run, "--json").data["scores"]
    assert (helpful["value"], helpful["by"], helpful["source"], helpful["comment"]) == (-1.0, "ann", "person", "it is\nrude")
    assert helpful["by_os_user"]
    assert {**short, "run_id": run} == code


def test_what_is_no_score_is_refused(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}')
    for words, told in (
        (("helpful", "good"), "is not a number"),
        (("helpful", "inf"), "no number up to 1e15"),
        (("not so", "1"), "begins with a letter"),
        (("helpful", "1", "--coment", "x"), ""),
    ):
        refused = shell("runs", "score", run, *words)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    assert shell("runs", "score", "f", "helpful", "1").code == 3
    assert shell("runs", "show", run, "--json").data["scores"] == []


def test_the_means_of_many_runs_are_shown_by_version(shell: Shell) -> None:
    for value in ("0.25", "1"):
        run = started(shell, "letter", "-i", '{"customer": "Ada"}')
        for name in ("helpful", "brief"):
            assert shell("runs", "score", run, name, value, "--as", "ann").code == 0
    lines = shell("scores", "--name", "helpful", "--since", "1h").out.splitlines()
    assert [line.split()[:5] for line in lines] == [
        ["WORKFLOW", "VERSION", "NAME", "MEAN", "SCORES"],
        ["letter", "1", "helpful", "0.625", "2"],
    ]
    first = shell("scores", "--workflow", "letter", "--limit", "1", "--json")
    assert [(each["name"], each["scores"], each["mean"]) for each in first.data] == [("brief", 2, 0.625)]
    assert "There are more than 1" in first.err
    assert shell("scores", "--workflow", "other", "--json").data == []
    assert shell("scores", "--since", "yesterday").code == 2
