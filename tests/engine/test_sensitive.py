"""A field that is marked `Sensitive` is stored and shown sealed, on every way in, and is a text to the code that declares it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from holdfast import Context, RunFailed, Sensitive, Signal, Workflow, flow, task, tool
from holdfast.authoring.arguments import DataArguments
from holdfast.authoring.sensitive import sealed_by, sealed_for
from holdfast.core.sealing import SEALED, Sealing
from holdfast.encryption import AesCodec, KeyFile
from holdfast.errors import InvalidInput
from holdfast.service import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import Settings
from tests.engine.kit import die, gate_of, opened
from tests.engine.test_encryption import TENANTS, written

CANARY = "canary-4711-0815"


class Card(BaseModel):
    holder: str
    number: Annotated[str, Sensitive] = Field(pattern="^canary-[0-9-]*$")
    old: list[Annotated[str, Sensitive]] = []
    code: Annotated[str, Sensitive] | None = None


GIVEN = {"holder": "ann", "number": CANARY, "old": [f"{CANARY}-1"], "code": f"{CANARY}-2"}
SEEN: list[Any] = []


class Note(BaseModel):
    text: Annotated[str, Sensitive]


note = Signal("note", Note)


@tool(effect="once")
async def charge(card: Card, cents: int) -> Card:
    SEEN.append(("charge", str(card.number), cents))
    return card


@tool(effect="once")
def look(number: Annotated[str, Sensitive]) -> str:
    SEEN.append(("look", str(number)))
    return "seen"


@flow
async def pay(ctx: Context, card: Card) -> Card:
    logging.getLogger("holdfast.users").warning("paying with %r", card)
    SEEN.append(("flow", str(card.number), [str(each) for each in card.old]))
    charged: Card = await ctx.tool(charge, card=card, cents=5)
    await ctx.tool(look, number=charged.number)
    assert charged == card
    told = await ctx.step("tell", told_of, card)
    answer = await ctx.ask({"card": card}, form=Note)
    SEEN.append(("answer", str(Note.model_validate(answer.data).text)))
    heard = await ctx.wait_signal(note)
    SEEN.append(("signal", str(heard.text)))
    await ctx.shared("board").write("card", {"of": told, "number": card.number})
    return card


def told_of(card: Card) -> str:
    SEEN.append(("step", str(card.number)))
    return card.holder


@pytest.fixture
def known(tmp_path: Path) -> Settings:
    SEEN.clear()
    settings = written(tmp_path / "keys.toml", *TENANTS)
    return Settings(key_file=settings.key_file)


async def test_a_sensitive_field_is_nowhere_but_in_the_code_that_declares_it(
    store: str, stored: Callable[[], bytes], known: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened(store, workflows=[pay], settings=known) as engine:
        run = await engine.start(pay, Card.model_validate(GIVEN), tenant="acme", key="k")
        assert (await engine.start(pay, GIVEN, tenant="acme", key="k")).id == run.id, "equal texts are sealed alike"
        gate = await gate_of(run)
        await engine.decide(gate, "answer", {"text": f"{CANARY}-answer"})
        await run.until(lambda state: bool(state.steps["flow"].pending) and not state.gates)
        await die(engine)
    async with opened(store, workflows=[pay], settings=known) as engine:
        await engine.set_schedule("nightly", pay, "0 3 * * *", input=GIVEN, tenant="acme")
        run = engine.run(run.id)
        await engine.signal(run.id, note, Note(text=f"{CANARY}-signal"))
        output = await run.result()
        with engine.sensitive("acme"):
            assert Card.model_validate(output) == Card.model_validate(GIVEN)
        service, who = Service(engine), Principal("ops")
        shown = [repr(await run.events()), repr(await engine.gates(run.id, open_only=False)), repr(output)]
        shown += [repr(await engine.effects(run.id)), repr(await service.ask(who, query.Run(run.id)))]
        shown += [repr([page async for page in _pages(service, who, run.id)])]
    assert {("flow", CANARY, (f"{CANARY}-1",)), ("charge", CANARY, 5), ("look", CANARY), ("step", CANARY)} <= {
        tuple(tuple(part) if isinstance(part, list) else part for part in each) for each in SEEN
    }
    assert {("answer", f"{CANARY}-answer"), ("signal", f"{CANARY}-signal")} <= {
        each[:2] for each in SEEN if len(each) == 2
    }
    assert SEALED in shown[-1]
    for text in (*shown, caplog.text, stored().decode("utf-8", "replace")):
        assert CANARY not in text


async def _pages(service: Service, who: Principal, run: str) -> Any:
    for asked in (query.Events(run=run), query.Effects(run=run), query.Gates(all=True)):
        yield await service.ask(who, asked)


async def test_who_has_not_the_code_seals_by_the_schema(
    store: str, stored: Callable[[], bytes], known: Settings
) -> None:
    wf = Workflow("pay", input=Card)

    @wf.node("work")
    @task
    async def work(state, ctx):
        SEEN.append(str(Card.model_validate(state.input).number))
        return state.input.holder

    async with opened(store, workflows=[wf], settings=known):
        pass
    async with opened(store, settings=known, execute=False) as engine:
        run = await engine.start("pay", GIVEN, tenant="acme")
        with pytest.raises(InvalidInput):
            await engine.start("pay", {"holder": "ann"}, tenant="acme")
    assert CANARY.encode() not in stored()
    async with opened(store, workflows=[wf], settings=known) as engine:
        assert await engine.run(run.id).result() == "ann"
    assert SEEN == [CANARY]


async def test_without_a_key_nothing_sensitive_is_taken(store: str, known: Settings) -> None:
    async with opened(store, workflows=[pay], settings=Settings()) as engine:
        with pytest.raises(InvalidInput, match="HOLDFAST_KEY_FILE"):
            await engine.start(pay, GIVEN)
        assert await engine.runtime.store.views.runs() == []
    async with opened(store, workflows=[pay], settings=known) as engine:
        with pytest.raises(InvalidInput, match="'nobody' has no key"):
            await engine.start(pay, GIVEN, tenant="nobody")


async def test_an_erased_field_fails_the_step_that_reads_it_in_words(
    store: str, tmp_path: Path, known: Settings
) -> None:
    wf = Workflow("late", input=Card)

    @wf.node("wait")
    @task
    async def wait(state, ctx):
        return await ctx.wait_signal("go")

    @wf.node("work")
    @task
    async def work(state, ctx):
        return str(Card.model_validate(state.input).number)

    wf.edge("wait", "work")
    async with opened(store, workflows=[wf], settings=known) as engine:
        run = await engine.start(wf, GIVEN, tenant="acme")
        await run.until(lambda state: bool(state.steps["wait"].pending))
        await die(engine)
    written(tmp_path / "keys.toml", "default", "globex")
    async with opened(store, workflows=[wf], settings=known) as engine:
        await engine.signal(run.id, "go")
        with pytest.raises(RunFailed, match="sealed and cannot be read"):
            await engine.run(run.id).result()


def test_another_tenant_s_sealed_text_is_not_opened(known: Settings) -> None:
    assert known.key_file is not None
    sealing = Sealing(AesCodec(KeyFile(known.key_file)), seals=False)
    sealed = sealing.seal_field("acme", CANARY)
    assert sealing.open_field("acme", sealed) == CANARY
    for wrong in (sealed, f"{SEALED}]", f"{SEALED}AAAA]", "[sensitive:é]"):
        with pytest.raises(Exception, match=r"another tenant's|no sealed text|cut off|not that was stored|not in"):
            sealing.open_field("globex", wrong)


def test_a_sensitive_text_is_a_text_without_a_repr_and_its_schema_says_so() -> None:
    card = Card.model_validate(GIVEN)
    assert f"{card.number}" == CANARY
    assert CANARY not in repr(card)
    assert card.model_dump()["number"] == CANARY
    assert card.model_dump(mode="json")["number"] == CANARY, "outside of a tenant's work"
    found = Card.model_json_schema()["properties"]
    assert found["number"] == {
        "title": "Number",
        "type": "string",
        "x-holdfast-sensitive": True,
    }
    assert sealed_by(Card.model_json_schema(), GIVEN) == GIVEN
    with pytest.raises(TypeError, match="Sensitive is for a text"):
        TypeAdapter(Annotated[int, Sensitive])


def test_what_is_sent_elsewhere_is_the_text_and_what_is_recorded_is_sealed(known: Settings) -> None:
    """As an HTTP tool is called: its arguments are data."""
    assert known.key_file is not None
    arguments = DataArguments(Card)
    with sealed_for("acme", Sealing(AesCodec(KeyFile(known.key_file)), seals=False)):
        plain = arguments.plain(GIVEN)
        assert CANARY not in str(plain)
        assert arguments.typed(plain) == GIVEN
        assert arguments.plain(GIVEN) == plain
        assert arguments.typed({**plain, "holder": plain["number"]})["holder"] == plain["number"], (
            "of other fields nothing is"
        )


@tool(effect="once")
async def answers_otherwise(x: int) -> Card:
    return {"holder": "ann", "number": f"{CANARY}!"}  # type: ignore[return-value]


async def test_what_does_not_fit_is_shown_in_no_error_and_a_text_of_a_stream_is_sealed(
    store: str, tmp_path: Path, stored: Callable[[], bytes]
) -> None:
    @flow(tools=[answers_otherwise])
    async def watched(ctx: Context, card: Card) -> None:
        await ctx.stream("told").write(card.number)
        await ctx.tool(answers_otherwise, x=1)

    settings = Settings(key_file=written(tmp_path / "keys.toml", *TENANTS).key_file)
    async with opened(store, workflows=[watched], settings=settings) as engine:
        run = await engine.start(watched, GIVEN)
        state = await run.until(lambda state: bool(state.gates))
        assert "It was: not shown, for it has sensitive fields" in repr(state.calls)
    assert CANARY.encode() not in stored()
