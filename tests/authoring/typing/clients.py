"""What a type checker says of the answers of a server's commands and queries: each has its own."""

from __future__ import annotations

from typing import assert_type

from holdfast.client import AsyncClient, Client, command, query
from holdfast.service.declarations.declaration import Rows
from holdfast.service.view import (
    ApprovalRow,
    BackfilledRow,
    CallerRow,
    GateRow,
    GateWhole,
    NewKeyRow,
    OutcomeRow,
    QueueReasonRow,
    QueueRow,
    RunRow,
    RunStatusRow,
    RunWhole,
    StreamRow,
)


def block(client: Client) -> None:
    assert_type(client.execute(command.Start(workflow="order", tags=("a",))), RunStatusRow)
    assert_type(client.execute(command.PauseSchedule("nightly")), None)
    assert_type(client.execute(command.MakeKey(name="ci")), NewKeyRow)
    assert_type(client.execute(command.Backfill("nightly", 0)), Rows[BackfilledRow])
    assert_type(client.execute_many(command.Bulk(action="retry")), Rows[OutcomeRow])
    assert_type(client.query(query.Runs(workflow="order")), Rows[RunRow])
    assert_type(client.query(query.Run("r1"), wait_s=5).rows[0], RunWhole)
    assert_type(client.query(query.Queue()).rows[0], QueueRow | QueueReasonRow)
    assert_type([gate["gate_id"] for gate in client.rows(query.Gates())], list[str])
    assert_type(client.start("order", key="o-1"), RunStatusRow)
    assert_type(client.run("r1"), RunWhole)
    assert_type(client.decide("g1"), RunStatusRow)
    assert_type(client.me(), CallerRow)
    for row in client.listen("r1"):
        assert_type(row, StreamRow)


async def wait(client: AsyncClient) -> None:
    assert_type(await client.execute(command.GrantApproval(tool="mail", for_s=60)), ApprovalRow)
    assert_type(await client.execute(command.DeleteConversation("chat")), None)
    assert_type(await client.query(query.Gate("g1")), Rows[GateWhole])
    assert_type(await client.gate("g1"), GateWhole)
    async for gate in client.rows(query.Gates()):
        assert_type(gate, GateRow)


def wrong(client: Client) -> None:
    client.execute(command.PauseSchedule())  # type: ignore[call-arg]
    client.execute(command.Extend("r1", "patience", 1))  # type: ignore[arg-type]
    client.execute(query.Run("r1"))  # type: ignore[arg-type]
    client.query(command.Pause("r1"))  # type: ignore[arg-type]
    client.execute_many(command.Pause("r1"))  # type: ignore[arg-type]
    client.run("r1")["stauts"]  # type: ignore[typeddict-item]
