"""A step that waits, in words: for which worker or pool, behind how many others, and how to help it.

Never here: finding that out.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.cli.page.moment import span
from holdfast.service.declarations.query import View


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
        create = f"holdfast pools set {pool} --slots {wanted}"
        return f"It asks for {wanted} of the pool {pool}, which does not exist. Create it: {create}"
    if not wait["possible"]:
        return (
            f"It asks for {wanted} of the pool {pool}, which has {limit} in all: it starts only when the pool"
            f" is enlarged: holdfast pools set {pool} --slots {wanted}"
        )
    holders = _holders(wait, held)
    use = f"{wait['in_use']} of {limit} are in use" if wait["in_use"] is not None else "what comes goes to others first"
    by = f", by {holders}" if holders else ""
    return f"It asks for {wanted} of the pool {pool}: {use}{by}; {_place(wait['place'])}.{_kept(wait)}"


def _lacking(wait: View) -> str:
    """Return what workers lack, with names of things in the place of the scheduler's."""
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
