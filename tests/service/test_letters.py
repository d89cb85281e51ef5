"""What has failed for good is about the tools whose calls it failed of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.core.values.access import Access
from holdfast.errors import InvalidInput, NotPermitted
from holdfast.service.declarations import query
from holdfast.service.declarations.command import (
    Bulk,
    BulkDeadLetters,
    Decide,
    EditDeadLetter,
    ResolveDeadLetter,
    Retry,
    RetryDeadLetter,
)
from holdfast.service.principal import Principal
from holdfast.service.service import Service

PAID: list[int] = []


@tool(effect="idempotent")
def pay(amount: int) -> str:
    """Send money."""
    if amount < 0:
        raise ValueError("no such amount")
    PAID.append(amount)
    return f"paid {amount}"


@flow(tools=[pay])
async def failing(ctx: Context, given: Any) -> str:
    return await ctx.tool(pay, amount=-1)


@flow(tools=[pay], on_exhausted="dead_letter")
async def parking(ctx: Context, given: Any) -> str:
    return await ctx.tool(pay, amount=-1)


@flow(tools=[pay], on_exhausted="dead_letter")
async def falling(ctx: Context, given: Any) -> str:
    raise ValueError("it fell")


class World(NamedTuple):
    engine: Engine
    service: Service

    async def letter(self, workflow: Any) -> str:
        run = await self.engine.start(workflow, {}, tenant="acme")
        async with asyncio.timeout(30):
            while not (found := await self.engine.dead_letters(run_id=run.id)):
                await asyncio.sleep(0.01)
        return found[0].id


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    PAID.clear()
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[failing, parking, falling]) as engine:
        yield World(engine, Service(engine, [failing, parking, falling]))


def of(*tools: str) -> Principal:
    return Principal("ann", "acme", client="ann", access=Access(("operator", "reviewer"), tools=tools))


@pytest.mark.parametrize("workflow", [failing, parking])
async def test_who_has_no_say_about_a_tool_settles_nothing_of_what_failed_at_it(world: World, workflow: Any) -> None:
    letter, peek = await world.letter(workflow), of("peek")
    run = letter.partition(":")[0]
    deeds: list[Any] = [
        EditDeadLetter(letter, arguments={"amount": 1_000_000}),
        RetryDeadLetter(letter),
        ResolveDeadLetter(letter, "forged"),
        RetryDeadLetter(run),
        EditDeadLetter(run, arguments={"amount": 1}),
        Retry(run),
    ]
    for gate, _ in await world.engine.gates(run):
        deeds += [Decide(gate.gate, answer, data="x") for answer in ("answer", "retry", "reject")]
    assert (len(deeds) > 6) == (workflow is parking)
    for deed in deeds:
        with pytest.raises(NotPermitted, match="no say about the tool 'pay'"):
            await world.service.execute(peek, deed)
    for bulk in (
        BulkDeadLetters(action="retry"),
        BulkDeadLetters(action="resolve", output="forged", run=run),
        Bulk(action="retry"),
    ):
        with pytest.raises(NotPermitted, match="no say about the tool"):
            await world.service.execute(peek, bulk)
    assert (await world.service.query(peek, query.DeadLetter(letter=letter))).rows[0]["state"] == "open", "they look"
    await world.service.execute(of("pay"), EditDeadLetter(letter, arguments={"amount": 5}))
    await world.service.execute(of("pay"), RetryDeadLetter(letter))
    assert await world.engine.run(run).result() == "paid 5"
    assert PAID == [5]


async def test_what_failed_at_no_tool_is_for_who_has_a_say_about_none(world: World) -> None:
    letter = await world.letter(falling)
    await world.service.execute(of("peek"), ResolveDeadLetter(letter, "done"))
    assert await world.engine.run(letter.partition(":")[0]).result() == "done"


async def test_a_letter_has_the_schemas_of_what_may_be_edited_and_a_misfit_names_its_field(world: World) -> None:
    letter = await world.letter(failing)
    (row,) = (await world.service.query(Principal("ops"), query.DeadLetter(letter))).rows
    assert row["arguments_schema"]["properties"]["amount"]["type"] == "integer"
    assert row["arguments_schema"]["required"] == ["amount"]
    with pytest.raises(InvalidInput) as refused:
        await world.service.execute(Principal("ops"), EditDeadLetter(letter, arguments={"amount": "much"}))
    assert (refused.value.field, [each.path for each in refused.value.misfits]) == ("arguments", [("amount",)])
    fallen = await world.letter(falling)
    (row,) = (await world.service.query(Principal("ops"), query.DeadLetter(fallen))).rows
    assert row["arguments_schema"] is None, "no call of a tool has failed"
