"""What a job asks of the place where it runs is what its node asks for, as often as its combinations run at once."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from holdfast.actions.shell.cgroup import places
from holdfast.core.values.demand import NOTHING, SHELL, Demand, Resources
from holdfast.core.values.ids import NodeName
from tests.actions.jobs.kit import done, ran, workflow
from tests.engine.kit import opened

JOB = "jobs: {{work: {{{}, steps: [{{run: echo}}]}}}}"
MATRIX = "strategy: {{matrix: {{n: [1, 2, 3]}}{}}}"
FROM_OUTSIDE = "strategy: {{matrix: '${{{{ fromJSON(inputs.m) }}}}'{}}}"


def demand(said: str) -> Demand:
    return workflow(JOB.format(said)).graph.nodes[NodeName("work")].demand


def demand_together(said: str) -> Demand:
    """What the same job asked for when its combinations shared a step."""
    (before,) = workflow(JOB.format(said)).earlier
    return before.graph.nodes[NodeName("work")].demand


def test_what_a_job_says_is_what_its_node_asks_for() -> None:
    asked = demand(
        "runs-on: [gpu, zone=eu], resources: {cpu: 2000, memory: 8000, gpus: 1, tags: [fast]},"
        " pools: {OPENAI_RPS: 5, OPENAI_TPS: 1000, OPENAI_TPM: auto}, priority: -7"
    )
    assert asked == Demand(
        labels=("gpu", "zone=eu"),
        tags=("fast",),
        cpu_m=2000,
        memory_mb=8000,
        gpus=1,
        pools={"OPENAI_RPS": 5, "OPENAI_TPS": 1000, "OPENAI_TPM": None},
        priority=-7,
        task=SHELL,
    )


def test_a_job_on_any_needs_only_a_shell_and_the_end_of_a_run_needs_nothing() -> None:
    assert demand("runs-on: any") == Demand(task=SHELL)
    assert workflow(JOB.format("runs-on: gpu")).graph.nodes[NodeName("run.end")].demand == NOTHING
    assert workflow(JOB.format("runs-on: gpu")).runs_on == ()


@pytest.mark.parametrize(
    ("strategy", "times"),
    [
        (MATRIX.format(""), 3),
        (MATRIX.format(", max-parallel: 2"), 2),
        (MATRIX.format(", max-parallel: 9"), 3),
        (MATRIX.format(", max-parallel: '${{ inputs.n }}'"), 3),
        (FROM_OUTSIDE.format(", max-parallel: 4"), 4),
        (FROM_OUTSIDE.format(", max-parallel: 99"), 32),
        (f"strategy: {{matrix: {{n: {list(range(40))}}}}}", 32),
    ],
)
def test_combinations_in_one_step_need_the_sum_of_those_that_run_at_once(strategy: str, times: int) -> None:
    said = f"{strategy}, runs-on: gpu, resources: {{cpu: 10, memory: 20, gpus: 1, tags: [t]}}, pools: {{P: 3}}"
    assert demand_together(said) == Demand(
        labels=("gpu",), tags=("t",), cpu_m=10 * times, memory_mb=20 * times, gpus=times, pools={"P": 3 * times}, task=SHELL
    )


def test_a_job_whose_combinations_are_steps_asks_for_no_place_itself() -> None:
    assert demand(f"runs-on: gpu, pools: {{P: 3}}, {MATRIX.format('')}") == NOTHING


def test_combinations_that_take_nothing_may_be_as_many_as_an_expression_says() -> None:
    said = f"runs-on: gpu, priority: 3, resources: {{tags: [t]}}, {FROM_OUTSIDE.format('')}"
    assert demand_together(said) == Demand(labels=("gpu",), tags=("t",), priority=3, task=SHELL)


def test_the_largest_that_a_file_may_say_is_a_demand() -> None:
    said = (
        "runs-on: any, resources: {cpu: 10_000_000, memory: 1000000000, gpus: 10000}, pools: {P: 10000000000}, priority: 1000"
    ).replace("_", "")
    assert demand_together(f"{said}, strategy: {{matrix: {{n: {list(range(40))}}}}}").pools == {"P": 320_000_000_000}


@pytest.mark.parametrize("condition", ["", "if: 'false',", "if: inputs.wanted,"])
async def test_a_job_that_is_to_be_skipped_waits_for_no_place(store: str, condition: str) -> None:
    """Nobody here has the label."""
    fails = "exit 1" if not condition else "exit 0"
    done = await ran(
        f"""
        jobs:
          first: {{runs-on: any, steps: [{{run: {fails}}}]}}
          choosy: {{runs-on: gpu, needs: first, {condition} steps: [{{run: exit 0}}]}}
          after: {{runs-on: any, needs: choosy, if: "always() && needs.choosy.result == 'skipped'", steps: [{{run: exit 0}}]}}
          last: {{runs-on: gpu, needs: after, if: failure() && false, steps: [{{run: exit 0}}]}}
        """,
        store,
    )
    assert (done.results["choosy"], done.results["after"], done.results["last"]) == ("skipped", "success", "skipped")
    assert done.status == ("failed" if not condition else "completed")


async def test_a_condition_that_cannot_be_worked_out_is_the_failure_of_its_own_job(store: str) -> None:
    made = workflow(
        """
        jobs:
          first: {runs-on: any, steps: [{run: exit 0}]}
          choosy: {runs-on: gpu, needs: first, if: "fromJSON('{')", steps: [{run: exit 0}]}
        """
    )
    async with opened(store, workflows=[made], labels=["gpu"]) as engine:
        found = await done(engine, await (await engine.start(made)).settled())
    assert (found.status, found.results["choosy"]) == ("failed", "failure")
    assert "job 'choosy'" in found.error


def test_only_where_a_place_may_have_to_be_waited_for_a_node_of_its_own_decides() -> None:
    text = """
        jobs:
          sure: {runs-on: gpu, steps: [{run: exit 0}]}
          easy: {runs-on: any, needs: sure, steps: [{run: exit 0}]}
          choosy: {runs-on: any, pools: {P: 1}, needs: sure, steps: [{run: exit 0}]}
          asked: {runs-on: gpu, if: inputs.go, steps: [{run: exit 0}]}
        """
    nodes = workflow(text).graph.nodes
    assert {name for name in nodes if "." in name} == {"choosy.if", "asked.if", "run.end"}
    assert nodes[NodeName("choosy.if")].demand == NOTHING


async def test_scripts_that_run_at_once_have_gpus_of_their_own(store: str, tmp_path: Path) -> None:
    """Four combinations, two at a time, at a worker with four: each of the two waits for the other."""
    together = f"touch {tmp_path}/$N; while [ ! -e {tmp_path}/$OTHER ]; do sleep 0.01; done"
    ended = await ran(
        f"""
        jobs:
          work:
            runs-on: any
            resources: {{gpus: 2}}
            strategy: {{matrix: {{include: [{{n: a, other: b}}, {{n: b, other: a}}]}}}}
            env: {{N: "${{{{ matrix.n }}}}", OTHER: "${{{{ matrix.other }}}}", CUDA_VISIBLE_DEVICES: "9"}}
            steps: [{{run: '{together}; echo $CUDA_VISIBLE_DEVICES'}}]
          none: {{runs-on: any, steps: [{{run: 'echo "[$CUDA_VISIBLE_DEVICES]"'}}]}}
        """,
        store,
        resources=Resources(gpus=4),
    )
    assert ended.results == {"work": "success", "none": "success"}
    assert sorted(each["log"] for each in ended.jobs["work"]["combinations"]) == ["0,1", "2,3"]
    assert ended.jobs["none"]["log"] == "[]"


async def test_the_scripts_of_a_job_are_held_to_the_memory_that_it_asks_for(store: str) -> None:
    if "memory" not in {place.controller for place in places()}:
        pytest.skip("this process may make no control group for memory here")
    ended = await ran(
        f"""
        jobs:
          greedy:
            runs-on: any
            resources: {{memory: 60}}
            steps:
              - run: |
                  {shlex.quote(sys.executable)} -c "bytearray(90 << 20)"
        """,
        store,
        resources=Resources(memory_mb=100),
    )
    assert ended.results == {"greedy": "failure"}
    assert "Its processes had used all of the memory that its job asks for" in ended.jobs["greedy"]["log"]
