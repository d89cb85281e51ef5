"""A job in combinations: which there are, how many run at once, what the failure of one does to the others."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.actions.shell import Limits, Script, ScriptEnd
from holdfast.errors import OutcomeUnknown, ToolFailed
from tests.actions.jobs.kit import ran, world


async def test_a_job_runs_once_for_each_combination_and_knows_which_it_is(store: str) -> None:
    text = """
    jobs:
      build:
        runs-on: any
        strategy:
          max-parallel: 1
          matrix:
            size: [small, large]
            n: [1, 2]
            exclude: [{size: large, n: 2}]
            include: [{size: tiny, extra: "yes"}]
        name: Build ${{ matrix.size }}
        env: {SIZE: "${{ matrix.size }}"}
        steps:
          - run: echo "$SIZE ${{ matrix.n }} ${{ matrix.extra }} ${{ strategy.job-index }}/${{ strategy.job-total }} ${{ strategy.max-parallel }}"
    """
    done = await ran(text, store)
    combinations = done.jobs["build"]["combinations"]
    assert [combination["log"] for combination in combinations] == [
        "small 1  0/4 1",
        "small 2  1/4 1",
        "large 1  2/4 1",
        "tiny  yes 3/4 1",
    ]
    assert [combination["name"] for combination in combinations] == ["Build small", "Build small", "Build large", "Build tiny"]
    assert [combination["matrix"] for combination in combinations][-1] == {"size": "tiny", "extra": "yes"}


async def test_a_matrix_may_come_from_an_output(store: str) -> None:
    text = """
    jobs:
      plan:
        runs-on: any
        steps: [{id: a, run: 'echo "parts=[3, 5, 8]" >> "$GITHUB_OUTPUT"'}]
        outputs: {parts: "${{ steps.a.outputs.parts }}"}
      work:
        needs: plan
        runs-on: any
        strategy: {matrix: {part: "${{ fromJSON(needs.plan.outputs.parts) }}"}}
        steps: [{run: 'echo "${{ matrix.part }}"'}]
    """
    done = await ran(text, store)
    assert [combination["log"] for combination in done.jobs["work"]["combinations"]] == ["3", "5", "8"]


@pytest.mark.parametrize(
    ("matrix", "logs"),
    [
        ('{v: [1, "${{ fromJSON(inputs.list) }}", 9]}', ["1", "2", "3", "9"]),
        ('{v: ["${{ fromJSON(inputs.none) }}", 9, "${{ fromJSON(inputs.list) }}"]}', ["9", "2", "3"]),
        ('{v: ["x${{ fromJSON(inputs.list) }}"]}', ["xArray"]),
        ('{v: [1], include: "${{ fromJSON(inputs.entries) }}"}', ["1", "5", "6"]),
        ('{v: [1], include: [{v: 4}, "${{ fromJSON(inputs.entries) }}"]}', ["1", "4", "5", "6"]),
        ('{v: [4, 5, 6, 7], exclude: ["${{ fromJSON(inputs.entries) }}", {v: 7}]}', ["4"]),
    ],
)
async def test_an_expression_in_a_list_that_gives_a_list_stands_for_its_entries(
    store: str, matrix: str, logs: list[str]
) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        strategy: {{max-parallel: 1, matrix: {matrix}}}
        steps: [{{run: 'echo "${{{{ matrix.v }}}}"'}}]
    """
    done = await ran(text, store, {"list": "[2, 3]", "none": "[]", "entries": '[{"v": 5}, {"v": 6}]'})
    assert [combination["log"] for combination in done.jobs["work"]["combinations"]] == logs


async def test_an_expression_splices_its_nested_list_one_level_deep(store: str) -> None:
    text = """
    jobs:
      work:
        runs-on: any
        strategy:
          max-parallel: 1
          matrix: {v: [[1, 2], "${{ fromJSON('[[3], 4]') }}", ["${{ fromJSON('[5, 6]') }}"], {k: "${{ fromJSON('[7]') }}"}]}
        steps: [{run: "true"}]
    """
    done = await ran(text, store)
    values = [combination["matrix"]["v"] for combination in done.jobs["work"]["combinations"]]
    assert values == [[1, 2], [3], 4, [5, 6], {"k": [7]}]


async def test_a_matrix_without_a_combination_fails_its_job(store: str) -> None:
    text = """
    jobs:
      work:
        runs-on: any
        strategy: {matrix: {part: "${{ fromJSON(inputs.parts) }}"}}
        steps: [{run: "true"}]
    """
    done = await ran(text, store, {"parts": "[]"})
    assert done.results == {"work": "failure"}
    assert "the list of 'part' is empty" in done.jobs["work"]["error"]


HALF = json.dumps("""printf '%s' 'y="\\ud800"' >> "$GITHUB_OUTPUT\"""")
"""Writes the output `y`, which as JSON is half a surrogate pair; as a text of YAML."""
ODD = "${{ fromJSON(steps.s.outputs.y) }}"


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ("strategy: {matrix: {v: '${{ fromJSON(inputs.list) }}'}}\n    steps: [{run: 'true'}]", "inf is no number"),
        ("name: '${{ fromJSON(inputs.half) }}'\n    steps: [{run: 'true'}]", "half a surrogate"),
        (f"steps: [{{id: s, run: {HALF}}}]\n    outputs: {{x: '{ODD}'}}", "half a surrogate"),
        (f"steps: [{{id: s, run: {HALF}}}, {{run: 'echo $Y', env: {{Y: '{ODD}'}}}}]", "half a surrogate"),
        (f"steps: [{{id: s, run: {HALF}}}, {{run: 'echo {ODD}'}}]", "half a surrogate"),
    ],
)
async def test_what_cannot_be_stored_fails_its_job_alone(tmp_path: Path, job: str, told: str) -> None:
    text = f"""
jobs:
  odd:
    runs-on: any
    {job}
  beside:
    runs-on: any
    steps: [{{run: 'true'}}]
  last:
    needs: [odd, beside]
    if: always()
    runs-on: any
    steps: [{{run: 'true'}}]
"""
    store = f"sqlite:///{tmp_path / 'holdfast.db'}"
    done = await ran(text, store, {"list": "[1, 1e999]", "half": '"\\ud800"'})
    assert done.results == {"odd": "failure", "beside": "success", "last": "success"}
    assert told in done.jobs["odd"]["error"]


COUNTED = """
jobs:
  work:
    runs-on: any
    strategy: {{max-parallel: {most}, matrix: {{n: [1, 2, 3, 4, 5, 6]}}}}
    steps: [{{run: 'echo begin >> {outside}; sleep 0.2; echo end >> {outside}'}}]
"""


def most_at_once(lines: list[str]) -> int:
    running = most = 0
    for line in lines:
        running += 1 if line == "begin" else -1
        most = max(most, running)
    return most


async def test_combinations_run_at_once_up_to_max_parallel(store: str, outside: Path) -> None:
    assert (await ran(COUNTED.format(most=2, outside=outside), store)).status == "completed"
    assert most_at_once(world(outside)) == 2


async def test_a_failure_stops_the_combinations_that_run_and_those_that_wait(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        strategy: {{max-parallel: 2, matrix: {{n: [1, 2, 3]}}}}
        steps:
          - {{id: a, run: 'if [ ${{{{ matrix.n }}}} = 1 ]; then while ! test -e {outside}; do sleep 0.02; done; exit 3; fi
               ; echo running >> {outside}; sleep 30; echo ended >> {outside}'}}
          - {{id: plain, run: "true"}}
          - {{id: cleaning, if: cancelled(), run: 'echo cleaned >> {outside}'}}
      after: {{runs-on: any, needs: work, if: failure(), steps: [{{run: 'echo "${{{{ needs.work.result }}}}"'}}]}}
    """
    done = await ran(text, store)
    combinations = done.jobs["work"]["combinations"]
    assert [combination["result"] for combination in combinations] == ["failure", "cancelled", "cancelled"]
    assert {key: step["outcome"] for key, step in combinations[1]["steps"].items()} == {
        "a": "cancelled",
        "plain": "skipped",
        "cleaning": "success",
    }
    assert combinations[2]["steps"] == {}
    assert world(outside) == ["running", "cleaned"]
    assert done.jobs["after"]["log"] == "failure"


async def test_a_step_that_asks_to_run_on_cancellation_goes_on(store: str, outside: Path) -> None:
    text = f"""
    jobs:
      work:
        runs-on: any
        strategy: {{matrix: {{n: [1, 2]}}}}
        steps:
          - {{if: always(), id: a, run: 'if [ ${{{{ matrix.n }}}} = 1 ]; then while ! test -e {outside}; do sleep 0.02; done; exit 3; fi
               ; echo running >> {outside}; sleep 0.5; echo ended >> {outside}'}}
    """
    done = await ran(text, store)
    assert world(outside) == ["running", "ended"]
    assert [combination["result"] for combination in done.jobs["work"]["combinations"]] == ["failure", "cancelled"]


async def test_the_end_of_a_script_that_was_broken_off_is_not_sent(store: str) -> None:
    """Its combination is cancelled, also if the script, or the worker that ran it, came to grief over that."""
    text = """
    jobs:
      work:
        runs-on: any
        strategy: {matrix: {n: [1, 2]}}
        steps: [{run: "work ${{ matrix.n }}"}]
    """
    begun = asyncio.Event()

    async def shell(script: Script, limits: Limits, **_: Any) -> ScriptEnd:
        if script.env["HOLDFAST_EXPR_1"] == "1":
            await begun.wait()
            raise ToolFailed("There is no such shell here.")
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OutcomeUnknown("its supervisor was killed.") from None
        raise AssertionError("nothing else ends it")

    heard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: heard.append(problem))
    done = await ran(text, store, shell=shell)
    gc.collect()
    assert [combination["result"] for combination in done.jobs["work"]["combinations"]] == ["failure", "cancelled"]
    assert heard == []


async def test_without_fail_fast_or_where_the_failure_is_allowed_the_others_go_on(store: str) -> None:
    text = """
    jobs:
      slow:
        runs-on: any
        strategy: {fail-fast: false, matrix: {n: [1, 2]}}
        steps: [{run: 'N=${{ matrix.n }}; sleep 0.$N; exit $N'}]
      spared:
        runs-on: any
        continue-on-error: ${{ matrix.n == 1 }}
        strategy: {max-parallel: 1, matrix: {n: [1, 2]}}
        steps: [{run: 'test ${{ matrix.n }} = 2'}]
    """
    done = await ran(text, store)
    assert [combination["result"] for combination in done.jobs["slow"]["combinations"]] == ["failure", "failure"]
    assert [combination["outcome"] for combination in done.jobs["spared"]["combinations"]] == ["failure", "success"]
    assert done.results == {"slow": "failure", "spared": "success"}


async def test_of_outputs_the_last_to_end_wins_and_empty_ones_take_nothings_place(store: str) -> None:
    text = """
    jobs:
      work:
        runs-on: any
        strategy:
          matrix: {include: [{n: 1, wait: 0.5}, {n: 2, wait: 0}, {n: 3, wait: 1}]}
        steps:
          - id: a
            run: |
              sleep ${{ matrix.wait }}
              test ${{ matrix.n }} = 3 || echo "x=${{ matrix.n }}" >> "$GITHUB_OUTPUT"
              echo "only${{ matrix.n }}=yes" >> "$GITHUB_OUTPUT"
        outputs: {x: "${{ steps.a.outputs.x }}", y: "${{ steps.a.outputs.only2 }}"}
    """
    done = await ran(text, store)
    assert done.jobs["work"]["outputs"] == {"x": "1", "y": "yes"}
