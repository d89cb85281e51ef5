"""Events and streams. Never here: printing, who may see it."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NotRequired, TypedDict, cast, get_args, get_origin

import msgspec

from holdfast.core.facts import streams
from holdfast.core.facts.events import AnyEvent, Recorded
from holdfast.core.nouns.shared_values import SharedConflict
from holdfast.core.values import actor
from holdfast.core.values.payload import Payload, inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.ports import LogPiece, TailEvent
    from holdfast.service.control.control import Control


SHOWN_AS: Final[dict[str, dict[str, str]]] = {
    "RunForked": {"seq": "origin_seq"},
    "ChildRequested": {"workflow": "child_workflow"},
    "ChildAwaited": {"workflow": "child_workflow"},
    "ChildUndone": {"workflow": "child_workflow"},
}
"""The fields of events that are called as something of the record is: beside it they have another name."""


class EventRow(TypedDict):
    """An event of a run. Besides these keys it has the fields of its type, as the reference of events lists them."""

    seq: Annotated[int, doc("Its number in the run; the first event has 1.")]
    at: Annotated[Time, doc("Time of the event, by the store's clock.")]
    type: Annotated[str, doc("Its type, which says which fields it has.")]
    trace_id: Annotated[str | None, doc("The trace of the request that caused it.")]
    verified: NotRequired[Annotated[bool, doc("True if `by` is the name of the token or key; otherwise the caller claims it.")]]


class TailRow(EventRow):
    """An event of any run."""

    run_id: field.RunId
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    cursor: Annotated[str, doc("Give it to continue after this event.")]


class StreamRow(TypedDict):
    """A piece of a run's streams: the text of a model call, or a value that user code wrote."""

    run_id: field.RunId
    stream: Annotated[str, doc("The name of the stream.")]
    kind: Annotated[streams.Kind, doc("`reset` takes back what its source has sent so far; `end` ends it.")]
    source: Annotated[str, doc("The call that writes it, `draft#1:0:1`, or the stream's name.")]
    offset: Annotated[int, doc("The number of its first character, or of the value.")]
    text: NotRequired[Annotated[str, doc("The text, from `offset` on.")]]
    value: NotRequired[Annotated[Any, doc("The value that user code wrote.")]]
    outcome: NotRequired[Annotated[streams.Outcome, doc("Status with which the source ended, or the tool call that it shows.")]]
    cursor: Annotated[str, doc("Give it to continue after this piece.")]


class LogRow(TypedDict):
    """A piece of the output of a job."""

    job: Annotated[str, doc("The job, with its combination: `greet (Ada)`.")]
    attempt: Annotated[int, doc("Number of the attempt that printed it; the first has 1.")]
    first_byte: Annotated[int, doc("Number of bytes of the attempt before this piece.")]
    bytes: Annotated[int, doc("The length of the piece in bytes.")]
    written_at: Annotated[Time, doc("Time at which it was stored.")]
    text: NotRequired[Annotated[str, doc("The output, if it was asked for; bytes that are no UTF-8 are replaced.")]]


def of_event(recorded: Recorded) -> EventRow:
    """An event in its place: what it says about the run, under the names of its fields. None of these hides what is said of the
    place."""
    kind = type(recorded.event).__name__
    place = {"seq": recorded.seq, "at": iso(recorded.at_ms), "type": kind, "trace_id": recorded.trace_id}
    told, others = facts(recorded.event), SHOWN_AS.get(kind, {})
    row = {
        **place,
        **told,
        **{shown: told[name] for name, shown in others.items()},
        **place,  # it comes first, and nothing of the event hides it
        **({"verified": is_verified(recorded.event)} if getattr(recorded.event, "by", None) is not None else {}),
    }
    return cast("EventRow", row)  # with fields of its own


async def of_whole_event(control: Control, recorded: Recorded, tenant: str) -> EventRow:
    """An event with the payloads that live in blobs."""
    large = [each for each in _payloads(recorded.event) if each.blob is not None]
    values = {each.blob: await control.payloads.value(each, tenant) for each in large}
    return cast("EventRow", _with_blobs(of_event(recorded), values))


def _payloads(value: Any) -> Iterator[Payload]:
    if isinstance(value, Payload):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _payloads(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _payloads(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _payloads(inner)


def _with_blobs(row: Any, values: Mapping[str | None, Any]) -> Any:
    """Put the values of blobs where their names are."""
    if isinstance(row, dict):
        if row.keys() == _BLOB and row["blob"] in values:
            return values[row["blob"]]
        return {key: _with_blobs(inner, values) for key, inner in row.items()}
    return [_with_blobs(inner, values) for inner in row] if isinstance(row, list) else row


def of_tail(tailed: TailEvent, workflow: str) -> TailRow:
    """An event of any run, with which run it is of."""
    place = {"run_id": tailed.run, "workflow": workflow, "cursor": tailed.cursor}
    return cast("TailRow", {**place, **of_event(tailed.recorded), **place})


def recorded_of(event: dict[str, Any]) -> Recorded:
    """The event that `of_event` has shown; what it says of payloads in blobs is lost. Raises KeyError for one that this version
    does not know."""
    at_ms = round(datetime.datetime.fromisoformat(event["at"]).timestamp() * 1000)
    return Recorded(event["seq"], at_ms, _decode_struct(_EVENTS[event["type"]], event))


def of_told(event: streams.StreamEvent) -> StreamRow:
    """Return the row of a stream event; it has only the keys of its kind."""
    found: StreamRow = {
        "run_id": event.run,
        "stream": event.stream,
        "kind": event.kind,
        "source": event.source,
        "offset": event.offset,
        "cursor": event.cursor,
    }
    if event.text or event.kind == "result":
        found["text"] = event.text
    elif event.kind == "value":
        found["value"] = event.value
    if event.outcome is not None:
        found["outcome"] = event.outcome
    return found


def of_log(piece: LogPiece, text: bytes | None = None) -> LogRow:
    """Return the row of a job's output from a byte on, as text; bytes that are no text are shown as such."""
    found: LogRow = {
        "job": piece.place.job,
        "attempt": piece.place.attempt,
        "first_byte": piece.place.first,
        "bytes": piece.bytes,
        "written_at": iso(piece.written_at_ms),
    }
    if text is not None:
        found["text"] = text.decode(errors="replace")
    return found


def facts(event: msgspec.Struct) -> dict[str, Any]:
    """An event's fields as plain data. A payload is its value, or names the blob that holds it."""
    return {name: _plain(getattr(event, name)) for name in event.__struct_fields__}


def news(event: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event that say more than their default does."""
    usual = {field.name: field.default for field in msgspec.structs.fields(_EVENTS[event["type"]])}
    shown = {name: event[_key(event, name)] for name in usual}
    return {name: value for name, value in shown.items() if value not in (usual[name], [], {})}


def _key(event: dict[str, Any], name: str) -> str:
    """Return under what a field stands in what `of_event` shows; older versions had no other names."""
    shown = SHOWN_AS.get(event["type"], {}).get(name, name)
    return shown if shown in event else name


def is_verified(event: Any) -> bool:
    """Return True if the name of the actor is verified; any other is a claim."""
    return actor.is_verified(event.by, getattr(event, "client", ""))


_BLOB: Final = {"blob", "size_bytes", "month"}
"""The keys under which a list shows a payload that is too large for it."""
_PLAIN: Final = frozenset({str, int, float, bool})
_EVENTS: Final = {kind.__name__: kind for kind in get_args(AnyEvent)}


class _Field(NamedTuple):
    """A field of an event, as rows have it."""

    name: str
    shown: str
    kind: Any
    has_payload: bool


@functools.cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[_Field, ...]:
    """The fields of a type: what msgspec finds out about them takes longer than an event."""
    others = SHOWN_AS.get(kind.__name__, {})
    return tuple(
        _Field(each.name, others.get(each.name, each.name), each.type, _has_payload(each.type))
        for each in msgspec.structs.fields(kind)
    )


def _has_payload(kind: Any) -> bool:
    return kind in (Payload, SharedConflict) or Payload in get_args(kind)


def _decode_struct(kind: Any, row: dict[str, Any]) -> Any:
    found: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for each in _fields_of(kind):
        name = each.shown if each.shown in row else each.name  # older versions had no other names
        if name in row:
            (values if each.has_payload else found)[each.name] = row[name]
    if not values:
        return msgspec.convert(found, kind)
    kinds = {each.name: each.kind for each in _fields_of(kind)}
    plain = {name: msgspec.convert(value, kinds[name]) for name, value in found.items()}
    return kind(**plain, **{name: _of_plain(value, kinds[name]) for name, value in values.items()})


def _of_plain(value: Any, kind: Any) -> Any:
    if kind is SharedConflict:
        return _decode_struct(kind, value)
    if kind is not Payload and value is None:
        return None
    if get_origin(kind) is dict:
        return {name: inline(each) for name, each in value.items()}
    return tuple(map(inline, value)) if get_origin(kind) is tuple else inline(value)


def _plain(value: Any) -> Any:
    if value is None or type(value) in _PLAIN:
        return value
    if isinstance(value, SharedConflict):  # its values are payloads, which are not plain
        return facts(value)
    if isinstance(value, Payload):
        if value.blob is None:
            return value.value()
        return {"blob": value.blob, "size_bytes": value.size_bytes, "month": value.month}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, ErrorRecord) and value.exception is not None:  # whose data is a payload
        plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(value, exception=None))
        return plain | {"exception": {name: _plain(getattr(value.exception, name)) for name in ("module", "name", "data")}}
    return msgspec.to_builtins(value)
