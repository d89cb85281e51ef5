"""Workflow files that clients submit: as many different ones as they like, of which a server keeps few."""

from __future__ import annotations

from pathlib import Path

from holdfast import Engine
from holdfast.actions.jobs.restoration import restored
from holdfast.engine.background.workflow_loader import WorkflowLoader
from holdfast.service.declarations.command import Start
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.wire.submission import Submissions
from tests.engine.kit import bounded, eventually

MANY = 30


def file(number: int) -> str:
    """One whose only job is skipped."""
    return f"name: flow-{number}\njobs: {{a: {{if: '!inputs.x', runs-on: any, steps: [{{run: x}}]}}}}"


@bounded
async def test_a_server_takes_any_number_of_files_and_keeps_few(tmp_path: Path) -> None:
    """The thousand and first used to be refused, to every tenant, until the server was started anew."""
    async with Engine.open(f"sqlite:///{tmp_path / 'runs.db'}", yaml=True) as engine:
        engine.executor.borrow = WorkflowLoader(engine.runtime, engine.executor.services.threads, restored, most=5).borrow
        service = Service(engine, [], Submissions("store", {}).take)
        for number in range(MANY):
            run = await service.execute(Principal(), Start(yaml=file(number), input={"x": True}))
            assert (await engine.run(run).settled()).ended == "completed"
            await eventually(lambda: not engine.runtime.runs.resident)
        assert len(engine.runtime.catalog.workflows) <= 5
        size = max(len(each.graph.encoded) for each in engine.runtime.catalog.workflows.values())
        engine.executor.borrow = WorkflowLoader(
            engine.runtime, engine.executor.services.threads, restored, most_bytes=3 * size
        ).borrow
        for number in range(MANY, MANY + 10):
            run = await service.execute(Principal(), Start(yaml=file(number), input={"x": True}))
            await engine.run(run).settled()
            await eventually(lambda: not engine.runtime.runs.resident)
        assert len(engine.runtime.catalog.workflows) <= 5 + 3
