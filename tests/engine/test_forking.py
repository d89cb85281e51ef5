"""A run forked from a step of another, for real: what the other has done is done once, what is new is asked for or paid anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, StateView, Workflow, flow, human_gate, llm_node, step, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import tree_of
from holdfast.errors import Conflict, InvalidDecision, InvalidInput, KeyReused, NotFound
from holdfast.models.providers import Providers
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations.quoting import quote_of
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.testing.model_server import ModelServer
from tests.engine.history import events_of
from tests.engine.kit import Time, engine_at, gate_of, opened

SENT: list[str] = []


@pytest.fixture
def sent() -> list[str]:
    """What has been sent in this test."""
    SENT.clear()
    return SENT


@tool(effect="once")
def send(text: str) -> str:
    SENT.append(text)
    return f"sent {text}"


def letters() -> Workflow:
    wf = Workflow("letters", cost_limit_usd="1.00")

    @wf.node("draft")
    @llm_node(model="gpt-4.1-mini", max_tokens=20)
    def draft(state: StateView) -> str:
        return f"Write to {state.input['name']}."

    @wf.node("send")
    @tool_node(name="send")
    def send_(state: StateView) -> dict[str, Any]:
        return {"text": state.events["draft"].output}

    @wf.node("file")
    @task
    def file(state: StateView) -> Any:
        return {"filed": state.events["send"].output, "for": state.input["name"]}

    wf.edge("draft", "send")
    wf.edge("send", "file")
    return wf


async def test_what_the_origin_has_paid_and_sent_is_neither_paid_nor_sent_again(
    store: str, model: Providers, server: ModelServer, sent: list[str]
) -> None:
    wf = letters()
    async with opened(store, workflows=[wf], model=model) as engine:
        origin = await engine.start(wf, {"name": "ada"})
        first = await origin.result()
        fork = await engine.fork(origin.id, "draft#1", by="grace")
        assert await fork.result() == first
        assert (len(sent), len(server.calls)) == (1, 1)
        state = await fork.state()
        assert (state.budget.settled_nanousd, state.budget.limit_nanousd) == (0, 10**9)
        reused = await events_of(fork, ev.OperationReused)
        assert {(each.step, each.origin) for each in reused} == {("draft#1", origin.id), ("send#1", origin.id)}
        assert await engine.effects(fork.id) == []
        assert (await engine.budgets("default"))["day"].settled == (await origin.state()).budget.settled_nanousd


async def test_what_is_new_is_paid_again_and_once_asks_a_person_unless_repeats_are_allowed(
    store: str, model: Providers, sent: list[str]
) -> None:
    wf = letters()
    async with opened(store, workflows=[wf], model=model) as engine:
        origin = await engine.start(wf, {"name": "ada"})
        await origin.result()
        asks = await engine.fork(origin.id, "send#1", state={"draft": "A better letter."}, key="better")
        gate = await gate_of(asks)
        state = await asks.state()
        assert (state.gates[gate].opened.reason, len(sent)) == ("tool_approval", 1)  # type: ignore[index]
        await engine.decide(gate, "approve", by="grace")
        await asks.result()
        assert sent[1:] == ["A better letter."]
        assert (await engine.fork(origin.id, "send#1", state={"draft": "A better letter."}, key="better")).id == asks.id
        with pytest.raises(KeyReused):
            await engine.fork(origin.id, "send#1", key="better")
        free = await engine.fork(origin.id, "draft#1", input={"name": "bob"}, repeat_effects=True, cost_limit_usd="0.50")
        assert (await free.result())["for"] == "bob"
        assert (len(sent), (await free.state()).budget.limit_nanousd) == (3, 5 * 10**8)
        assert (await free.state()).budget.settled_nanousd > 0


async def test_the_fork_of_a_child_counts_in_what_its_tree_may_spend(store: str, model: Providers, sent: list[str]) -> None:
    wf = letters()

    @flow(cost_limit_usd="0.10")
    async def parent(ctx: Context, input: Any) -> Any:  # noqa: A002 - the word of the public surface
        return await ctx.child(wf, {"name": "ada"}, key="ada")

    async with opened(store, workflows=[parent, wf], model=model) as engine:
        root = await engine.start(parent)
        await root.result()
        (child,) = [row for row in await engine.runs() if row.run != root.id]
        (before,) = await engine.store.scopes.balances([tree_of(RunId(root.id))])
        fork = await engine.fork(child.run, "draft#1", input={"name": "bob"}, repeat_effects=True)
        await fork.result()
        (after,) = await engine.store.scopes.balances([tree_of(RunId(root.id))])
        assert after.settled - before.settled == (await fork.state()).budget.settled_nanousd > 0
        assert (await fork.state()).parent is None


async def test_a_flow_is_forked_at_a_place_and_what_people_decided_is_asked_again(store: str) -> None:
    called: list[str] = []

    @step
    async def look_up(name: str) -> str:
        called.append(f"look up {name}")
        return f"{name}'s address"

    @step
    async def write(address: str) -> str:
        called.append(f"write to {address}")
        return f"a letter to {address}"

    @flow
    async def post(ctx: Context, input: dict[str, str]) -> str:  # noqa: A002 - the word of the public surface
        address = await look_up(input["name"])
        letter = await write(address)
        answer = await ctx.ask(f"Send {letter}?")
        return f"{letter}: {answer.decision}"

    async with opened(store, workflows=[post]) as engine:
        origin = await engine.start(post, {"name": "ada"})
        await engine.decide(await gate_of(origin), "approve", by="ann")
        assert await origin.result() == "a letter to ada's address: approve"
        fork = await engine.fork(origin.id, "flow#1/1", output="a better letter")
        await engine.decide(await gate_of(fork), "reject", by="ann")
        assert (await fork.result(), len(called)) == ("a better letter: reject", 2)
        again = await engine.fork(origin.id, "flow#1")
        await engine.decide(await gate_of(again), "approve", by="ann")
        assert (await again.result(), len(called)) == (await origin.result(), 2)
        assert len(await events_of(again, ev.OperationReused)) == 2
        other = await engine.fork(origin.id, "flow#1/1", input={"name": "bob"})
        state = await other.until(lambda state: bool(state.gates))
        (gate,) = state.gates.values()
        assert gate.opened.reason == "code_changed", "what stands before the place was asked for otherwise"
        with pytest.raises(InvalidInput, match="was decided by a person"):
            await engine.fork(origin.id, "flow#1/2", output="approve")


async def test_a_fork_replaces_the_outcome_of_a_model_or_tool_without_a_call(
    store: str, model: Providers, server: ModelServer, sent: list[str]
) -> None:
    @tool(effect="once", approval=True)
    def publish(text: str) -> str:
        SENT.append(text)
        return f"published {text}"

    @flow(cost_limit_usd="1.00")
    async def news(ctx: Context, input: str) -> list[Any]:  # noqa: A002 - the word of the public surface
        text = await ctx.model("gpt-4.1-mini", f"Write about {input}.", max_tokens=20)
        return [text, await ctx.tool(publish, text=text)]

    async with opened(store, workflows=[news], model=model) as engine:
        origin = await engine.start(news, "rain")
        await engine.decide(await gate_of(origin), "approve")
        await origin.result()
        asks = await engine.fork(origin.id, "flow#1/0", output="Sun!")
        await engine.decide(await gate_of(asks), "approve")
        assert await asks.result() == ["Sun!", "published Sun!"]
        done = await engine.fork(origin.id, "flow#1/1", output="posted by hand", state={})
        assert (await done.result())[1] == "posted by hand"
        # The place keeps what was said of it, whatever is asked for there; what stands before it is the origin's.
        said = await engine.fork(asks.id, "flow#1/0", input="snow", output={"text": "Snow!"})
        await engine.decide(await gate_of(said), "approve")
        assert (await said.result())[0] == '{"text":"Snow!"}', "data, where words were asked for"
        (quote,) = [(await engine.fork_plan(asks.id, "flow#1")).repeated_operations]
        assert [each.reason for each in quote] == ["a person had given its outcome", "a person decides"]
        assert (len(server.calls), sent[1:]) == (1, ["Sun!", '{"text":"Snow!"}'])
        assert [await events_of(each, ev.GateOpened) for each in (done,)] == [[]], "what is not called needs no approval"
        with pytest.raises(InvalidInput, match="was decided by a person"):
            await engine.fork(origin.id, "flow#1/1.approval", output="approve")


@flow
async def consent(ctx: Context, input: Any) -> str:  # noqa: A002 - the word of the public surface
    return (await ctx.ask({"pay": input})).decision


@flow
async def measure(ctx: Context, input: str) -> str:  # noqa: A002 - the word of the public surface
    SENT.append(f"measured {input}")
    return "5 m"


async def asked(engine: Engine) -> str:
    """The only open gate, once it is open."""
    while not (found := await engine.gates()):
        await asyncio.sleep(0.002)
    ((row, _),) = found
    return row.gate


async def test_a_child_that_asked_a_person_asks_again_in_a_fork_and_another_is_reused(store: str, sent: list[str]) -> None:
    @flow
    async def pay(ctx: Context, input: dict[str, int]) -> Any:  # noqa: A002 - the word of the public surface
        return [await ctx.child(measure, "x"), await ctx.child(consent, "x"), input["amount"]]

    async with opened(store, workflows=[pay, consent, measure]) as engine:
        origin = await engine.start(pay, {"amount": 1})
        await engine.decide(await asked(engine), "approve", by="ann")
        assert await origin.result() == ["5 m", "approve", 1]
        for place in ("flow#1", "flow#1/1"):
            with pytest.raises(InvalidInput, match="was decided by a person"):
                await engine.fork(origin.id, place, output="approve")
        fork = await engine.fork(origin.id, "flow#1", input={"amount": 1000})
        await engine.decide(await asked(engine), "reject", by="ann")
        assert (await fork.result(), sent) == (["5 m", "reject", 1000], ["measured x"])


async def test_no_output_is_given_in_the_place_of_a_step_whose_child_asked_a_person(store: str) -> None:
    @flow(on_exhausted="dead_letter")
    async def pay(ctx: Context, input: int) -> str:  # noqa: A002 - the word of the public surface
        if await ctx.child(consent, input) == "reject":
            raise ValueError("a person has refused it")
        return "paid"

    async with opened(store, workflows=[pay, consent]) as engine:
        run = await engine.start(pay, 1)
        await engine.decide(await asked(engine), "reject", by="ann")
        gate = await gate_of(run)
        with pytest.raises(InvalidDecision, match="retry, reject"):
            await engine.decide(gate, "answer", "paid", by="bob")
        with pytest.raises(InvalidDecision, match="retry, reject"):
            await engine.resolve_dead_letter(run.id, "paid", by="bob")
        await engine.decide(gate, "reject", by="bob")
        assert (await run.until(lambda state: bool(state.ended))).ended == "failed"


async def test_a_run_under_way_is_not_forked_and_a_paused_one_is(store: str) -> None:
    wf = Workflow("asks")

    @wf.node("draft")
    @task
    def draft(state: StateView) -> str:
        return "D"

    @wf.node("review")
    @human_gate()
    def review(state: StateView) -> Any:
        return {"diff": state.events["draft"].output}

    wf.edge("draft", "review")
    async with opened(store, workflows=[wf]) as engine:
        origin = await engine.start(wf)
        gate = await gate_of(origin)
        with pytest.raises(Conflict, match="pause it first"):
            await engine.fork(origin.id, "review#1")
        with pytest.raises(NotFound):
            await engine.fork("0190-nobody", "review#1")
        await engine.pause(origin.id)
        with pytest.raises(NotFound, match="draft#1, review#1"):
            await engine.fork(origin.id, "send#1")
        fork = await engine.fork(origin.id, "review#1")
        assert await gate_of(fork) != gate
        assert (await origin.status(), len((await origin.state()).gates)) == ("paused", 1)
        await engine.decide(await gate_of(fork), "approve")
        await fork.result()


async def test_the_service_forks_and_quotes_for_a_tenants_own_runs_only(store: str, model: Providers) -> None:
    wf = letters()
    async with opened(store, workflows=[wf], model=model) as engine:
        service, ann = Service(engine, [wf]), Principal("ann", tenant="acme")
        origin = await engine.start(wf, {"name": "ada"}, tenant="acme")
        await origin.result()
        ((quote,), cursor) = await service.query(ann, quote_of(cmd.Fork(run=origin.id, step="draft#1")))
        quote = quote["fork"]
        assert (cursor, quote["kept_steps"], quote["limit_usd"]) == (None, [], "1.00")
        assert [(each["kind"], each["step"]) for each in quote["reused_operations"]] == [
            ("model", "draft#1"),
            ("tool", "send#1"),
        ]
        assert float(quote["worst_case_usd"]) >= float(quote["reused_usd"]) > 0
        run = await service.execute(ann, cmd.Fork(run=origin.id, step="send#1"))
        assert run is not None
        await engine.run(run).result()
        view = await service.run(ann, run)
        assert (view["status"], view["cost_usd"]) == ("completed", "0.00")
        with pytest.raises(NotFound):
            await service.execute(Principal("eve", tenant="other"), cmd.Fork(run=origin.id, step="send#1"))
        with pytest.raises(NotFound):
            await service.query(Principal("eve", tenant="other"), quote_of(cmd.Fork(run=origin.id, step="send#1")))


async def test_a_large_value_of_another_month_is_kept_for_the_month_of_the_fork(tmp_path: Path) -> None:
    wf = Workflow("large")

    @wf.node("write")
    @task
    def write(state: StateView) -> str:
        return "x" * 100_000

    @wf.node("count")
    @task
    def count(state: StateView) -> int:
        return len(state.events["write"].output)

    wf.edge("write", "count")
    now = Time()
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        origin = await engine.start(wf)
        await origin.result()
        month = (await origin.state()).steps["write"].output.month  # type: ignore[index]
        now.forward(days=40)
        fork = await engine.fork(origin.id, "count#1")
        assert await fork.result() == 100_000
        assert (await fork.state()).steps["write"].output.month > month  # type: ignore[index]
