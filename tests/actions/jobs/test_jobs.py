"""Which jobs run, what they see of one another, and what becomes of the run: GitHub's rules."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.actions.jobs.kit import done, ran, workflow
from tests.engine.kit import opened

EXAMPLE = (Path(__file__).parents[3] / "examples" / "content_pipeline.yaml").read_text()


async def test_the_documents_example_runs_as_written(store: str) -> None:
    done = await ran(EXAMPLE, store)
    assert done.status == "completed"
    assert done.output["jobs"]["analyze"] == {
        "result": "success",
        "outputs": {"analysis": "analysis of <raw text of src-abc123>"},
    }
    assert done.jobs["summarize"]["log"] == "summary of raw text of src-abc123"
    assert done.jobs["aggregate"]["log"] == "analysis of <raw text of src-abc123>, success"


async def test_a_file_that_is_read_twice_is_one_workflow(store: str) -> None:
    """In one process: nobody is told to give one of the two another name."""
    first, again = workflow(WORDS), workflow(WORDS)
    assert first.hash == again.hash
    async with opened(store, workflows=[first]) as engine:
        for each in (first, again, first):
            assert (await (await engine.start(each)).result())["jobs"]["words"]["result"] == "success"


WORDS = """
name: words
jobs:
  words:
    runs-on: any
    steps: [{run: echo three words here}]
  each:
    runs-on: any
    needs: words
    strategy: {matrix: {n: [1, 2]}}
    steps: [{run: 'echo ${{ matrix.n }}'}]
"""
ANCESTORS = """
jobs:
  first:
    runs-on: any
    steps: [{run: exit 1}]
  second:
    runs-on: any
    needs: first
    steps: [{run: "true"}]
  third:
    runs-on: any
    needs: second
    if: IF
    steps: [{run: "true"}]
  fourth:
    runs-on: any
    needs: third
    steps: [{run: "true"}]
"""


@pytest.mark.parametrize(
    ("condition", "third"),
    [
        ("always()", "success"),
        ("'!cancelled()'", "success"),
        ("success()", "skipped"),
        ("success() || failure() || cancelled()", "success"),
        ("needs.second.result == 'skipped'", "skipped"),
        ("always() && needs.second.result == 'skipped' && jobs.first.result == 'failure'", "success"),
    ],
)
async def test_the_implicit_success_is_of_all_jobs_before_and_a_skipped_one_is_none(
    store: str, condition: str, third: str
) -> None:
    done = await ran(ANCESTORS.replace("IF", condition), store)
    # The fourth job's own need succeeds, and it is skipped all the same: not everything before it did.
    assert done.results == {"first": "failure", "second": "skipped", "third": third, "fourth": "skipped"}
    assert done.status == "failed"


async def test_with_a_skipped_job_before_neither_success_nor_failure_nor_cancelled_is_true(store: str) -> None:
    text = """
    jobs:
      first: {runs-on: any, if: false, steps: [{run: "true"}]}
      second: {runs-on: any, needs: first, if: success() || failure() || cancelled(), steps: [{run: "true"}]}
      third: {runs-on: any, needs: first, if: always(), steps: [{run: "true"}]}
    """
    done = await ran(text, store)
    assert done.results == {"first": "skipped", "second": "skipped", "third": "success"}
    assert done.status == "completed"  # nothing has failed


async def test_a_job_whose_failure_is_allowed_looks_like_a_success_to_others(store: str) -> None:
    text = """
    jobs:
      first: {runs-on: any, continue-on-error: true, steps: [{run: exit 3}]}
      second: {runs-on: any, needs: first, steps: [{run: 'echo "${{ needs.first.result }}"'}]}
    """
    done = await ran(text, store)
    assert (done.status, done.jobs["first"]["outcome"], done.jobs["second"]["log"]) == ("completed", "failure", "success")
    assert "exit code 3" in done.jobs["first"]["error"]


async def test_a_run_whose_jobs_failed_fails_and_names_each_of_them_with_its_reason(store: str) -> None:
    text = """
    jobs:
      good: {runs-on: any, steps: [{run: "true"}]}
      bad: {runs-on: any, steps: [{id: break, run: exit 4}]}
      worse: {runs-on: any, steps: [{name: "Break ${{ inputs.what }}", run: exit 5}]}
      spared: {runs-on: any, continue-on-error: true, steps: [{run: exit 6}]}
    """
    done = await ran(text, store, {"what": "things"})
    assert done.status == "failed"
    assert done.error == (
        "2 of 4 jobs failed: bad (step 'break': It ended with exit code 4.),"
        " worse (step 'Break things': It ended with exit code 5.)"
    )


async def test_a_condition_without_a_value_fails_its_job(store: str) -> None:
    text = """
    jobs:
      first: {runs-on: any, if: fromJSON(inputs.text), steps: [{run: "true"}]}
    """
    done = await ran(text, store, {"text": "{"})
    assert done.results == {"first": "failure"}
    assert "job 'first'" in done.jobs["first"]["error"]


async def test_a_job_whose_own_keys_have_no_value_fails_and_may_be_allowed_to(store: str) -> None:
    text = """
    jobs:
      named: {runs-on: any, name: "${{ fromJSON(inputs.x) }}", steps: [{run: "true"}]}
      timed: {runs-on: any, timeout-minutes: "${{ inputs.x }}", steps: [{run: "true"}]}
      spoken: {runs-on: any, outputs: {x: "${{ fromJSON(inputs.x) }}"}, steps: [{run: "true"}]}
      spared: {runs-on: any, continue-on-error: true, env: {X: "${{ fromJSON(inputs.x) }}"}, steps: [{run: "true"}]}
      unsure: {runs-on: any, continue-on-error: "${{ inputs.x }}", steps: [{run: "true"}]}
      wide: {runs-on: any, strategy: {max-parallel: "${{ inputs.x }}", matrix: {n: [1]}}, steps: [{run: "true"}]}
      fast: {runs-on: any, strategy: {fail-fast: "${{ inputs.x }}", matrix: {n: [1]}}, steps: [{run: "true"}]}
    """
    done = await ran(text, store, {"x": "{"})
    assert done.results == {**dict.fromkeys(done.results, "failure"), "spared": "success"}
    assert all(f"job '{id_}': " in job["error"] for id_, job in done.jobs.items())


async def test_needs_may_be_spelled_in_any_case(store: str) -> None:
    text = """
    jobs:
      First: {runs-on: any, outputs: {Say: "${{ steps.a.outputs.x }}"}, steps: [{id: a, run: echo x=1 >> $GITHUB_OUTPUT}]}
      second: {runs-on: any, needs: FIRST, steps: [{run: 'echo "${{ Needs.first.outputs.sAy }}"'}]}
    """
    done = await ran(text, store)
    assert done.jobs["second"]["log"] == "1"


HOSTILE = [
    "$(touch pwned)`touch pwned`; touch pwned #",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a\nb\n\n",
    "${{ inputs.x }} %s \\n * ~ !! && ||",
    "-n",
]


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_is_data_wherever_it_goes(store: str, tmp_path: Path, value: str) -> None:
    """From the run's input through an output of one job into the script, the environment and the outputs of another."""
    text = f"""
    jobs:
      first:
        runs-on: any
        steps:
          - id: pass
            env: {{GIVEN: "${{{{ inputs.value }}}}"}}
            run: printf 'value<<END_OF_IT\\n%s\\nEND_OF_IT\\n' "$GIVEN" >> "$GITHUB_OUTPUT"
        outputs: {{value: "${{{{ steps.pass.outputs.value }}}}"}}
      second:
        runs-on: any
        needs: first
        steps:
          - id: take
            run: |
              printf '%s' "${{{{ jobs.first.outputs.value }}}}" > '{tmp_path}/got'
              printf '%s' ${{{{ needs.first.outputs.value }}}} > '{tmp_path}/got-bare'
              ls > '{tmp_path}/listed'
    """
    done = await ran(text, store, {"value": value})
    assert done.status == "completed", done.jobs
    assert (tmp_path / "got").read_text() == value
    assert (tmp_path / "got-bare").read_text() == value
    assert (tmp_path / "listed").read_text() == ""
    assert done.output["jobs"]["first"]["outputs"]["value"] == value


async def test_what_is_large_goes_from_job_to_job(store: str) -> None:
    text = """
    jobs:
      first:
        runs-on: any
        steps: [{id: a, run: 'printf "x=%0100000d\\n" 7 >> "$GITHUB_OUTPUT"'}]
        outputs: {x: "${{ steps.a.outputs.x }}"}
      second:
        runs-on: any
        needs: first
        env: {X: "${{ needs.first.outputs.x }}"}
        steps: [{run: 'echo "${#X}"'}]
    """
    assert (await ran(text, store)).jobs["second"]["log"] == "100000"


def test_the_scripts_are_the_identity_of_the_workflow_and_their_places_are_not() -> None:
    text = "jobs:\n  a:\n    runs-on: any\n    steps:\n      - run: echo ${{ inputs.x }}\n"
    assert workflow(text).hash == workflow(f"# why\n\n{text}").hash
    assert workflow(text).hash != workflow(text.replace("echo", "echo -n")).hash
    assert workflow(text).hash != workflow(text.replace("inputs.x", "inputs.y")).hash
    assert workflow(text).hash != workflow(f"env: {{A: b}}\n{text}").hash


def test_a_workflow_is_named_by_its_file_or_by_itself() -> None:
    text = "jobs: {a: {runs-on: any, steps: [{run: echo}]}}"
    assert workflow(text, "reports").name == "reports"
    assert workflow(f"name: other\n{text}", "reports").name == "other"


def test_a_thousand_jobs_are_one_workflow() -> None:
    jobs = "".join(f"  j{n}: {{runs-on: any, steps: [{{run: echo}}]}}\n" for n in range(1000))
    made = workflow(f"jobs:\n{jobs}")
    assert len(made.graph.nodes) == 1001
    assert made.limits.max_steps >= 1001


async def test_the_runs_input_may_be_any_data(store: str) -> None:
    text = """
    jobs: {a: {runs-on: any, steps: [{run: 'echo "${{ inputs.list[1].x }}:${{ inputs.none.x }}:${{ vars.X }}"'}]}}
    """
    given: Any
    for given, said in (({"list": [0, {"x": 2}]}, "2::"), (None, "::"), ([1], "::"), ("text", "::")):
        assert (await ran(text, store, given)).jobs["a"]["log"] == said


def test_the_example_is_the_documents_own() -> None:
    """Its jobs, needs and expressions; only the commands are such as exist everywhere."""
    assert re.findall(r"^  (\w+):$", EXAMPLE, re.MULTILINE) == ["extract", "analyze", "summarize", "aggregate"]
    assert "${{ jobs.extract.outputs.content }}" in EXAMPLE


# --- What is left of the run's limits ---------------------------------------------------------------------------------

LEFT = """
jobs:
  steps: {runs-on: any, if: left.steps > 1900, steps: [{run: "true"}]}
  more-steps: {runs-on: any, if: left.steps > 2001, steps: [{run: "true"}]}
  money: {runs-on: any, if: left.cost_usd > 0.5, steps: [{run: "true"}]}
  more-money: {runs-on: any, if: "${{ left.cost_usd > 0.7 }}", steps: [{run: "true"}]}
  calls: {runs-on: any, if: left.tool_calls == 3 && left.percent_used < 80, steps: [{run: "true"}]}
  no-limit: {runs-on: any, if: left.tokens == null && left.wall_s == null, steps: [{run: "true"}]}
  above: {runs-on: any, if: left.spendable_usd > 0.3, steps: [{run: "true"}]}
  more-above: {runs-on: any, if: left.spendable_usd > 0.5, steps: [{run: "true"}]}
"""


async def test_the_condition_of_a_job_sees_what_is_left_of_every_limit(store: str) -> None:
    made = workflow(LEFT)
    async with opened(store, workflows=[made]) as engine:
        await engine.set_budget("default", "month", "0.40")
        state = await (await engine.start(made, cost_limit_usd="0.60", max_tool_calls=3)).settled()
        assert (await done(engine, state)).results == {
            "steps": "success",
            "more-steps": "skipped",
            "money": "success",
            "more-money": "skipped",
            "calls": "success",
            "no-limit": "success",
            "above": "success",
            "more-above": "skipped",
        }


async def test_what_a_job_was_begun_with_is_left_in_its_later_tries_too(store: str, tmp_path: Path) -> None:
    """Meanwhile other jobs have used more of the limit than its condition allows."""
    os.mkfifo(tmp_path / "fifo")
    ended = await ran(
        f"""
        jobs:
          work:
            runs-on: any
            if: left.steps > 1996
            retry: {{max: 1, delay-seconds: 0.01}}
            steps: [{{run: "cd {tmp_path}; test -e tried && exit 0; touch tried; read line < fifo; exit 1"}}]
          a: {{runs-on: any, steps: [{{run: "true"}}]}}
          b: {{runs-on: any, needs: a, steps: [{{run: "true"}}]}}
          c: {{runs-on: any, needs: b, steps: [{{run: "true"}}]}}
          late: {{runs-on: any, needs: c, if: left.steps > 1996, steps: [{{run: "true"}}]}}
          last: {{runs-on: any, needs: c, steps: [{{run: "echo go > {tmp_path}/fifo"}}]}}
        """,
        store,
    )
    assert ended.results == {**dict.fromkeys(("work", "a", "b", "c", "last"), "success"), "late": "skipped"}
