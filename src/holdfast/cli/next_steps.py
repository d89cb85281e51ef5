"""Next steps in words: what a run waits for, with the commands that a person can type about it.

Never here: doing any of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from msgspec import convert

from holdfast import settings
from holdfast.cli.connect import EXEC, Placeholder, server, typed
from holdfast.cli.page import sample
from holdfast.cli.page.moment import around, clock, ms
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.page.waiting import words
from holdfast.core.facts.graph import GATE_DECISIONS
from holdfast.core.facts.state import TOOL_APPROVAL
from holdfast.core.people.changed_code import RESTART
from holdfast.core.rules.questions import CODE_CHANGED, EFFECT_UNKNOWN, WORKFLOW_MISSING
from holdfast.core.values.actor import ROLE, is_among
from holdfast.core.values.scopes import AGENT, CONVERSATION, FLEET_RUNS, TREE
from holdfast.core.views import status
from holdfast.core.views.status import Wait
from holdfast.errors import NotFound
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View
from holdfast.service.wait_sentence import ENGINE_ASKS, IN_FLIGHT, sentence

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

IN_LINE: Final = frozenset({"slot", "worker", "pool"})
"""Kinds of waits whose reason is worked out from all who wait, with how long each has waited."""
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


class NextStep(NamedTuple):
    """A wait of a run for the command line: its id (None for the run itself), its words, and the commands about it, below which
    stand the lines of a child's waits."""

    wait: str | None
    text: str
    commands: Sequence[str] = ()
    below: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return the words, and the rest indented."""
        return [self.text, *(f"  {each}" for each in (*self.commands, *self.below))]


async def of_run(asking: QueryBackend, run: View, store: str | None) -> list[str]:
    """A line for everything that a run, as its view has it, waits for, followed by the commands that go with it, indented."""
    return [line for step in await steps_of(asking, run, store) for line in step.lines()]


async def steps_of(asking: QueryBackend, run: View, store: str | None) -> list[NextStep]:
    """Return everything that a run waits for, each with its commands."""
    found: list[NextStep] = []
    if run["status"] == "paused":
        found.append(NextStep(None, "It is paused.", [typed("runs", "resume", run["run_id"], store=store)]))
    waits = [convert(each, Wait) for each in run["waiting_for"]]
    rows = await asking.rows(query.Gates(run=run["run_id"])) if any(each.kind == "gate" for each in waits) else []
    gates = {row["gate_id"]: row for row in rows}
    if run.get("workflow_missing_since") is not None:
        waits = [each for each in waits if each.kind != "slot"]  # there is no process that could have one
    reasons = await _reasons(asking, run["run_id"]) if any(each.kind in IN_LINE for each in waits) else {}
    for wait in waits:
        gate = gates.get(wait.id)
        if gate is not None:
            if gate["step"] is None:  # the engine's own, of which the answers are named
                gate = await asking.row(query.Gate(wait.id))
            who = ", ".join(gate["reviewers"]) or "anyone"
            found.append(NextStep(wait.id, f"It asks {who}: {about(gate)}.", shortest(gate, store)))
        elif wait.kind in IN_LINE:
            reason = reasons.get(wait.step or "")
            found += [_other(run["run_id"], wait, store)] if reason is None else [NextStep(wait.id, each) for each in reason]
            reasons[wait.step or ""] = []  # they are for all waits of the step
        elif wait.kind == "child" and wait.about is not None:
            below = await _of_child(asking, wait.about, store)
            found.append(_other(run["run_id"], wait, store)._replace(below=below))
        else:
            found.append(_other(run["run_id"], wait, store))
    return found


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
        if run["workflow"] == EXEC:
            return ["Continue its program:", f"  {typed('exec', '--resume', run_id, store=store)}"]
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


def _other(run: str, wait: Wait, store: str | None) -> NextStep:
    """Return the words for a wait that is no gate's, with its commands."""
    due = clock(wait.due_at_ms) if wait.due_at_ms is not None else ""
    commands = [typed(*each, store=store) for each in _commands_about(run, wait)]
    return NextStep(wait.id, sentence(wait, due), commands)


def _commands_about(run: str, wait: Wait) -> Iterator[Sequence[str]]:
    match wait.kind:
        case "signal":
            yield "runs", "signal", run, wait.reason, "--data", "null"
        case "place":
            whose = ("--fleet",) if wait.about == FLEET_RUNS else ("--tenant", unquote((wait.about or "").split("/")[1]))
            yield ("admission", "show", *whose)
        case "money" | "tokens" | "calls":
            yield from _commands_for_room(wait)
        case "pool":
            for name in (wait.about or "").split(", "):
                yield "pools", "show", name
        case "child":
            yield "runs", "show", wait.about or ""
        case "effect" | "model":
            yield "effects", "list", "--run", run
        case status.NOTHING:
            yield "runs", "export", run
        case _:
            pass


def of_missing(run: View, now_ms: int, store: str | None) -> str:
    """Return the words for a run that no process can go on with: since when, and what a person does, or when one is asked."""
    since_ms = ms(run["workflow_missing_since"])
    if run["workflow"] == EXEC:
        return f"No process runs its program. Continue it:\n  {typed('exec', '--resume', run['run_id'], store=store)}"
    at_ms = since_ms + int(1000 * settings.load().workflow_grace_s)
    when = f"at {clock(at_ms)}" if at_ms > now_ms else "as soon as a process works on this store"
    return (
        f"No live process has had its workflow since {around(since_ms, now_ms)}. Unless one starts, a person is"
        f" asked about it {when}."
    )


def _commands_for_room(wait: Wait) -> Iterator[Sequence[str]]:
    """Yield the commands about a wait for money or tokens of a scope above the run."""
    in_tokens, waits_for_others = wait.kind == "tokens", wait.reason.endswith(IN_FLIGHT)
    kind, *names = [unquote(part) for part in (wait.about or "").removeprefix("tokens/").split("/")]
    if wait.reason.startswith(f"{TREE}_"):
        if not waits_for_others:
            root = names[-1]
            yield ("runs", "extend", root, "--tokens", "N") if in_tokens else ("budget", "raise", root, "--by", "USD")
    elif wait.reason.startswith(f"{AGENT}_"):
        yield "team-budgets", "show", names[1], "--tenant", names[0]
    elif not wait.reason.startswith(f"{CONVERSATION}_") and wait.due_at_ms is not None and wait.about is not None:
        owner = ("--tenant", names[0], *(("--team", names[1]) if kind == "team" else ()))
        more = (f"--{names[-2]}-tokens", "N") if in_tokens else (f"--{names[-2]}-usd", "USD")
        yield ("budget", "show", *owner) if waits_for_others else ("budget", "set", *owner, *more)


def in_short(gate: View) -> str:
    """Return a gate's subject in the space that a list has."""
    return gate["step"] or ENGINE_ASKS.get(gate["reason"], "{}").format(gate["subject"] or "the run")


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
        if name == EXEC:
            return [typed("exec", "--resume", run, store=store), typed("runs", "cancel", run, store=store)]
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
