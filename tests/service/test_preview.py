"""What a command to a run would do, asked beforehand, and what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.core.facts.graph import FLOW
from holdfast.core.values.access import Access
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query
from holdfast.service.declarations.quoting import QUOTED, quote_of
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("viewer", "operator", "admin")))


@tool(effect="idempotent")
def release(to: str) -> str:
    """Give it back."""
    return f"released {to}"


@tool(effect="once", compensation=release)
def reserve(to: str) -> str:
    """Reserve."""
    return f"reserved {to}"


@flow(tools=[reserve, release], cost_limit_usd="2.00", max_tool_calls=9)
async def waits(ctx: Context, given: Any) -> Any:
    await ctx.tool(reserve, to="ada")
    return await ctx.wait_signal("paid")


@flow
async def breaks(ctx: Context, given: Any) -> str:
    raise ValueError("broken")


@flow
async def counts(ctx: Context, most: int) -> int:
    return most


GIVEN: dict[str, dict[str, Any]] = {
    "extend": {"limit": "steps", "value": 9},
    "raise_budget": {"limit_usd": "3.00"},
    "signal": {"name": "paid"},
    "fork": {"step": "flow#1"},
}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[waits, breaks, counts]) as engine:
        yield engine


async def quoted(engine: Engine, run: str, action: Any, **fields: Any) -> dict[str, Any]:
    """The quote, which leaves the history as it was."""
    before = len(await engine.run(run).events())
    (row,) = (await Service(engine).query(IDA, query.RunQuote(run=run, action=action, fields=fields))).rows
    assert len(await engine.run(run).events()) == before
    return dict(row)


async def waiting(engine: Engine) -> str:
    run = await engine.start(waits, {}, by="ann")
    await engine.run(run.id).until(lambda state: state.steps[FLOW].status == "suspended" if FLOW in state.steps else False)
    return run.id


async def test_cancelling_says_what_it_calls_off_and_undoes(engine: Engine) -> None:
    run = await waiting(engine)
    row = await quoted(engine, run, "cancel")
    assert (row["status"], row["refused"], row["called_off"]) == ("waiting", None, ["flow#1"])
    assert [(each["tool"], each["with"]) for each in row["compensated"]] == [("reserve", "release")]
    await engine.cancel(run)
    state = await engine.run(run).until(lambda state: bool(state.ended))
    assert state.ended == "cancelled"
    assert "has ended" in (await quoted(engine, run, "cancel"))["refused"]


@pytest.mark.parametrize("action", ["pause", "resume", "retry", "cancel"])
async def test_the_status_afterwards_and_a_refusal_are_those_of_the_command(engine: Engine, action: str) -> None:
    for run in (await waiting(engine), (failed := await engine.start(breaks, {})).id):
        if run == failed.id:
            await engine.run(run).until(lambda state: bool(state.ended))
        row = await quoted(engine, run, action)
        told = await asyncio.gather(
            Service(engine).execute(IDA, getattr(cmd, action.capitalize())(run)), return_exceptions=True
        )
        refusals = [each.message for each in told if isinstance(each, HoldfastError)]
        assert ([row["refused"]] if row["refused"] else []) == refusals
        assert (row["status_after"] is None) == bool(refusals)


async def test_a_retry_says_which_steps_go_on(engine: Engine) -> None:
    run = await engine.start(breaks, {})
    await engine.run(run.id).until(lambda state: bool(state.ended))
    row = await quoted(engine, run.id, "retry")
    assert (row["status"], row["status_after"], row["goes_on"]) == ("failed", "running", ["flow#1"])


async def test_a_signal_says_which_step_gets_it_and_what_does_not_fit(engine: Engine) -> None:
    run = await waiting(engine)
    assert (await quoted(engine, run, "signal", name="paid", data=1))["delivered_to"] == ["flow#1"]
    row = await quoted(engine, run, "signal", name="other")
    assert (row["delivered_to"], row["refused"]) == ([], None)
    with pytest.raises(InvalidInput, match="required field `name`"):
        await quoted(engine, run, "signal")


async def test_a_higher_limit_says_what_could_be_spent_then(engine: Engine) -> None:
    run = await waiting(engine)
    assert (await quoted(engine, run, "raise_budget", limit_usd="3.50"))["spendable_usd"] == "3.50"
    assert "2.00" in (await quoted(engine, run, "raise_budget", limit_usd="1.00"))["refused"]
    assert (await quoted(engine, run, "extend", limit="tool_calls", value=20))["refused"] is None
    assert (await quoted(engine, run, "extend", limit="tool_calls", value=3))["refused"] is not None


async def test_a_dry_run_of_many_says_of_each_what_it_would_do(engine: Engine) -> None:
    run, failed = await waiting(engine), await engine.start(breaks, {})
    await engine.run(failed.id).until(lambda state: bool(state.ended))
    told = cmd.Bulk(action="cancel", status=("waiting", "failed"), dry_run=True)
    rows = {each["run_id"]: each for each in (await Service(engine).execute(IDA, told)).rows}
    assert rows[run]["quote"]["called_off"] == ["flow#1"]
    assert [each["tool"] for each in rows[run]["quote"]["compensated"]] == ["reserve"]
    assert "has ended" in rows[failed.id]["refused"]
    assert not (await engine.run(run).state()).phase


async def test_a_fork_is_quoted_like_any_command_with_its_edited_input(engine: Engine) -> None:
    run = await waiting(engine)
    assert "pause it first" in (await quoted(engine, run, "fork", step="flow#1"))["refused"]
    await engine.pause(run)
    row = await quoted(engine, run, "fork", step="flow#1", input={"a": 1}, cost_limit_usd="0.75")
    assert (row["status_after"], row["refused"], row["called_off"]) == ("paused", None, [])
    assert (row["fork"]["begins_at"], row["fork"]["limit_usd"]) == ("flow#1", "0.75")
    row = await quoted(engine, run, "fork", step="flow#2")
    assert (row["fork"], "flow#2" in row["refused"]) == (None, True)


async def test_an_input_that_the_workflow_does_not_take_is_refused_in_the_quote(engine: Engine) -> None:
    run = await engine.start(counts, 3)
    await run.result()
    row = await quoted(engine, run.id, "fork", step="flow#1", input="three")
    assert (row["fork"], "integer" in row["refused"]) == (None, True)


async def test_a_quote_takes_the_fields_of_its_command_and_no_others(engine: Engine) -> None:
    run = await waiting(engine)
    for action, kind in QUOTED.items():
        assert quote_of(kind(run=run, **GIVEN.get(action, {}))).action == action
        with pytest.raises(InvalidInput, match="has no field 'limit_name'; it takes: "):
            await quoted(engine, run, action, limit_name="steps")
    with pytest.raises(InvalidInput, match="Expected `int`"):
        await quoted(engine, run, "extend", limit="steps", value="many")
