"""Children: runs that a step asks for. They count once, whoever dies, and a tree spends no more than its root may."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import ChildOutcome, Context, Engine, OperationFailed, Run, RunFailed, Workflow, child, flow, llm_node, step
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import RunId
from holdfast.core.values.money import usd
from holdfast.core.values.scopes import ScopeRow, in_tokens, tree_of
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import InvalidInput, KeyReused
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine import family
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, eventually, opened
from tests.engine.test_money import HAIKU, at_the_same_time, held_by_one, hold_of_one
from tests.engine.test_scopes import CHEAP, CHEAP_TOKENS, COST, history, most_committed
from tests.forks import Fork


class Invoice(BaseModel):
    number: int
    net: float = 1.0


@flow
async def bill(ctx: Context, invoice: Invoice) -> dict[str, Any]:
    return {"number": invoice.number, "gross": invoice.net * 2}


@flow
async def breaks(ctx: Context) -> None:
    raise ValueError("out of paper")


@flow
async def waits(ctx: Context) -> Any:
    return await ctx.wait_signal("go")


async def children_of(run: Run, engine: Engine) -> list[Run]:
    """The children of a run, in the order in which they were asked for."""
    asked = [each.child for each in await events_of(run, ev.ChildRequested) if not each.again]
    return [engine.run(name) for name in asked]


async def started_child(run: Run, engine: Engine) -> Run:
    await run.until(lambda state: bool(state.children))
    (found,) = await children_of(run, engine)
    while await engine.runtime.store.views.run(RunId(found.id)) is None:
        await asyncio.sleep(0.002)
    return found


# --- What is promised ---------------------------------------------------------------------------------------------------


@bounded
async def test_a_child_is_a_run_of_its_own_whose_result_comes_back(store: str) -> None:
    @flow
    async def parent(ctx: Context) -> Any:
        first = await ctx.child(bill, Invoice(number=1))
        others = await ctx.gather(*(ctx.child("bill", {"number": n, "net": n}) for n in range(2, 5)))
        return [first.gross, *(each.gross for each in others)]

    async with opened(store, workflows=[bill]) as engine:
        run = await engine.start(parent, by="ann", tenant="acme")
        assert await run.result() == [2.0, 4.0, 6.0, 8.0]
        children = await children_of(run, engine)
        assert len(children) == 4
        numbers = set()
        for each in children:
            state = await each.state()
            numbers.add(state.input.value()["number"])
            assert (state.ended, state.tenant, state.by) == ("completed", "acme", "ann")
            assert state.parent is not None
            assert (state.parent.run, state.parent.root, state.parent.depth) == (run.id, run.id, 1)
        assert numbers == {1, 2, 3, 4}
        rows = await engine.runs(parent=run.id)
        assert {row.run for row in rows} == {each.id for each in children}
        assert await engine.runtime.store.children.pending(2**60, 100) == []


@bounded
async def test_a_node_is_a_child(store: str) -> None:
    wf = Workflow("nodes")

    @wf.node("billed")
    @child(workflow=bill, key="invoice:{number}")
    def billed(state):
        return {"number": 7}

    @wf.node("broken")
    @child(workflow="breaks", on_failure="return")
    def broken(state):
        return None

    @wf.node("end")
    def end(state):
        return [state.events["billed"].output.gross, state.events["broken"].output.status]

    wf.edge("billed", "broken")
    wf.edge("broken", "end")
    async with opened(store, workflows=[wf, breaks]) as engine:
        assert await (await engine.start(wf)).result() == [2.0, "failed"]


@bounded
async def test_a_parent_that_waits_holds_nothing(store: str) -> None:
    @flow
    async def parent(ctx: Context) -> Any:
        return await ctx.child(waits)

    async with opened(store, workflows=[parent], slots=1) as engine:
        run = await engine.start(parent)
        waiting = await started_child(run, engine)
        await waiting.until(lambda state: any(op.kind == "signal" for op in state.steps["flow"].journal.values()))
        await eventually(lambda: engine.working == 0)
        await eventually(lambda: not engine.runtime.runs.resident)
        state = await run.state()
        assert status(state) == "waiting"
        (wait,) = waiting_for(state)
        assert (wait.kind, wait.reason, wait.about) == ("child", "not_ended", waiting.id)
        assert (await run.settled()).seq == state.seq, "it goes no further by itself, because its child does not"
        await engine.signal(waiting.id, "go", 7)
        assert await run.result() == 7


@bounded
async def test_a_child_that_fails_fails_its_parent_unless_that_takes_it(store: str) -> None:
    @flow
    async def strict(ctx: Context) -> Any:
        return await ctx.child(breaks)

    @flow
    async def lenient(ctx: Context) -> Any:
        try:
            await ctx.child(breaks)
        except OperationFailed as failed:
            outcome = await ctx.child(breaks, on_failure="return")
            assert isinstance(outcome, ChildOutcome)
            return [failed.error.error_class, outcome.status, outcome.output, "out of paper" in (outcome.error or "")]

    async with opened(store, workflows=[strict, lenient]) as engine:
        with pytest.raises(RunFailed, match="out of paper"):
            await (await engine.start(strict)).result()
        assert await (await engine.start(lenient)).result() == ["child_failed", "failed", None, True]


@bounded
async def test_who_retries_a_parent_takes_its_child_up_where_it_failed(store: str) -> None:
    world: list[str] = []

    @step
    def pay() -> str:
        world.append("paid")
        return "paid"

    @step
    def print_it() -> None:
        world.append("printed" if world.count("jammed") else "jammed")
        if world[-1] == "jammed":
            raise ValueError("paper jam")

    @flow
    async def shop(ctx: Context) -> str:
        paid = await pay()
        await print_it()
        return paid

    @flow
    async def parent(ctx: Context) -> Any:
        return await ctx.child(shop)

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent)
        with pytest.raises(RunFailed):
            await run.result()
        await engine.retry(run.id)
        assert await run.result() == "paid"
        assert world == ["paid", "jammed", "printed"]
        assert len(await children_of(run, engine)) == 1


@pytest.mark.usefixtures("replays")
@bounded
async def test_a_retried_parent_sees_that_its_background_child_was_cancelled(store: str) -> None:
    broken: list[str] = []

    @flow
    async def parent(ctx: Context) -> Any:
        if broken:
            raise ValueError(broken.pop())
        other = await ctx.child(waits, background=True)
        outcome, _ = await ctx.gather(other.result(on_failure="return"), ctx.wait_signal("wake"))
        return outcome.status

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent)
        await run.settled()
        broken.append("it broke")
        await engine.signal(run.id, "wake")
        with pytest.raises(RunFailed):
            await run.result()
        await engine.retry(run.id)
        assert await run.result() == "cancelled"


@bounded
async def test_cancelling_and_pausing_go_down(store: str) -> None:
    @flow
    async def middle(ctx: Context) -> Any:
        return await ctx.child(waits)

    @flow
    async def parent(ctx: Context) -> Any:
        return await ctx.child(middle)

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent)
        between = await started_child(run, engine)
        leaf = await started_child(between, engine)
        await engine.pause(run.id)
        await leaf.until(lambda state: state.paused)
        await engine.resume(run.id)
        await leaf.until(lambda state: not state.paused)
        await engine.cancel(run.id, reason="too late")
        assert (await run.until(lambda state: bool(state.ended))).ended == "cancelled"
        for each in (between, leaf):
            assert (await each.state()).ended == "cancelled", "a parent ends after its children"
        assert "too late" in ((await between.state()).reason or "")
        assert await engine.runtime.store.children.pending(2**60, 100) == []


@bounded
async def test_a_child_without_a_waiting_parent_is_cancelled(store: str) -> None:
    @flow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.gather(ctx.child(breaks), ctx.child(waits))
        except OperationFailed:
            return "went on"
        return "both"

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent)
        assert await run.result() == "went on"
        _, left = await children_of(run, engine)
        assert (await left.state()).ended == "cancelled"


@bounded
async def test_a_child_in_the_background_reports_and_the_run_waits_for_it(store: str) -> None:
    seen: list[str] = []

    @flow
    async def parent(ctx: Context) -> Any:
        handle = await ctx.child(waits, background=True)
        seen.append(handle.run_id)
        await ctx.child(bill, {"number": 1})
        if ctx.tenant == "asks":
            return await handle.result()
        return "done"

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent, tenant="asks")
        await run.until(lambda state: state.children_asked == 2)
        await engine.signal(seen[0], "go", 5)
        assert await run.result() == 5
        seen.clear()
        run = await engine.start(parent)
        state = await run.until(lambda state: not state.unfinished and state.children_asked == 2)
        assert (status(state), waiting_for(state)[0].about) == ("waiting", seen[0])
        await engine.signal(seen[0], "go", 5)
        assert await run.result() == "done"


@bounded
async def test_a_child_with_a_key_is_the_same_wherever_it_is_asked_for(store: str) -> None:
    @flow
    async def parent(ctx: Context) -> Any:
        first = await ctx.child(bill, {"number": 1}, key="invoice")
        second = await ctx.child(bill, {"number": 1}, key="invoice")
        try:
            await ctx.child(bill, {"number": 2}, key="invoice")
        except KeyReused as taken:
            return [first.gross, second.gross, taken.key]

    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent)
        assert await run.result() == [2.0, 2.0, "invoice"]
        assert len(await children_of(run, engine)) == 1


@bounded
async def test_what_cannot_be_a_child_is_refused_in_words(store: str) -> None:
    @flow
    async def parent(ctx: Context, case: dict[str, Any]) -> Any:
        return await ctx.child(**case)

    cases = {
        "There is no workflow 'nobody'": {"workflow": "nobody"},
        "does not fit Invoice": {"workflow": "bill", "input": {"number": "x"}},
        "not of 'other'": {"workflow": "bill", "input": {"number": 1}, "tenant": "other"},
        "cost limit of a child": {"workflow": "bill", "input": {"number": 1}, "cost_limit_usd": "-1"},
        "limit on tokens of a child cannot be used: -1 is no": {"workflow": "bill", "input": {"number": 1}, "max_tokens": -1},
        "of a child cannot be used: 1.5 is no number": {"workflow": "bill", "input": {"number": 1}, "max_tokens": 1.5},
        "to 'raise'": {"workflow": "bill", "input": {"number": 1}, "on_failure": "ignore"},
    }

    @flow
    async def deeper(ctx: Context, depth: dict[str, Any]) -> Any:
        return await ctx.child("deeper", {"depth": depth.get("depth", 0) + 1})

    async with opened(store, workflows=[parent, bill, deeper]) as engine:
        for words, case in cases.items():
            with pytest.raises(RunFailed, match=words):
                await (await engine.start(parent, case)).result()
        with pytest.raises(RunFailed, match="10 runs below its root"):
            await (await engine.start(deeper, {})).result()


# --- Death --------------------------------------------------------------------------------------------------------------


@bounded
async def test_what_follows_from_commits_is_found_in_the_store_without_listeners(store: str) -> None:
    """Between the request and the start; and between the child's end and its parent's hearing of it."""

    @flow
    async def parent(ctx: Context) -> Any:
        return (await ctx.child(bill, {"number": 3})).gross

    async with opened(store, workflows=[parent]) as first:
        links = first.runtime.runs.subscribers.pop()  # nothing follows from its commits any more
        assert type(links).__name__ == "FollowUps"
        run = await first.start(parent)
        await run.until(lambda state: bool(state.children))
        await die(first)
        async with opened(store, workflows=[parent]) as second:
            second.runtime.runs.subscribers.pop()
            assert await second.run(run.id).result() == 2.0
            assert len(await children_of(run, second)) == 1


@bounded
async def test_a_process_without_the_code_of_its_child_leaves_it_to_others(store: str) -> None:
    @flow
    async def parent(ctx: Context) -> Any:
        return (await ctx.child("bill", {"number": 3})).gross

    async with opened(store, workflows=[bill]) as able, opened(store, workflows=[parent]) as asking:
        run = await asking.start(parent)
        assert await run.result() == 2.0
        assert able is not asking


@bounded
async def test_a_large_value_goes_to_a_child_and_back(store: str) -> None:
    @flow
    async def echo(ctx: Context, given: dict[str, str]) -> dict[str, str]:
        return {"text": given["text"]}

    @flow
    async def parent(ctx: Context) -> int:
        return len((await ctx.child(echo, {"text": "x" * 100_000})).text)

    async with opened(store, workflows=[parent]) as engine:
        assert await (await engine.start(parent)).result() == 100_000


# --- Money --------------------------------------------------------------------------------------------------------------


def asking(name: str, *questions: str) -> Workflow:
    """A workflow of model calls one after another."""
    wf = Workflow(name)
    for each in questions:

        @wf.node(each)
        @llm_node(model=HAIKU, max_tokens=100)
        async def ask(state, each=each):
            return {"system": "Be brief.", "user": f"question {each}"}

    for before, after in zip(questions, questions[1:], strict=False):
        wf.edge(before, after)
    return wf


@bounded
async def test_the_children_of_a_run_share_its_limit(store: str, server: ModelServer, model: Providers) -> None:
    """Fifty at once, with room for three calls at a time: they take turns, and the tree spends what its root may at most."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.01, text="."))
    asks = asking("asks_below", "n")

    @flow
    async def parent(ctx: Context) -> int:
        await ctx.model(HAIKU, "question n", system="Be brief.", max_tokens=100)
        return len(await ctx.gather(*(ctx.child(asks) for _ in range(50))))

    async with opened(store, model=model, workflows=[parent, asks]) as engine:
        hold = await hold_of_one(engine)
        limit = 3 * hold + 51 * COST
        run = await engine.start(parent, cost_limit_usd=usd(limit))
        assert await run.result() == 50
        (books,) = await engine.runtime.store.scopes.balances([tree_of(RunId(run.id))])
        assert (books.limit, books.settled, books.held, books.in_doubt) == (limit, 51 * COST, 0, 0)
        exceeded = [each for one in await children_of(run, engine) for each in await events_of(one, ev.ScopeExceeded)]
        assert exceeded
        assert {(each.scope, each.due_at_ms) for each in exceeded} == {(tree_of(RunId(run.id)), None)}


@bounded
async def test_the_tokens_of_a_run_are_a_limit_of_all_below_it(store: str, server: ModelServer, model: Providers) -> None:
    """Fifty at once, with room for three calls at a time; then it is raised, for who comes later."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.01, text="."))
    asks = asking("asks_below", "n")

    @flow
    async def parent(ctx: Context) -> int:
        await ctx.model(HAIKU, "question n", system="Be brief.", max_tokens=100)
        return len(await ctx.gather(*(ctx.child(asks) for _ in range(50))))

    @flow
    async def tight(ctx: Context) -> Any:
        await ctx.model(HAIKU, "question n", system="Be brief.", max_tokens=100)
        return await ctx.child(asks)

    async with opened(store, model=model, workflows=[parent, tight]) as engine:
        hold = (await held_by_one(engine)).tokens
        run = await engine.start(parent, max_tokens=3 * hold + 51 * CHEAP_TOKENS)
        assert await run.result() == 50
        tree = in_tokens(tree_of(RunId(run.id)))
        exceeded = [each for one in await children_of(run, engine) for each in await events_of(one, ev.ScopeExceeded)]
        assert {(each.scope, each.needed_tokens) for each in exceeded} == {(tree, hold)}
        assert at_the_same_time(server) <= 3
        (books,) = await engine.runtime.store.scopes.balances([tree])
        assert books == ScopeRow(tree, 3 * hold + 51 * CHEAP_TOKENS, 51 * CHEAP_TOKENS)
        run = await engine.start(tight, max_tokens=hold + CHEAP_TOKENS - 1)
        blocked = await started_child(run, engine)
        (wait,) = waiting_for(await blocked.until(lambda state: status(state) == "budget_blocked"))
        assert (wait.kind, wait.reason, wait.about) == ("tokens", "tree_budget", in_tokens(tree_of(RunId(run.id))))
        await engine.extend(run.id, "tokens", hold + CHEAP_TOKENS)
        assert await run.result() == "."


@bounded
async def test_a_child_may_have_a_limit_on_tokens_of_its_own(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    asks = asking("asks_below", "n")

    @flow
    async def parent(ctx: Context) -> Any:
        return await ctx.child(asks, max_tokens=7)

    wf = Workflow("graph")
    wf.node("ask")(child(workflow=asks, max_tokens=7)(lambda state: None))
    async with opened(store, model=model, workflows=[parent, wf]) as engine:
        for given in (await engine.start(parent), await engine.start(wf)):
            state = await (await started_child(given, engine)).until(lambda state: bool(state.gates))
            assert (state.max_tokens, [gate.opened.reason for gate in state.gates.values()]) == (7, ["max_tokens"])
        with pytest.raises(InvalidInput, match=r"limit on tokens cannot be used.*No run was started"):
            await engine.start(asks, max_tokens=-1)
        assert len(server.calls) == 0


@bounded
async def test_a_tree_whose_money_is_gone_goes_on_when_its_root_is_extended(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    asks = asking("asks_below", "n")

    @flow
    async def middle(ctx: Context) -> Any:
        return await ctx.child(asks)

    @flow
    async def parent(ctx: Context) -> Any:
        await ctx.model(HAIKU, "question n", system="Be brief.", max_tokens=100)
        return await ctx.child(middle, cost_limit_usd="1")

    async with opened(store, model=model, workflows=[parent]) as engine:
        hold = await hold_of_one(engine)
        run = await engine.start(parent, cost_limit_usd=usd(hold + COST - 1))
        between = await started_child(run, engine)
        leaf = await started_child(between, engine)
        state = await leaf.until(lambda state: status(state) == "budget_blocked")
        (wait,) = waiting_for(state)
        assert (wait.kind, wait.reason, wait.about) == ("money", "tree_budget", tree_of(RunId(run.id)))
        assert state.shared == (tree_of(RunId(run.id)), tree_of(RunId(between.id)))
        await engine.raise_budget(run.id, usd(hold + COST))
        assert await run.result() == "."


@bounded
async def test_a_child_has_a_cap_of_its_own_below_which_all_of_its_children_stay(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    asks = asking("asks_below", "n")

    @flow(on_limit="fail")
    async def middle(ctx: Context) -> Any:
        return await ctx.child(asks)

    @flow
    async def parent(ctx: Context) -> Any:
        return await ctx.child(middle, cost_limit_usd="0.000001")

    async with opened(store, model=model, workflows=[parent]) as engine:
        run = await engine.start(parent, cost_limit_usd="10")
        leaf = await started_child(await started_child(run, engine), engine)
        await leaf.until(lambda state: status(state) == "budget_blocked")
        assert len(server.calls) == 0
        await engine.cancel(run.id)


@bounded
async def test_a_run_without_children_has_no_scope_of_its_own(store: str, model: Providers, server: ModelServer) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with opened(store, model=model) as engine:
        run = await engine.start(asking("asks_below", "n"), cost_limit_usd="1")
        await run.result()
        assert (await run.state()).shared == ()
        assert await engine.runtime.store.scopes.limits("tree/") == {}


@bounded
async def test_a_workflow_that_is_offered_to_a_model_is_done_by_a_child(
    store: str, server: ModelServer, model: Providers
) -> None:
    """The model hears what it came to, or why it did not; arguments that do not fit start nothing."""
    wf = Workflow("clerk", cost_limit_usd=1)
    wf.node("talk")(llm_node(model=HAIKU, tools=[bill, breaks], max_tokens=100)(lambda state: {"user": "bill them"}))
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("bill", {"number": 4}), ToolCall("breaks", {}))))
    server.script.add(Rule(turn=2, tool_calls=(ToolCall("bill", {"number": "x"}),)))
    server.script.add(Rule(turn=3, text="Billed."))
    async with opened(store, model=model, workflows=[wf]) as engine:
        run = await engine.start(wf)
        assert await run.result() == "Billed."
        children = await children_of(run, engine)
        assert sorted([(await each.state()).ended for each in children]) == ["completed", "failed"]
        assert len(server.calls) == 3


async def reconcile_all(engine: Engine) -> None:
    """After a moment, say of every call that a dead process made that it has cost what the others do. How many tokens it used
    nobody can say: so many more may be used."""
    await asyncio.sleep(0.02)
    for doubt in await engine.doubts():
        await engine.reconcile(doubt.call, usd(COST))
        (root,) = [row.run for row in await engine.runs(key="the-tree")]
        if (most := (await engine.run(root).state()).max_tokens) is not None:
            await engine.extend(root, "tokens", most + family.HOLD_TOKENS)


def most_tokens_too_many(path: Path) -> int:
    """By how many the tokens that were used, held and in doubt after any commit passed the limit that then was, at most."""
    most = used = append = 0
    limit = family.LIMIT_TOKENS
    holds: dict[str, int] = {}
    for number, event in history(path):
        if number != append:
            most, append = max(most, used - limit), number
        match event:
            case ev.ModelCallHeld():
                holds[event.call] = event.tokens
                used += event.tokens
            case ev.ModelCallSettled():
                used += event.input_tokens + event.output_tokens - holds.pop(event.call)
            case ev.ModelCallFailed():
                used -= holds.pop(event.call)
            case ev.LimitRaised(limit="tokens"):
                limit = event.value
            case _:
                pass
    return max(most, used - limit)


@pytest.mark.parametrize("name", ["root", "frugal"])
async def test_invariant_11_a_tree_of_runs_killed_anywhere_never_passes_its_roots_limit(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    """Three processes are killed while calls are on their way; what nobody knows of them counts until somebody says it."""
    server.script.add(Rule(usage=CHEAP, latency_s=0.02, text="."))
    workflow = family.ROOTS[name]
    # On PostgreSQL the next waits for the lease of the one before.
    environment = {**os.environ, **server.environment, "HOLDFAST_LEASE_S": "3"}
    async with opened(store, execute=False) as asking:
        for calls in (5, 20, 30):
            process = Fork("tests.engine.family", store, name, environment=environment)
            try:
                while len(server.calls) < calls:
                    await reconcile_all(asking)
            finally:
                process.kill()
                process.wait()
    async with opened(store, model=model, workflows=[workflow]) as engine:
        run = await engine.start(workflow, key="the-tree")
        ends = asyncio.ensure_future(run.result())
        while not ends.done():
            await reconcile_all(engine)
        assert await ends == family.CHILDREN
        rows = await engine.runs(limit=1000)
        assert len(rows) == 1 + 2 * family.CHILDREN
        assert all(row.status == "completed" for row in rows)
        tree = tree_of(RunId(run.id))
        money, tokens = await engine.runtime.store.scopes.balances([tree, in_tokens(tree)])
        if name == "root":
            assert money == ScopeRow(tree, family.LIMIT_NANOUSD, sum(row.settled_nanousd for row in rows))
        else:
            used = sum([(await engine.run(row.run).state()).tokens_used for row in rows])
            assert tokens == ScopeRow(tokens.scope, (await run.state()).max_tokens, used)
            assert tokens.used > family.LIMIT_TOKENS, "what was lost counts as used"
    if not store.startswith("postgresql"):
        path = Path(store.removeprefix("sqlite:///"))
        above = most_committed(path) - family.LIMIT_NANOUSD if name == "root" else most_tokens_too_many(path)
        assert above <= 0
