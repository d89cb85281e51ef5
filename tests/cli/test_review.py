"""`holdfast validate --review`: the questions of a design review, and the report."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Shell

SUITE = """
workflow: tests.cli.flows:greet
scenarios:
  - id: ada
    input: {customer: ada}
"""


def test_a_review_is_printed_from_code_and_runs(shell: Shell, home: Path) -> None:
    told = shell("validate", "tests.cli.flows:greet", "--review")
    assert told.code == 0
    assert " 6. Are max steps and budgets enforced? yes: max_steps=1000, $0.50" in told.out
    assert "## 9. Trajectory eval results\n\n- none" in told.out
    assert "of 16 questions hold." in told.err
    assert shell("validate", "tests.cli.flows:greet", "--review", "--strict").code == 2
    shell("run", "tests.cli.flows:greet", "-i", '{"customer": "ada"}')
    (home / "scenarios.yaml").write_text(SUITE)
    found = shell("validate", "tests.cli.flows:greet", "--review", "--evals", "scenarios.yaml", "--json").data
    assert found["findings"][12] == {
        "question": "Are trajectory evals defined?",
        "holds": "yes",
        "because": "1 scenarios, of which 100% must pass",
    }
    assert "1 of the latest 1 runs completed, after 0 retries in all" in found["report"]["Trajectory eval results"]


def test_a_review_shows_the_newest_kept_result_of_each_suite(shell: Shell, home: Path) -> None:
    (home / "scenarios.yaml").write_text(SUITE)
    for _ in range(2):
        shell("eval", "scenarios.yaml", "--keep")
    newest, _ = shell("evals", "list", "--json").data
    (home / "scenarios.yaml").write_text(SUITE.replace("greet", "chain"))
    shell("eval", "scenarios.yaml", "--keep")
    report = shell("validate", "tests.cli.flows:greet", "--review", "--json").data["report"]
    assert report["Trajectory eval results"] == [
        f"scenarios.yaml: 1 of 1 passed, enough for 100% (version {newest['version']}, saved {newest['at']} as"
        f" {newest['evaluation_id']})"
    ]


def test_a_review_names_the_fields_that_the_trace_prints(shell: Shell) -> None:
    shell("run", "tests.cli.flows:greet", "-i", '{"customer": "ada"}')
    run = shell("runs", "list", "--json").data[0]["run_id"]
    first = json.loads(shell("runs", "show", run, "--trace", "--json").out.splitlines()[0])
    report = shell("validate", "tests.cli.flows:greet", "--review", "--json").data["report"]
    assert report["Trace schema"][1] == f"fields: {', '.join(first)}"
