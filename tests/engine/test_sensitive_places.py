"""A sensitive text is sealed in all that a run can write down, and so in all that shows it: runs, gates, streams, prompts, logs.

What is looked at is the whole store, every answer of the service that needs no more than a run, and the log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel

from holdfast import (
    Context,
    Engine,
    OperationFailed,
    RetryPolicy,
    Run,
    Sensitive,
    StateView,
    Workflow,
    flow,
    human_gate,
    step,
    task,
)
from holdfast.core.values.payload import SEALED
from holdfast.errors import NotFound
from holdfast.models.providers import Providers
from holdfast.service.declarations import query
from holdfast.service.declarations.declaration import Query, declared
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.testing.model_server import ModelServer
from tests.engine.kit import gate_of, opened
from tests.engine.test_encryption import TENANTS, written
from tests.engine.test_sensitive import CANARY, GIVEN, Card

MODEL = "claude-haiku-4-5"


class Declined(Exception):
    """Carries what it is about, as exceptions of users do."""

    def __init__(self, card: Card) -> None:
        super().__init__(card, card.number)
        self.card, self.number, self.of = card, card.number, {card.number: card.number}


@step
async def same(card: Card) -> Card:
    return card


@step
def number_of(number: Annotated[str, Sensitive]) -> Annotated[str, Sensitive]:
    return number


@step(retry=RetryPolicy(max_attempts=1))
async def declines(card: Card) -> None:
    raise Declined(card)


async def records_item(ctx: Context, item: Any) -> Any:
    await ctx.record("item", item)
    return item


@flow
async def inner(ctx: Context, card: Card) -> Card:
    return card


@flow
async def steps(ctx: Context, card: Card) -> Any:
    found = [await same(card), await number_of(card.number)]
    with pytest.raises(OperationFailed, match="Declined"):
        await declines(card)
    mapped = [await ctx.map(same, [card, card]), await ctx.map(records_item, [card, card.number])]
    child = await ctx.child(inner, card)
    await ctx.child(inner, card, background=True)
    return {"found": found, "mapped": mapped, "child": child, "names": {card.number: (card.number,)}}


@flow
async def tells(ctx: Context, card: Card) -> Any:
    for value in (card, card.number, [card.number], {card.number: card}):
        await ctx.stream("told").write(value)
    async with ctx.shared("board").lock("card"):
        await ctx.shared("board").write("card", card)
        await ctx.shared("board").update("card", lambda _: {"new": card, card.number: 1})
    memory = ctx.memory("me")
    await memory.remember(card.number, metadata={"card": card.number, card.number: 1})
    await memory.recall(card.number)
    await ctx.model(MODEL, card.number, max_tokens=100)
    await ctx.model(MODEL, {"system": card.number, "user": card}, max_tokens=100)
    await ctx.embed([card.number], model="openai:text-embedding-3-small")


@flow
async def asks(ctx: Context, card: Card) -> Any:
    answer = await ctx.ask(
        {"number": str(card.number), "others": [card.number], "by": {card.number: 1}},
        form=Card,
        proposed_action=card.number,
        evidence_ids=[card.number],
    )
    return answer.data


class Known(BaseModel):
    number: Annotated[str, Sensitive] = ""
    cards: list[Card] = []


def graph() -> Workflow:
    wf = Workflow("graph", input=Card, state=Known, state_strategies={"cards": "append"}, on_exhausted="dead_letter")

    @wf.node("one")
    @task
    async def one(state: StateView):
        return {"cards": [Card.model_validate(state.input)], "number": state.data.number}

    @wf.node("gate")
    @human_gate(form=Card)
    async def gate(state, ctx):
        number = state.data.number
        return {"card": state.data.cards[0], "number": number, "holder": "ann", "proposed_action": number, "diff": number}

    @wf.node("broken")
    @task(retry=RetryPolicy(max_attempts=1))
    async def broken(state, ctx):
        raise Declined(Card.model_validate(state.input))

    wf.edge("one", "gate")
    wf.edge("gate", "broken")
    return wf


async def ended(engine: Engine, run: Run[Any]) -> None:
    assert CANARY not in repr(await run.result())


async def answered(engine: Engine, run: Run[Any]) -> None:
    gate = await gate_of(run)
    assert SEALED in repr([each[0] for each in await engine.runtime.store.views.gates()])
    await engine.decide(gate, "answer", GIVEN)
    await ended(engine, run)


async def edited(engine: Engine, run: Run[Any]) -> None:
    gate = await gate_of(run)
    shown = (await run.state()).gates[gate].opened
    assert SEALED.encode() in bytes(shown.shown.json)
    await engine.decide(gate, "edit", {"number": f"{CANARY}-9"})
    await run.until(lambda state: bool(state.dead_letters()))


def queries(run: str) -> Iterator[Any]:
    """Everything that can be asked with a run, or with nothing."""
    for kind in declared():
        if not issubclass(kind, Query):
            continue
        fields = msgspec.structs.fields(kind)
        given = {each.name: run for each in fields if each.name == "run"}
        if all(not each.required or each.name in given for each in fields):
            yield kind(**given)
    yield query.Streams(run=run, name="told")
    yield query.SharedVersions(space="board", key="card", tenant="acme")
    yield query.Memories(agent="me", tenant="acme")


@pytest.fixture
def known(tmp_path: Path) -> Settings:
    return Settings(key_file=written(tmp_path / "keys.toml", *TENANTS).key_file)


WALKS: dict[str, tuple[Any, Any]] = {
    "steps": (steps, ended),
    "asks": (asks, answered),
    "graph": (graph, edited),
    "tells": (tells, ended),
}


@pytest.mark.parametrize("walk", WALKS)
async def test_a_sensitive_text_is_sealed_in_all_that_a_run_writes_and_shows(
    store: str,
    stored: Callable[[], bytes],
    known: Settings,
    caplog: pytest.LogCaptureFixture,
    server: ModelServer,
    model: Providers,
    walk: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    made, walked = WALKS[walk]
    meant = made() if made is graph else made
    async with opened(store, workflows=[meant, inner], settings=known, model=model) as engine:
        run = await engine.start(meant, GIVEN, tenant="acme")
        await walked(engine, run)
        service, who = Service(engine), Principal("ops")
        told = []
        for each in queries(run.id):
            with contextlib.suppress(NotFound):
                told.append(repr(await service.query(who, each)))
        told += [repr(await run.state()), repr(await run.events())]
        assert len(told) > 30, "most can be asked"
        assert SEALED in "".join(told)
    for text in (*told, caplog.text, stored().decode("utf-8", "replace"), repr(server.calls)):
        assert CANARY not in text
