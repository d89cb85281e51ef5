"""A run's code is told who asked for the run, and how far that is known."""

from __future__ import annotations

from typing import Any

from holdfast import Context, Engine, StateView, Workflow, flow, task
from holdfast.core.values.actor import Actor

guarded = Workflow("guarded")
guarded.node("look")(task(lambda state: [*state.started_by]))
guarded.node("pay")(task(lambda state: "paid"))
guarded.node("refuse")(task(lambda state: "refused"))


def may_pay(state: StateView) -> bool:
    return state.started_by.verified and "payer" in state.started_by.roles


guarded.edge("look", "pay", guard=may_pay)
guarded.edge("look", "refuse", guard=lambda state: not may_pay(state))


@flow
async def kid(ctx: Context, _: int) -> Any:
    return [*ctx.started_by]


@flow
async def parent(ctx: Context, _: int) -> Any:
    return [[*ctx.started_by], await ctx.child(kid, 1)]


async def test_a_run_knows_who_asked_for_it_and_so_do_its_children(store: str) -> None:
    async with Engine.open(store, workflows=[parent, kid]) as engine:
        for by, told in (
            (Actor("ann", client="ann", roles=("payer",)), ["ann", ["payer"], True, "default"]),
            (Actor("ann", "deploy", roles=("payer",)), ["ann", ["payer"], False, "default"]),
            (Actor("ann", client="clients.shop"), ["ann", [], False, "default"]),
            (None, [None, [], False, "default"]),
        ):
            run = await engine.start(parent, 1, by=by)
            assert await run.result() == [told, told]


async def test_a_guard_knows_who_asked_for_the_run(store: str) -> None:
    async with Engine.open(store, workflows=[guarded]) as engine:
        for client, done in (("ann", "pay"), ("", "refuse")):
            run = await engine.start(guarded, {}, by=Actor("ann", client=client, roles=("payer",)))
            steps = (await run.settled()).steps
            assert [name for name in ("pay", "refuse") if steps[name].status == "completed"] == [done]
