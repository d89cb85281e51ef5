"""One event of a run, in full, and its attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast import Context, Engine, flow
from holdfast.compose.api import HttpPort, answering
from holdfast.core.values.access import Access
from holdfast.service.access.identity import Holder
from holdfast.service.service import Service
from tests.http.kit import Port, known

LARGE = "x" * 100_000
IDENTITY = known(
    all=Holder("clients.all", access=Access(("operator",))),
    acme=Holder("clients.acme", tenant="acme", access=Access(("operator",))),
    globex=Holder("clients.globex", tenant="globex", access=Access(("operator",))),
)


@flow
async def large(ctx: Context, given: dict[str, str]) -> dict[str, str]:
    await ctx.sleep(seconds=0.05)
    return given


@asynccontextmanager
async def served(store: Path) -> AsyncIterator[Port]:
    async with Engine.open(store, workflows=[large]) as engine:
        service = Service(engine, [large])
        async with answering(service, HttpPort("127.0.0.1:0", IDENTITY), lambda _: None) as address:
            yield Port(address, engine)


async def test_an_event_alone_has_the_data_that_a_list_leaves_out(tmp_path: Path) -> None:
    async with served(tmp_path / "runs.db") as port, port.asked("acme" * 4) as acme, port.asked("globex" * 4) as globex:
        started = await acme.post("/runs", {"workflow": "large", "input": {"text": LARGE}}, wait_s=10)
        path = f"/runs/{started['run_id']}"
        for each in await acme.rows(f"{path}/events"):
            whole = await acme.get(f"{path}/events/{each['seq']}")
            assert whole.keys() == each.keys()
            large_ones = {name for name, value in each.items() if isinstance(value, dict) and "blob" in value}
            assert large_ones == {"RunStarted": {"input"}, "StepCompleted": {"output"}, "RunCompleted": {"output"}}.get(
                each["type"], set()
            )
            assert whole == each | {name: {"text": LARGE} for name in large_ones}
        for seq in (0, -1, 999):
            assert (await acme.refused("GET", f"{path}/events/{seq}"))[0] == 404
        assert (await globex.refused("GET", f"{path}/events/1"))[0] == 404


async def test_attempts_name_the_process_to_the_operator_of_the_fleet_only(tmp_path: Path) -> None:
    async with served(tmp_path / "runs.db") as port, port.asked("acme" * 4) as acme, port.asked("all" * 4) as everything:
        run = (await acme.post("/runs", {"workflow": "large", "input": {"text": "x"}}, wait_s=10))["run_id"]
        seen, of_tenant = [await each.rows(f"/runs/{run}/attempts") for each in (everything, acme)]
        assert [(each["step"], each["attempt"], each["status"]) for each in seen] == [
            ("flow#1", 1, "suspended"),
            ("flow#1", 1, "completed"),
        ]
        assert all(each["worker"] for each in seen)
        assert of_tenant == [{**each, "worker": None} for each in seen]
        first = await acme.get(f"/runs/{run}/attempts?limit=1")
        rest = await acme.get(f"/runs/{run}/attempts?limit=1&cursor={first['cursor']}")
        assert [*first["rows"], *rest["rows"]] == of_tenant
        assert rest["cursor"] is None
