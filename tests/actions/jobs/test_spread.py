"""Jobs whose combinations are steps: each is placed, tried again and logged by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actions.jobs.placement import is_spread
from holdfast.actions.jobs.restoration import restored
from holdfast.actions.syntax.load import load
from holdfast.core.facts import events as ev
from holdfast.core.values.demand import SHELL, Demand, Resources
from holdfast.core.values.ids import NodeName
from holdfast.service.view.run import of_item, of_map
from tests.actions.jobs.kit import done, ran, workflow, world
from tests.engine.history import events_of
from tests.engine.kit import eventually, opened

SPREAD = """
jobs:
  build:
    runs-on: ${{ matrix.os }}
    strategy: {fail-fast: %s, matrix: {os: [large, small], n: [1, 2]}}
    outputs: {last: "${{ matrix.n == 2 && steps.a.outputs.last || '' }}"}
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


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("${{ matrix.os }}", ("any",)),
        ("['${{ matrix.os }}', any]", ("any",)),
        ("['${{ matrix.os }}', large]", ("any", "large")),
        ("${{ fromJSON(matrix.os) }}", ('["large", "small"]',)),
        ("[large, '${{ fromJSON(matrix.os) }}']", ('["small", "any"]', "[]")),
    ],
)
async def test_labels_are_what_expressions_give_lists_are_spliced_and_any_is_none(
    store: str, asked: str, given: tuple[str, ...]
) -> None:
    text = f"""
    jobs:
      work:
        runs-on: {asked}
        resources: {{tags: ["${{{{ inputs.tags }}}}", "fast"]}}
        strategy: {{matrix: {{os: {list(given)}}}}}
        steps: [{{run: "true"}}]
    """
    made = workflow(text)
    tagged = Resources(tags=("fast", "big"))
    async with opened(store, workflows=[made], labels=["large", "small"], resources=tagged) as engine:
        run = await engine.start(made, {"tags": ["fast", "big"]})
        found = await done(engine, await run.settled())
        asked_for = [each.demand for each in await events_of(run, ev.StepReady) if each.demand is not None]
    assert (found.status, found.results) == ("completed", {"work": "success"})
    assert {label for demand in asked_for for label in demand.labels} <= {"large", "small"}
    assert {demand.tags for demand in asked_for if demand.tags} == {("big", "fast")}


@pytest.mark.parametrize("value", ['[["any"]]', '{"group": "large"}', '[{"group": "large"}]', '""', "null", '"a b"'])
async def test_labels_that_can_be_none_fail_their_job_in_words(store: str, value: str) -> None:
    text = """
    jobs:
      work: {runs-on: "${{ fromJSON(inputs.where) }}", steps: [{run: "true"}]}
    """
    found = await ran(text, store, {"where": value})
    assert found.results == {"work": "failure"}
    assert "its demand is invalid:" in found.jobs["work"]["error"]


@pytest.mark.parametrize("fail_fast", ["true", "false"])
async def test_a_combination_that_fails_fails_the_job_and_with_fail_fast_the_others(store: str, fail_fast: str) -> None:
    text = SPREAD % (fail_fast, "test ${{ matrix.n }} = 1")
    found = await ran(text, store, labels=["large", "small"])
    assert (found.status, found.results) == ("failed", {"build": "failure", "after": "success"})
    results = [combination["result"] for combination in found.jobs["build"]["combinations"]]
    if fail_fast == "true":
        assert "failure" in results[1::2]
        assert set(results[::2]) <= {"success", "cancelled"}
    else:
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


async def test_what_is_written_out_is_what_each_combination_asks_for(store: str) -> None:
    made = workflow("""
    jobs:
      work:
        runs-on: gpu
        pools: {P: 3}
        strategy: {matrix: {n: [1, 2]}}
        steps: [{run: 'echo "$HOLDFAST_POOL_P"'}]
    """)
    async with opened(store, workflows=[made], labels=["gpu"]) as engine:
        await engine.set_pool("P", slots=4)
        run = await engine.start(made)
        found = await done(engine, await run.settled())
        asked = {each.step: each.demand for each in await events_of(run, ev.StepReady)}
    assert [combination["log"] for combination in found.jobs["work"]["combinations"]] == ["3", "3"]
    assert {step: asked[step].pools for step in asked if "[" in step} == {"work/0[0]#1": {"P": 3}, "work/0[1]#1": {"P": 3}}
    assert made.graph.demands == (Demand(labels=("gpu",), pools={"P": 3}, task=SHELL),), "for those who look for workers"


async def test_a_failure_stops_combinations_and_their_steps_in_other_processes(database: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    made = workflow(f"""
    jobs:
      work:
        runs-on: ${{{{ matrix.os }}}}
        strategy: {{matrix: {{os: [here, there]}}}}
        steps:
          - {{run: 'if [ "${{{{ matrix.os }}}}" = here ]; then while ! test -e {outside}; do sleep 0.02; done; exit 3; fi
               ; echo running >> {outside}; sleep 30; echo ended >> {outside}'}}
          - {{if: cancelled(), run: 'echo cleaned >> {outside}'}}
    """)
    async with (
        opened(database, workflows=[made], labels=["there"]) as there,
        opened(database, workflows=[made], labels=["here"]) as here,
    ):
        found = await done(here, await (await here.start(made)).settled())
        assert there.runtime.membership.session != here.runtime.membership.session
    results = [combination["result"] for combination in found.jobs["work"]["combinations"]]
    assert (results, world(outside)) == (["failure", "cancelled"], ["running", "cleaned"])


async def test_a_run_that_is_taken_up_does_what_had_failed_was_cancelled_or_had_not_begun(store: str, tmp_path: Path) -> None:
    outside, mended = tmp_path / "outside", tmp_path / "mended"
    made = workflow(f"""
    jobs:
      work:
        runs-on: any
        strategy: {{max-parallel: 1, matrix: {{n: [1, 2, 3]}}}}
        outputs: {{last: "${{{{ matrix.n }}}}"}}
        steps:
          - {{run: 'echo once-${{{{ matrix.n }}}} >> {outside}', effect: once}}
          - {{run: 'echo ${{{{ matrix.n }}}} >> {outside}; test ${{{{ matrix.n }}}} != 2 || test -e {mended}'}}
    """)
    async with opened(store, workflows=[made]) as engine:
        run = await engine.start(made)
        failed = await done(engine, await run.settled())
        results = [each["result"] for each in failed.jobs["work"]["combinations"]]
        assert (failed.status, results) == ("failed", ["success", "failure", "cancelled"])
        shown = await of_map(engine, failed.state, failed.state.maps[NodeName("work/0")])
        ended = [await of_item(engine, each, "default") for each in (await run.items("work/0")).ends]
        assert (shown["completed"], shown["failed"]) == (1, 1)
        assert [each["status"] for each in ended] == ["completed", "failed"]
        assert world(outside) == ["once-1", "1", "once-2", "2"]
        mended.touch()
        await engine.retry(run.id)
        found = await done(engine, await run.settled())
    assert (found.status, found.jobs["work"]["outputs"]) == ("completed", {"last": "3"})
    assert world(outside)[4:] == ["2", "once-3", "3"]


TOGETHER = """
jobs:
  work:
    runs-on: any
    strategy: {{max-parallel: 1, matrix: {{n: [1, 2, 3]}}}}
    steps: [{{run: 'echo ${{{{ matrix.n }}}} >> {outside}; test ${{{{ matrix.n }}}} != 2 || until test -e {go}; do sleep 0.02; done'}}]
"""


@pytest.mark.parametrize("knows", [True, False], ids=["with its file", "from the store"])
async def test_a_run_that_began_with_its_combinations_in_one_step_goes_on_so(store: str, tmp_path: Path, knows: bool) -> None:
    outside, go = tmp_path / "outside", tmp_path / "go"
    now = workflow(TOGETHER.format(outside=outside, go=go))
    (before,) = now.earlier
    assert (before.hash == now.hash, before.earlier) == (False, ())
    async with opened(store, workflows=[before]) as engine:
        run = await engine.start(before)
        await eventually(lambda: world(outside) == ["1", "2"])
    go.touch()
    async with opened(store, **({"workflows": [now]} if knows else {"yaml": True})) as engine:
        found = await done(engine, await engine.run(run.id).settled())
        assert await events_of(engine.run(run.id), ev.ItemsMapped) == []
    assert (found.status, world(outside)) == ("completed", ["1", "2", "2", "3"])
    assert [each["result"] for each in found.jobs["work"]["combinations"]] == ["success"] * 3


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
        ("runs-on: any, strategy: {matrix: {n: '${{ fromJSON(inputs.n) }}'}}", True),
        ("runs-on: gpu, pools: {Q: 1}, strategy: {matrix: {n: [1, 2]}}", True),
        ("runs-on: gpu, pools: {Q: 1}", False),
    ],
)
def test_a_matrix_or_what_an_expression_asks_for_makes_steps_of_a_job(said: str, spread: bool) -> None:
    (job,) = load(f"jobs: {{work: {{{said}, steps: [{{run: 'true'}}]}}}}", "file").jobs
    assert is_spread(job) is spread


async def test_what_cannot_be_asked_for_fails_the_job_in_words(store: str) -> None:
    text = """
    jobs:
      work: {runs-on: any, pools: {P: '${{ inputs.p }}'}, steps: [{run: 'true'}]}
    """
    found = await ran(text, store, {"p": "many"})
    assert "P is 'many'; it must be a whole number from 1" in found.jobs["work"]["error"]
