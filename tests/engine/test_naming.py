"""What the methods of an engine are given by name: the id, a text; a row or a handle is told so in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, StateView, Workflow, flow, task
from holdfast.errors import InvalidInput
from tests.engine.kit import opened

Asked = Callable[[Engine, Any], Awaitable[Any]]


@flow
async def asks(ctx: Any, given: Any) -> Any:
    return await ctx.ask("Is it right?")


def breaking() -> Workflow:
    wf = Workflow("breaks")

    @wf.node("break")
    @task
    def break_(state: StateView) -> None:
        raise RuntimeError("it is broken")

    return wf


async def test_a_dead_letter_is_replayed_by_itself_or_by_its_id(store: str) -> None:
    wf = breaking()
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        for number in range(2):
            await run.until(lambda state: state.ended == "failed")
            (letter,) = await engine.dead_letters()
            assert letter.id == f"{run.id}:break#1"
            await engine.retry_dead_letter(letter if number else letter.id)
        with pytest.raises(InvalidInput, match=r"Name the dead letter by its id, a text: DeadLetter is none"):
            await engine.retry_dead_letter(letter.letter)  # type: ignore[arg-type]
        await run.until(lambda state: state.ended == "failed")
        await engine.resolve_dead_letter((await engine.dead_letters())[0])


OF_RUNS: dict[str, Asked] = {
    "pause": lambda engine, run: engine.pause(run),
    "resume": lambda engine, run: engine.resume(run),
    "cancel": lambda engine, run: engine.cancel(run),
    "retry": lambda engine, run: engine.retry(run),
    "signal": lambda engine, run: engine.signal(run, "go"),
    "extend": lambda engine, run: engine.extend(run, "steps", 3),
    "fork": lambda engine, run: engine.fork(run, "asks#1"),
    "label": lambda engine, run: engine.label_run(run, {"a": "b"}),
    "score": lambda engine, run: engine.score(run, "good", 1, by="ann"),
    "scores": lambda engine, run: engine.scores(run),
    "tree": lambda engine, run: engine.tree(run),
    "gates": lambda engine, run: engine.gates(run),
    "effects": lambda engine, run: engine.effects(run),
    "trace": lambda engine, run: engine.trace(run),
}
OF_GATES: dict[str, Asked] = {
    "decide": lambda engine, gate: engine.decide(gate, "answer", 1),
    "delegate": lambda engine, gate: engine.delegate(gate, ["ida"], by="ann"),
    "reassign": lambda engine, gate: engine.reassign(gate, ["ida"]),
    "asked_together": lambda engine, gate: engine.asked_together(gate),
}


async def test_a_row_or_a_handle_in_the_place_of_an_id_is_reported_and_nothing_is_done(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/holdfast.db", workflows=[asks]) as engine:
        run = await engine.start(asks, None)
        await run.settled()
        ((gate, change),) = await engine.gates(run.id)
        before = len(await run.events())
        row = await engine.find(run.id)
        for ask in OF_RUNS.values():
            for given in (run, row):
                with pytest.raises(InvalidInput, match=r"Name the run by its id, a text, like \.(id|run) of"):
                    await ask(engine, given)
        for ask in OF_GATES.values():
            with pytest.raises(InvalidInput, match=r"Name the gate by its id, a text, like \.gate of"):
                await ask(engine, gate)
            with pytest.raises(InvalidInput, match=r"like \[0\]\.gate of what was given: GateRow is none"):
                await ask(engine, (gate, change))
        for ask in (lambda engine, call: engine.resolve_effect(call, "reject"), lambda engine, call: engine.reconcile(call, 1)):
            with pytest.raises(InvalidInput, match="Name the call by its id"):
                await ask(engine, gate)
        assert len(await run.events()) == before
        await engine.decide(gate.gate, "answer", 1)
