"""Values: what a function says that it takes and returns is what comes back, on the first pass and on replay alike."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import re
import sqlite3
import threading
import typing
import uuid
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import attrs
import msgspec
import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, computed_field, field_serializer, field_validator

from holdfast import Context, Demand, Fields, OperationFailed, RunFailed, Workflow, flow, map_node, step, task, tool
from holdfast.authoring.values.hint import label
from holdfast.authoring.values.input_schema import as_enforced
from holdfast.authoring.values.plain import encode
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.payload import digest
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import InvalidInput, SchemaMismatch, UsageError
from tests.engine.history import events_of
from tests.engine.kit import opened

T = TypeVar("T")
ID = uuid.UUID("507b202a-9f3b-4d47-ba12-f34ec0be8c27")
DAY = dt.date(2026, 3, 4)
NOON = dt.datetime(2026, 3, 4, 12, 30, 1, 5, tzinfo=dt.UTC)


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Name(str):  # noqa: SLOT000 - as people write it
    """A text that is more than one."""


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str = "Rex"


class Order(BaseModel):
    id: uuid.UUID
    price: decimal.Decimal = decimal.Decimal("1.10")
    at: dt.datetime = NOON
    tags: set[str] = {"a"}
    where: Path = Path("a/b")


class Tree(BaseModel):
    kids: list[Tree] = []
    when: dt.date | None = None


class Box(BaseModel, Generic[T]):
    inside: T


class Aliased(BaseModel):
    number: int = Field(alias="n")


class Computed(BaseModel):
    net: int

    @computed_field
    def gross(self) -> int:
        return self.net * 2


class Forbidding(Computed):
    model_config = ConfigDict(extra="forbid")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date
    id: uuid.UUID


class Revealing(BaseModel):
    """Its author has said that the secret is to be written."""

    password: SecretStr

    @field_serializer("password", when_used="json")
    def _written(self, password: SecretStr) -> str:
        return password.get_secret_value()


class Optional(BaseModel):
    password: SecretStr | None = None


class Base64(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes


class Text(BaseModel):
    raw: bytes


@dataclasses.dataclass
class Raw:
    data: bytes
    more: Raw | None = None
    parts: list[bytes] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Visit:
    at: dt.datetime
    who: Order | None = None


class Row(NamedTuple):
    id: uuid.UUID
    count: int = 0


class Given(typing.TypedDict):
    id: uuid.UUID


class Plain(typing.TypedDict):
    count: int


class Extended(typing_extensions.TypedDict):
    raw: bytes


class Struct(msgspec.Struct):
    raw: bytes
    order: Order | None = None
    at: dt.datetime | None = None


@attrs.define
class Defined:
    id: uuid.UUID
    parts: list[Defined] = attrs.field(factory=list)
    at: dt.datetime = NOON


class CardOrder(Order):
    card: str = "4242"


@dataclasses.dataclass
class LongVisit(Visit):
    hours: int = 3


@dataclasses.dataclass
class Bill:
    total: decimal.Decimal
    orders: list[Order] = dataclasses.field(default_factory=list)


class Anything(BaseModel):
    inside: Any


class Point(enum.Enum):
    ORIGIN = (0, 0)


class Rate(enum.Enum):
    LOW = decimal.Decimal("0.1")


class Mixed(enum.Enum):
    NONE = None
    SOME = 1.5


KEPT: list[tuple[Any, Any]] = [
    (uuid.UUID, ID),
    (decimal.Decimal, decimal.Decimal("0.10")),
    (dt.datetime, NOON),
    (dt.datetime, NOON.replace(tzinfo=None)),
    (dt.datetime, dt.datetime(2026, 3, 4, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))),
    (dt.date, NOON.date()),
    (dt.time, dt.time(12, 30, 1)),
    (dt.timedelta, dt.timedelta(days=1, microseconds=3)),
    (Color, Color.RED),
    (Level, Level.LOW),
    (list[Mixed], [Mixed.NONE, Mixed.SOME]),
    (Bill, Bill(decimal.Decimal("1.10"), [Order(id=ID)])),
    (Order | CardOrder, CardOrder(id=ID)),
    (Anything, Anything(inside=[{"a": None}])),
    (Word, Word.YES),
    (Literal["a", 1], "a"),
    (bytes, b"\xff\x00abc"),
    (bytearray, bytearray(b"\xff")),
    (Path, Path("a/b")),
    (PurePosixPath, PurePosixPath("/x")),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1")),
    (fractions.Fraction, fractions.Fraction(1, 3)),
    (complex, 1 + 2j),
    (re.Pattern[str], re.compile("a+")),
    (Name, Name("ann")),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (collections.deque[int], collections.deque([1, 2])),
    (collections.Counter[str], collections.Counter("aab")),
    (collections.defaultdict[str, int], collections.defaultdict(int, a=1)),
    (collections.OrderedDict[str, dt.date], collections.OrderedDict(a=NOON.date())),
    (tuple[int, str], (1, "x")),
    (tuple[uuid.UUID, ...], (ID, ID)),
    (list[uuid.UUID], [ID]),
    (Sequence[dt.date], [NOON.date()]),
    (Iterable[dt.date], [NOON.date()]),
    (Mapping[str, decimal.Decimal], {"a": decimal.Decimal(1)}),
    (dict[int, str], {1: "a"}),
    (dict[uuid.UUID, int], {ID: 1}),
    (dict[dt.date, list[bytes]], {NOON.date(): [b"\xff"]}),
    (uuid.UUID | None, ID),
    (uuid.UUID | None, None),
    (dt.datetime | int, NOON),
    (Annotated[uuid.UUID, "of an order"], ID),
    (Order, Order(id=ID)),
    (Order | None, Order(id=ID)),
    (Order | None, None),
    (Cat | Dog, Dog(name="Bo")),
    (Annotated[Cat | Dog, Field(discriminator="kind")], Cat()),
    (list[Cat | Dog], [Cat(), Dog()]),
    (dict[str, Order], {"a": Order(id=ID)}),
    (Box[dt.date], Box[dt.date](inside=NOON.date())),
    (Tree, Tree(kids=[Tree(when=NOON.date())])),
    (Aliased, Aliased(n=3)),
    (Computed, Computed(net=1)),
    (Forbidding, Forbidding(net=1)),
    (Strict, Strict(day=NOON.date(), id=ID)),
    (Optional, Optional()),
    (Revealing, Revealing(password=SecretStr("p"))),
    (Base64, Base64(raw=b"\xff")),
    (Text, Text(raw=b"abc")),
    (Raw, Raw(b"abc", Raw(b"\xff"), [b"a"])),
    (list[Raw], [Raw(b"\x00")]),
    (Raw | None, Raw(b"abc")),
    (Visit, Visit(NOON, Order(id=ID))),
    (Row, Row(ID, 2)),
    (Given, {"id": ID}),
    (Extended, {"raw": b"\xff"}),
    (Struct, Struct(b"\xff", Order(id=ID), NOON)),
    (list[Struct], [Struct(b"a")]),
    (Struct | None, Struct(b"a")),
    (Defined, Defined(ID, [Defined(ID)])),
    (dict[str, Defined | None], {"a": Defined(ID), "b": None}),
]
"""Hints and values that are the same again wherever a function has that hint."""

SAME: list[tuple[Any, Any]] = [
    (int, 2**80),
    (float, -0.0),
    (str, "a\0" * 9),
    (str, "x" * 1_000_000),
    (None, None),
    (list[int], [1]),
    (dict[str, Any], {"a": [1, {"b": None}]}),
    (Plain, {"count": 1}),
    (Any, {"a": 1}),
]
"""The same, of plain data."""


def named(value: Any) -> str:
    return re.sub(r"[^\w\[\], |.]", "", str(value)).replace("tests.engine.test_values.", "")[:60]


def returning(result: Any, hint: Any) -> Any:
    def made() -> Any:
        return result

    made.__annotations__ = {"return": hint}
    return made


def taking(hint: Any, seen: list[Any], **more: Any) -> Any:
    async def handle(ctx: Any, given: Any) -> None:
        seen.append(given)

    handle.__annotations__ = {"given": hint, **more}
    return handle


def check_same(seen: Any, value: Any) -> None:
    assert type(seen) in (type(value), Fields if type(value) is dict else type(value))
    if isinstance(value, Revealing):
        assert seen.password.get_secret_value() == value.password.get_secret_value()
    assert seen == value
    if isinstance(value, float):
        assert str(seen) == str(value)


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize(("hint", "value"), [*KEPT, *SAME], ids=named)
async def test_what_a_step_returns_comes_back_as_its_hint_says(store: str, hint: Any, value: Any) -> None:
    seen: list[Any] = []
    source = step(name="source")(returning(value, hint))

    @flow
    async def handle(ctx: Context) -> None:
        seen.append(await source())
        await ctx.sleep(0)  # what follows is a replay
        seen.append(await ctx.step("plain", returning(value, hint)))

    async with opened(store) as engine:
        await (await engine.start(handle)).result()
    assert len(seen) == 3
    for each in seen:
        check_same(each, value)


@pytest.mark.parametrize(("hint", "value"), [*KEPT, *SAME], ids=named)
async def test_a_flow_is_given_what_the_hint_of_its_input_says(store: str, hint: Any, value: Any) -> None:
    seen: list[Any] = []
    handle = flow(name="handle")(taking(hint, seen))
    async with opened(store) as engine:
        await (await engine.start(handle, value)).result()
    check_same(seen[0], value)


# --- Inputs --------------------------------------------------------------------------------------------------------------


async def given_to(store: str, function: Any, *started_with: Any) -> Any:
    """What a flow returns that is started so."""
    async with opened(store) as engine:
        return await (await engine.start(flow(name="handle")(function), *started_with)).result()


async def _takes_two(ctx: Any, order: Order, count: int = 2, *, when: dt.date | None = None) -> Any:
    return [type(order).__name__, str(order.id), count, when and when.isoformat()]


async def _takes_a_name(ctx: Any, *, a: int = 1) -> Any:
    return a


async def _takes_a_number(ctx: Any, n: int = 5) -> Any:
    return n


async def _takes_perhaps(ctx: Any, n: int | None = None) -> Any:
    return n


async def _takes_a_day(ctx: Any, day: dt.date = DAY) -> Any:
    return day.isoformat()


async def _takes_an_order(ctx: Any, order: Order | None = None) -> Any:
    return order and str(order.id)


async def _takes_anything(ctx: Any, given: Any) -> Any:
    return given


async def _takes_an_object(ctx: Any, given: dict[str, Any]) -> Any:
    return given


GIVEN: list[tuple[Any, tuple[Any, ...], Any]] = [
    (_takes_two, ({"order": {"id": str(ID)}},), ["Order", str(ID), 2, None]),
    (_takes_two, ({"order": Order(id=ID), "count": 3, "when": NOON.date()},), ["Order", str(ID), 3, "2026-03-04"]),
    (_takes_a_name, ({"a": 5},), 5),
    (_takes_a_name, (), 1),
    (_takes_a_number, (), 5),
    (_takes_a_number, (7,), 7),
    (_takes_perhaps, (), None),
    (_takes_perhaps, (3,), 3),
    (_takes_a_day, (), "2026-03-04"),
    (_takes_a_day, ("2026-01-01",), "2026-01-01"),
    (_takes_an_order, (), None),
    (_takes_an_order, ({"id": str(ID)},), str(ID)),
    (_takes_anything, (), {}),
    (_takes_an_object, ({},), {}),
]


@pytest.mark.parametrize(("function", "started_with", "expected"), GIVEN)
async def test_parameters_of_a_flow_take_what_was_given_or_their_defaults(
    store: str, function: Any, started_with: tuple[Any, ...], expected: Any
) -> None:
    assert await given_to(store, function, *started_with) == expected


async def _takes_a_choice(ctx: Any, given: Literal["a", "b"]) -> None: ...


async def _takes_numbers(ctx: Any, given: dict[str, int]) -> None: ...


async def _takes_optional_secret(ctx: Any, given: Optional) -> None: ...


MISFITS: list[tuple[Any, Any, str]] = [
    (_takes_a_number, "abc", "n: Input should be a valid integer"),
    (_takes_a_choice, "c", "given: Input should be 'a' or 'b'"),
    (_takes_numbers, {"a": "x"}, "a: Input should be a valid integer"),
    (_takes_two, {"order": {"id": "x"}}, "order.id: Input should be a valid UUID"),
    (_takes_two, {"order": {"id": str(ID)}, "cuont": 1}, "cuont: Extra inputs are not permitted"),
    (_takes_a_day, "soon", "Input should be a valid date"),
    (_takes_optional_secret, {"password": "p"}, "has the type SecretStr, whose value is not stored. Pass the name of a secret"),
]


@pytest.mark.parametrize(("function", "started_with", "words"), MISFITS)
async def test_an_input_that_does_not_fit_its_hint_is_refused_at_the_start(
    store: str, function: Any, started_with: Any, words: str
) -> None:
    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match=re.escape(words)):
            await engine.start(flow(name="handle")(function), started_with)


async def _takes_a_plain(ctx: Any, given: Plain) -> None: ...


async def _takes_orders(ctx: Any, given: dict[str, Order]) -> None: ...


REQUIRED: list[tuple[Any, str]] = [
    (_takes_an_object, "Workflow 'handle' requires an input: given."),
    (_takes_numbers, "Workflow 'handle' requires an input: given."),
    (_takes_a_choice, "Workflow 'handle' requires an input: given."),
    (_takes_orders, "Workflow 'handle' requires an input: given."),
    (_takes_a_plain, "count"),
    (_takes_two, "order"),
]


@pytest.mark.parametrize(("function", "words"), REQUIRED)
async def test_a_start_without_a_required_input_is_refused_and_names_it(store: str, function: Any, words: str) -> None:
    made = flow(name="handle")(function)
    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match=re.escape(words)) as refused:
            await engine.start(made)
        assert refused.value.field == "input"
    async with opened(store, workflows=[made]):
        pass
    async with opened(store) as engine:  # which has not its code
        with pytest.raises(InvalidInput, match=re.escape(words.partition(":")[0])) as refused:
            await engine.start("handle")
        assert refused.value.field == "input"


async def test_a_method_is_a_flow_of_its_object(store: str) -> None:
    class Desk:
        def __init__(self, rate: int) -> None:
            self.rate = rate

        @flow
        async def handle(self, ctx: Context, count: int, at: dt.date | None = None) -> int:
            return await self.priced(count)

        @step
        def priced(self, count: int) -> int:
            return count * self.rate

    desk = Desk(3)
    handle: Any = desk.handle
    assert desk.handle is handle, "one object has one flow"
    async with opened(store, workflows=[handle]) as engine:
        assert await (await engine.start(handle, {"count": 2})).result() == 6


def _plain_flow_schema(hint: Any) -> Any:
    return as_enforced(flow(name="handle")(taking(hint, [])).input_schema)


async def _takes_a_text(ctx: Context, complaint: str) -> None:
    """Answer.

    Args:
        complaint: What the customer wrote,
            word by word.
    """


async def _takes_a_count(ctx: Context, item_count: int = 200) -> None: ...
async def _takes_a_choice(ctx: Context, size: Literal["s", "m"]) -> None: ...
async def _takes_a_rate(ctx: Context, rate: float, urgent: bool = False) -> None:
    """Rate.

    Args:
        urgent: Before all others.
    """


async def _takes_names(ctx: Context, names: list[str]) -> None: ...
async def _takes_perhaps(ctx: Context, name: str | None = None) -> None: ...
async def _takes_anything(ctx: Context, given) -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_takes_a_text, {"title": "Complaint", "type": "string", "description": "What the customer wrote, word by word."}),
        (_takes_a_count, {"title": "Item count", "type": "integer", "default": 200}),
        (_takes_a_choice, {"title": "Size", "type": "string", "enum": ["s", "m"]}),
        (_takes_names, {"title": "Names", "type": "array", "items": {"type": "string"}}),
        (_takes_perhaps, {"title": "Name", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
        (_takes_anything, None),
    ],
)
def test_people_are_shown_the_type_default_and_description_of_a_parameter(function: Any, expected: Any) -> None:
    made = flow(name="handle")(function)
    stored = StoredWorkflow("handle", 1, made.graph, made.input_schema, None)
    assert stored.shown_input_schema == expected
    assert stored.validated_input("7") == "7", "what code would take is refused by no schema"


def test_people_are_shown_the_description_of_each_of_several_parameters() -> None:
    made = flow(name="handle")(_takes_a_rate)
    shown = StoredWorkflow("handle", 1, made.graph, made.input_schema, None).shown_input_schema
    assert shown is not None
    assert [each.get("description") for each in shown["properties"].values()] == [None, "Before all others."]


@pytest.mark.parametrize(
    ("function", "raw", "expected"),
    [
        (_takes_a_day, None, "2026-03-04"),
        (_takes_an_order, None, None),
        (_takes_two, {"order": {"id": str(ID)}}, {"order": {"id": str(ID)}, "count": 2, "when": None}),
        (_takes_a_name, None, {"a": 1}),
    ],
)
def test_a_process_without_the_code_fills_in_the_same_defaults(function: Any, raw: Any, expected: Any) -> None:
    made = flow(name="handle")(function)
    stored = StoredWorkflow("handle", 1, made.graph, made.input_schema, None)
    found = stored.validated_input(raw)
    if isinstance(found, dict) and "order" in found:
        found = {**found, "order": {"id": found["order"]["id"]}}
    assert found == expected


def test_the_stored_schema_of_an_input_that_was_taken_before_stays_what_it_was() -> None:
    for hint in (int, Literal["a"], dict[str, int], list[Any]):
        assert _plain_flow_schema(hint) == {"title": "given", "not": {"type": "null"}}
    for hint in (int | None, Any):
        assert _plain_flow_schema(hint) is None
    assert _plain_flow_schema(Plain) == {"title": "given", "type": "object", "required": ["count"]}
    assert (
        _plain_flow_schema(Order)
        == as_enforced(flow(name="x")(taking(Order, [])).input_schema)
        == Order.model_json_schema() | {"properties": _plain_flow_schema(Order)["properties"]}
    )
    assert _plain_flow_schema(uuid.UUID) == {"title": "UUID", "type": "string", "format": "uuid"}


# --- Refusals ------------------------------------------------------------------------------------------------------------


class Login(BaseModel):
    password: SecretStr


class Hidden(BaseModel):
    shown: int = 1
    cache: int = Field(default=0, exclude=True)


class HiddenAlways(BaseModel):
    cache: int = Field(exclude=True)


class Rounding(BaseModel):
    net: float

    @field_serializer("net")
    def _rounded(self, net: float) -> float:
        return round(net, 1)


class Unreadable(BaseModel):
    net: float

    @field_serializer("net")
    def _written(self, net: float) -> str:
        return f"{net} EUR"


class Failing(BaseModel):
    net: float

    @field_validator("net", mode="before")
    @classmethod
    def _read(cls, net: Any) -> Any:
        if Failing.is_read_again:
            raise KeyError(net)
        Failing.is_read_again = True
        return net

    is_read_again: typing.ClassVar[bool] = False


DEFINED: list[tuple[Any, str]] = [
    (Iterator[int], "a generator, which is not data. Use list(...) instead"),
    (typing.Generator[int, None, None], "a generator, which is not data. Use list(...) instead"),
    (typing.Callable[[], int], "a function, which is not data. Use its result or its name"),
    (type[Order], "a class, which is not data. Use its name instead"),
    (sqlite3.Connection, "a value of the type Connection has no form in JSON. Use a Pydantic model"),
    (Point, "the type Point, whose members cannot be read back. Give its members values that are text"),
    (list[Rate], "the type Rate, whose members cannot be read back"),
    (dict[tuple[int, int], int], "keys that JSON cannot store. Use a list of pairs, or keys that are text"),
    (SecretStr, "Pass the name of a secret, and read it with ctx.secret"),
    (Login, "the field 'password' of Login has the type SecretStr, whose value is not stored. Pass the name of a secret"),
    (list[Login], "the field 'password' of Login has the type SecretStr"),
    (dict[str, SecretBytes], "Pass the name of a secret"),
    (HiddenAlways, "the field 'cache' of HiddenAlways has exclude=True, so it is not stored. Remove exclude=True"),
]


@pytest.mark.parametrize(("hint", "words"), DEFINED, ids=named)
def test_a_type_that_cannot_be_kept_is_refused_where_its_function_is_defined(hint: Any, words: str) -> None:
    function = returning(None, hint)
    for define in (step(name="s"), step(name="s", effect="read"), tool(name="s"), task, flow(name="s")):
        made = function if define is not flow else taking(Any, [])
        if "flow" in repr(define):
            made = taking(Any, [], **{"return": hint})
        with pytest.raises(UsageError, match=re.escape(words)) as refused:
            define(made)
        assert ", which cannot be stored: " in refused.value.message.partition(". ")[0]
    with pytest.raises(UsageError, match=re.escape(words)):
        flow(name="s")(taking(hint, []))


AMBIGUOUS: list[tuple[Any, Any]] = [
    (uuid.UUID | str, uuid.UUID),
    (str | dt.datetime | None, dt.datetime),
    (dt.datetime | dt.date, dt.date),
    (uuid.UUID | Any, uuid.UUID),
    (list[bytes | str], bytes),
    (dict[str, decimal.Decimal | str], decimal.Decimal),
    (Color | str, Color),
    (Level | int, Level),
    (set[str] | list[str], set[str]),
    (tuple[int, ...] | list[int], tuple[int, ...]),
]
DISTINCT = [
    uuid.UUID | dt.datetime | None,
    decimal.Decimal | int,
    set[int] | list[str],
    uuid.UUID | Literal["none"],
    Order | str,
]


@pytest.mark.parametrize(("hint", "which"), AMBIGUOUS, ids=named)
def test_a_union_whose_types_read_back_as_each_other_is_refused_where_it_is_defined(hint: Any, which: Any) -> None:
    words = f"of the type {label(which)} is read back as "
    for define in (step(name="s"), step(name="s", effect="read"), tool(name="s"), task):
        with pytest.raises(UsageError, match=r"cannot be stored: in .*" + re.escape(words)):
            define(returning(None, hint))
    with pytest.raises(UsageError, match=re.escape(words)):
        flow(name="s")(taking(hint, []))


@pytest.mark.parametrize("hint", DISTINCT, ids=named)
def test_a_union_of_types_that_read_back_as_themselves_is_kept(hint: Any) -> None:
    step(name="s")(returning(None, hint))
    flow(name="s")(taking(hint, []))


RETURNED: list[tuple[Any, Any, str]] = [
    (
        Optional,
        Optional(password=SecretStr("p")),
        "the field 'password' of Optional has the type SecretStr, whose value is not stored. Pass the name of a secret",
    ),
    (None, Login(password=SecretStr("p")), "the field 'password' of Login has the type SecretStr"),
    (Hidden, Hidden(cache=3), "the field 'cache' of Hidden has exclude=True, so it is not stored. Remove exclude=True"),
    (
        Rounding,
        Rounding(net=1.26),
        "its field 'net' would be changed when Rounding reads it back. Name one type in the type hint",
    ),
    (Unreadable, Unreadable(net=1.0), "Unreadable cannot read what it writes: "),
    (
        Text,
        Text(raw=b"\xff"),
        "Text stores bytes as text, and these bytes are not UTF-8. Set model_config = ConfigDict(ser_json_bytes='base64', val_json_bytes='base64')",
    ),
    (None, Text(raw=b"\xff"), "its model stores bytes as text, and these bytes are not UTF-8. Set model_config"),
    (Failing, Failing(net=1.0), "the code that writes or reads Failing raised KeyError"),
    (Order, CardOrder(id=ID), "it contains the type CardOrder, but the type hint names a class above it"),
    (list[Order], [Order(id=ID), CardOrder(id=ID)], "it contains the type CardOrder"),
    (Visit, Visit(NOON, CardOrder(id=ID)), "it contains the type CardOrder"),
    (Visit | None, LongVisit(NOON), "it contains the type LongVisit"),
    (Bill, Bill(decimal.Decimal(1), [CardOrder(id=ID)]), "it contains the type CardOrder"),
    (Computed | int, Forbidding(net=1), "it would be changed when "),
    (bytes, "YWJj", "bytes has bytes where this value has text. Use bytes"),
    (list[bytes], ["YWJj"], "list[bytes] has bytes where"),
    (dict[str, list[bytes]], {"a": ["YWJj"]}, "dict[str, list[bytes]] has bytes where"),
    (
        decimal.Decimal,
        decimal.Decimal("NaN"),
        "it contains the Decimal NaN, which cannot be read back. Use a finite Decimal or None",
    ),
    (dict[str, decimal.Decimal], {"a": decimal.Decimal("Infinity")}, "it contains the Decimal "),
    (Bill, Bill(decimal.Decimal("Infinity")), "it contains the Decimal "),
    (decimal.Decimal | int, decimal.Decimal("-Infinity"), "it contains the Decimal "),
    (dict[int | None, int], {None: 1}, "dict[int | None, int] cannot read what it writes: "),
    (Order, {"id": "x"}, "its type dict does not fit Order: "),
    (Order, None, "its type NoneType does not fit Order: "),
]


@pytest.mark.parametrize(("hint", "value", "words"), RETURNED, ids=named)
async def test_a_value_that_would_change_silently_is_refused_with_the_remedy(
    store: str, hint: Any, value: Any, words: str
) -> None:
    made = returning(value, hint)
    if hint is None:
        del made.__annotations__["return"]
    source = step(name="source")(made)

    @flow
    async def handle(ctx: Context) -> None:
        await source()

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=re.escape(f"The result of 'source' cannot be stored: {words}")):
            await (await engine.start(handle)).result()
        with pytest.raises(RunFailed, match=re.escape(words)):
            await (await engine.start(flow(name="f")(returning_flow(value, hint)))).result()


def returning_flow(value: Any, hint: Any) -> Any:
    async def handle(ctx: Any) -> Any:
        return value

    handle.__annotations__ = {} if hint is None else {"return": hint}
    return handle


# --- What was kept before ------------------------------------------------------------------------------------------------


OLD: list[tuple[Any, Any, Any]] = [
    (Raw, {"data": "YWJj", "more": {"data": "/w==", "more": None, "parts": []}}, Raw(b"abc", Raw(b"\xff"))),
    (dt.datetime, "not a date, and nobody looked", "not a date, and nobody looked"),
    (Plain, {"other": 1}, {"other": 1}),
    (Level, 1, Level.LOW),
    (Tree, {"kids": [], "when": "2026-03-04"}, Tree(when=NOON.date())),
]


@pytest.mark.parametrize(("hint", "recorded", "expected"), OLD, ids=named)
def test_what_earlier_versions_have_recorded_is_read(hint: Any, recorded: Any, expected: Any) -> None:
    assert step(name="s")(returning(None, hint)).returns.load(recorded) == expected


# --- Everywhere else -----------------------------------------------------------------------------------------------------


@step
def takes_an_order(order: Order) -> dt.datetime:
    return order.at


@step
def takes_raw(raw: Raw) -> bytes:
    return raw.data + b"!"


@step
def takes_an_id(number: uuid.UUID) -> uuid.UUID:
    return number


@step(demand=Demand(priority=1))
def placed(order: Order, when: dt.date) -> dt.date:
    return when.replace(year=order.at.year + 1)


@step(effect="read")
def effect(number: uuid.UUID) -> Order:
    return Order(id=number)


@tool(effect="read")
def told(number: uuid.UUID) -> Order:
    return Order(id=number)


async def item_of_its_own(ctx: Context, order: Order) -> Row:
    return Row(order.id, order.at.year)


class HasId(typing.Protocol):
    """What nothing can make of JSON."""

    id: int


async def test_an_item_of_a_map_node_is_what_the_hint_of_its_parameter_says(store: str) -> None:
    seen: list[Any] = []
    wf = Workflow("pays")

    @wf.node("pay")
    @map_node(lambda state: [decimal.Decimal("1.10"), decimal.Decimal(2)])
    def pay_each(state: Any, item: decimal.Decimal) -> decimal.Decimal:
        seen.append(item)
        return item * 2

    @wf.node("order")
    @map_node(lambda state: [Order(id=ID)], key=lambda item: str(item.id))
    @task
    async def order(state: Any, item: Order | None) -> Any:
        return seen.append(item)

    @wf.node("plain")
    @map_node(lambda state: [{"id": 1}])
    def plain(state: Any, item: HasId) -> Any:
        return seen.append(item.id)

    async with opened(store, workflows=[wf]) as engine:
        await (await engine.start(wf)).result()
    assert sorted(seen, key=str) == sorted([decimal.Decimal("1.10"), decimal.Decimal(2), Order(id=ID), 1], key=str)
    assert {type(each) for each in seen} == {decimal.Decimal, Order, int}


async def test_an_item_of_a_map_is_what_the_hint_of_its_parameter_says(store: str) -> None:
    seen: list[Any] = []

    @flow
    async def handle(ctx: Context) -> None:
        seen.append(await ctx.map(takes_an_order, [Order(id=ID)]))
        seen.append(await ctx.map(takes_raw, [Raw(b"\xff")]))
        seen.append(await ctx.map(takes_an_id, [ID]))
        seen.append(await ctx.map(told, [{"number": ID}]))
        seen.append(await ctx.map(item_of_its_own, [Order(id=ID)]))
        seen.append(await placed(Order(id=ID), DAY))

    async with opened(store, workflows=[handle]) as engine:
        await (await engine.start(handle)).result()
    assert seen[-5:] == [[b"\xff!"], [ID], [Order(id=ID)], [Row(ID, 2026)], DAY.replace(year=2027)]
    assert seen[-6] == [NOON]


@step(effect="once")
def pay(amount: decimal.Decimal) -> decimal.Decimal:
    assert type(amount) is decimal.Decimal
    return amount


@step(effect="once")
def booked(key: str, number: uuid.UUID) -> list[uuid.UUID]:
    return [number]


@step(effect="once", demand=Demand(priority=1))
def pay_first(amount: decimal.Decimal) -> decimal.Decimal:
    return amount


async def test_an_effect_gives_an_item_of_a_map_as_its_hint_says(store: str) -> None:
    seen: list[Any] = []

    @flow
    async def handle(ctx: Context) -> None:
        seen.append(await ctx.map(pay, ["10.00", "20.00"]))
        seen.append(await ctx.map(pay, [decimal.Decimal("1.1")]))
        seen.append(await ctx.map(booked, [ID]))
        seen.append(await pay_first(decimal.Decimal("3.3")))
        with pytest.raises(OperationFailed, match="do not fit its schema"):
            await ctx.map(pay, ["much"])

    async with opened(store, workflows=[handle]) as engine:
        await (await engine.start(handle)).result()
    paid = [decimal.Decimal("10.00"), decimal.Decimal("20.00")]
    assert seen[-4:] == [paid, [decimal.Decimal("1.1")], [[ID]], decimal.Decimal("3.3")]
    assert all(type(each) is decimal.Decimal for each in seen[-4])


@flow
async def child_of_values(ctx: Context, order: Order) -> Row:
    return Row(order.id, 3)


@flow
async def child_of_an_id(ctx: Context, number: uuid.UUID) -> uuid.UUID:
    return number


async def test_a_child_is_given_and_returns_what_its_hints_say(store: str) -> None:
    seen: list[Any] = []

    @flow
    async def parent(ctx: Context) -> str:
        seen.append(await ctx.child(child_of_values, Order(id=ID)))
        seen.append(await ctx.child(child_of_an_id, ID))
        seen.append(await (await ctx.child(child_of_an_id, ID, background=True)).result())
        seen.append((await ctx.child(child_of_an_id, ID, on_failure="return")).output)
        seen.append(await ctx.child("child_of_an_id", str(ID)))
        return "done"

    async with opened(store, workflows=[parent, child_of_values, child_of_an_id]) as engine:
        assert await (await engine.start(parent)).result() == "done"
    assert seen[-5:] == [Row(ID, 3), ID, ID, ID, str(ID)]


async def test_a_run_returns_what_its_flow_says_where_the_code_is_and_data_elsewhere(store: str) -> None:
    async with opened(store, workflows=[child_of_values, child_of_an_id]) as engine:
        run = await engine.start(child_of_values, Order(id=ID))
        number = await engine.start("child_of_an_id", str(ID))
        assert await run.result() == await engine.run(run.id).result() == Row(ID, 3)
        assert await number.result() == ID
    async with opened(store, execute=False) as engine:
        assert await engine.run(run.id).result() == [str(ID), 3]
        assert await engine.run(number.id).result() == str(ID)


async def test_a_tool_a_signal_and_a_shared_value_are_of_the_type_that_is_said(store: str) -> None:
    seen: list[Any] = []

    @flow
    async def handle(ctx: Context) -> None:
        seen.append(await ctx.tool(told, number=ID))
        seen.append(await effect(ID))
        seen.append(await ctx.wait_signal("go", type=Order))
        space = ctx.shared("space")
        await space.write("day", {DAY}, type=set[dt.date])
        found = await space.read("day", type=set[dt.date])
        assert found is not None
        seen.append(found.value)
        with pytest.raises(SchemaMismatch):
            await ctx.wait_signal("go", type=Order)

    async with opened(store) as engine:
        run = await engine.start(handle)
        await engine.signal(run.id, "go", {"id": str(ID)})
        await engine.signal(run.id, "go", {"id": "x"})
        await run.result()
    assert seen[-4:] == [Order(id=ID), Order(id=ID), Order(id=ID), {DAY}]


UNFIT: list[tuple[Any, Any]] = [
    (decimal.Decimal, "abc"),
    (dt.date, {"a": 1}),
    (Color, "blue"),
    (int, "abc"),
    (list[int], {"a": 1}),
    (Plain, {"other": 1}),
    (Order, {"id": "x"}),
]


@pytest.mark.parametrize(("hint", "data"), UNFIT, ids=named)
async def test_what_others_have_sent_and_does_not_fit_the_type_is_refused(store: str, hint: Any, data: Any) -> None:
    @flow
    async def handle(ctx: Context) -> str:
        space = ctx.shared("space")
        await space.write("it", data)
        with pytest.raises(SchemaMismatch, match="does not fit"):
            await space.read("it", type=hint)
        return str(await ctx.wait_signal("go", type=hint))

    async with opened(store) as engine:
        run = await engine.start(handle)
        await engine.signal(run.id, "go", data)
        with pytest.raises(RunFailed, match="Send the signal 'go' again with data that fits"):
            await run.result()


@step(effect="once")
def refunded(number: uuid.UUID) -> decimal.Decimal:
    raise TimeoutError


@tool(effect="once")
def ordered(number: uuid.UUID) -> Order:
    raise TimeoutError


@task(tools=[ordered])
async def orders(state: Any, ctx: Context) -> str:
    return type(await ctx.tool(ordered, number=ID)).__name__


@pytest.mark.parametrize("is_graph", [False, True])
async def test_a_response_that_a_person_gives_is_what_the_tool_returns(store: str, is_graph: bool) -> None:
    @flow
    async def handle(ctx: Context) -> str:
        return type(await refunded(ID)).__name__

    wf = Workflow("orders")
    wf.node("orders")(orders)
    given: Any = {"id": str(ID)} if is_graph else "1.10"
    async with opened(store) as engine:
        run = await engine.start(wf if is_graph else handle)
        ((gate, _),) = (await run.until(lambda state: bool(state.gates))).gates.items()
        with pytest.raises(InvalidInput, match=r"Give data as the code returns it: .*Nothing was done"):
            await engine.decide(gate, "answer", {"id": "x"} if is_graph else "abc")
        await engine.decide(gate, "answer", given)
        assert await run.result() == ("Order" if is_graph else "Decimal")


async def test_a_task_keeps_what_its_hint_says(store: str) -> None:
    seen: list[Any] = []
    wf = Workflow("tasks")

    @wf.node("first")
    def first(state: Any) -> set[uuid.UUID]:
        return {ID}

    @wf.node("second")
    def second(state: Any) -> dict[str, Any]:
        seen.append(state.events["first"].output)
        return {"at": "x"}

    wf.edge("first", "second")
    async with opened(store) as engine:
        await (await engine.start(wf)).result()
    assert seen == [[str(ID)]]


# --- Arguments -----------------------------------------------------------------------------------------------------------


@step
def sort(rows: list[int], limit: int = 3) -> int:
    rows.sort()
    return rows[0]


@step
async def add(cart: Order, tag: str) -> None:
    cart.tags.add(tag)


@step
def only_reads(cart: Order, rows: list[int], name: str) -> int:
    return len(cart.tags) + len(rows)


async def test_an_argument_that_a_step_changes_is_noticed(store: str) -> None:
    @flow
    async def sorts(ctx: Context) -> int:
        return await sort([3, 1, 2])

    @flow
    async def adds(ctx: Context) -> Any:
        cart = Order(id=ID, tags={"a"})
        return await ctx.gather(add(cart, "x"), only_reads(Order(id=ID), [1], "n"))

    @flow
    async def reads(ctx: Context) -> int:
        return await only_reads(Order(id=ID, tags={"a"}), [1], "n")

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"'sort' changed its argument 1 \(rows\)\."):
            await (await engine.start(sorts)).result()
        with pytest.raises(RunFailed, match=r"'add' changed its argument 1 \(cart\)"):
            await (await engine.start(adds)).result()
        assert await (await engine.start(reads)).result() == 2


@step
def look_in(login: Login, day: dt.date, lock: Any) -> bool:
    return bool(login.password.get_secret_value()) and lock is not None


async def test_an_argument_that_a_step_changes_before_it_fails_is_noticed(store: str) -> None:
    @step(retry=1)
    def takes(rows: list[int]) -> None:
        rows.pop()
        raise ValueError("no more")

    @flow
    async def goes_on(ctx: Context) -> int:
        rows = [3, 1]
        try:
            await takes(rows)
        except ValueError:
            pass
        return await only_reads(Order(id=ID), rows, "n")

    async with opened(store) as engine:
        words = r"'takes' changed its argument 1 \(rows\)\. .* It raised ValueError: no more"
        with pytest.raises(RunFailed, match=words):
            await (await engine.start(goes_on)).result()


async def test_arguments_count_as_they_did_in_earlier_versions(store: str) -> None:
    """A history in flight goes on: what was asked for is known by the digest of these."""
    seen: list[str] = []

    @flow
    async def handle(ctx: Context) -> bool:
        return await look_in(Login(password=SecretStr("p")), DAY, threading.Lock())

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result()
        seen = [each.args_hash for each in await events_of(run, ev.ValueRecorded) if each.kind == FUNCTION]
    assert seen == [digest({"login": {"password": "**********"}, "day": '"2026-03-04"', "lock": "<_thread.lock>"})]


async def test_a_call_that_does_not_fit_says_which_step_it_was(store: str) -> None:
    @flow
    async def too_many(ctx: Context) -> Any:
        return await sort([1], 2, 3)  # type: ignore[call-arg]

    @flow
    async def of_an_effect(ctx: Context) -> Any:
        return await effect()  # type: ignore[call-arg]

    async with opened(store) as engine:
        words = r"Call the step as sort\(rows: 'list\[int\]', limit: 'int' = 3\): too many positional arguments"
        with pytest.raises(RunFailed, match=words):
            await (await engine.start(too_many)).result()
        with pytest.raises(RunFailed, match=r"Call the step as effect\(number: .*\): missing a required argument: 'number'"):
            await (await engine.start(of_an_effect)).result()


# --- Words ---------------------------------------------------------------------------------------------------------------


def of(package: str, name: str, *bases: type) -> Any:
    """A value of a class of that name of a package that is not installed everywhere."""
    return type(name, bases, {"__module__": f"{package}.core"})()


class Mapped:
    __mapper__ = __table__ = None


def itself() -> list[Any]:
    made: list[Any] = []
    made.append({"in": made})
    return made


OUTER = asyncio.new_event_loop()
OUTER.close()
WORDS: list[tuple[Any, str]] = [
    (of("numpy", "float64", type(of("numpy", "generic"))), "Use .item()"),
    (of("numpy", "ndarray"), "Use .tolist()"),
    (of("pandas", "DataFrame"), 'Use .to_dict("records")'),
    (of("pandas", "Series"), "Use .tolist()"),
    (of("pandas", "NaTType"), "Use None"),
    (of("sqlalchemy", "Row"), "Use dict(row._mapping)"),
    (Mapped(), "Use a dict of the columns that you need"),
    (float("nan"), "is nan, which does not exist in JSON. Use None"),
    (Path("a"), "Use os.fspath(...)"),
    (ipaddress.IPv4Address("10.0.0.1"), "Use str(...)"),
    (fractions.Fraction(1, 3), "Use str(...)"),
    (collections.deque([1]), "Use list(...)"),
    (range(3), "Use list(...)"),
    ((each for each in ()), "Use list(...)"),
    (named, "Use its name"),
    (Order, "Use its name"),
    (ValueError("no"), "Use str(...)"),
    (re.compile("a"), "Use its .pattern"),
    (OUTER.create_future(), "Write `await` before the call that returned it"),
    (1j, "Use [z.real, z.imag]"),
    (object(), "Use a dict, a Pydantic model or a dataclass of the data that you need"),
    (itself(), "contains itself. Remove the reference"),
    (
        ID,
        "Use str(...), or declare the type, as a field of a Pydantic model or a dataclass or in the type hint of the function",
    ),
]


@pytest.mark.parametrize(("value", "words"), WORDS, ids=lambda each: named(type(each)))
def test_what_cannot_be_kept_without_a_hint_is_refused_with_what_to_give_instead(value: Any, words: str) -> None:
    for given, where in ((value, "the value"), ({"rows": [value]}, "the value['rows'][0]")):
        with pytest.raises(InvalidInput, match=re.escape(words)) as refused:
            encode(given, is_kept=True)
        assert where in refused.value.message.partition(". ")[0] or "contains itself" in words
