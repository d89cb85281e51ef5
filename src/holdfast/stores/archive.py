"""An archived run as one object: its history and its lines of the ledger, as JSON lines under gzip.

`zcat` shows it to people. Events are kept byte for byte, so whatever was hashed of them still has its hash. gzip, because
histories are small texts: on those of tests/golden it takes 21 % of the size, xz 22 % and twenty times the time.

Never here: where archives are, or when a run may be archived.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.core.values.ids import CallId, RunId
from holdfast.errors import CorruptHistory, NotFound
from holdfast.stores.row import Row

FORMAT: Final = "holdfast-run/1"
NO_RESPONSE: Final = msgspec.Raw(b"null")
_LEVEL: Final = 6


class Head(msgspec.Struct, frozen=True):
    """The first line. `sha256` is that of all that follows."""

    format: str
    run: RunId
    tenant: str
    events: int
    effects: int
    sha256: str


class EventLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event as the store had it."""

    seq: int
    at_ms: int
    append_id: str
    type: str
    event: msgspec.Raw
    trace_id: str | None = None


class EffectLine(msgspec.Struct, frozen=True):
    """A line of the ledger with the latest that became of it."""

    call: str
    step: str
    tool: str
    policy: str
    effect_key: str
    request: msgspec.Raw
    intended_at_ms: int
    state: str
    updated_at_ms: int | None
    response: msgspec.Raw
    """The JSON null for none."""
    error: str | None
    resolved_by: str | None


class Archive(msgspec.Struct, frozen=True):
    """The content of one archived run."""

    run: RunId
    tenant: str
    events: tuple[EventLine, ...]
    effects: tuple[EffectLine, ...]

    def rows(self, after: int, most: int | None) -> list[Row]:
        """Events after a seq, as a store reads them: (seq, at_ms, payload, trace id)."""
        end = None if most is None else after + most
        return [(line.seq, line.at_ms, bytes(line.event), line.trace_id) for line in self.events[after:end]]

    def ledger(self, state: str | None, after: CallId | None, limit: int) -> list[Row]:
        """The ledger as rows of a store (see holdfast.stores.row.effect_of): at most `limit`, all or those of one state, after
        the line of the call `after`. Raises NotFound where there is none of that call."""
        calls = [line.call for line in self.effects]
        if after is not None and after not in calls:
            raise no_line(after)
        first = 0 if after is None else calls.index(after) + 1
        return [
            (
                line.call,
                self.run,
                line.step,
                line.tool,
                line.policy,
                line.effect_key,
                bytes(line.request),
                line.intended_at_ms,
                line.call,
                line.state,
                line.updated_at_ms,
                None if line.response == NO_RESPONSE else bytes(line.response),
                line.error,
                line.resolved_by,
            )
            for line in self.effects[first:]
            if state is None or line.state == state
        ][:limit]


def no_line(call: CallId) -> NotFound:
    """Return the error for a list that is to go on after a call that is not in the ledger."""
    return NotFound(
        f"There is no call {call} in the ledger to go on after: its run may have been archived meanwhile. List again from"
        " the beginning, or list the run's own calls."
    )


_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(Head).decode
_decode_event = msgspec.json.Decoder(EventLine).decode
_decode_effect = msgspec.json.Decoder(EffectLine).decode


def pack(run: RunId, tenant: str, events: Sequence[EventLine], effects: Sequence[EffectLine]) -> bytes:
    """The object. The same run is always the same bytes, so an archiver that was killed may do it again."""
    body = b"".join(_encode(line) + b"\n" for line in (*events, *effects))
    head = Head(FORMAT, run, tenant, len(events), len(effects), hashlib.sha256(body).hexdigest())
    return gzip.compress(_encode(head) + b"\n" + body, _LEVEL, mtime=0)


def unpack(run: RunId, packed: bytes) -> Archive:
    """Raises CorruptHistory for what is not the whole archive of `run`."""
    try:
        first, _, body = gzip.decompress(packed).partition(b"\n")
        head = _decode_head(first)
        lines = body.split(b"\n")[:-1]
        if (head.format, head.run, head.sha256) != (FORMAT, run, hashlib.sha256(body).hexdigest()):
            raise _damaged(run, f"it says {head.format} of run {head.run}, or its lines are not those it was made of")
        events = tuple(_decode_event(line) for line in lines[: head.events])
        effects = tuple(_decode_effect(line) for line in lines[head.events :])
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as problem:
        raise _damaged(run, problem) from problem
    if [line.seq for line in events] != list(range(1, head.events + 1)) or len(effects) != head.effects:
        raise _damaged(run, "some of its lines are missing")
    return Archive(run, head.tenant, events, effects)


def _damaged(run: RunId, reason: object) -> CorruptHistory:
    return CorruptHistory(
        f"The archive of run {run} is damaged ({reason}). Other runs are not affected; restore its blob from a backup.", run=run
    )
