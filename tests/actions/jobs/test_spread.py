"""Jobs whose combinations ask for something that an expression says: each is a step, placed, tried again and logged by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actions.jobs.placement import is_spread
from holdfast.actions.jobs.restoration import restored
from holdfast.actions.syntax.load import load
from holdfast.core import events as ev
from holdfast.core.demand import SHELL
from tests.actions.jobs.kit import done, ran, workflow, world
from tests.engine.history import events_of
from tests.engine.kit import opened

SPREAD = """
jobs:
  build:
    runs-on: ${{ matrix.os }}
    strategy: {fail-fast: %s, matrix: {os: [large, small], n: [1, 2]}}
    outputs: {last: "${{ steps.a.outputs.last }}"}
    steps:
      - id: a
        run: |
          echo "${{ matrix.os }} ${{ matrix.n }}"
          echo "last=${{ matrix.n }}" >> "$GITHUB_OUTPUT"
          %s
  after: {runs-on: any, needs: build, if: always(), steps: [{run: 'echo "${{ needs.build.result }} ${{ needs.build.outputs.last }}"'}]}
"""


async def test_each_combination_is_placed_where_its_own_labels_are(store: str) -> None:
    made = workflow(SPREAD % ("true", "true"))
    async with opened(store, workflows=[made], labels=["large", "small"]) as engine:
        run = await engine.start(made)
        found = await done(engine, await run.settled())
        asked = {each.step: each.demand for each in await events_of(run, ev.StepReady) if each.demand is not None}
    assert (found.status, found.results) == ("completed", {"build": "success", "after": "success"})
    labels = {step: demand.labels for step, demand in asked.items() if step.startswith("build/")}
    assert labels == {f"build/0[{n}]#1": (("large", "small")[n // 2],) for n in range(4)}
    assert {demand.task for demand in asked.values()} == {SHELL}
    logs = [combination["log"] for combination in found.jobs["build"]["combinations"]]
    assert logs == ["large 1", "large 2", "small 1", "small 2"]
    assert found.jobs["after"]["log"] == "success 2"


async def test_a_combination_waits_for_a_worker_that_has_its_label_and_the_others_do_not(store: str) -> None:
    made = workflow(SPREAD % ("false", "true"))
    async with opened(store, workflows=[made], labels=["small"]) as engine:
        run = await engine.start(made)
        state = await run.until(lambda state: "build/0" in state.maps and state.maps["build/0"].completed == 2)
        assert {*state.unplaced} == {"build/0[0]", "build/0[1]"}
    async with opened(store, workflows=[made], labels=["large"]) as engine:
        assert (await done(engine, await engine.run(run.id).settled())).status == "completed"


@pytest.mark.parametrize("fail_fast", ["true", "false"])
async def test_a_combination_that_fails_fails_the_job_and_with_fail_fast_the_others(store: str, fail_fast: str) -> None:
    text = SPREAD % (fail_fast, "test ${{ matrix.n }} = 1")
    found = await ran(text, store, labels=["large", "small"])
    assert (found.status, found.results) == ("failed", {"build": "failure", "after": "success"})
    if fail_fast == "true":
        assert "items of 'build/0' have failed, and none may" in found.jobs["build"]["error"]
    else:
        results = [combination["result"] for combination in found.jobs["build"]["combinations"]]
        assert results == ["success", "failure", "success", "failure"]


async def test_a_combination_is_tried_again_by_itself(store: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    text = f"""
    jobs:
      work:
        runs-on: ${{{{ matrix.os }}}}
        retry: {{max: 1, backoff: fixed, delay-seconds: 0.01}}
        strategy: {{max-parallel: 1, matrix: {{os: [one, two]}}}}
        steps:
          - run: 'echo "${{{{ matrix.os }}}}" >> {outside}; test "${{{{ matrix.os }}}}" = two || test $(grep -c one {outside}) = 2'
    """
    found = await ran(text, store, labels=["one", "two"])
    assert found.status == "completed"
    assert world(outside) == ["one", "one", "two"]


def test_a_spread_job_is_restored_from_the_store() -> None:
    made = workflow(SPREAD % ("true", "true"))
    again = restored(made.graph.definition)
    assert again is not None
    assert again.hash == made.hash
    assert made.graph.has_scripts


@pytest.mark.parametrize(
    ("said", "spread"),
    [
        ("runs-on: ['${{ inputs.where }}']", True),
        ("runs-on: any, resources: {cpu: '${{ inputs.c }}', tags: ['${{ inputs.t }}']}", True),
        ("runs-on: any, pools: {P: '${{ inputs.p }}', Q: 1}", True),
        ("runs-on: any, pools: {Q: 1}, strategy: {matrix: {n: '${{ fromJSON(inputs.n) }}'}}", True),
        ("runs-on: any, strategy: {matrix: {n: '${{ fromJSON(inputs.n) }}'}}", False),
        ("runs-on: gpu, pools: {Q: 1}, strategy: {matrix: {n: [1, 2]}}", False),
    ],
)
def test_only_what_an_expression_says_is_asked_for_combination_by_combination(said: str, spread: bool) -> None:
    (job,) = load(f"jobs: {{work: {{{said}, steps: [{{run: 'true'}}]}}}}", "file").jobs
    assert is_spread(job) is spread


async def test_what_cannot_be_asked_for_fails_the_job_in_words(store: str) -> None:
    text = """
    jobs:
      work: {runs-on: any, pools: {P: '${{ inputs.p }}'}, steps: [{run: 'true'}]}
    """
    found = await ran(text, store, {"p": "many"})
    assert "P is 'many'; it must be a whole number from 1" in found.jobs["work"]["error"]
