"""Embeddings by a provider's model: calls that are held, made once, paid for and recorded as any other."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import ModelEmbedder, SemanticCache, flow
from holdfast.core.facts import events as ev
from holdfast.core.values.money import usd
from holdfast.core.views.status import waiting_for
from holdfast.errors import InvalidInput, OperationFailed
from holdfast.models.providers import Providers
from holdfast.testing.model_server import Fault, ModelServer, Rule
from tests.engine.history import events_of
from tests.engine.kit import opened

SMALL = "openai:text-embedding-3-small"
NANOUSD = 20
"""Of one token."""


@flow
async def embeds(ctx, given):
    vectors = await ctx.embed(given["texts"], model=given.get("model", SMALL), dimensions=given.get("dimensions", 64))
    await ctx.sleep(seconds=0)
    return [len(each) for each in vectors] + [round(sum(n * m for n, m in zip(vectors[0], vectors[-1], strict=True)), 3)]


async def test_vectors_are_held_paid_for_and_made_once(store: str, server: ModelServer, model: Providers) -> None:
    async with opened(store, workflows=[embeds], model=model) as engine:
        run = await engine.start(embeds, {"texts": ["the rent is due", "the rent is due"]})
        assert await run.result() == [64, 64, 1.0]
        (held,) = await events_of(run, ev.ModelCallHeld)
        (settled,) = await events_of(run, ev.ModelCallSettled)
        (call,) = server.calls
        assert settled.cost_nanousd == call.used.input_tokens * NANOUSD
        assert (settled.input_tokens, settled.output_tokens) == (call.used.input_tokens, 0)
        assert held.hold_nanousd == held.tokens * NANOUSD >= settled.cost_nanousd
        assert (await run.state()).budget.settled_nanousd == settled.cost_nanousd


async def test_a_watcher_of_a_run_that_embeds_sees_the_call_and_no_text(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with opened(store, workflows=[embeds], model=model) as engine:
        run = await engine.start(embeds, {"texts": ["the rent is due"]})
        await run.result()
        assert [each async for each in engine.watch_stream(run.id)] == []


async def test_a_call_for_vectors_that_does_not_fit_the_limit_is_not_made(
    store: str, server: ModelServer, model: Providers
) -> None:
    async with opened(store, workflows=[embeds], model=model) as engine:
        run = await engine.start(embeds, {"texts": ["many words " * 50]}, cost_limit_usd=usd(100 * NANOUSD))
        assert "money" in [wait.kind for wait in waiting_for(await run.settled())]
        assert server.calls == []
        await engine.extend(run.id, "cost", 10**9)
        assert (await run.result())[0] == 64


@pytest.mark.parametrize("fault", ["missing_usage", "cut_before_reply"])
async def test_an_unknown_end_of_a_call_for_vectors_is_in_doubt(
    store: str, server: ModelServer, model: Providers, fault: Any
) -> None:
    server.script.add(Rule(fault=Fault(kind=fault), times=1))
    async with opened(store, workflows=[embeds], model=model) as engine:
        run = await engine.start(embeds, {"texts": ["the rent"]}, on_limit="fail")
        await run.settled()
        assert len(await events_of(run, ev.ModelCallInDoubt)) == 1
        assert (await run.state()).budget.in_doubt_nanousd > 0


@flow
async def refused(ctx, given):
    told = []
    for asked in given:
        try:
            await ctx.embed(**asked)
        except (InvalidInput, OperationFailed) as problem:
            told.append(problem.message)
    return told


async def test_what_cannot_be_embedded_ends_in_words_and_costs_nothing(
    server: ModelServer, model: Providers, tmp_path: Any
) -> None:
    asked = [
        {"texts": [], "model": SMALL},
        {"texts": ["a", ""], "model": SMALL},
        {"texts": "text", "model": SMALL},
        {"texts": ["a"], "model": SMALL, "dimensions": 0},
        {"texts": ["a"], "model": "claude-haiku-4-5"},
        {"texts": ["a"], "model": "openai:text-embedding-9-odd"},
    ]
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", workflows=[refused], model=model) as engine:
        told = await (await engine.start(refused, asked)).result()
    assert len(told) == len(asked)
    assert all("takes a list of 1 to 256 texts, none of them empty" in words for words in told[:3])
    assert "a vector has 1 to 8,192 numbers" in told[3]
    assert "anthropic makes no embeddings" in told[4]
    assert "text-embedding-9-odd has no known price" in told[5]
    assert server.calls == []


@flow
async def remembers(ctx, given):
    memory = ctx.memory("planner", embedder=ModelEmbedder(SMALL, given.get("dimension", 64)))
    if "text" in given:
        return await memory.remember(given["text"])
    return [each.text for each in await memory.recall(given["query"], limit=1)]


async def test_memories_and_cached_answers_are_found_by_a_providers_vectors(
    server: ModelServer, model: Providers, tmp_path: Any
) -> None:
    @flow
    async def answers(ctx, given):
        cache = SemanticCache(ModelEmbedder(SMALL, 64), threshold=0.7)
        return await ctx.model("claude-haiku-4-5", given["question"], cache=cache, max_tokens=50)

    server.script.add(Rule(wire="anthropic", text="Friday."))
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}", workflows=[remembers, answers], model=model) as engine:
        for text in ("the rent is due on Friday", "a cat sleeps"):
            await (await engine.start(remembers, {"text": text})).result()
        found = await engine.start(remembers, {"query": "when is the rent due"})
        assert await found.result() == ["the rent is due on Friday"]
        assert (await found.state()).budget.settled_nanousd > 0, "a question's vector has its price"
        first = await (await engine.start(answers, {"question": "when is the rent due"})).result()
        assert first == await (await engine.start(answers, {"question": "when is the rent due then"})).result() == "Friday."
        assert [call.wire for call in server.calls].count("anthropic") == 1
