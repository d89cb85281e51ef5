"""`holdfast eval`: scenarios in a file are played and judged; a bad file is refused in words before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import FLOWS, Shell

HEAD = f"workflow: {FLOWS}:letter\n"
GOOD = (
    HEAD
    + """
min_passed: 0.5
scenarios:
  - id: sent
    input: {customer: Ada}
    answers: {approval: [retry, {decision: edit, data: {edited_body: Dear Ada}}]}
    expect:
      nodes: [draft, approval, draft, approval, send]
      match: exact
      approvals: {send: approval}
      unsafe: [draft -> send]
  - id: unanswered
    input: {customer: Bob}
"""
)


def test_scenarios_are_played_and_judged(shell: Shell, home: Path) -> None:
    (home / "letters.yaml").write_text(GOOD)
    said = shell("eval", "letters.yaml")
    assert (said.code, said.out) == (0, "1 of 2 scenarios passed\n")
    assert "ok: sent" in said.err
    assert "missed: unanswered\n  The run is waiting; expected was completed." in said.err
    assert not list(home.glob("*.db"))


def test_a_miss_below_the_threshold_exits_with_1(shell: Shell, home: Path) -> None:
    (home / "letters.yaml").write_text(GOOD.replace("0.5", "1"))
    said = shell("eval", "letters.yaml", "--json")
    assert said.code == 1
    assert said.data["passed"] is False
    sent, unanswered = said.data["scenarios"]
    assert (sent["passed"], sent["actual_nodes_visited"][-1]) == (True, "send")
    assert (unanswered["scenario_id"], unanswered["reached_expected_final_state"]) == ("unanswered", False)


def test_scenarios_may_be_made_in_python(shell: Shell, home: Path) -> None:
    (home / "cohort.py").write_text(
        "from holdfast.evaluation import Expectation, Scenario, Suite\n"
        f"suite = Suite(workflow={f'{FLOWS}:greet'!r}, scenarios=[Scenario(id=name, input={{'customer': name}},"
        " expect=Expectation(nodes=('greeting',), match='exact')) for name in ('Ada', 'Bob')])\n"
    )
    assert shell("eval", "cohort.py").out == "2 of 2 scenarios passed\n"
    assert shell("eval", "cohort.py:other").code == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("workflow: [", "bad.yaml is no YAML"),
        (HEAD, "missing required field `scenarios`"),
        (HEAD + "scenarios: []", "A suite has 1 to 1000 scenarios; this has 0."),
        (HEAD + "scenarios: [{id: a}, {id: a}]", "Two scenarios are called 'a'"),
        (HEAD + "scenarios: [{id: a}]\nmin_passed: 90", "min_passed=90 is no share"),
        (HEAD + "scenarios: [{id: a, timeout_s: 0}]", "more than 0 and at most 3600"),
        (HEAD + "scenarios: [{id: a, expects: {}}]", "unknown field `expects`"),
        (HEAD + "scenarios: [{id: a, expect: {max_retries: few}}]", "$.scenarios[0].expect.max_retries"),
        (HEAD + "scenarios: [{id: a, expect: {unsafe: [x]}}]", "'x' is not a way"),
        (HEAD + "scenarios: [{id: a, input: &a [1]}, {id: b, input: *a}]", "refers to a part of itself"),
        ("workflow: nothing.py:wf\nscenarios: [{id: a}]", "There is no file nothing.py."),
        (HEAD + "scenarios: [{id: a, input: {}}]", "Scenario 'a':"),
        (HEAD + "scenarios: [{id: a, input: {customer: A}, answers: {approval: [shrug]}}]", "Scenario 'a':"),
    ],
)
def test_a_bad_file_is_refused_in_words(shell: Shell, home: Path, text: str, sentence: str) -> None:
    (home / "bad.yaml").write_text(text)
    said = shell("eval", "bad.yaml")
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err


def test_a_file_that_is_not_there_or_no_text_is_refused_in_words(shell: Shell, home: Path) -> None:
    assert "cannot be read: No such file" in shell("eval", "none.yaml").err
    (home / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    assert "no UTF-8 text" in shell("eval", "bytes.yaml").err


def test_a_run_whose_time_is_up_is_told_as_far_as_it_came(shell: Shell, home: Path) -> None:
    (home / "slow.yaml").write_text(
        "workflow: slow.py:wait\nscenarios: [{id: slow, timeout_s: 0.3, expect: {nodes: [flow]}}]"
    )
    (home / "slow.py").write_text(
        "from holdfast import flow\n\n@flow\nasync def wait(ctx):\n    await ctx.sleep(days=1)\n"
    )
    said = shell("eval", "slow.yaml")
    assert said.code == 1
    assert said.err.endswith("missed: slow\n  The run is waiting; expected was completed.\n")
