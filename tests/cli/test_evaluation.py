"""`holdfast eval`: scenarios in a file are played, recorded runs replayed, and judged; a bad file is refused in words before
anything runs."""

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
        (HEAD + "scenarios: [{id: a, runs: [r1]}]", "Scenario 'a' names runs; say as `records` in which file"),
        (HEAD + "scenarios: [{id: a, records: r.jsonl, input: {}, timeout_s: 5}]", "take out input, timeout_s"),
        (HEAD + "scenarios: [{id: a, records: r.jsonl, expect: {max_duration_s: 1}}]", "in which time leaps"),
        (HEAD + "scenarios: [{id: a, records: none.jsonl}]", "none.jsonl cannot be read: No such file"),
        (HEAD + "scenarios: [{id: a, records: bad.yaml}]", "bad.yaml, line 1: this is no record of a run"),
        (HEAD + "scenarios: [{id: a, records: /dev/null}]", "Scenario 'a': there is no record in /dev/null"),
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
    assert "not UTF-8 text" in shell("eval", "bytes.yaml").err


def test_a_run_whose_time_is_up_is_shown_as_far_as_it_came(shell: Shell, home: Path) -> None:
    (home / "slow.yaml").write_text("workflow: slow.py:wait\nscenarios: [{id: slow, timeout_s: 0.3, expect: {nodes: [flow]}}]")
    (home / "slow.py").write_text("from holdfast import flow\n\n@flow\nasync def wait(ctx):\n    await ctx.sleep(days=1)\n")
    said = shell("eval", "slow.yaml")
    assert said.code == 1
    assert said.err.endswith("missed: slow\n  The run is waiting; expected was completed.\n")


# --- Reports that are kept --------------------------------------------------------------------------------------------


def test_a_report_is_kept_on_request_and_nothing_overwrites_it(shell: Shell, home: Path) -> None:
    (home / "letters.yaml").write_text(GOOD)
    assert shell("run", "flow:greet", "--input", '{"customer": "Ada"}').code == 0  # which makes the store
    assert shell("eval", "letters.yaml").code == 0
    assert shell("evals", "list", "--json").data == []
    first = shell("eval", "letters.yaml", "--keep")
    assert first.code == 0
    (home / "letters.yaml").write_text(GOOD.replace("0.5", "1"))
    assert shell("eval", "letters.yaml", "--keep", "--as", "bob", "--tenant", "acme", "--json").code == 1
    later, kept = shell("evals", "list", "--json").data
    assert f"Saved as evaluation {kept['evaluation_id']}: holdfast evals show {kept['evaluation_id']}" in first.err
    for row, by, tenant, met in ((kept, "ida", "default", True), (later, "bob", "acme", False)):
        assert (row["by"], row["tenant"], row["met"], row["suite"], row["workflow"]) == (
            by,
            tenant,
            met,
            "letters.yaml",
            "letter",
        )
        assert (row["scenarios"], row["passed"], row["failed"], row["replayed"], row["cost_usd"]) == (2, 1, 1, 0, "0.00")
    assert [row["by"] for row in shell("evals", "list", "--tenant", "acme", "--json").data] == ["bob"]
    assert shell("evals", "list", "--workflow", "greet", "--json").data == []

    page = shell("evals", "list", "--workflow", "letter", "--limit", "1")
    assert "1 of 2" in page.out
    assert "holdfast evals list --workflow letter --after" in page.err
    rest = shell("evals", "list", "--after", later["evaluation_id"], "--json").data
    assert [row["evaluation_id"] for row in rest] == [kept["evaluation_id"]]

    shown = shell("evals", "show", kept["evaluation_id"][:18] + "…")
    assert "1 of 2, enough for 50%" in shown.out
    assert "The run is waiting; expected was completed." in shown.out
    judged = shell("evals", "show", later["evaluation_id"], "--json").data["results"]
    assert [(each["scenario"], each["passed"]) for each in judged] == [("sent", True), ("unanswered", False)]
    several = shell("evals", "show", "0")
    assert several.code == 2
    assert "'0' is the beginning of several evaluations" in several.err
    none = shell("evals", "show", "none")
    assert (none.code, none.out) == (3, "")
    assert "There is no evaluation none; see `holdfast evals list`." in none.err


def test_results_of_a_workflow_are_listed_by_version(shell: Shell, home: Path) -> None:
    for version, failing in ((1, ""), (2, "1 / 0")):
        scenarios = "scenarios: [{id: one, expect: {nodes: [one]}}, {id: two}]"
        (home / "cases.yaml").write_text(f"workflow: case{version}.py:wf\n{scenarios}")
        (home / f"case{version}.py").write_text(
            "from holdfast import Workflow, task\n"
            f"wf = Workflow('case', version={version})\n"
            f"wf.node('one')(task(lambda state: {failing or 1}))\n"
        )
        shell("eval", "cases.yaml", "--keep")
    second, first = shell("evals", "history", "case", "--json").data
    told = [(row["version"], row["passed"], row["scenarios"], row["change"]) for row in (first, second)]
    assert told == [(1, 2, 2, None), (2, 0, 2, -1.0)]
    assert "-100%" in shell("evals", "history", "case").out
    assert shell("evals", "history", "nothing", "--json").data == []


def test_a_store_that_is_not_there_is_made_for_the_first_report(shell: Shell, home: Path) -> None:
    (home / "letters.yaml").write_text(GOOD)
    said = shell("eval", "letters.yaml", "--keep", "--store", "none.db")
    assert "ok: sent" in said.err
    assert len(shell("evals", "list", "--json", "--store", "none.db").data) == 1


def test_an_unavailable_store_is_reported_before_anything_is_played(shell: Shell, home: Path) -> None:
    (home / "letters.yaml").write_text(GOOD)
    said = shell("eval", "letters.yaml", "--keep", "--store", str(home / "nowhere" / "none.db"))
    assert said.code != 0
    assert "ok: sent" not in said.err


# --- Recorded runs ----------------------------------------------------------------------------------------------------

CLAIMS = """
from pathlib import Path

from holdfast import Workflow, check, task, tool, tool_node

wf = Workflow(name="claims")

@wf.node("fetch")
@task
def fetch(state):
    with Path("world.txt").open("a") as world:
        world.write("fetched ")
    return state.input["amount"]

@wf.node("small")
@check
def small(state):
    return "pass" if state.events["fetch"].output <= 100 else "reject"

@tool(effect="once")
def pay(amount: int) -> str:
    with Path("world.txt").open("a") as world:
        world.write("paid ")
    return "paid"

wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": state.events["fetch"].output}))
wf.edge("fetch", "small")
wf.edge("small", "pay")
"""
RECORDED = """
workflow: claims.py:wf
min_passed: {min_passed}
scenarios:
  - id: last month
    records: claims.jsonl
    expect: {{nodes: [fetch, small, pay], match: exact, tools: [pay]}}
  - id: a live one
    input: {{amount: 7}}
"""


@pytest.fixture
def claims(shell: Shell, home: Path) -> list[str]:
    """Two runs in claims.jsonl, of 40 and of 90; their ids."""
    (home / "claims.py").write_text(CLAIMS)
    for amount in (40, 90):
        assert shell("run", "claims.py:wf", "--input", f'{{"amount": {amount}}}').code == 0
    assert shell("runs", "export", "--all", "--to", "claims.jsonl").code == 0
    (home / "recorded.yaml").write_text(RECORDED.format(min_passed=1))
    (home / "world.txt").unlink()
    return [row["run_id"] for row in shell("runs", "list", "--json").data]


def test_recorded_runs_are_judged_beside_live_ones_and_nothing_is_called_for_them(
    shell: Shell, home: Path, claims: list[str]
) -> None:
    said = shell("eval", "recorded.yaml", "--keep")
    assert (said.code, said.out) == (0, "3 of 3 scenarios passed\n"), said.err
    [kept] = shell("evals", "list", "--json").data
    assert (kept["scenarios"], kept["replayed"]) == (3, 2)
    assert all(f"ok: last month ({run})" in said.err for run in claims)
    assert (home / "world.txt").read_text() == "fetched paid "  # of the live one
    (home / "one.yaml").write_text(
        f"workflow: claims.py:wf\nscenarios: [{{id: a, records: claims.jsonl, runs: [{claims[0]}]}}]"
    )
    assert shell("eval", "one.yaml").out == "1 of 1 scenario passed\n"
    (home / "none.yaml").write_text("workflow: claims.py:wf\nscenarios: [{id: a, records: claims.jsonl, runs: [none]}]")
    assert "there is no run 'none' in claims.jsonl" in shell("eval", "none.yaml").err


def test_each_recorded_run_counts_for_the_threshold(shell: Shell, home: Path, claims: list[str]) -> None:
    (home / "stricter.py").write_text(CLAIMS.replace("<= 100", "<= 50"))
    (home / "recorded.yaml").write_text(RECORDED.format(min_passed=1).replace("claims.py", "stricter.py"))
    said = shell("eval", "recorded.yaml", "--json")
    assert (said.code, said.data["scenarios_passed"]) == (1, 2)
    assert [each["passed"] for each in said.data["scenarios"]] == [False, True, True]
    assert "It went fetch → small; expected was fetch → small → pay (exact)." in said.err
    (home / "recorded.yaml").write_text(RECORDED.format(min_passed=0.66).replace("claims.py", "stricter.py"))
    assert shell("eval", "recorded.yaml").code == 0


def test_what_a_record_does_not_have_is_missed(shell: Shell, home: Path, claims: list[str]) -> None:
    """Also where the path is as it should be."""
    (home / "renamed.py").write_text(
        CLAIMS.replace("def pay(", "def refund(").replace("name=pay", "name=refund")
        + '\nwf.node("sorry")(task(lambda state: "sorry"))\nwf.edge("pay", "sorry", on="error")\n'
    )
    (home / "lenient.yaml").write_text("workflow: renamed.py:wf\nscenarios: [{id: a, records: claims.jsonl}]")
    said = shell("eval", "lenient.yaml")
    assert (said.code, said.out) == (1, "0 of 2 scenarios passed\n")
    assert said.err.count("Not in its record: pay#1 asks for tool 'refund' at 0.") == 2
    assert not (home / "world.txt").exists()


def test_a_record_of_another_workflow_is_refused(shell: Shell, home: Path, claims: list[str]) -> None:
    (home / "other.yaml").write_text(HEAD + "scenarios: [{id: a, records: claims.jsonl}]")
    said = shell("eval", "other.yaml")
    assert said.code == 2
    assert "is one of the workflow 'claims', which is not given" in said.err
