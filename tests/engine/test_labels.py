"""Labels of runs: set at a start, by code and by people, found and counted as they are now, and never lost or repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, Workflow, flow, human_gate, task
from holdfast.core.nouns import labels as rule
from holdfast.errors import InvalidInput, NotFound
from tests.engine.kit import Time, engine_at, names

wf = Workflow(name="asks")


@wf.node("ask")
@human_gate
def ask(state: Any) -> dict[str, Any]:
    return {}


tries: list[str] = []


@flow
async def staged(ctx: Context) -> str:
    await ctx.label(stage="begun", customer="globex")
    tries.append("begun")
    answer = await ctx.ask({"go on": True})
    await ctx.label({"stage": answer.decision, "old.name": None}, more="é")
    await ctx.label(stage=answer.decision)
    return "done"


async def labels_of(engine: Engine, run: str) -> dict[str, str]:
    return (await engine.run(run).state()).labels


async def test_labels_are_set_by_starts_code_and_people_and_the_last_counts(tmp_path: Path) -> None:
    tries.clear()
    now = Time()
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(staged, labels={"customer": "acme", "old.name": "x"})
        await run.settled()
        assert await labels_of(engine, run.id) == {"customer": "globex", "old.name": "x", "stage": "begun"}
        await engine.label_run(run.id, {"customer": "acme"}, by="ann")
    async with engine_at(
        tmp_path, now, workflows=[staged]
    ) as engine:  # the code runs again from its beginning, and says nothing twice
        run = engine.run(run.id)
        [(gate, _)] = await engine.gates(run.id)
        await engine.decide(gate.gate, "approve", by="ann")
        assert await run.result() == "done"
        assert len(tries) == 2
        assert await labels_of(engine, run.id) == {"customer": "acme", "more": "é", "stage": "approve"}
        told = await names(run)
        assert told.count("RunLabelled") == 4
        await engine.label_run(run.id, {"late": "yes", "more": None})
        await engine.label_run(run.id, {"late": "yes", "none": None})  # that is so already
        assert await labels_of(engine, run.id) == {"customer": "acme", "late": "yes", "stage": "approve"}
        assert (await names(run))[len(told) :] == ["RunLabelled"]
        [row] = await engine.store.views.runs(labels=[("late", "yes")])
        assert row.run == run.id


async def test_what_is_no_label_is_refused_and_nothing_is_done(tmp_path: Path) -> None:
    async with engine_at(tmp_path, Time()) as engine:
        run = await engine.start(wf, {}, labels={f"k{number}": "v" for number in range(32)})
        await run.settled()
        with pytest.raises(NotFound, match="There is no run"):
            await engine.label_run("019aa8b2-6f41-7c3a-9d0e-2b7e4a5c6d7e", {"a": "b"})
        before = await run.events()
        wrong: list[tuple[Any, str, tuple[str, ...]]] = [
            ({"a b": "c"}, "The key 'a b'", ("a b",)),
            ({"": "c"}, "The key ''", ("",)),
            ({"é": "c"}, "a letter, then", ("é",)),
            ({"k" * 65: "c"}, "up to 63", ("k" * 65,)),
            ({7: "c"}, "The key 7", ("7",)),
            ({"a": 7}, "'a' is 7; a label is a text", ("a",)),
            ({"a": ""}, "'a' is empty", ("a",)),
            ({"a": "x\0"}, "the character NUL", ("a",)),
            ({"a": "\ud800"}, "not valid Unicode", ("a",)),
            ({"a": "é" * 129}, "has 258 bytes; it may have 256", ("a",)),
            (["a"], "it maps keys to texts", ()),
        ]
        for labels, words, place in wrong:
            for doing in (engine.start(wf, {}, labels=labels), engine.label_run(run.id, labels)):
                with pytest.raises(InvalidInput) as refused:
                    await doing
                assert words in refused.value.message
                assert refused.value.field == "labels"
                assert tuple(map(str, (part for misfit in refused.value.misfits for part in misfit.path))) == place
        with pytest.raises(InvalidInput, match="33 labels: a run has up to 32"):
            await engine.label_run(run.id, {"one.more": "v"})
        with pytest.raises(InvalidInput, match="33 labels"):
            await engine.start(wf, {}, labels={f"k{number}": "v" for number in range(33)})
        with pytest.raises(InvalidInput, match="'a' is None"):
            await engine.start(wf, {}, labels={"a": None})  # type: ignore[dict-item]
        assert await run.events() == before
        assert len(await engine.runs()) == 1
        await engine.label_run(run.id, {"one.more": "v", "k0": None, "k" * 64: "é" * 128, "k1": None})
        assert len(await labels_of(engine, run.id)) == rule.MAX_LABELS


async def test_code_that_labels_too_much_is_refused_and_may_go_on(tmp_path: Path) -> None:
    many = Workflow("many")

    @many.node("do")
    @task
    async def do(state: Any, ctx: Context) -> str:
        with pytest.raises(InvalidInput, match="a label is a text"):
            await ctx.label(a=7)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="33 labels"):
            await ctx.label({f"k{number}": "v" for number in range(33)})
        await ctx.label(a="b")
        return "went on"

    async with engine_at(tmp_path, Time()) as engine:
        run = await engine.start(many, {})
        assert await run.result() == "went on"
        assert await labels_of(engine, run.id) == {"a": "b"}


async def test_a_fork_has_the_labels_that_its_origin_had_before_the_step(tmp_path: Path) -> None:
    two = Workflow("two")

    @two.node("first")
    @task
    async def first(state: Any, ctx: Context) -> None:
        await ctx.label(stage="first")

    @two.node("second")
    @task
    async def second(state: Any, ctx: Context) -> None:
        await ctx.label(stage="second", done="yes")

    two.edge("first", "second")
    async with engine_at(tmp_path, Time()) as engine:
        run = await engine.start(two, {}, labels={"customer": "acme"}, tags=["red"])
        await run.result()
        await engine.label_run(run.id, {"customer": "globex"})
        fork = await engine.fork(run.id, "second#1")
        began = (await fork.events())[0].event
        assert began.labels == {"customer": "acme", "stage": "first"}  # type: ignore[attr-defined]
        assert began.tags == ("red",)  # type: ignore[attr-defined]
        await fork.result()
        assert await labels_of(engine, fork.id) == {"customer": "acme", "done": "yes", "stage": "second"}
        again = await engine.fork(run.id, "first#1")
        assert (await again.events())[0].event.labels == {"customer": "acme"}  # type: ignore[attr-defined]


async def test_an_option_that_there_is_not_is_refused(tmp_path: Path) -> None:
    async with engine_at(tmp_path, Time()) as engine:
        with pytest.raises(TypeError, match="unexpected keyword argument 'label'"):
            await engine.start(wf, {}, label={"a": "b"})  # type: ignore[call-overload]
        assert await engine.runs() == []
