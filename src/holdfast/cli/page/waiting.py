"""A step that waits, in words: for which slot, worker or pool, behind how many others, and how to help it.

Never here: finding that out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import convert

from holdfast.cli.page.moment import clock, ms, span
from holdfast.core.values.demand import Demand
from holdfast.service.declarations.query import View
from holdfast.service.wait_sentence import describe_demand

_SHORT: Final = {
    "place": "a place among the active runs",
    "slot": "a slot",
    "worker": "a worker",
    "pool": "the pool {about}",
    "gate": "a decision ({reason})",
    "signal": "the signal {reason}",
    "shared_value": "the shared value {reason}",
    "timer": "a timer",
    "retry": "a retry ({reason})",
    "money": "money ({reason})",
    "tokens": "tokens ({reason})",
    "calls": "a higher limit on calls",
    "child": "a child run",
    "effect": "the call of {about}",
    "model": "a model call",
    "nothing": "nothing",
}


def short(wait: View) -> str:
    """Return a wait of a run in a few words: `a slot`, `the pool OPENAI_RPM`."""
    return _SHORT[wait["kind"]].format(reason=wait["reason"], about=wait.get("about"))


def words(wait: View, now_ms: int, held: Mapping[str, str]) -> str:
    """Why a step waits, for people, and what they can do about it. `held` says where the holders are, and since when."""
    head = f"{wait['run']}/{wait['step']} has waited for {span(now_ms - wait['since_ms'])}. "
    if wait["waits_for"] == "slot":
        return head + _of_slot(wait, held)
    if wait["waits_for"] == "pool" and wait["limit"] is None:  # no process can help
        return head + _of_pool(wait, held) + ("" if wait["workers"] else ". No process is running that could take it")
    if wait["waits_for"] != "pool":
        head += f"It waits for a worker that has {describe_demand(convert(wait['demand'], Demand))}. "
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
    return f"{head}The workers that have what it asks for are busy{by}; {_place(wait['place'])}.{_describe_reservation(wait)}"


def _of_slot(wait: View, held: Mapping[str, str]) -> str:
    if not wait["possible"]:
        return f"No running process has its workflow. Start one: holdfast worker FILE.py:{wait['workflow']}"
    if wait["in_use"] < wait["limit"]:
        return "There is a free slot for it: it starts in a moment."
    by = f", by {_holders(wait, held)}" if wait["holders"] else ""
    slots = "its slot is" if wait["limit"] == 1 else f"all {wait['limit']} slots are"
    return f"It waits for a slot of a process that has its workflow: {slots} in use{by}; {_place(wait['place'])}."


def _holders(wait: View, held: Mapping[str, str]) -> str:
    return ", ".join(f"{holder}{held.get(holder, '')}" for holder in wait["holders"])


def _of_pool(wait: View, held: Mapping[str, str]) -> str:
    pool, limit = wait["pool"], wait["limit"]
    refills = f"; it has enough at {clock(ms(wait['refills_at']))}" if wait["refills_at"] else ""
    is_call = wait["model"] is not None or not wait["place"]
    if limit is not None and is_call and wait["possible"]:
        use = f"{wait['in_use']} of {limit} are in use" if wait["in_use"] is not None else f"its rate of {limit} is used up"
        place = f"; {_place(wait['place'])}" if wait["place"] else ""
        return f"A model call of it waits for the pool {pool}: {use}{place}{refills}. See holdfast pools show {pool}"
    amount = wait["demand"].get("pools", {}).get(pool or "") or 1
    if limit is None:
        create = f"holdfast pools set {pool} --slots {amount}"
        return f"It asks for {amount} of the pool {pool}, which does not exist. Create it: {create}"
    if not wait["possible"]:
        return (
            f"It asks for {amount} of the pool {pool}, which has {limit} in all: it starts only when the pool"
            f" is enlarged: holdfast pools set {pool} --slots {amount}"
        )
    holders = _holders(wait, held)
    use = f"{wait['in_use']} of {limit} are in use" if wait["in_use"] is not None else "what comes goes to others first"
    by = f", by {holders}" if holders else ""
    return f"It asks for {amount} of the pool {pool}: {use}{by}; {_place(wait['place'])}{refills}.{_describe_reservation(wait)}"


def _lacking(wait: View) -> str:
    """Return what workers lack, with names of things in the place of the scheduler's."""
    from holdfast.scheduling.lane_workers import able_to, scripts_of

    task, graph_hash, workflow = wait["demand"].get("task"), wait["graph_hash"], wait["workflow"]
    return (
        str(wait["lacking"])
        .replace(f"able {able_to(task or '')}", f"the task {task}")
        .replace(f"able {scripts_of(graph_hash)}", f"a shell for the workflow {workflow}")
        .replace(f"able {graph_hash}", f"the workflow {workflow}")
    )


def _place(place: int) -> str:
    return "it is the next in line" if place <= 1 else f"it is number {place} in line"


def _describe_reservation(wait: View) -> str:
    return f" What comes back is kept for {'/'.join(wait['kept_for'])}." if wait["kept_for"] else ""
