"""Events, streams, and who acted. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.claim import Claim
from holdfast.core.payload import Payload
from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.core.events import Event, Recorded
    from holdfast.core.streams import Told


def of_event(recorded: Recorded) -> dict[str, Any]:
    """An event in its place: what it says about the run, under the names of its fields."""
    return {
        "seq": recorded.seq,
        "at": iso(recorded.at_ms),
        "type": type(recorded.event).__name__,
        "trace_id": recorded.trace_id,
        **facts(recorded.event),
        **({"verified": False} if getattr(recorded.event, "by", None) is not None else {}),
    }


def of_told(told: Told) -> dict[str, Any]:
    """What is told of a stream of a run: only what its kind has."""
    found: dict[str, Any] = {
        "run_id": told.run, "stream": told.stream, "kind": told.kind, "source": told.source, "offset": told.offset,
    }  # fmt: skip
    if told.text:
        found["text"] = told.text
    elif told.kind == "value":
        found["value"] = told.value
    elif told.kind == "end":
        found["outcome"] = told.outcome
    return {**found, "cursor": told.cursor}


def facts(event: Event) -> dict[str, Any]:
    """An event's fields as plain data. A payload is its value, or names the blob that holds it."""
    return {name: _plain(getattr(event, name)) for name in event.__struct_fields__}


def news(event: Event) -> dict[str, Any]:
    """The same without the fields that say no more than their default does."""
    usual = {field.name: field.default for field in msgspec.structs.fields(event)}
    return {name: value for name, value in facts(event).items() if value not in (usual[name], [], {})}


def by_whom(event: Any) -> Claim:
    """Who acted, of an event or a state that has `by`."""
    return Claim(event.by, event.os_user, event.client)


def _plain(value: Any) -> Any:
    if isinstance(value, Payload):
        if value.blob is None:
            return value.value()
        return {"blob": value.blob, "size_bytes": value.size_bytes, "month": value.month}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return msgspec.to_builtins(value)
