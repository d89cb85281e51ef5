"""A semantic cache: what a model has answered is given again where a question means the same, and only there."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import LocalEmbedder, Router, SemanticCache, Workflow, flow, llm_node
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import SHARED_USE
from holdfast.errors import InvalidInput, NotFound, UsageError
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.history import events_of
from tests.engine.kit import Time, engine_at, opened

HAIKU = "claude-haiku-4-5"
AXES = {"ship to Norway": (1.0, 0.0), "deliver to Norway": (0.99, 0.1), "Sweden": (0.8, 0.6)}


def _made(texts: list[str]) -> list[tuple[float, ...]]:
    """A direction for each question that is known here."""
    return [next(axis for words, axis in AXES.items() if words in text) for text in texts]


MEANING = LocalEmbedder("countries", _made, 2)


@flow
async def asks(ctx, given):
    options = {"system": given.get("system", ""), "max_tokens": given.get("max_tokens", 100)}
    cache = SemanticCache(MEANING, **given.get("cache", {}))
    return await ctx.model(given.get("model", HAIKU), given["question"], cache=cache, **options)


async def told(engine: Any, question: str, *, tenant: str = "acme", **given: Any) -> tuple[str, list[dict[str, Any]]]:
    """What is answered, and what of it came from the cache."""
    run = await engine.start(asks, {"question": question, **given}, tenant=tenant)
    answer = await run.result()
    hits = [event.payload.value() for event in await events_of(run, ev.ValueRecorded) if event.kind == SHARED_USE]
    assert len(hits) == 1
    return answer, hits[0]


async def test_the_same_question_and_one_that_means_the_same_get_the_answer_without_a_call(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(user="Norway", text="Yes, in five days."), Rule(user="Sweden", text="No."))
    async with opened(store, workflows=[asks], model=model) as engine:
        assert await told(engine, "Do you ship to Norway?") == ("Yes, in five days.", [])
        answer, (hit,) = await told(engine, "Do you deliver to Norway?")
        assert answer == "Yes, in five days."
        assert (hit["question"], hit["likeness"] > 0.99, hit["saved_nanousd"] > 0) == ("Do you ship to Norway?", True, True)
        answer, (hit,) = await told(engine, "Do you ship to Norway?")
        assert (answer, hit["likeness"]) == ("Yes, in five days.", 1.0)
        assert len(server.calls) == 1
        assert await told(engine, "Do you ship to Sweden?") == ("No.", [])
        assert len(server.calls) == 2


async def test_an_answer_that_was_wrong_is_taken_out_by_itself(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(user="Sweden", text="No."), Rule(times=1, text="Nowhere."), Rule(text="Yes."))
    async with opened(store, workflows=[asks], model=model) as engine:
        await told(engine, "Do you ship to Norway?")
        await told(engine, "Do you ship to Sweden?")
        answer, (hit,) = await told(engine, "Do you deliver to Norway?")
        spaces = {each.space for each in await engine.shared_values("acme")}
        (space,) = spaces
        with pytest.raises(NotFound, match="no cached answer"):
            await engine.forget_cached_answer(space, hit["key"])  # of another tenant
        await engine.forget_cached_answer(space, hit["key"], tenant="acme")
        with pytest.raises(NotFound, match="no cached answer"):
            await engine.forget_cached_answer(space, hit["key"], tenant="acme")
        with pytest.raises(InvalidInput, match="is no space of cached answers"):
            await engine.forget_cached_answer("board", hit["key"], tenant="acme")
        assert (answer, await told(engine, "Do you deliver to Norway?")) == ("Nowhere.", ("Yes.", []))
        assert (await told(engine, "Do you ship to Sweden?"))[1], "the other one is still there"


@pytest.mark.parametrize("streams", [True, False])
async def test_who_watches_hears_an_answer_from_the_cache_as_he_hears_a_model(
    store: str, server: ModelServer, model: Providers, streams: bool
) -> None:
    @flow
    async def says(ctx, given):
        return await ctx.model(HAIKU, "Do you ship?", cache=SemanticCache(), max_tokens=100, stream=streams)

    server.script.add(Rule(text="Yes, in five days."))
    async with opened(store, workflows=[says], model=model) as engine:
        heard = []
        for _ in range(2):
            run = await engine.start(says, {})
            await run.result()
            tellings = [each async for each in engine.watch_stream(run.id)]
            heard.append(("".join(each.text for each in tellings), tellings[-1].kind, tellings[-1].outcome))
            for each in tellings[:-1]:
                rest = [later async for later in engine.watch_stream(run.id, since=each.cursor)]
                assert rest == tellings[tellings.index(each) + 1 :], "he may come back at any place"
        assert heard == [("Yes, in five days.", "end", "completed")] * 2
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "umbrella"},
        {"system": "Be short."},
        {"model": "claude-sonnet-4-5"},
        {"max_tokens": 50},
        {"cache": {"version": "2"}},
        {"cache": {"threshold": 0.999}, "question": "Do you deliver to Norway?"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_an_answer_is_of_one_tenant_prompt_model_and_version(
    server: ModelServer, model: Providers, other: dict[str, Any], tmp_path: Any
) -> None:
    server.script.add(Rule(text="Yes."))
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", workflows=[asks], model=model) as engine:
        await told(engine, "Do you ship to Norway?")
        given = {"question": "Do you ship to Norway?", **other}
        _, hits = await told(engine, given.pop("question"), **given)
        assert (hits, len(server.calls)) == ([], 2)


async def test_an_answer_that_is_too_old_is_none_and_of_too_many_the_least_used_goes(
    server: ModelServer, model: Providers, tmp_path: Any
) -> None:
    server.script.add(Rule(text="Yes."))
    time = Time()
    async with engine_at(tmp_path, time, workflows=[asks], model=model) as engine:
        bounded = {"cache": {"max_age_s": 60.0, "most": 2}}
        await told(engine, "Do you ship to Norway?", **bounded)
        time.forward(30)
        await told(engine, "Do you ship to Sweden?", **bounded)
        time.forward(5)
        assert (await told(engine, "Do you ship to Norway?", **bounded))[1], "which is used later than the other"
        await told(engine, "Sweden, and soon?", cache={"max_age_s": 60.0, "most": 2, "threshold": 1.0})
        time.forward(60)
        assert (await told(engine, "Do you ship to Norway?", **bounded))[1] == []


class Verdict(BaseModel):
    ships: bool


async def test_an_answer_of_a_shape_is_kept_and_one_that_was_cut_off_is_not(
    server: ModelServer, model: Providers, tmp_path: Any
) -> None:
    wf = Workflow("shaped")

    @wf.node("ask")
    @llm_node(model=HAIKU, output=Verdict, cache=SemanticCache())
    def ask(state):
        return "Do you ship to Norway?"

    cut = Workflow("cut")

    @cut.node("ask")
    @llm_node(model=HAIKU, max_tokens=20, cache=SemanticCache())
    def ask_briefly(state):
        return "Tell me all."

    server.script.add(Rule(user="Norway", output={"ships": True}), Rule(user="all", text="To begin " * 40))
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", model=model) as engine:
        for _ in range(2):
            assert await (await engine.start(wf)).result() == {"ships": True}
        assert len(server.calls) == 1
        for _ in range(2):
            assert (await (await engine.start(cut)).result()).startswith("To begin")
        assert len(server.calls) == 3


def test_what_does_not_follow_from_the_question_alone_is_refused_where_it_is_defined() -> None:
    router = Router([HAIKU, "claude-sonnet-4-5"])
    for options in ({"continue_conversation": True}, {"tools": ["search"]}, {"model": router}):
        with pytest.raises(UsageError, match="does not follow from the question alone"):
            llm_node(**{"model": HAIKU, **options}, cache=SemanticCache())  # type: ignore[arg-type]
    for bad in ({"threshold": 0}, {"threshold": 1.1}, {"max_age_s": 0}, {"most": 0}):
        with pytest.raises(UsageError, match=f"cache: {next(iter(bad))}="):
            llm_node(model=HAIKU, cache=SemanticCache(**bad))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="it is a SemanticCache"):
        llm_node(model=HAIKU, cache=True)  # type: ignore[arg-type]


async def test_an_embedder_that_answers_another_length_ends_in_words(
    server: ModelServer, model: Providers, tmp_path: Any
) -> None:
    @flow
    async def odd(ctx, given):
        cache = SemanticCache(LocalEmbedder("odd", lambda texts: [(1.0,) for _ in texts], 2))
        try:
            return await ctx.model(HAIKU, "Anything", cache=cache, max_tokens=10)
        except InvalidInput as problem:
            return problem.message

    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", workflows=[odd], model=model) as engine:
        assert "made 1 vectors of 1 numbers" in await (await engine.start(odd, {})).result()
        assert server.calls == []
