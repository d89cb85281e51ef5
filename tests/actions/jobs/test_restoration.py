"""A workflow in YAML can be run by any process: its stored graph says all of it, and the file is not needed."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings

from holdfast import Engine, Workflow, task
from holdfast.actions.jobs.restoration import restored
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.core.facts.graph import Definition, Graph
from holdfast.engine.background.workflow_loader import WorkflowLoader
from tests.actions.jobs.documents import files
from tests.actions.jobs.kit import done, workflow, world
from tests.conftest import examples
from tests.engine.kit import eventually, opened

FLOW = """
name: {name}
jobs:
  first:
    runs-on: any
    steps: [{{id: say, run: 'echo "word=${{{{ inputs.word }}}}" >> "$GITHUB_OUTPUT"'}}]
    outputs: {{word: "${{{{ steps.say.outputs.word }}}}"}}
  second:
    runs-on: any
    needs: first
    strategy: {{matrix: {{n: [1, 2]}}}}
    steps: [{{run: 'echo "${{{{ needs.first.outputs.word }}}} ${{{{ matrix.n }}}}" >> {outside}'}}]
"""


def stored(made: Workflow) -> Definition:
    """What the store has of it."""
    return msgspec.json.decode(made.graph.encoded, type=Definition)


def text_of(file: dict[str, Any]) -> str:
    """JSON is YAML."""
    return json.dumps(file)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(files())
def test_a_workflow_comes_back_from_its_graph_as_it_was(file: dict[str, Any]) -> None:
    made = workflow_of(load(text_of(file), "file"))
    again = restored(stored(made))
    assert again is not None
    event(f"{len(file['jobs'])} jobs")
    assert again.hash == made.hash
    assert list(again.nodes) == list(made.nodes)


@pytest.mark.parametrize("file", ["examples/content_pipeline.yaml", "tests/actions/syntax/reports.yaml"])
def test_files_that_people_wrote_come_back(file: str) -> None:
    made = workflow_of(load((Path(__file__).parents[3] / file).read_text(), "file"))
    again = restored(stored(made))
    assert again is not None
    assert again.hash == made.hash


async def test_the_combinations_of_a_matrix_keep_their_order(store: str) -> None:
    """What has been done for a combination is known by its number."""
    text = """
    jobs:
      work:
        runs-on: any
        strategy: {max-parallel: 1, matrix: {z: [1, 2], a: [{y: 1, b: 2}, 4]}}
        steps: [{run: 'echo "${{ strategy.job-index }} ${{ matrix.z }} ${{ toJSON(matrix.a) }}" | tr -d "\\n "'}]
    """
    made = workflow(text)
    async with opened(store, execute=False) as starter:
        run = (await starter.start(made)).id
    async with opened(store, yaml=True) as engine:
        work = (await done(engine, await engine.run(run).settled())).jobs["work"]
    assert [each["log"] for each in work["combinations"]] == ['01{"y":1,"b":2}', "114", '22{"y":1,"b":2}', "324"]
    assert workflow(text.replace("{z: [1, 2], a: [{y: 1, b: 2}, 4]}", "{a: [{y: 1, b: 2}, 4], z: [1, 2]}")).hash != made.hash


def greeting() -> Workflow:
    made = Workflow("greet")
    made.node("hello")(task(lambda state: "hello"))
    return made


def test_other_workflows_and_what_cannot_be_read_are_not_restored(caplog: pytest.LogCaptureFixture) -> None:
    assert restored(stored(greeting())) is None
    assert not caplog.records
    made = stored(workflow(FLOW.format(name="flow", outside="x")))
    first, *others = made.nodes
    job = {name: value for name, value in first.options["job"].items() if name != "retry"}
    broken = msgspec.structs.replace(made, nodes=(msgspec.structs.replace(first, options={"job": job}), *others))
    assert restored(broken) is None
    assert "cannot read workflow flow as it was stored (KeyError: 'retry')" in caplog.text


async def test_a_process_without_the_file_takes_up_its_run(store: str, outside: Path) -> None:
    made = workflow(FLOW.format(name="flow", outside=outside))
    async with opened(store, execute=False) as starter:
        run = (await starter.start(made, {"word": "it's"})).id
    async with opened(store, yaml=True) as engine:
        ended = await done(engine, await engine.run(run).settled())
    assert (ended.status, ended.results) == ("completed", {"first": "success", "second": "success"})
    assert sorted(world(outside)) == ["it's 1", "it's 2"]


async def test_on_postgresql_it_is_taken_up_as_well(database: str, outside: Path) -> None:
    made = workflow(FLOW.format(name="flow", outside=outside))
    async with opened(database, yaml=True) as engine, opened(database, execute=False) as starter:
        run = await starter.start(made, {"word": "x"})
        assert (await done(starter, await run.settled())).status == "completed"
        assert made.hash in engine.runtime.catalog.workflows


async def test_without_being_asked_to_a_process_takes_up_nothing(store: str, outside: Path) -> None:
    made = workflow(FLOW.format(name="flow", outside=outside))
    async with opened(store) as engine, opened(store, execute=False) as starter:
        await starter.start(made, {"word": "x"})
        await asyncio.sleep(2)
        assert engine.runtime.catalog.workflows == {}
    assert world(outside) == []


async def test_what_is_no_file_or_would_be_another_workflow_is_left_to_others(
    store: str, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As if another version had stored it, whose workflows have a bound of their own."""
    made = workflow(FLOW.format(name="flow", outside=outside))
    limits = msgspec.structs.replace(made.graph.definition.limits, max_steps=7)
    made._graph = Graph(msgspec.structs.replace(made.graph.definition, limits=limits))
    async with opened(store, execute=False) as starter:
        runs = [await starter.start(made, {"word": "x"}), await starter.start(greeting())]
        async with opened(store, yaml=True) as engine:
            with caplog.at_level(logging.WARNING, "holdfast"):
                await eventually(lambda: "another version has stored it" in caplog.text)
            await asyncio.sleep(1.2)
            assert engine.runtime.catalog.workflows == {}
        assert [await run.status() for run in runs] == ["waiting", "running"]
    assert caplog.text.count("another version has stored it") == 1
    assert world(outside) == []


async def test_only_so_many_are_kept_and_none_whose_run_is_in_memory(store: str, tmp_path: Path) -> None:
    """What programs write is a new workflow every time; a worker that lives for months must not keep them all."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    text = f"jobs: {{wait: {{runs-on: any, steps: [{{run: 'echo >> {begun}; until test -e {go}; do sleep 0.02; done'}}]}}}}"
    made = [workflow(text, f"flow-{n}") for n in range(4)]
    async with opened(store, execute=False) as starter, opened(store) as engine:
        runtime = engine.runtime
        adoption = WorkflowLoader(runtime, engine.executor.services.threads, restored, most=2)
        runs = [await starter.start(each) for each in made]
        await learned(adoption, engine, {each.hash for each in made})
        await eventually(lambda: len(world(begun)) == 4)
        await adoption.turn(runtime.store.clock.now_ms())
        assert set(runtime.catalog.workflows) == {each.hash for each in made}
        go.touch()
        assert [(await run.settled()).ended for run in runs] == ["completed"] * 4
        await eventually(lambda: not runtime.runs.resident)
        await adoption.turn(runtime.store.clock.now_ms())
        assert len(runtime.catalog.workflows) == 2
        gone = next(each for each in made if each.hash not in runtime.catalog.workflows)
        again = await starter.start(gone)
        await learned(adoption, engine, {gone.hash})
        assert (await again.settled()).ended == "completed"


async def learned(adoption: WorkflowLoader, engine: Engine, hashes: set[str]) -> None:
    while not hashes <= set(engine.runtime.catalog.workflows):
        await adoption.turn(engine.runtime.store.clock.now_ms())
        await asyncio.sleep(0.02)
