"""What a job asks of the place where it runs is what its node asks for, as often as its combinations run at once."""

from __future__ import annotations

import pytest

from holdfast.authoring.yaml.load import load
from holdfast.core.demand import NOTHING, Demand
from holdfast.core.ids import NodeName
from holdfast.jobs import refusal
from tests.jobs.kit import workflow

JOB = "jobs: {{work: {{{}, steps: [{{run: echo}}]}}}}"
MATRIX = "strategy: {{matrix: {{n: [1, 2, 3]}}{}}}"
FROM_OUTSIDE = "strategy: {{matrix: '${{{{ fromJSON(inputs.m) }}}}'{}}}"


def demand(said: str) -> Demand:
    return workflow(JOB.format(said)).graph.nodes[NodeName("work")].demand


def test_what_a_job_says_is_what_its_node_asks_for() -> None:
    asked = demand(
        "runs-on: [gpu, zone=eu], resources: {cpu: 2000, memory: 8000, gpus: 1, tags: [fast]},"
        " pools: {OPENAI_RPS: 5, OPENAI_TPS: 1000}, priority: -7"
    )
    assert asked == Demand(
        labels=("gpu", "zone=eu"), tags=("fast",), cpu_m=2000, memory_mb=8000, gpus=1,
        pools={"OPENAI_RPS": 5, "OPENAI_TPS": 1000}, priority=-7,
    )  # fmt: skip


def test_a_job_that_runs_on_any_asks_for_nothing_and_the_end_of_a_run_never_does() -> None:
    assert demand("runs-on: any") == NOTHING
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
def test_a_job_takes_what_it_says_for_each_combination_that_runs_at_once(strategy: str, times: int) -> None:
    said = f"{strategy}, runs-on: gpu, resources: {{cpu: 10, memory: 20, gpus: 1, tags: [t]}}, pools: {{P: 3}}"
    assert demand(said) == Demand(
        labels=("gpu",), tags=("t",), cpu_m=10 * times, memory_mb=20 * times, gpus=times, pools={"P": 3 * times}
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("runs-on: ['${{ inputs.where }}']", "runs-on asks for labels by an expression"),
        ("runs-on: any, resources: {cpu: '${{ inputs.c }}', tags: ['${{ inputs.t }}']}", "resources says cpu, tags by an"),
        ("runs-on: any, pools: {P: '${{ inputs.p }}', Q: 1}", "what it takes of P is said by an expression"),
        (f"runs-on: any, pools: {{Q: 1}}, {FROM_OUTSIDE.format('')}", "Write how many run at once: max-parallel: 4"),
    ],
)  # fmt: skip
def test_what_only_an_expression_would_say_cannot_be_asked_for(said: str, told: str) -> None:
    (problem,) = refusal.unplaced(load(JOB.format(said), "file"))
    assert problem.startswith("line 1, job 'work': ")
    assert told in problem


def test_combinations_that_take_nothing_may_be_as_many_as_an_expression_says() -> None:
    said = f"runs-on: gpu, priority: 3, resources: {{tags: [t]}}, {FROM_OUTSIDE.format('')}"
    assert refusal.unplaced(load(JOB.format(said), "file")) == []
    assert demand(said) == Demand(labels=("gpu",), tags=("t",), priority=3)


def test_the_largest_that_a_file_may_say_is_a_demand() -> None:
    said = (
        "runs-on: any, resources: {cpu: 10_000_000, memory: 1000000000, gpus: 10000}, pools: {P: 10000000000}, priority: 1000"
    ).replace("_", "")
    assert demand(f"{said}, strategy: {{matrix: {{n: {list(range(40))}}}}}").pools == {"P": 320_000_000_000}
