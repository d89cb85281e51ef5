"""What leaves a server of a run that has ended, by its settings' leave; and a run that goes on with another definition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from holdfast import Engine, Workflow, human_gate, task
from holdfast.compose.api import HttpPort, answering
from holdfast.core.values.access import Access
from holdfast.evaluation import replay
from holdfast.evaluation.recording import exported, read
from holdfast.service.access.identity import Holder
from holdfast.service.service import Service
from holdfast.settings import Settings
from tests.http import flows
from tests.http.kit import Port, known

IDENTITY = known(
    runs=Holder("clients.runs", tenant="acme", access=Access(("operator",))),
    globex=Holder("clients.globex", tenant="globex"),
    looks=Holder("clients.looks", tenant="acme", access=Access(("viewer",))),
    admin=Holder("clients.admin"),
    other=Holder("clients.other", tenant="acme", access=Access(("operator",), workflows=("other",))),
)


@asynccontextmanager
async def served(store: Path, *workflows: Workflow, exports: Literal["none", "redacted", "whole"]) -> AsyncIterator[Port]:
    async with Engine.open(store, workflows=workflows) as engine:
        service = Service(engine, workflows, recorder=partial(exported, Settings(exports=exports)))
        async with answering(service, HttpPort("127.0.0.1:0", IDENTITY), lambda _: None) as address:
            yield Port(address, engine)


async def test_a_record_leaves_redacted_and_is_replayed_elsewhere(tmp_path: Path) -> None:
    given = {"mail": "ann@example.org", "name": "Ada"}
    async with (
        served(tmp_path / "runs.db", flows.quick, flows.order, exports="redacted") as port,
        port.asked("runs" * 4) as runs,
        port.asked("admin" * 4) as admin,
    ):
        run = (await runs.post("/runs", {"workflow": "quick", "input": given}, wait_s=10))["run_id"]
        waits = (await runs.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
        said = await runs.post(f"/runs/{run}/record", {"redact": ["name"]})
        assert said["run_id"] == run
        text = msgspec.json.encode(said["record"])
        assert b"ann@example.org" not in text
        assert b"Ada" not in text
        (record,) = read([text], "the server's")
        (replayed,) = [each async for each in replay([record], [flows.quick])]
        assert replayed.passed
        for names, path, body, status in (
            (("looks",), run, {}, 403),
            (("globex", "other"), run, {}, 404),
            (("runs",), waits, {}, 400),
            (("runs", "admin"), run, {"whole": True}, 403),
            (("runs",), run, {"redact": "name"}, 422),
        ):
            for name in names:
                async with port.asked(name * 4) as api:
                    assert (await api.refused("POST", f"/runs/{path}/record", body))[0] == status, (name, body)
        key = {"idempotency_key": "k"}
        assert await runs.refused("POST", f"/runs/{run}/record", {}, **key) == (400, "invalid_idempotency_key")
        deeds = [
            each["outcome"] for each in await admin.rows("/audit") if each["action"] == "ExportRun" and each["about"] == run
        ]
        assert deeds == ["done", "not_permitted", "not_found", "not_found", "not_permitted", "not_permitted"]


@pytest.mark.parametrize(("exports", "status"), [("none", 403), ("whole", 200)])
async def test_what_leaves_is_what_the_server_s_settings_permit(tmp_path: Path, exports: Any, status: int) -> None:
    async with served(tmp_path / "runs.db", flows.quick, exports=exports) as port, port.asked("runs" * 4) as runs:
        run = (await runs.post("/runs", {"workflow": "quick", "input": "ann@example.org"}, wait_s=10))["run_id"]
        answer = await runs.said("POST", f"/runs/{run}/record", {"whole": True})
        assert (answer.status_code, "ann@example.org" in answer.text) == (status, status == 200)
        assert (await runs.said("POST", f"/runs/{run}/record")).status_code == status
        both = await runs.said("POST", f"/runs/{run}/record", {"whole": True, "redact": ["x"]})
        assert both.status_code == (403 if status == 403 else 400)


def approved(version: int) -> Workflow:
    wf = Workflow("approved", version=version)

    @human_gate
    async def agree(state: Any) -> Any:
        return {"price": 7}

    @task
    def send(state: Any) -> int:
        return version

    wf.node("agree")(agree)
    wf.node("send")(send)
    wf.edge("agree", "send")
    return wf


async def test_a_run_goes_on_with_the_definition_that_the_store_knows_now(tmp_path: Path) -> None:
    async with served(tmp_path / "runs.db", approved(1), exports="none") as port, port.asked("runs" * 4) as runs:
        run = (await runs.post("/runs", {"workflow": "approved"}, wait_s=10))["run_id"]
    async with served(tmp_path / "runs.db", approved(2), approved(3), exports="none") as port:
        for name, version, status in (("looks", 0, 403), ("globex", 0, 404), ("other", 0, 404), ("runs", 9, 404)):
            async with port.asked(name * 4) as api:
                assert (await api.refused("POST", f"/runs/{run}/migrate", {"version": version}))[0] == status, name
        async with port.asked("runs" * 4) as runs, port.asked("admin" * 4) as admin:
            assert (await runs.post(f"/runs/{run}/migrate", {"version": 2}))["version"] == 2
            assert (await runs.post(f"/runs/{run}/migrate"))["version"] == 3
            gate = await admin.gate(run)
            ended = await admin.post(f"/gates/{gate}/decision", await admin.seen(gate), wait_s=10)
            assert (ended["status"], ended["output"]) == ("completed", 3)
