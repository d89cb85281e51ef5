"""The same done to many runs: all that a filter finds, each by itself. One that refuses does not keep the others from it.

Never here: what is done to one (runs).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import typer

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.filter import SELECTION, ListOptions
from holdfast.cli.group import Group
from holdfast.cli.option import DryRun
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import CONFLICT, OK
from holdfast.errors import HoldfastError, StoreError, Unauthorized, Unreachable, UsageError
from holdfast.service.declarations import query

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend, QueryBackend
    from holdfast.cli.noun import Caller
    from holdfast.service.declarations.query import View

MOST: Final = 1000
"""Default maximum of runs for one command: each is a commit of its own, so a thousand take some seconds."""
_PAGE: Final = 500

All = Annotated[bool, typer.Option("--all", help="Apply to all matching runs instead of one.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation; required outside a terminal.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="With --all: maximum number to apply to.")]

Criteria = TypeVar("Criteria")
Deed: TypeAlias = "Callable[[str], Any]"
"""The command to a run, by the run's id."""


class BulkSelection(NamedTuple, Generic[Criteria]):
    """A selection that a command is about as a whole, and how sure the caller is."""

    every: bool
    asked: Criteria
    limit: int
    yes: bool = True
    dry_run: bool = False


def bulk_of(selection: Group, every: Any = All) -> Group:
    """Return the options of a command that is about one or, with the option `every`, about all that are selected."""

    def many(every: bool, limit: int, yes: bool = True, dry_run: bool = False, **fields: Any) -> BulkSelection[Any]:
        return BulkSelection(every, selection.make(**fields), limit, yes, dry_run)

    sure = {"limit": (Limit, MOST), "yes": (Yes, False), "dry_run": (DryRun, False)}
    return Group(many, every=(every, False), **selection.options, **sure)


BULK: Final = bulk_of(SELECTION)
OneOrMany: TypeAlias = Annotated[BulkSelection[ListOptions], BULK]


def expect_one_or_all(run: str | None, many: BulkSelection[ListOptions]) -> None:
    """Raises UsageError where it is not clear whether one run is meant or all that are found."""
    if (run is None) != many.every:
        raise UsageError("Name a run, or pass --all with filters (--status, --workflow, --since, ...).")
    if run is not None and not many.asked.is_any:
        raise UsageError("Filters like --status and --workflow need --all; you named one run. Nothing was done.")


async def do(
    name: str, deed: Deed, usual: Sequence[str], many: BulkSelection[ListOptions], caller: Caller, *, own: str | None = None
) -> int:
    """Do it to each; the exit code, which says whether all took it. `usual` are the statuses of runs that may, `own` is how the
    start keys of runs begin that are not meant."""
    from holdfast.cli import dry_run

    if many.asked.is_any and len(usual) > 1:
        raise UsageError(
            f"`{name} --all` would apply to every run that has not ended. Add a filter (--status, --workflow, --tenant, --since"
            " or --until). Nothing was done."
        )
    async with backend(caller.store, caller.by) as service:
        rows, more = await find_runs(service, many, usual, own)
        if many.dry_run:
            return await dry_run.tell_all(service, name, [deed(row["run_id"]) for row in rows], caller.as_json)
        if rows:
            _expect_sure(name, rows, many)
        return await tell_each(service, name, [row["run_id"] for row in rows], deed, more, caller.as_json)


async def find_runs(
    asking: QueryBackend, many: BulkSelection[ListOptions], usual: Sequence[str], own: str | None = None
) -> tuple[list[View], bool]:
    """The runs as they are now, newest first, and whether there are more than the limit."""
    sought = many.asked.query(asking.now_ms(), usual)
    rows: list[View] = []
    while len(rows) <= many.limit:
        page = await asking.query(msgspec.structs.replace(sought, limit=_PAGE))
        rows += [row for row in page.rows if own is None or not (row["key"] or "").startswith(own)]
        if page.cursor is None:
            break
        sought = msgspec.structs.replace(sought, cursor=page.cursor)
    return rows[: many.limit], len(rows) > many.limit


def _expect_sure(name: str, rows: Sequence[View], many: BulkSelection[ListOptions]) -> None:
    """Ask for a confirmation, at a terminal. Raises UsageError without a terminal, and Abort for a no."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    what = f"{counted(len(rows), 'run')} ({', '.join(f'{n} {status}' for status, n in counts.items())})"
    expect_agreed(name, what, many.yes)


def expect_agreed(name: str, noun: str, yes: bool) -> None:
    """The same of anything that a command is about."""
    if yes:
        return
    if not (sys.stdin is not None and sys.stdin.isatty() and terminal.is_live()):
        raise UsageError(f"This applies to {noun}. Nothing was done. Confirm with --yes.")
    if not terminal.is_agreed(f"{name} {noun}?"):
        raise UsageError("Nothing was done.")


async def tell_each(service: Backend, name: str, ids: Sequence[str], deed: Deed, more: bool, as_json: bool) -> int:
    """Tell it of each, one after the other, with what becomes of it; the exit code."""
    done, refused = await _each(service, deed, ids, as_json)
    if as_json:
        terminal.emit({"done": done, "refused": refused, "more": more})
    rest = " There are more: repeat the command." if more else ""
    terminal.say(f"{name}: {len(done)} done, {len(refused)} refused.{rest}")
    return CONFLICT if refused else OK


async def _is_settled(service: Backend, letter: str) -> bool:
    """Return True if a dead letter is closed since it was found: retried with another of its run, for example."""
    return bool((await service.row(query.DeadLetter(letter)))["state"] == "resolved")


async def _each(
    service: Backend, deed: Deed, ids: Sequence[str], as_json: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """`ids` are those of runs, or begin with one."""
    done: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for id_ in ids:
        run, _, step = id_.partition(":")
        named = {"run_id": run, **({"letter": id_} if step else {})}
        try:
            told = None if step and await _is_settled(service, id_) else await service.execute(deed(id_))
        except (StoreError, Unauthorized, Unreachable):
            terminal.say(f"{len(done)} done, {len(refused)} refused; the store failed at {id_}.")
            raise
        except HoldfastError as problem:
            refused.append({**named, "message": problem.message})
            words = f"refused: {problem.message}"
        else:
            fork = None if told is None or told["run_id"] == run else told["run_id"]
            words = (await reference.run(service, run))["status"] if told is None or fork else told["status"]
            done.append({**named, "status": words, **({"fork": fork} if fork else {})})
            words = f"{words}, forked as {fork}" if fork else words
        if not as_json:
            terminal.show(f"{id_}  {words}")
    return done, refused
