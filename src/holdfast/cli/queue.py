"""`holdfast queue`: which steps wait for their place, and why.

Never here: placing them, finding out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import reference, table, terminal
from holdfast.cli.moment import span
from holdfast.cli.opening import asking, looking
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import ID, Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.compose import Engine
    from holdfast.engine.diagnosis import WaitReason
    from holdfast.ports import PlacedStep
    from holdfast.scheduling.job import Key, Reason

app = typer.Typer(help="See which steps wait for a worker or a pool, and why.", no_args_is_help=True)

COLUMNS: Final = (
    Column("run", ID), Column("step", 12), Column("demands", 12), Column("workflow", 8, goes=2), Column("tenant", 8, goes=1),
)  # fmt: skip


@app.command("list")
def list_(as_json: AsJson = False, store: Store = None) -> None:
    """List the steps that wait for their place, longest first."""
    found = asyncio.run(_list(store))
    if as_json:
        terminal.emit(found)
        return
    lines = [(each["run"], each["step"], each["demands"], each["workflow"], each["tenant"]) for each in found]
    table.show(COLUMNS, lines)


@app.command()
def why(
    job: Annotated[
        str, typer.Argument(metavar="RUN[/STEP]", help="A run's id, or one of its steps as `queue list` names it.")
    ],
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Tell what a step waits for before it starts: which pool or label, its place in line, and who holds it."""
    found = asyncio.run(_why(job, store))
    if as_json:
        terminal.emit(found)
    elif not found:
        terminal.show(f"No step of {job} waits for a place. `holdfast runs show` says what the run is at.")
    for each in () if as_json else found:
        terminal.show(each["words"])


async def _list(store: str | None) -> list[dict[str, Any]]:
    from holdfast.service import view

    async with looking(store) as inquiries:
        return [view.of_placed(each) for each in await inquiries.line()]


async def _why(job: str, store: str | None) -> list[dict[str, Any]]:
    from holdfast.service import view

    run, _, step = job.partition("/")
    async with asking(store) as engine:
        run = (await reference.run(engine, run)).run
        now_ms = engine.now_ms()
        found = await engine.why(run, step or None)
        held = await _held(engine, {key for each in found for key in each.reason.holders}, now_ms)
        return [{**view.of_wait(each), "words": words(each, now_ms, held)} for each in found]


async def _held(engine: Engine, holders: set[Key], now_ms: int) -> dict[Key, str]:
    """Who has a step that holds something, and since when: ` at ada:4711 for 5m`. Nothing of one that is over by now."""
    steps = {}
    for key in holders:
        state = await engine.run(key[0]).state()
        found = next((each for each in state.steps.values() if each.id == key[1] and each.worker is not None), None)
        if found is not None and found.began_ms:
            steps[key] = found
    names = await engine.names_of({step.worker for step in steps.values() if step.worker is not None})
    return {
        key: f" at {names.get(step.worker, step.worker)} for {span(now_ms - step.began_ms)}"
        for key, step in steps.items()
        if step.worker is not None
    }


def words(wait: WaitReason, now_ms: int, held: Mapping[Key, str]) -> str:
    """Why a step waits, for people, and what they can do about it. `held` says where the holders are, and since when."""
    step, reason = wait.step, wait.reason
    head = f"{step.run}/{step.step} has waited for {span(now_ms - wait.since_ms)}. "
    if not wait.workers:
        return head + "No process is running that could take it."
    if reason.waits_for == "pool":
        return head + _of_pool(step.demand.pools.get(reason.pool or "") or 1, reason, held)
    if reason.waits_for != "worker":
        return head + "There is a place for it: it starts in a moment, if a process that has its workflow is running."
    if reason.lacking not in (None, "capacity"):
        return (
            f"{head}It needs {_lacking(reason.lacking or '', step)}, which no running worker has ({wait.workers} known)."
            " Start one that has it (holdfast worker --help), or change what the step asks for."
        )
    by = f" with {_holders(reason, held)}" if reason.holders else ""
    return f"{head}The workers that have what it asks for are busy{by}; {_place(reason.place)}.{_kept(reason)}"


def _holders(reason: Reason, held: Mapping[Key, str]) -> str:
    return ", ".join(f"{'/'.join(key)}{held.get(key, '')}" for key in reason.holders)


def _of_pool(wanted: int, reason: Reason, held: Mapping[Key, str]) -> str:
    pool = reason.pool
    if reason.limit is None:
        return (
            f"It asks for {wanted} of the pool {pool}, which nobody has declared: holdfast pools set {pool} --slots N."
        )
    if not reason.possible:
        return (
            f"It asks for {wanted} of the pool {pool}, which has {reason.limit} in all: it starts only when the pool is made"
            f" larger (holdfast pools set {pool})."
        )
    holders = _holders(reason, held)
    use = (
        f"{reason.in_use} of {reason.limit} are in use"
        if reason.in_use is not None
        else "what comes goes to others first"
    )
    by = f", by {holders}" if holders else ""
    return f"It asks for {wanted} of the pool {pool}: {use}{by}; {_place(reason.place)}.{_kept(reason)}"


def _lacking(what: str, step: PlacedStep) -> str:
    """What workers lack, with the names of things in the place of how the scheduler calls them."""
    from holdfast.scheduling.lane_workers import able_to, scripts_of

    task = f"to be offered as the task {step.demand.task}"
    able = f"able {step.graph_hash}"
    scripts = f"able {scripts_of(step.graph_hash)}"
    return (
        what.replace(f"able {able_to(step.demand.task or '')}", task)
        .replace(scripts, f"a shell for the workflow {step.workflow}")
        .replace(able, f"the workflow {step.workflow}")
    )


def _place(place: int) -> str:
    return "it is the next in line" if place <= 1 else f"it is number {place} in line"


def _kept(reason: Reason) -> str:
    return f" What comes back is kept for {'/'.join(reason.kept_for)}." if reason.kept_for else ""
