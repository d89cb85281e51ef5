"""Events are stored under their own names, survive it, and old ones still decode."""

from __future__ import annotations

import types
import typing

import msgspec
import pytest

from holdfast.core.evolve import FOLDS
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import CallId, GateId, NodeName, Path, RunId, SessionId, StepId
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import RetryPolicy
from tests.core.game import NULL, TRANSIENT, ev

EVENTS: tuple[type[ev.Event], ...] = typing.get_args(ev.AnyEvent)


def test_every_event_is_folded_and_stored_under_its_own_name() -> None:
    assert set(EVENTS) == {cls for cls in vars(ev).values() if isinstance(cls, type) and issubclass(cls, ev.Event)} - {ev.Event}
    assert set(FOLDS) == set(EVENTS)


EXAMPLES: dict[type, object] = {
    str: "x",
    int: 7,
    bool: True,
    float: 1.5,
    typing.Any: {"any": ["thing"]},
    StepId: StepId("a#1"),
    Path: Path("0"),
    CallId: CallId("r:a#1:0:1"),
    GateId: GateId("r:a#1:0"),
    NodeName: NodeName("a"),
    SessionId: SessionId("s"),
}


EXAMPLES |= {
    type(TRANSIENT): TRANSIENT,
    ev.Hold: ev.Hold(7, 7, in_doubt=True),
    RetryPolicy: RetryPolicy(max_attempts=7),
    ev.Parent: ev.Parent(RunId("parent"), StepId("node#1"), Path("0"), RunId("root"), 2),
    Demand: Demand(labels=("gpu",), pools={"pool": 5}),
    type(NULL): inline({"x": 1}),
    bytes: b"\xff",
}


def example(of: object) -> object:
    """A value of a field's type."""
    if of in EXAMPLES:
        return EXAMPLES[of]
    if typing.get_origin(of) in (typing.Union, types.UnionType):
        return example(typing.get_args(of)[0])
    if typing.get_origin(of) is tuple:
        return (example(typing.get_args(of)[0]),)
    if typing.get_origin(of) is typing.Literal:
        return typing.get_args(of)[0]
    if typing.get_origin(of) is dict:
        return {"key": example(typing.get_args(of)[1])}
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        hints = typing.get_type_hints(of)
        return of(**{field: example(hints[field]) for field in of.__struct_fields__})
    return example(of.__supertype__)  # another NewType


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_survives_being_stored(kind: type[ev.Event]) -> None:
    hints = typing.get_type_hints(kind)
    event = kind(**{field: example(hints[field]) for field in kind.__struct_fields__})
    assert ev.decode(ev.encode(event)) == event


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_of_an_older_version_still_decodes(kind: type[ev.Event]) -> None:
    """What a later version added has a default: an old history lacks it."""
    hints = typing.get_type_hints(kind)
    required = {field.name: example(hints[field.name]) for field in msgspec.structs.fields(kind) if field.required}
    assert ev.decode(msgspec.json.encode({"type": kind.__name__, **required})) == kind(**required)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"type":"NoSuchThing"}', b'{"type":"StepReady"}', b'{"type":"StepReady","step":5}']
)
def test_what_is_no_event_does_not_decode(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        ev.decode(data)
