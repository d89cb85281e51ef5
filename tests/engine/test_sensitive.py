"""A field that is marked `Sensitive` is stored and shown sealed, on every way in, and is a text to the code that declares it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from holdfast import Context, RunFailed, Sensitive, Signal, Workflow, flow, task, tool
from holdfast.authoring.values.arguments import DataArguments
from holdfast.authoring.values.plain import encode
from holdfast.authoring.values.sensitive import SensitiveText, sealed_by, sealed_for
from holdfast.core.values import schema as schemas
from holdfast.core.values.payload import SEALED
from holdfast.core.views.sealing import Sealing
from holdfast.errors import InvalidDecision, InvalidInput
from holdfast.models.tool_schema import bare, closed
from holdfast.platform.masking import without_inputs
from holdfast.service.declarations import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.stores.encryption import AesCodec, KeyFile
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
        shown += [repr(await engine.effects(run.id)), repr(await service.query(who, query.Run(run.id)))]
        shown += [repr([page async for page in _pages(service, who, run.id)])]
    assert {("flow", CANARY, (f"{CANARY}-1",)), ("charge", CANARY, 5), ("look", CANARY), ("step", CANARY)} <= {
        tuple(tuple(part) if isinstance(part, list) else part for part in each) for each in SEEN
    }
    assert {("answer", f"{CANARY}-answer"), ("signal", f"{CANARY}-signal")} <= {each[:2] for each in SEEN if len(each) == 2}
    assert SEALED in shown[-1]
    for text in (*shown, caplog.text, stored().decode("utf-8", "replace")):
        assert CANARY not in text


async def _pages(service: Service, who: Principal, run: str) -> Any:
    for asked in (query.Events(run=run), query.Effects(run=run), query.Gates(all=True)):
        yield await service.query(who, asked)


async def test_who_has_not_the_code_seals_by_the_schema(store: str, stored: Callable[[], bytes], known: Settings) -> None:
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


async def test_an_erased_field_fails_the_step_that_reads_it_in_words(store: str, tmp_path: Path, known: Settings) -> None:
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
    assert found["number"] == {"title": "Number", "type": "string", "pattern": "^canary-[0-9-]*$", "x-holdfast-sensitive": True}
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
        assert arguments.typed({**plain, "holder": plain["number"]})["holder"] == plain["number"], "of other fields nothing is"


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


# --- What does not fit ------------------------------------------------------------------------------------------------

UNFIT: list[dict[str, Any]] = [
    {"number": CANARY},
    {"holder": "ann", "number": f"{CANARY}!"},
    {"holder": "ann", "number": {"of": CANARY}},
    {"holder": "ann", "number": CANARY, "old": [f"{CANARY}-1"], "code": [CANARY]},
    {"holder": "ann", "number": CANARY, "old": [CANARY, {"of": CANARY}]},
    {"holder": 4711, "number": CANARY, "by_number": {CANARY: "one"}},
]


class Cards(Card):
    by_number: dict[Annotated[str, Sensitive], int] = {}


@tool(effect="once")
async def reads(n: int) -> None:
    Cards.model_validate(UNFIT[n])


@flow(tools=[reads])
async def misreads(ctx: Context, n: int) -> None:
    try:
        await ctx.tool(reads, n=n)
    except Exception as problem:
        try:
            Cards.model_validate(UNFIT[n])
        except ValidationError as unfit:
            raise ExceptionGroup("both", [problem, ValueError("and so on")]) from unfit


@pytest.mark.parametrize("n", range(len(UNFIT)))
async def test_what_code_has_not_read_is_shown_in_no_error(
    store: str, stored: Callable[[], bytes], known: Settings, caplog: pytest.LogCaptureFixture, n: int
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opened(store, workflows=[misreads], settings=known) as engine:
        run = await engine.start(misreads, n)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        service, who = Service(engine), Principal("ops")
        shown = [repr(await run.events()), str(failed.value), repr(await service.query(who, query.Run(run.id)))]
        shown += [repr([page async for page in _pages(service, who, run.id)])]
        assert "misreads" in shown[0], "the trace is told"
    for text in (*shown, caplog.text, stored().decode("utf-8", "replace")):
        assert CANARY not in text


def test_a_traceback_shows_no_input_whatever_led_to_it() -> None:
    problem: Exception
    try:
        try:
            Card.model_validate(UNFIT[0])
        except ValidationError as unfit:
            raise ExceptionGroup("both", [unfit, KeyError("k")]) from unfit
    except Exception as raised:
        problem = raised
    text = "".join(traceback.format_exception(problem))
    assert CANARY in text
    assert CANARY not in without_inputs(text, problem)
    assert without_inputs(text, problem).count("Field required [type=missing") == 2


@pytest.mark.parametrize("given", UNFIT)
async def test_what_is_given_and_does_not_fit_is_shown_in_no_refusal(
    store: str, known: Settings, given: dict[str, Any]
) -> None:
    wf = Workflow("cards", input=Cards)
    wf.node("work")(task(lambda state: None))
    for workflows in ([wf], []):
        async with opened(store, workflows=workflows, settings=known) as engine:
            with pytest.raises(InvalidInput, match="does not fit Cards") as refused:
                await engine.start("cards", given)
            assert CANARY not in str(refused.value)


def test_a_name_that_is_a_sensitive_text_is_sealed(known: Settings) -> None:
    assert known.key_file is not None
    given = {"holder": "ann", "number": CANARY, "by_number": {CANARY: 1}}
    with sealed_for("acme", Sealing(AesCodec(KeyFile(known.key_file)), seals=False)):
        of_code = Cards.model_validate(given)
        for written_ in (
            encode(of_code),
            encode({"a": [{of_code.number: of_code.number}]}),
            encode({"a": (of_code.by_number,)}),
            encode(sealed_by(Cards.model_json_schema(), given)),
        ):
            assert CANARY.encode() not in written_
            assert SEALED.encode() in written_
        assert Cards.model_validate_json(encode(of_code)) == of_code
        assert encode({SensitiveText("a"): 1, "b": [1]}) != encode({"a": 1, "b": [1]})


# --- Forms ------------------------------------------------------------------------------------------------------------


class Pin(BaseModel):
    pin: Annotated[str, Sensitive] = Field(pattern="^[0-9]*$", min_length=4, max_length=6)


async def test_a_form_asks_of_a_sensitive_field_what_its_model_does(
    store: str, stored: Callable[[], bytes], known: Settings
) -> None:
    @flow
    async def asks(ctx: Context) -> str:
        answer = await ctx.ask({"why": "to pay"}, form=Pin)
        return "fits" if Pin.model_validate(answer.data).pin == "471147" else "other"

    async with opened(store, workflows=[asks], settings=known) as engine:
        run = await engine.start(asks, tenant="acme")
        gate = await gate_of(run)
        form = (await run.state()).gates[gate].opened.form
        assert form is not None
        asked = form["properties"]["pin"]
        assert (asked["pattern"], asked["minLength"], asked["maxLength"]) == ("^[0-9]*$", 4, 6)
        for wrong in ("47-114", "471", "4711471", 471147):
            with pytest.raises(InvalidDecision, match="pin: it does not fit") as refused:
                await engine.decide(gate, "answer", {"pin": wrong})
            assert str(wrong) not in str(refused.value)
        await engine.decide(gate, "answer", {"pin": "471147"})
        assert await run.result() == "fits"
    assert b"471147" not in stored()


def test_a_sealed_text_fits_whatever_is_asked_of_the_text(known: Settings) -> None:
    assert known.key_file is not None
    schema = Pin.model_json_schema()
    with sealed_for("acme", Sealing(AesCodec(KeyFile(known.key_file)), seals=False)):
        sealed = sealed_by(schema, {"pin": "4711"})
    assert sealed["pin"].startswith(SEALED)
    assert schemas.problems(schema, sealed) == []
    del schema["properties"]["pin"]["x-holdfast-sensitive"]
    assert len(schemas.problems(schema, sealed)) == 2, "of another text it is asked"


def test_a_model_may_answer_with_the_sealed_text_that_it_was_shown() -> None:
    """A provider holds it to the schema, word by word."""
    for schema in (bare(Pin.model_json_schema()), closed(Pin.model_json_schema())[0]):
        assert schema["properties"]["pin"] == {"type": "string"}
