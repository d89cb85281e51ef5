"""Records of runs in a file, one a line: written from a store, read back for a replay.

Never here: what is taken out of them (redaction), what they are answered from (record).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.authoring.values.input_schema import as_enforced
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.facts.graph import Definition
from holdfast.core.values.ids import Seq
from holdfast.core.values.payload import Payload
from holdfast.core.views.projection import RunRow
from holdfast.errors import NotFound, NotPermitted, UsageError
from holdfast.evaluation.record import RunRecord
from holdfast.evaluation.redaction import Redaction
from holdfast.evaluation.rewriting import rewrite
from holdfast.service.control.control import Control
from holdfast.service.declarations.command import ExportRun
from holdfast.settings import Settings

FORMAT: Final = 1
_ENDED: Final = ("completed", "failed", "cancelled")
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024
"""Of one line."""
MAX_RECORDS: Final = 10_000


class _Event(msgspec.Struct, frozen=True):
    seq: Seq
    at_ms: int
    event: msgspec.Raw


class _Line(msgspec.Struct, frozen=True):
    """One record. The format is a number that rises where an older reader would read it wrongly."""

    holdfast_record: int
    redacted: bool
    definition: Definition
    events: list[_Event]


def expect_permitted(settings: Settings, *, is_whole: bool) -> None:
    """Raises NotPermitted where the settings do not let such records leave the store."""
    if settings.exports == "none" or (is_whole and settings.exports != "whole"):
        wanted = "whole" if is_whole else "redacted"
        raise NotPermitted(
            f"The settings let {'no' if settings.exports == 'none' else 'only redacted'} records of runs leave the store"
            f" (exports = {settings.exports!r}). Nothing was written: who answers for its data sets exports = {wanted!r}"
            " in holdfast.toml, or HOLDFAST_EXPORTS."
        )


class _Read(NamedTuple):
    """The parts from which the record of a run is made."""

    definition: Definition
    input_schema: dict[str, Any] | None
    history: Sequence[Recorded]
    contents: Mapping[str, bytes]
    """Its large payloads, by their hashes."""

    def record(self, redaction: Redaction | None) -> RunRecord:
        events = [msgspec.structs.replace(each, event=rewrite(each.event, self._with_payload)) for each in self.history]
        if redaction is not None:
            redaction.learn(each.event for each in events)
            events = [msgspec.structs.replace(each, event=redaction.of(each.event)) for each in events]
        definition = self.definition if redaction is None else redaction.of_definition(self.definition)
        record = RunRecord(definition, tuple(events), redaction is not None)
        if redaction is not None and self.input_schema is not None:
            _expect_input_fits(record, self.input_schema)
        return record

    def _with_payload(self, name: str, value: Any) -> Any:
        if isinstance(value, Payload) and value.blob is not None:
            return Payload(json=msgspec.Raw(self.contents[value.blob]))
        return value

    def line(self, redaction: Redaction | None) -> bytes:
        return line(self.record(redaction))


async def recorded(control: Control, run_id: str, redaction: Redaction | None) -> RunRecord:
    """Return the record of an ended run, with its large payloads.

    Args:
        control: The engine.
        run_id: Id of the run.
        redaction: Rules of what is replaced; None keeps everything.

    Raises:
        NotFound: The run does not exist.
        BlobLost: A large payload is missing.
        UsageError: The run has not ended.
    """
    return (await _load(control, run_id)).record(redaction)


async def exported(settings: Settings, control: Control, command: ExportRun) -> Callable[[], bytes]:
    """Return a function that makes the record of a run in a thread, for a caller from outside, as the settings permit. A value
    has the same replacement in this record only. Raises NotPermitted and the errors of `recorded`; the returned function raises
    those of `line`."""
    expect_permitted(settings, is_whole=command.whole)
    if command.whole and command.redact:
        raise UsageError("redact takes out what whole leaves in; say one of them. Nothing was exported.")
    return partial((await _load(control, command.run)).line, None if command.whole else Redaction(command.redact))


async def _load(control: Control, run_id: str) -> _Read:
    row = await control.find(run_id)
    if row.status not in _ENDED:
        raise UsageError(f"Run {run_id} is {row.status}; a record is of a run that has ended. Nothing was written.")
    history = await control.store.log.events(row.run)
    large: list[Payload] = []
    for each in history:
        rewrite(each.event, lambda name, value: _collect_large(value, large))
    contents = await control.payloads.fetch(large, row.tenant)
    definition = (await control.graph_of(row.graph_hash)).definition
    return _Read(definition, await _input_schema(control, row), history, contents)


async def _input_schema(control: Control, row: RunRow) -> dict[str, Any] | None:
    """Return the JSON Schema of what a run of this code starts with; None where anything fits, or other code is loaded."""
    try:
        known = await control.workflow(row.workflow, row.version, tenant=row.tenant)
    except NotFound:
        return None
    return as_enforced(known.input_schema) if known.hash == row.graph_hash else None


def _expect_input_fits(record: RunRecord, schema: dict[str, Any]) -> None:
    """Raise UsageError where a replay could not start with what is left of the input."""
    from holdfast.core.values import schema as schemas  # noqa: PLC0415 - the validator takes 30 ms to load

    try:
        problems = schemas.problems(schema, record.began.input.value(), "input", formats=True)
    except schemas.TooMuch as problem:
        raise UsageError(f"The input of run {record.run} cannot be held against its schema: {problem}.") from None
    if problems:
        raise UsageError(
            f"Without personal data the input of run {record.run} does not fit its workflow's schema any more:"
            f" {'; '.join(problems)}. Nothing was written: leave such fields out of what is redacted, or choose other runs."
        )


def _collect_large(value: Any, large: list[Payload]) -> Any:
    if isinstance(value, Payload) and value.blob is not None:
        large.append(value)
    return value


def line(record: RunRecord) -> bytes:
    """A record as a line of a file. Raises UsageError for one that is too large."""
    events = [_Event(each.seq, each.at_ms, msgspec.Raw(ev.encode(each.event))) for each in record.events]
    encoded = msgspec.json.encode(_Line(FORMAT, record.redacted, record.definition, events))
    if len(encoded) > MAX_RECORD_BYTES:
        raise UsageError(
            f"The record of run {record.run} has {len(encoded):,} bytes, and one has at most {MAX_RECORD_BYTES:,}."
        )
    return encoded + b"\n"


def load_records(file: str | Path) -> list[RunRecord]:
    """Return the records of a file that `holdfast runs export` wrote.

    Args:
        file: Path of the file.

    Raises:
        UsageError: The file cannot be read, or is not such a file.
    """
    try:
        with Path(file).open("rb") as opened:
            return list(read(opened, str(file)))
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}. Nothing was replayed.") from None


def read(lines: Iterable[bytes], name: str) -> Iterator[RunRecord]:
    """The records in the lines of the file `name`. Raises UsageError."""
    for number, each in enumerate(lines, 1):
        if number > MAX_RECORDS:
            raise UsageError(f"{name} has more than {MAX_RECORDS:,} records. Split it.")
        if each.strip():
            yield _record(each, f"{name}, line {number}")


def _record(encoded: bytes, file: str) -> RunRecord:
    try:
        if len(encoded) > MAX_RECORD_BYTES:
            raise UsageError(f"{file}: this record is larger than {MAX_RECORD_BYTES:,} bytes.")
        found = msgspec.json.decode(encoded, type=_Line)
        if found.holdfast_record != FORMAT:
            raise UsageError(f"{file}: this is a record of format {found.holdfast_record}, and only {FORMAT} is known.")
        events = tuple(Recorded(each.seq, each.at_ms, ev.decode(bytes(each.event))) for each in found.events)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UsageError(f"{file}: this is no record of a run ({str(problem)[:200]}).") from None
    if not events or not isinstance(events[0].event, ev.RunStarted):
        raise UsageError(f"{file}: a record begins with the start of its run, and this does not.")
    return RunRecord(found.definition, events, found.redacted)
