"""Next steps in words: what a run waits for, with the commands that a person can type about it.

Never here: doing any of it.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from msgspec import convert

from holdfast import settings
from holdfast.cli.connect import Placeholder, server, typed
from holdfast.cli.page import sample
from holdfast.cli.page.moment import around, clock
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.page.waiting import describe_demand, words
from holdfast.core.facts.graph import GATE_DECISIONS
from holdfast.core.facts.state import TOOL_APPROVAL
from holdfast.core.people.changed_code import RESTART
from holdfast.core.rules.questions import CODE_CHANGED, COMPENSATION_FAILED, EFFECT_UNKNOWN, EXHAUSTED, LIMITS, WORKFLOW_MISSING
from holdfast.core.values.actor import ROLE, is_among
from holdfast.core.values.scopes import AGENT, CONVERSATION, FLEET_RUNS, TREE, in_words
from holdfast.core.views import status
from holdfast.core.views.status import Wait
from holdfast.errors import NotFound
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

_IN_LINE: Final = frozenset({"slot", "worker", "pool"})
"""Kinds of waits whose reason is worked out from all who wait."""
_LONGEST_SHOWN: Final = 500
"""Characters of what is shown that a command has as its data."""
_RESPONSE: Final = Placeholder("<RESPONSE>")
_REASON: Final = Placeholder("<REASON>")
_NAME: Final = Placeholder("<NAME>")
"""In the places of what only a person knows."""
_EXTEND: Final = {
    "max_steps": "--steps",
    "max_tokens": "--tokens",
    "max_active": "--active-s",
    "max_wall": "--wall-s",
    "max_model_calls": "--model-calls",
    "max_tool_calls": "--tool-calls",
    "lifespan": "--lifespan-s",
}


_IN_WORDS: Final = {
    EFFECT_UNKNOWN: "it is unknown whether {} happened",
    EXHAUSTED: "{} failed permanently",
    CODE_CHANGED: "the code of {} has changed",
    COMPENSATION_FAILED: "{} could not undo what was done",
    WORKFLOW_MISSING: "no process can run {}",
    **dict.fromkeys(LIMITS.values(), "the limit on {}"),
}
"""What the engine's own gates are about, by their reason; the subject goes in between."""


async def of_run(asking: QueryBackend, run: View, store: str | None) -> list[str]:
    """A line for everything that a run, as its view has it, waits for, followed by the commands that go with it, indented."""
    lines: list[str] = []
    if run["status"] == "paused":
        lines += ["It is paused:", f"  {typed('runs', 'resume', run['run_id'], store=store)}"]
    waits = [convert(each, Wait) for each in run["waiting_for"]]
    rows = await asking.rows(query.Gates(run=run["run_id"])) if any(each.kind == "gate" for each in waits) else []
    gates = {row["gate_id"]: row for row in rows}
    if run.get("workflow_missing_since") is not None:
        waits = [each for each in waits if each.kind != "slot"]  # there is no process that could have one
    reasons = await _reasons(asking, run["run_id"]) if any(each.kind in _IN_LINE for each in waits) else {}
    for wait in waits:
        gate = gates.get(wait.id)
        if gate is not None:
            if gate["step"] is None:  # the engine's own, of which the answers are named
                gate = await asking.row(query.Gate(wait.id))
            lines.append(f"It asks {', '.join(gate['reviewers']) or 'anyone'}: {about(gate)}.")
            lines += [f"  {command}" for command in shortest(gate, store)]
        elif wait.kind in _IN_LINE:
            found = reasons.get(wait.step or "")
            lines += _other(run["run_id"], wait, store) if found is None else found
            reasons[wait.step or ""] = []  # they are for all waits of the step
        else:
            lines += _other(run["run_id"], wait, store)
        if wait.kind == "child" and wait.about is not None:
            lines += [f"  {line}" for line in await _of_child(asking, wait.about, store)]
    return lines


async def with_next(asking: QueryBackend, row: View, as_json: bool, store: str | None) -> View:
    """Return a run after a command, for people with the lines that say how it goes on (`next`)."""
    return row if as_json else {**row, "next": await onward(asking, row["run_id"], store)}


async def onward(asking: QueryBackend, run_id: str, store: str | None) -> list[str]:
    """A line for how a run goes on, followed by the command to look at it or to have it continued, indented."""
    run = await asking.row(query.Run(run_id))
    look = f"  {typed('runs', 'show', run_id, store=store)}"
    if run["status"] == "running" and run["workflow_missing_since"] is not None:
        if server(store) is not None:
            return ["No worker has its workflow now:", look]
        worker = typed("worker", f"FILE.py:{run['workflow']}", store=store)
        return ["No worker has its workflow now. Start one:", f"  {worker}"]
    if run["status"] == "running":
        return ["A worker continues it:", look]
    return await of_run(asking, run, store) or [look]


async def _reasons(asking: QueryBackend, run: str) -> dict[str, list[str]]:
    """Return why steps wait for a slot, a worker or a pool, as `queue why` says it."""
    found: dict[str, list[str]] = {}
    for each in await asking.rows(query.Queue(run)):
        found.setdefault(each["step"], []).append(words(each, asking.now_ms(), {}))
    return found


async def _of_child(asking: QueryBackend, run: str, store: str | None) -> list[str]:
    """The same of a child, whose questions are its parent's too; nothing where it has not begun."""
    try:
        return await of_run(asking, await asking.row(query.Run(run)), store)
    except NotFound:
        return []


def _other(run: str, wait: Wait, store: str | None) -> list[str]:
    due = f" until {clock(wait.due_at_ms)}" if wait.due_at_ms is not None else ""
    match wait.kind:
        case "signal":
            command = typed("runs", "signal", run, wait.reason, "--data", "null", store=store)
            return [f"It waits for the signal {wait.reason!r}{due}:", f"  {command}"]
        case "shared_value":
            return [f"{wait.step} waits for a write of the shared value {wait.reason!r}{due}."]
        case "timer":
            return [f"It sleeps{due} in {wait.step}."]
        case "retry":
            what = wait.step if wait.about is None else f"{wait.about!r} in {wait.step}"
            return [f"It tries {what} again ({wait.reason}){due.replace(' until', ' at')}."]
        case "place":
            whose = ("--fleet",) if wait.about == FLEET_RUNS else ("--tenant", unquote((wait.about or "").split("/")[1]))
            show = typed("admission", "show", *whose, store=store)
            return [f"It waits for a place: {in_words(wait.about or '')} are at their limit.", f"  {show}"]
        case "money" | "tokens" | "calls":
            return _for_room(wait, store)
        case "pool":
            names = (wait.about or "").split(", ")
            waits = f"A model call of {wait.step} waits for capacity of {' and '.join(names)}:"
            return [waits, *(f"  {typed('pools', 'show', name, store=store)}" for name in names)]
        case "slot":
            return [f"{wait.step} waits for a slot: a process that has its workflow starts it."]
        case "worker":
            return [f"{wait.step} waits for a worker that has {describe_demand(wait.demand)}."]
        case status.NOTHING:
            return [of_nothing(wait.step or "The run")]
        case "child":
            show = typed("runs", "show", wait.about or "", store=store)
            return [f"{wait.step} waits for its child {wait.about}:", f"  {show}"]
        case _:
            again = typed("effects", "list", "--run", run, store=store)
            words = f"{wait.step} waits for the outcome of a call of {wait.about} ({wait.reason})."
            return [f"{words} If none comes, a person is asked:", f"  {again}"]


def of_nothing(name: str) -> str:
    """Return the words for a step or run that is stuck."""
    return (
        f"{name} waits for nothing: this is a fault of Holdfast. A process that has its workflow starts it again. Please report"
        " it with the run's history (holdfast runs export)."
    )


def of_missing(since_ms: int, now_ms: int, store: str | None) -> str:
    """Return the words for a run that no process can go on with: since when, and when a person will be asked."""
    at_ms = since_ms + int(1000 * settings.load().workflow_grace_s)
    when = f"at {clock(at_ms)}" if at_ms > now_ms else "as soon as a process works on this store"
    return (
        f"No live process has had its workflow since {around(since_ms, now_ms)}. Unless one starts, a person is"
        f" asked about it {when}."
    )


def _for_room(wait: Wait, store: str | None) -> list[str]:
    """Return the words for a wait for money or tokens."""
    what, in_tokens = wait.kind, wait.kind == "tokens"
    if wait.reason.startswith(f"{TREE}_"):
        root = (wait.about or "").rpartition("/")[2]
        if wait.reason.endswith("_holds_in_flight"):
            return [f"{wait.step} waits for {what} that other runs of the tree of {root} hold."]
        words = ("runs", "extend", root, "--tokens", "N") if in_tokens else ("budget", "raise", root, "--by", "USD")
        return [
            f"The tree of run {root} has no {what} left for a call of {wait.step}. Raise the limit of that run:",
            f"  {typed(*words, store=store)}",
        ]
    if wait.reason.startswith(f"{AGENT}_"):
        whose = in_words((wait.about or "").removeprefix("tokens/"))
        _, tenant, name, *_ = [unquote(part) for part in (wait.about or "").removeprefix("tokens/").split("/")]
        more = typed("team-budgets", "show", name, "--tenant", tenant, store=store)
        return [
            f"{wait.step} waits for {what}: {whose} has too little left, and no other agent may lend it enough:",
            f"  {more}",
        ]
    if wait.reason.startswith(f"{CONVERSATION}_"):
        whose = in_words((wait.about or "").removeprefix("tokens/"))
        return [f"{wait.step} waits for {what}: {whose} has used or holds all of its limit."]
    if wait.due_at_ms is None or wait.about is None:  # in the run's own books
        if wait.reason == "holds_in_flight":
            return [f"{wait.step} waits for money that other calls of the run hold."]
        return [f"{wait.step} waits for a higher limit: its next call does not fit what is left."]
    kind, tenant, *names = [unquote(part) for part in wait.about.removeprefix("tokens/").split("/")]
    owner = ("--tenant", tenant, *(("--team", names[0]) if kind == "team" else ()))
    period = names[-2]
    whose = in_words(wait.about.removeprefix("tokens/"))
    said = f"The {whose}, has no {'tokens' if in_tokens else 'room'} for a call of {wait.step}"
    if wait.reason.endswith("_holds_in_flight"):
        return [f"{said} before others have settled:", f"  {typed('budget', 'show', *owner, store=store)}"]
    given = (f"--{period}-tokens", "N") if in_tokens else (f"--{period}-usd", "USD")
    more = typed("budget", "set", *owner, *given, store=store)
    return [f"{said} under its limit. It waits until {clock(wait.due_at_ms)}, or for more:", f"  {more}"]


def in_short(gate: View) -> str:
    """Return a gate's subject in the space that a list has."""
    return gate["step"] or _IN_WORDS.get(gate["reason"], "{}").format(gate["subject"] or "the run")


def about(gate: View) -> str:
    """Return a gate's subject in a few words."""
    if gate["step"] is not None:
        return f"{gate['reason']} in {gate['step']}"
    shown = _gate_content(gate)
    message = shown.get("message") or shown.get("what_is_known")
    return str(message).rstrip(".") if message else gate["reason"]


def shortest(gate: View, store: str | None) -> list[str]:
    """The commands to begin with: for the engine's own questions their answers, else a look at what is shown."""
    return commands(gate, store) if gate["step"] is None else [typed("gates", "show", gate["gate_id"], store=store)]


def commands(gate: View, store: str | None) -> list[str]:
    """Every way to answer a gate, as commands."""
    run = gate["run_id"]
    if gate["reason"] == EFFECT_UNKNOWN and gate["subject"] is not None:
        answers = {"answer": ("--happened", _RESPONSE), "reject": ("--did-not",), "retry": ("--again",)}
        return [typed("effects", "resolve", gate["subject"], *answers[each], store=store) for each in gate["allowed"]]
    if gate["reason"] == WORKFLOW_MISSING:
        worker, migrate = typed("worker", store=store), typed("runs", "migrate", run, store=store)
        name = _gate_content(gate).get("workflow", "WORKFLOW")
        return [f"{worker} FILE.py:{name}", f"{migrate} FILE.py:WORKFLOW", typed("runs", "cancel", run, store=store)]
    found = []
    for decision in gate["allowed"]:
        if decision == "answer" and gate["reason"] == "budget":
            needed = _gate_content(gate).get("needed_limit_usd", "USD")
            found.append(typed("budget", "raise", run, str(needed), store=store))
        elif decision == "answer" and gate["reason"] in _EXTEND:
            found.append(typed("runs", "extend", run, _EXTEND[gate["reason"]], _twice(gate), store=store))
        else:
            words = deciding(gate["gate_id"], decision)
            seen = ("--shown", gate["shown_hash"]) if gate.get("edited_by") else ()
            found.append(typed(*words, *_more(gate, decision), *seen, store=store))
    return found


def deciding(gate: str, decision: str) -> tuple[str, ...]:
    """The command that decides so, in its words."""
    return ("gates", decision, gate) if decision in GATE_DECISIONS else ("gates", "decide", gate, decision)


def _more(gate: View, decision: str) -> tuple[str, ...]:
    """Return the options of a decision beside the gate's id."""
    form, initial = gate["form"], gate["initial_data"]
    person = _person(gate)
    if decision == "answer" and gate["reason"] == CODE_CHANGED:
        return (*person, "--data", json.dumps(RESTART))
    if decision == "answer" and gate["reason"] == TOOL_APPROVAL:
        return (*person, "--data", _RESPONSE)  # in the tool's place, so of its arguments' form it has nothing
    if decision in ("edit", "answer"):
        example = (_shown_briefly(gate) if decision == "edit" else None) or sample.of(form, initial)
        return (*person, "--data", json.dumps(example, ensure_ascii=False))
    if decision == "approve" and (rest := sample.left_open(form, initial)):
        return (*person, "--data", json.dumps(rest, ensure_ascii=False))
    return (*person, "--reason", _REASON) if decision == "reject" else person


def _shown_briefly(gate: View) -> Any:
    """Return what is shown, of which a person changes something; None where that is long, or has a form of its own."""
    if gate["form"] is not None:
        return None
    return gate["shown"] if len(json.dumps(gate["shown"], ensure_ascii=False)) <= _LONGEST_SHOWN else None


def _person(gate: View) -> tuple[str, ...]:
    """The actor for the command where it cannot be the user who types it: a person in the first of the roles that are asked."""
    name, reviewers = resolve_actor(None).name, gate["reviewers"]
    is_asker = gate["four_eyes"] and is_among((gate["requester"] or "", *gate.get("contributors", ())), name, ())
    is_asker = is_asker or is_among(gate.get("not_by", ()), name, ())
    if not is_asker and (not reviewers or is_among(reviewers, name, ())):
        return ()
    return ("--as", _NAME, *(("--role", reviewers[0].removeprefix(ROLE)) if reviewers else ()))


def _twice(gate: View) -> str:
    """A limit that has room again: twice what was reached."""
    reached = _gate_content(gate).get("reached")
    return str(math.ceil(reached) * 2) if isinstance(reached, int | float) and reached else "N"


def _gate_content(gate: View) -> dict[str, Any]:
    """Return what is shown, if it is an object."""
    return gate["shown"] if isinstance(gate["shown"], dict) else {}
