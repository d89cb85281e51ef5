"""A pasted id is found for what it is, and a name by a part of it; nothing of another tenant is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.core.values.access import Access
from holdfast.errors import InvalidInput
from holdfast.service.declarations import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("viewer", "admin")))


@tool(effect="once")
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@flow(tools=[pay])
async def order(ctx: Context, given: Any) -> Any:
    await ctx.tool(pay, to="ada")
    return (await ctx.ask({"pay": 9}, decisions=["approve"])).decision


@flow(on_exhausted="dead_letter")
async def breaks(ctx: Context, given: Any) -> str:
    raise ValueError("broken")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[order, breaks]) as engine:
        yield engine


async def found(engine: Engine, text: str, who: Principal = IDA) -> list[tuple[str, str]]:
    page = await Service(engine, [order, breaks]).query(who, query.Search(q=text))
    return [(row["kind"], row["id"]) for row in page.rows]


async def test_a_pasted_id_is_found_for_what_it_is(engine: Engine) -> None:
    run = await engine.start(order, {}, tenant="acme")
    state = await engine.run(run.id).until(lambda state: bool(state.gates))
    (gate,) = state.gates
    ((effect, _),) = await engine.effects(run.id)
    for text, known in (
        (run.id, ("run", run.id)),
        (f"  {run.id.upper()} ", ("run", run.id)),
        (gate, ("gate", gate)),
        (effect.call, ("effect", effect.call)),
        (f"{run.id}/flow#1", ("step", f"{run.id}/flow#1")),
        (f"{run.id}:flow#1", ("step", f"{run.id}/flow#1")),
        (f"{run.id}/2", ("event", f"{run.id}/2")),
        (run.id[:13], ("run", run.id)),
    ):
        assert await found(engine, text) == [known], text
        assert await found(engine, text, IDA._replace(tenant="other")) == [], text
        assert await found(engine, text, IDA._replace(access=Access(("viewer",), ("breaks",)))) == [], text
    assert await found(engine, f"{run.id}/99999") == []
    assert await found(engine, f"{run.id}/nothing#1") == []


async def test_a_dead_letter_is_found_by_its_id(engine: Engine) -> None:
    run = await engine.start(breaks, {})
    await engine.run(run.id).until(lambda state: bool(state.gates))
    assert await found(engine, f"{run.id}:flow#1") == [("dead_letter", f"{run.id}:flow#1")]


async def test_a_name_is_found_by_a_part_of_it(engine: Engine) -> None:
    run = await engine.start(order, {}, key="Invoice-7", tenant="acme")
    await engine.set_schedule("nightly-order", "order", "0 2 * * *", tenant="acme")
    assert await found(engine, "invoice") == [("run", run.id)]
    assert {kind for kind, _ in await found(engine, "ORDER")} == {"workflow", "schedule", "run"}
    assert await found(engine, "nightly") == [("schedule", "nightly-order")]
    assert await found(engine, "nightly", IDA._replace(tenant="other")) == []
    with pytest.raises(InvalidInput, match="text to search"):
        await found(engine, "  ")
