"""`holdfast replay`: recorded runs go through the workflow as it is now. Never here: what answers them (evaluation)."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.bulk import Yes, expect_agreed
from holdfast.cli.option import AsJson
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import FAILED, OK
from holdfast.cli.runs import comparison
from holdfast.cli.target import load
from holdfast.core.values.money import usd

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.evaluation.record import RunRecord
    from holdfast.evaluation.replaying import Live, Quote, ReplayResult, RequestChange

_MAX_TOLD: Final = 20
"""Runs whose differences are printed."""
_MAX_LINES: Final = 40
"""Lines of a turn that are printed."""
_TELL_EVERY: Final = 100


File = Annotated[str, typer.Argument(metavar="FILE", help="Records, as `holdfast runs export` writes them.")]
Targets = Annotated[list[str], typer.Argument(metavar="FILE.py:WORKFLOW...", help="Current workflows of these runs.")]
LiveUsd = Annotated[
    str | None, typer.Option("--live", metavar="USD", help="Make new model calls, up to this total cost in dollars.")
]
QuoteOnly = Annotated[bool, typer.Option("--quote", help="Only show the calls that --live would pay for.")]


def replay(
    file: File, targets: Targets, live: LiveUsd = None, quote: QuoteOnly = False, yes: Yes = False, as_json: AsJson = False
) -> int:
    """Replay recorded runs and report which ones diverge.

    Runs use the current code. Models, tools and tasks are answered from the records; nothing is called without --live. Exits
    with 1 if a run diverges, or needs an answer that its record lacks.
    """
    from holdfast.evaluation.recording import load_records
    from holdfast.evaluation.replaying import Live

    within = None if live is None else Live(live)
    records, workflows = load_records(file), [load(target, to_run=True) for target in targets]
    if live is not None or quote:
        quoted = asyncio.run(_quote(records, workflows))
        said = _describe_quote(quoted)
        if quote:
            terminal.emit(_plain(quoted)) if as_json else terminal.show(said)
            return OK
        expect_agreed("replay", f"{said}; at most ${live} is spent", yes or quoted.changed == 0)
    found = asyncio.run(_replay(records, workflows, within))
    return _tell(found, as_json)


async def _quote(records: list[RunRecord], workflows: list[Workflow]) -> Quote:
    from holdfast import settings
    from holdfast.evaluation.replaying import quote

    return await quote(records, workflows, settings.load())


def _describe_quote(quoted: Quote) -> str:
    return (
        f"{quoted.changed} of {counted(quoted.runs, 'run')} would make new model calls. The first ones cost"
        f" ${usd(quoted.first_calls_nanousd)} at most, and what was recorded from there on had cost"
        f" ${usd(quoted.recorded_nanousd)}"
    )


async def _replay(records: list[RunRecord], workflows: list[Workflow], live: Live | None) -> list[ReplayResult]:
    from holdfast import settings
    from holdfast.evaluation.replaying import replay

    found: list[ReplayResult] = []
    async for each in replay(records, workflows, live=live, settings=settings.load()):
        found.append(each)
        if len(found) % _TELL_EVERY == 0:
            terminal.say(f"{len(found)} of {len(records)} replayed")
    return found


def _tell(replays: list[ReplayResult], as_json: bool) -> int:
    passed = sum(each.passed for each in replays)
    spent_nanousd = sum(each.live_nanousd for each in replays)
    if as_json:
        runs = [{**_plain(each), "passed": each.passed} for each in replays]
        terminal.emit({"passed": passed == len(replays), "live_cost_usd": usd(spent_nanousd), "runs": runs})
        return OK if passed == len(replays) else FAILED
    different = [each for each in replays if not each.passed]
    for each in different[:_MAX_TOLD]:
        terminal.show(f"{each.run} diverges")
        for missing in each.missing:
            terminal.show(f"  not in its record: {missing}")
        for request in each.requests:
            terminal.show(f"  {request.step}/{request.path} asks {request.model} otherwise:")
            for line in _differences(request):
                terminal.show(f"    {line}")
        comparison.tell(each.comparison)
    if len(different) > _MAX_TOLD:
        terminal.show(f"and {len(different) - _MAX_TOLD} more; --json has them all")
    paid = (
        f"; {counted(sum(each.live_calls for each in replays), 'live call')} cost ${usd(spent_nanousd)}"
        if spent_nanousd
        else ""
    )
    terminal.show(f"{passed} of {counted(len(replays), 'run')} took the same path{paid}")
    return OK if passed == len(replays) else FAILED


def _differences(request: RequestChange) -> Iterator[str]:
    """Yield the lines that differ of a conversation, each part under who speaks."""
    for change in request.changes[:_MAX_TOLD]:
        yield f"  {change.role}"
        was, now = ((text or "").splitlines() for text in (change.recorded, change.now))
        lines = [line for line in difflib.unified_diff(was, now, n=2, lineterm="") if not line.startswith("@@")][2:]
        yield from (f"{line[0]} {line[1:]}" for line in lines[:_MAX_LINES])
        if len(lines) > _MAX_LINES:
            yield f"  and {counted(len(lines) - _MAX_LINES, 'line')} more; --json has them all"
    if len(request.changes) > _MAX_TOLD:
        yield f"and {len(request.changes) - _MAX_TOLD} more; --json has them all"


def _plain(value: Any) -> Any:
    from msgspec import to_builtins

    return to_builtins(value)


EXAMPLES: Final = {"replay": "runs.jsonl refund.py:refund"}
