"""Dead letters, for real: listed in every store, edited against the schema, replayed without doing a thing twice, purged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Context, Engine, RetryPolicy, StateView, Workflow, flow, step, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.ports import DeadLettered
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations.query import DeadLetter, DeadLetters, DeadLetterSummary
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from tests.engine.history import events_of
from tests.engine.kit import Time, engine_at, gate_of, opened

CALLED: list[tuple[str, str]] = []
KEYS: list[str] = []


@pytest.fixture
def called() -> list[tuple[str, str]]:
    """The accounts that were opened and the letters that were sent in this test."""
    CALLED.clear()
    KEYS.clear()
    return CALLED


@tool(effect="idempotent")
def enrol(name: str, key: str) -> str:
    CALLED.append(("enrol", name))
    KEYS.append(key)
    return f"account of {name}"


@tool(effect="idempotent")
def deliver(address: str, key: str) -> str:
    CALLED.append(("deliver", address))
    KEYS.append(key)
    if "@" not in address:
        raise ValueError(f"{address} is no address")
    return f"delivered to {address}"


class Customer(BaseModel):
    name: str
    address: str


def welcome(on_exhausted: Any = "fail") -> Workflow:
    wf = Workflow("welcome", input=Customer, on_exhausted=on_exhausted)

    @wf.node("greet")
    @task(tools=[enrol, deliver], retry=RetryPolicy(max_attempts=2, initial_s=0.001))
    async def greet(state: StateView, ctx: Any) -> list[str]:
        account = await ctx.tool("enrol", {"name": state.input.name})
        return [account, await ctx.tool("deliver", {"address": state.input.address})]

    return wf


WRONG = {"name": "ada", "address": "nowhere"}
RIGHT = {"name": "ada", "address": "ada@example.org"}


@pytest.mark.parametrize("on_exhausted", ["fail", "dead_letter"])
async def test_an_edited_letter_is_replayed_with_new_keys_and_repeats_no_effect(
    store: str, called: list[tuple[str, str]], on_exhausted: str
) -> None:
    wf, told = welcome(on_exhausted), list[DeadLettered]()
    async with opened(store, workflows=[wf], on_dead_letter=told.append) as engine:
        run = await engine.start(wf, WRONG)
        await run.until(lambda state: bool(state.dead_letters()))
        ((letter, resolved),) = await engine.dead_letters()
        assert (letter.run, letter.step, letter.error_class, resolved) == (run.id, "greet#1", "tool", None)
        assert (letter.attempts, letter.asked) == (2, on_exhausted == "dead_letter")
        assert letter.first_at_ms <= letter.last_at_ms
        await run.until(lambda state: bool(state.ended or state.gates))
        assert [(each.step, each.attempts, each.asked) for each in told] == [("greet#1", 2, letter.asked)]
        with pytest.raises(InvalidInput, match="address"):
            await engine.edit_dead_letter(run.id, {"name": "ada"})
        await engine.edit_dead_letter(f"{run.id}:greet#1", RIGHT, by="grace")
        ((letter, _),) = await engine.dead_letters(error_class="tool", tenant="default", workflow="welcome", node="greet")
        assert letter.edited
        keys = [*KEYS]
        await engine.retry_dead_letter(run.id, by="grace")
        assert await run.result() == ["account of ada", "delivered to ada@example.org"]
        assert [each for each in called if each[0] == "enrol"] == [("enrol", "ada")]
        assert KEYS[-1] not in keys
        ((letter, resolved),) = await engine.dead_letters(state="resolved")
        assert resolved is not None
        assert await engine.dead_letters() == []
        (edited,) = await events_of(run, ev.DeadLetterEdited)
        assert edited.by == "grace"


@pytest.mark.parametrize("named", [False, True])
async def test_a_failed_call_with_edited_arguments_gets_a_new_key_and_a_new_approval(
    store: str, called: list[tuple[str, str]], named: bool
) -> None:
    @tool(effect="once", approval=True)
    def announce(address: str, key: str) -> str:
        return deliver.function(address, key)

    wf = Workflow("tell", on_exhausted="dead_letter")

    @wf.node("tell")
    @task(tools=[enrol, announce])
    async def tell(state: StateView, ctx: Any) -> list[str]:
        account = await ctx.tool("enrol", {"name": "ada"})
        how = {"key": "the announcement"} if named else {}
        return [account, await ctx.tool("announce", {"address": "nowhere"}, **how)]

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await engine.decide(await gate_of(run), "approve", by="ann")
        await run.until(lambda state: bool(state.dead_letters()))
        service, grace = Service(engine, [wf]), Principal("grace")
        letter = f"{run.id}:tell#1"
        for wrong in ({"adress": "x"}, "x"):
            with pytest.raises(InvalidInput, match="no arguments of 'announce'"):
                await engine.edit_dead_letter(letter, arguments=wrong)
        with pytest.raises(InvalidInput, match="input=, arguments=, or both"):
            await engine.edit_dead_letter(letter)
        await service.execute(grace, cmd.EditDeadLetter(letter, arguments={"address": "ada@example.org"}))
        ((shown,), _) = await service.query(grace, DeadLetter(letter=letter))
        assert (shown["failed_at"], shown["arguments"]) == ("1", {"address": "nowhere"})
        assert (shown["edited"], shown["edited_arguments"]) == (True, {"address": "ada@example.org"})
        await service.execute(grace, cmd.RetryDeadLetter(letter))
        state = await run.until(lambda state: any(g.opened.reason == "tool_approval" for g in state.gates.values()))
        (gate,) = [gate for gate in state.gates.values() if gate.opened.reason == "tool_approval"]
        assert gate.opened.shown.value()["arguments"] == {"address": "ada@example.org"}, "asked again"
        await engine.decide(gate.opened.gate, "approve", by="ann")
        assert await run.result() == ["account of ada", "delivered to ada@example.org"]
        assert called == [("enrol", "ada"), ("deliver", "nowhere"), ("deliver", "ada@example.org")]
        assert len(set(KEYS)) == 3


async def test_letters_are_listed_counted_and_resolved_within_their_tenant(store: str, called: list[tuple[str, str]]) -> None:
    wf, parks = welcome(), Workflow("parks", on_exhausted="dead_letter")

    @parks.node("break")
    @task
    def break_(state: StateView) -> None:
        raise RuntimeError("broken")

    async with opened(store, workflows=[wf, parks]) as engine:
        service = Service(engine, [wf, parks])
        runs = [await engine.start(wf, WRONG, tenant="acme") for _ in range(3)]
        asks = await engine.start(parks, tenant="other")
        for run in (*runs, asks):
            await run.until(lambda state: bool(state.ended or state.gates))
        assert [each.letter.run for each in await engine.dead_letters(tenant="acme")] == [run.id for run in runs]
        acme = Principal("ann", tenant="acme")
        page = await service.query(acme, DeadLetters(limit=2))
        rest = await service.query(acme, DeadLetters(limit=2, cursor=page.cursor))
        assert [row["run_id"] for row in (*page.rows, *rest.rows)] == [run.id for run in runs]
        ((whole,), _) = await service.query(acme, DeadLetter(letter=runs[0].id))
        assert [(each["name"], each["status"]) for each in whole["operations"]] == [("enrol", "done"), ("deliver", "failed")]
        assert (whole["input"], whole["failed_at"], whole["gate"]) == (WRONG, "1", None)
        with pytest.raises(NotFound):
            await service.query(acme, DeadLetter(letter=asks.id))
        counts = {each.workflow: each for each in await engine.dead_letter_counts()}
        assert (counts["welcome"].open, counts["parks"].open, counts["parks"].error_class) == (3, 1, "error")
        assert counts["welcome"].oldest_open_ms is not None
        await service.execute(acme, cmd.ResolveDeadLetter(runs[0].id, reason="the customer has gone"))
        with pytest.raises(Conflict, match="waits for no output"):
            await engine.resolve_dead_letter(runs[1].id, output="x")
        with pytest.raises(NotFound):
            await service.execute(acme, cmd.RetryDeadLetter(asks.id))
        await engine.resolve_dead_letter(asks.id, output="by hand")
        assert await asks.result() == "by hand"
        ((row,), _) = await service.query(acme, DeadLetterSummary())
        assert (row["open"], row["resolved"]) == (2, 1)
        assert row["oldest_open_s"] >= 0
        for unknown in ("0190-nobody", f"{runs[1].id}:greet#2"):
            with pytest.raises(NotFound):
                await engine.retry_dead_letter(unknown)
        assert await runs[0].status() == "failed"


async def test_one_of_unknown_effect_is_neither_edited_nor_replayed(store: str) -> None:
    wf = Workflow("unsure", on_exhausted="dead_letter")

    @tool(effect="once")
    def post(text: str) -> str:
        raise ConnectionError("nobody knows")

    @wf.node("post")
    @tool_node(name="post")
    def post_(state: StateView) -> dict[str, str]:
        return {"text": "hello"}

    @wf.node("fail")
    @task
    def fail(state: StateView) -> None:
        raise RuntimeError("no")

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: len(state.gates) == 2)
        assert [each.letter.node for each in await engine.dead_letters()] == ["fail"]
        with pytest.raises(NotFound, match="post#1"):
            await engine.edit_dead_letter(f"{run.id}:post#1", {})


async def test_resolved_letters_are_forgotten_after_three_days_and_open_ones_never(tmp_path: Path) -> None:
    wf, now = Workflow("breaks"), Time()

    @wf.node("break")
    @task
    def break_(state: StateView) -> None:
        raise RuntimeError("broken")

    async def letters(engine: Engine) -> int:
        return len(await engine.dead_letters(state=None))

    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        runs = [await engine.start(wf) for _ in range(2)]
        for run in runs:
            await run.until(lambda state: bool(state.ended))
        await engine.resolve_dead_letter(runs[0].id)
        history = await runs[0].events()
    now.forward(days=2.9)
    async with engine_at(tmp_path, now) as engine:
        await engine.idle()
        assert await letters(engine) == 2
    now.forward(days=0.2)
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        while await letters(engine) == 2:
            await engine.idle()
        ((letter, _),) = await engine.dead_letters(state=None)
        assert letter.run == runs[1].id
        assert await engine.run(runs[0].id).events() == history


async def test_letters_of_calls_without_a_known_end_are_replayed_by_one_command(store: str) -> None:
    """An outage of one service, and sixty runs of it: nobody has to say of each what became of it."""
    away, keys = [True], list[str]()

    @step(effect="idempotent", retry=RetryPolicy(max_attempts=2, initial_s=0.001))
    def charge(number: int, key: str) -> str:
        keys.append(key)
        if away:
            raise ConnectionError("the service is away")
        return f"charged {number}"

    @flow
    async def bill(ctx: Context, number: int) -> str:
        return await charge(number)

    async with opened(store, workflows=[bill]) as engine:
        runs = [await engine.start(bill, number) for number in range(60)]
        for run in runs:
            await run.until(lambda state: bool(state.dead_letters()))
        away.clear()
        told = await engine.bulk_dead_letters("retry", by="grace")
        assert [each for each in told if each.refused] == []
        assert [await run.result() for run in runs] == [f"charged {number}" for number in range(60)]
        assert await engine.dead_letters() == []
    assert (len(keys), len({*keys})) == (180, 60), "each call has one key"


async def test_a_run_that_fails_beside_a_harmless_call_in_doubt_is_replayed_in_one_commit(store: str) -> None:
    away = [True]
    wf = Workflow("beside")

    @tool(effect="idempotent")
    def send(key: str) -> str:
        if away:
            raise ConnectionError("the service is away")
        return "sent"

    @wf.node("notify")
    @task(tools=[send])
    async def notify(state: StateView, ctx: Any) -> str:
        try:
            return str(await ctx.tool("send", {}))
        except Exception as problem:
            raise RuntimeError("it was not to be") from problem

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: state.phase == "failing" and bool(state.gates))
        ((letter, _),) = await engine.dead_letters()
        away.clear()
        await engine.retry_dead_letter(f"{letter.run}:{letter.step}", by="grace")
        assert await run.result() == "sent"
        names = [type(each).__name__ for each in await events_of(run, ev.Event)]
    assert names.count("RunFailed") == 0
    assert names.index("GateWithdrawn") > names.index("RunReopened")
