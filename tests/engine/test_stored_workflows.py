"""Workflows of which a process knows what the store says: it lists them, holds an input against their schema and starts runs."""

from __future__ import annotations

import datetime
import enum
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from annotated_types import Ge
from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from holdfast import Engine, Workflow
from holdfast.authoring.values.plain import encode
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import InvalidInput, KeyReused, NotFound, UsageError
from holdfast.ports import WorkflowRecord
from tests.engine.kit import bounded, opened


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Style(BaseModel):
    colour: Colour = Colour.RED
    width: float = 1
    tags: list[str] = Field(default_factory=list)


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    first_name: str
    last_style: Style = Style(width=3)


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str
    lives: int = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    item: str = "x"


class Tree(BaseModel):
    value: int = 0
    left: Tree | None = None
    right: Tree | None = None


class Order(BaseModel):
    item: str
    count: Annotated[int, Ge(1)] = 1
    price: float | None = None
    style: Style = Style(colour=Colour.BLUE)
    other: Style = Field(default_factory=Style)
    styles: list[Style] = []
    by_name: dict[str, Style] = {}
    pair: tuple[Style, int] | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat()
    either: Cat | Dog | str = "none"
    due: datetime.date | None = None
    at: datetime.datetime | None = None
    within: datetime.timedelta = datetime.timedelta(hours=1)
    id: uuid.UUID | None = None
    anything: Any = None


class Names(RootModel[list[Camel]]):
    pass


class Nothing(BaseModel):
    pass


def flow(model: type[BaseModel] | None, version: int = 1) -> Workflow:
    wf = Workflow("flow", input=model, version=version)

    @wf.node("echo")
    async def echo(state):  # type: ignore[no-untyped-def]
        return state.input

    return wf


def stored(workflow: Workflow) -> StoredWorkflow:
    schema = None if workflow.input_schema is None else msgspec.json.encode(workflow.input_schema)
    return StoredWorkflow.of(WorkflowRecord(workflow.name, workflow.version, workflow.hash, schema), workflow.graph)


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (None, None),
        (None, {"free": [1, 2.5]}),
        (Nothing, None),
        (Nothing, {"more": 1}),
        (Order, {"item": "pen"}),
        (Order, {"count": 2, "item": "pen", "nobody": "asks for this", "price": 3}),
        (Order, {"item": "pen", "price": None, "style": {}, "styles": [{}, {"width": 2, "more": 1}]}),
        (Order, {"item": "pen", "by_name": {"a": {"colour": "blue"}, "b": {}}, "pair": [{}, 3]}),
        (Order, {"item": "pen", "pet": {"kind": "dog", "name": "Rex"}, "either": {"name": "Rex", "kind": "dog"}}),
        (Order, {"item": "pen", "either": {"lives": 7}, "anything": {"style": {}}}),
        (Order, {"item": "pen", "due": "2026-11-22", "at": "2026-11-22 10:00:00+00:00", "within": "PT90M"}),
        (Order, {"item": "pen", "at": "2026-11-22T10:00:00.500", "id": "12345678123456781234567812345678"}),
        (Camel, {"firstName": "Ada"}),
        (Camel, {"firstName": "Ada", "lastStyle": {"width": 2}, "last_style": "not asked for"}),
        (Names, [{"firstName": "Ada"}]),
        (Open, {"more": {"a": 1}, "item": "y"}),
        (Tree, {"left": {"value": 1, "right": {"left": None}}}),
    ],
)
def test_an_input_becomes_what_the_code_would_make_of_it(model: type[BaseModel] | None, given: Any) -> None:
    """To the last character: a start key tells two inputs apart by that."""
    workflow = flow(model)
    assert encode(stored(workflow).validated_input(given)) == encode(workflow.validated_input(given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "'item' is a required property"),
        ({"item": 3}, "item: 3 is not of type 'string'"),
        ({"item": "pen", "count": 0}, "count: 0 is less than the minimum of 1"),
        ({"item": "pen", "styles": [{"colour": "green"}]}, "styles.0.colour: 'green' is not one of"),
        ({"item": "pen", "due": "tomorrow"}, "due: 'tomorrow' is not valid under any of the given schemas"),
        ([1], r"value: \[1\] is not of type 'object'"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_in_the_words_of_the_code(given: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"The input does not fit Order of workflow 'flow': .*{words}.*No run was started."):
        stored(flow(Order)).validated_input(given)
    with pytest.raises(InvalidInput, match=r"The input does not fit Order of workflow .flow.: .*No run was started\."):
        flow(Order).validated_input(given)


@pytest.mark.parametrize("of", [stored, lambda workflow: workflow])
def test_what_does_not_fit_is_named_by_its_place_with_the_code_and_without(of: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        of(flow(Order)).validated_input({"styles": [{"width": "broad"}]})
    assert refused.value.field == "input"
    assert {"/".join(map(str, each.path)) for each in refused.value.misfits} == {"item", "styles/0/width"}


def test_what_a_schema_cannot_fill_in_has_to_be_given() -> None:
    class Ticket(BaseModel):
        id: uuid.UUID = Field(default_factory=uuid.uuid4)
        made: Style = Field(default_factory=lambda: Style(width=2))

    workflow = flow(Ticket)
    assert workflow.input_schema is not None
    assert workflow.input_schema["required"] == ["id", "made"]
    with pytest.raises(InvalidInput, match="'id' is a required property"):
        stored(workflow).validated_input({})
    given = {"id": str(uuid.UUID(int=1)), "made": {}}
    assert stored(workflow).validated_input(given) == workflow.validated_input(given)


def test_a_large_input_is_looked_at_and_one_without_end_is_not() -> None:
    many = stored(flow(Order))
    assert len(many.validated_input({"item": "pen", "styles": [{}] * 1_000})["styles"]) == 1_000
    with pytest.raises(InvalidInput, match=r"cannot be held against its schema: it is too large.*No run was started"):
        many.validated_input({"item": "pen", "styles": [{"width": 1}] * 20_000})
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"left": deep}
    with pytest.raises(InvalidInput, match="cannot be held against its schema"):
        stored(flow(Tree)).validated_input(deep)


@bounded
async def test_a_process_without_the_code_starts_what_another_has_loaded(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'holdfast.db'}"
    async with opened(store, execute=False) as client:
        with pytest.raises(NotFound, match="no workflow 'flow' in this store"):
            await client.start("flow")
        async with opened(store, workflows=[flow(Order), flow(Camel, 2)]) as worker:
            assert [(each.name, each.version) for each in await client.workflows()] == [("flow", 2), ("flow", 1)]
            known = await client.workflow("flow", 1)
            assert (known.hash, known.input_schema) == (flow(Order).hash, flow(Order).input_schema)
            assert await client.workers_of(known) == 1

            ordered = await client.start("flow", {"item": "pen"}, version=1, key="once")
            assert await ordered.result() == flow(Order).validated_input({"item": "pen"})
            named = await client.start("flow", {"firstName": "Ada"})
            assert (await named.result())["first_name"] == "Ada"
            assert (await (await client.start(known, {"item": "cup"})).result())["item"] == "cup"
            with pytest.raises(InvalidInput, match="No run was started"):
                await client.start("flow", {"item": "pen"})
            with pytest.raises(UsageError, match="goes with a workflow's name"):
                await client.start(known, {"item": "pen"}, version=1)
            # The same key with the same input is the same run, whoever knows the code.
            assert (await worker.start(flow(Order), {"item": "pen"}, key="once")).id == ordered.id
            assert (await worker.start("flow", {"item": "pen"}, version=1, key="once")).id == ordered.id
            with pytest.raises(KeyReused):
                await client.start("flow", {"item": "ink"}, version=1, key="once")
        assert len(await client.runs()) == 3


@bounded
async def test_a_name_means_what_was_loaded_last_and_the_code_fills_in_where_it_is(tmp_path: Path) -> None:
    class Made(BaseModel):
        id: str = Field(default_factory=lambda: "made up")

    store = f"sqlite:///{tmp_path / 'holdfast.db'}"
    async with opened(store, workflows=[flow(Made)]) as engine:
        assert await (await engine.start("flow")).result() == {"id": "made up"}
        newer = flow(None)

        @newer.node("more")
        async def more(state):  # type: ignore[no-untyped-def]
            return state.input

        newer.edge("echo", "more")
        async with Engine.open(store, workflows=[newer], execute=False):
            pass
        run = await engine.start("flow", {"id": "newer"})
        assert (await run.state()).graph_hash == newer.hash
        assert await run.status() == "running"  # nobody has its code
