"""`holdfast runs export`: records of runs, to be replayed where their store is not. Never here: what is in a record."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from holdfast.cli import bulk
from holdfast.cli.backend import LocalBackend
from holdfast.cli.bulk import BULK, BulkSelection
from holdfast.cli.connect import backend, server
from holdfast.cli.filter import ListOptions
from holdfast.cli.option import AsJson, MaybeRun, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import CONFLICT, OK
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import HoldfastError, NotPermitted, Unauthorized, Unreachable, UsageError

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend

_ENDED = ("completed", "failed", "cancelled")


To = Annotated[Path, typer.Option("--to", metavar="FILE", help="File to write; it must not exist.")]
Redacted = Annotated[
    list[str] | None,
    typer.Option("--redact", metavar="FIELD", help="Field whose values are replaced entirely. May be repeated."),
]
Whole = Annotated[bool, typer.Option("--whole", help="Replace nothing, if the settings allow it.")]


def export(
    file: To,
    run: MaybeRun = None,
    redact: Redacted = None,
    whole: Whole = False,
    *,
    many: Annotated[BulkSelection[ListOptions], BULK.without("yes", "dry_run")],
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Write records of runs to a file, one per line, for `holdfast replay`.

    Personal data is replaced: what looks like an address, a phone, a card or an account, names of reviewers, and whole fields
    with --redact.
    """
    from holdfast import settings
    from holdfast.evaluation.recording import expect_permitted

    if whole and redact:
        raise UsageError("Pass only one of --redact and --whole. Nothing was written.")
    if server(store) is None:  # a server has settings of its own
        expect_permitted(settings.load(), is_whole=whole)
    bulk.expect_one_or_all(run, many)
    return asyncio.run(_export(run, many, None if whole else redact or [], file, as_json, store))


async def _export(
    run: str | None,
    many: BulkSelection[ListOptions],
    redact: Sequence[str] | None,
    file: Path,
    as_json: bool,
    store: str | None,
) -> int:
    """`redact` is None where nothing is taken out."""
    from holdfast.cli import reference

    refused: dict[str, str] = {}
    async with backend(store, resolve_actor(None)) as service:
        record = _recorder(service, redact)
        if run is not None:
            found, more = [await reference.run_id(service, run)], False
        else:
            rows, more = await bulk.find_runs(service, many, _ENDED)
            found = [row["run_id"] for row in rows]
        with _create_file(file) as opened:
            for each in found:
                try:
                    opened.write(await record(each))
                except (NotPermitted, Unauthorized, Unreachable):
                    raise
                except HoldfastError as problem:
                    refused[each] = problem.message
                    terminal.say(f"{each}: {problem.message}")
    written = len(found) - len(refused)
    if as_json:
        terminal.emit({"file": str(file), "written": written, "refused": refused, "more": more})
    else:
        kind = "as they are" if redact is None else "redacted"
        rest = " There are more: raise --limit." if more else ""
        terminal.say(
            f"{written} of {counted(len(found), 'run')} written to {file}, {kind}.{rest} Only this account may read it."
        )
    return CONFLICT if refused else OK


def _recorder(service: Backend, redact: Sequence[str] | None) -> Callable[[str], Awaitable[bytes]]:
    """Return the function that makes the line of a run. Runs of one store have the same replacement for the same value."""
    import msgspec

    from holdfast.evaluation.recording import line, recorded
    from holdfast.evaluation.redaction import Redaction
    from holdfast.service.declarations.command import ExportRun

    redaction = None if redact is None else Redaction(redact)

    async def of_store(run: str) -> bytes:
        assert isinstance(service, LocalBackend)
        return line(await recorded(service.service.control, run, redaction))

    async def of_server(run: str) -> bytes:
        row = await service.execute(ExportRun(run, tuple(redact or ()), whole=redact is None))
        assert row is not None
        return msgspec.json.encode(row["record"]) + b"\n"

    return of_store if isinstance(service, LocalBackend) else of_server


@contextmanager
def _create_file(file: Path) -> Iterator[BinaryIO]:
    """The file, new and for this account alone; gone again where something is raised. Raises UsageError."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{file} exists already. Nothing was written. Name another file.") from None
    except OSError as problem:
        raise UsageError(f"{file} cannot be written: {problem.strerror}. Nothing was written.") from None
    try:
        with os.fdopen(descriptor, "wb") as opened:
            yield opened
    except BaseException:
        file.unlink()
        raise
