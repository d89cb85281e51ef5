"""`holdfast queue`: which steps wait for their place, and why.

Never here: placing them, finding out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import reference, terminal
from holdfast.cli.given import who
from holdfast.cli.moment import ms, span
from holdfast.cli.noun import Noun
from holdfast.cli.opening import backend
from holdfast.cli.option import AsJson, Store
from holdfast.cli.table import ID, Column
from holdfast.service import query
from holdfast.service.query import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.cli.backend import Asking

QUEUE: Final = Noun("queue", "See which steps wait for a worker or a pool, and why.")
app = QUEUE.app
QUEUE.list(
    query.Queue,
    Column("run", ID),
    Column("step", 12),
    Column("demands", 12),
    Column("workflow", 8, goes=2),
    Column("tenant", 8, goes=1),
    words={"run": "", "step": ""},
    every=True,
    about="List steps that wait for a worker or a pool, longest first.",
)


@app.command()
def why(
    job: Annotated[str, typer.Argument(metavar="RUN[/STEP]", help="A run's id, or one of its steps as `queue list` names it.")],
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Tell what a step waits for before it starts: which pool or label, its place in line, and who holds it."""
    found, stuck = asyncio.run(_why(job, store))
    if as_json:
        terminal.emit(found)
    elif not found:
        for line in stuck or [f"No step of {job} waits for a place. `holdfast runs show` says what the run is at."]:
            terminal.show(line)
    for each in () if as_json else found:
        terminal.show(each["words"])


async def _why(job: str, store: str | None) -> tuple[list[View], list[str]]:
    """Why the steps wait for their places; and which of the run wait for nothing."""
    from holdfast.cli.advice import of_nothing
    from holdfast.core.views.status import NOTHING

    run, _, step = job.partition("/")
    async with backend(store, who(None)) as service:
        run = await reference.run_id(service, run)
        now_ms = service.now_ms()
        found = await service.rows(query.Queue(run, step or None))
        held = await _held(service, {holder for each in found for holder in each["holders"]}, now_ms)
        waits = [] if found else (await service.row(query.Run(run)))["waiting_for"]
    told = [{**each, "words": words(each, now_ms, held)} for each in found]
    return told, [of_nothing(each.get("step") or "The run") for each in waits if each["kind"] == NOTHING]


async def _held(asking: Asking, holders: set[str], now_ms: int) -> dict[str, str]:
    """Who has a step that holds something, and since when: ` at ada:4711 for 5m`. Nothing of one that is over by now."""
    found = {}
    for holder in holders:
        run, _, name = holder.partition("/")
        for step in await asking.rows(query.Steps(run)):
            if step["step"] == name and step["worker"] is not None and step["began_at"] is not None:
                found[holder] = f" at {step['worker']} for {span(now_ms - ms(step['began_at']))}"
    return found


def words(wait: View, now_ms: int, held: Mapping[str, str]) -> str:
    """Why a step waits, for people, and what they can do about it. `held` says where the holders are, and since when."""
    head = f"{wait['run']}/{wait['step']} has waited for {span(now_ms - wait['since_ms'])}. "
    if not wait["workers"]:
        return head + "No process is running that could take it."
    if wait["waits_for"] == "pool":
        return head + _of_pool(wait, held)
    if wait["waits_for"] != "worker":
        return head + "There is a place for it: it starts in a moment, if a process that has its workflow is running."
    if wait["lacking"] not in (None, "capacity"):
        return (
            f"{head}It needs {_lacking(wait)}, which no running worker has ({wait['workers']} known)."
            " Start one that has it (holdfast worker --help), or change what the step asks for."
        )
    by = f" with {_holders(wait, held)}" if wait["holders"] else ""
    return f"{head}The workers that have what it asks for are busy{by}; {_place(wait['place'])}.{_kept(wait)}"


def _holders(wait: View, held: Mapping[str, str]) -> str:
    return ", ".join(f"{holder}{held.get(holder, '')}" for holder in wait["holders"])


def _of_pool(wait: View, held: Mapping[str, str]) -> str:
    pool, limit = wait["pool"], wait["limit"]
    wanted = wait["demand"].get("pools", {}).get(pool or "") or 1
    if limit is None:
        return f"It asks for {wanted} of the pool {pool}, which nobody has declared: holdfast pools set {pool} --slots N."
    if not wait["possible"]:
        return (
            f"It asks for {wanted} of the pool {pool}, which has {limit} in all: it starts only when the pool is made"
            f" larger (holdfast pools set {pool})."
        )
    holders = _holders(wait, held)
    use = f"{wait['in_use']} of {limit} are in use" if wait["in_use"] is not None else "what comes goes to others first"
    by = f", by {holders}" if holders else ""
    return f"It asks for {wanted} of the pool {pool}: {use}{by}; {_place(wait['place'])}.{_kept(wait)}"


def _lacking(wait: View) -> str:
    """What workers lack, with the names of things in the place of how the scheduler calls them."""
    from holdfast.scheduling.lane_workers import able_to, scripts_of

    task, graph_hash, workflow = wait["demand"].get("task"), wait["graph_hash"], wait["workflow"]
    return (
        str(wait["lacking"])
        .replace(f"able {able_to(task or '')}", f"to be offered as the task {task}")
        .replace(f"able {scripts_of(graph_hash)}", f"a shell for the workflow {workflow}")
        .replace(f"able {graph_hash}", f"the workflow {workflow}")
    )


def _place(place: int) -> str:
    return "it is the next in line" if place <= 1 else f"it is number {place} in line"


def _kept(wait: View) -> str:
    return f" What comes back is kept for {'/'.join(wait['kept_for'])}." if wait["kept_for"] else ""
