"""FILE.yaml: the workflow in it, what is wrong with it, or what is in it; and the schema for editors.

Never here: what is right or wrong in a file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.connect import is_there, located, opened, server, typed
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import OK, USAGE
from holdfast.errors import InvalidFile, StoreError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.actions.syntax.document import Document, Job
    from holdfast.authoring.workflow import Workflow
    from holdfast.settings import Settings


def is_meant(target: str) -> bool:
    return target.lower().endswith((".yaml", ".yml"))


def workflow(target: str, *, to_run: bool) -> Workflow:
    """The workflow in the file. Raises InvalidFile with every mistake; UsageError if it is `to_run`, and asks for what
    cannot be done here."""
    from holdfast import settings
    from holdfast.actions.jobs import refusal
    from holdfast.actions.jobs.workflow import workflow_of

    try:
        document = _loaded(target)
    except InvalidFile as invalid:
        raise InvalidFile(target, invalid.mistakes, is_complete=invalid.is_complete) from None
    known = settings.load()
    refused = refusal.unstored(document, known.blobs) if to_run else []
    if refused:
        why = "".join(f"\n  {each}" for each in refused)
        raise UsageError(f"{target} is valid, but cannot be run here:{why}\nNothing was done.")
    return workflow_of(document, variables=known.vars)


def validate(target: str, *, as_json: bool, strict: bool, store: str | None) -> int:
    """Report every error of the file, or its jobs and the pools that are not declared."""
    from holdfast import settings

    try:
        document = _loaded(target)
    except InvalidFile as invalid:
        return _tell(target, invalid, as_json=as_json)
    asked = {share.pool for job in document.jobs for share in job.pools}
    warnings = asyncio.run(undeclared(asked, settings.load(), store)) if asked else []
    code = USAGE if strict and warnings else OK
    if as_json:
        jobs = [{"id": job.id, "needs": list(job.needs), "steps": len(job.steps)} for job in document.jobs]
        terminal.emit(
            {"workflow": document.name, "valid": True, "problems": [], "mistakes": [], "warnings": warnings, "jobs": jobs}
        )
        return code
    for words in warnings:
        terminal.show(f"warning: {words}")
    terminal.show(f"ok: {document.name}, {counted(len(document.jobs), 'job')}")
    terminal.sheet([(job.id, _summary(job)) for job in document.jobs], indent="  ")
    return code


def schema() -> int:
    """Print the JSON Schema of the format."""
    from holdfast.actions.syntax.keys import json_schema

    terminal.emit(json_schema())
    return OK


def _loaded(target: str) -> Document:
    """Raises InvalidFile, and UsageError for what is no text."""
    from holdfast.actions.syntax.load import load
    from holdfast.actions.syntax.source import MAX_BYTES

    path = Path(target)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 4)  # more than may be, so that what is too large is reported
        text = raw.decode("utf-8-sig") if len(raw) <= MAX_BYTES else raw.decode("utf-8-sig", "replace")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else f"it is not UTF-8 text ({problem})"
        raise UsageError(f"{target} cannot be read: {why}. Nothing was done.") from None
    return load(text, path.stem)


def _tell(target: str, invalid: InvalidFile, *, as_json: bool) -> int:
    if as_json:
        import msgspec

        mistakes: Any = msgspec.to_builtins(invalid.mistakes)
        terminal.emit(
            {
                "workflow": invalid.file,
                "valid": False,
                "problems": [str(each) for each in invalid.mistakes],
                "mistakes": mistakes,
                "complete": invalid.is_complete,
            }
        )
        return USAGE
    for mistake in invalid.mistakes:
        terminal.show(f"{target}:{mistake}")
    least = "" if invalid.is_complete else "at least "
    terminal.say(f"{target} cannot be run; {least}{counted(len(invalid.mistakes), 'error')} to fix.")
    return USAGE


def _summary(job: Job) -> str:
    """`2 steps, 4 combinations, after build, test`"""
    words = [counted(len(job.steps), "step")]
    if job.strategy is not None:
        known = job.strategy.combinations
        words.append("combinations by an expression" if known is None else counted(len(known), "combination"))
    if job.needs:
        words.append(f"after {', '.join(job.needs)}")
    return ", ".join(words)


async def undeclared(pools: Collection[str], settings: Settings, store: str | None) -> list[str]:
    """A warning for each of these pools that neither holdfast.toml nor the store, where there is one, declares. What a server's
    store declares is not known here: then none."""
    from holdfast.compose.from_settings import pools_of

    if not pools or server(store) is not None:
        return []
    declared = {pool.name for pool in pools_of(settings)}
    if is_there(located(store)[0]):
        try:
            async with opened(store) as found:
                declared |= {pool.name for pool in await found.lending.pools()}
        except StoreError:  # a store that is away may have declared any pool
            return []
    declared |= {name.partition("@")[0] for name in declared}  # a tenant's own
    return [
        f"No pool {name} is declared here: {typed('pools', 'set', name, '--slots', 'N', store=store)}"
        for name in sorted({*pools} - declared)
    ]
