"""`holdfast gates`: what people are asked, and their answers.

Never here: what follows from an answer (the engine decides that).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import msgspec
import typer

from holdfast.cli import completion, reference
from holdfast.cli.connect import Placeholder, backend, typed
from holdfast.cli.noun import MANY, ArgumentSpec, Noun, SignedInRoles
from holdfast.cli.option import AsJson, Reason, Store
from holdfast.cli.page import consequence, form, moment, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import json_value, resolve_actor
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.actor import Actor, Asked
from holdfast.core.values.ids import GateId, run_of
from holdfast.core.values.payload import digest
from holdfast.core.values.proposal import RISK_LEVELS
from holdfast.errors import AlreadyDecided, DecisionRefused, NotFound, UsageError
from holdfast.service.declarations import command, query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend
    from holdfast.cli.noun import Caller, Deed
    from holdfast.service.declarations.command import Decide, Delegate, GateAnswer, Reassign

TOOL_APPROVAL: Final = "tool_approval"
_SHORT: Final = 80
"""JSON up to this length is shown on one line."""
_MAX_NAMED: Final = 10
"""Gates of one run: a person who is to choose among more looks at the list."""

GateArgument = Annotated[
    str,
    typer.Argument(
        metavar="GATE",
        help="Id of the gate, or of a run that asked nothing else. The beginning of an id is enough.",
        autocompletion=completion.gates,
    ),
]


# --- Looking ----------------------------------------------------------------------------------------------------------


def _level(text: str) -> str:
    """Raise UsageError for a level that does not exist."""
    if text not in RISK_LEVELS:
        raise UsageError(f"--risk {text!r:.80} is none of {', '.join(RISK_LEVELS)}.")
    return text


def _check_audience(text: str) -> str:
    """Raise UsageError for a word that names no reviewer."""
    if text not in get_args(Asked):
        raise UsageError(f"--asks {text!r:.80} is none of {', '.join(get_args(Asked))}.")
    return text


def _about(gate: View) -> str:
    from holdfast.cli import next_steps

    return gate["title"] or next_steps.in_short(gate)


def _deadline(gate: View) -> str:
    return moment.due(moment.maybe_ms(gate["due_at"]), moment.now_ms())


GATES: Final = Noun("gates")
app = GATES.app
GATES.list(
    query.Gates,
    Column("gate", ID, of="gate_id"),
    Column("state", goes=2),
    Column("open for", of=lambda gate: moment.age(gate["opened_at"])),
    Column("deadline", of=_deadline),
    Column("risk", of=lambda gate: gate["risk_level"] or ""),
    Column("reason", 13, goes=3),
    Column("about", 12, goes=6, of=_about),
    Column("asks", 12, goes=4, of=lambda gate: ", ".join(gate["reviewers"]) or "anyone"),
    Column("approved", goes=5, of=lambda gate: _approved(gate) if gate["quorum"] > 1 else ""),
    Column("reminders", goes=1, of=lambda gate: gate["reminders"] or ""),
    words={
        "run": "--run RUN",
        "tenant": "",
        "asks": ArgumentSpec(
            "--asks WHOM",
            read=_check_audience,
            help="Only gates that ask you by name (`me`), a role or team of yours (`team`), or `anyone`. Repeatable.",
        ),
        "risk_level": ArgumentSpec("--risk LEVEL", read=_level, help=f"Only gates of this risk: {', '.join(RISK_LEVELS)}."),
        "cursor": ArgumentSpec("--after GATE", help="Only gates opened after this one."),
        "limit": MANY,
    },
)


@app.command()
def show(gate: GateArgument, as_json: AsJson = False, store: Store = None) -> None:
    """Show a gate: what it asks, whom it asks, its form, and the commands that answer it."""
    asyncio.run(_show(gate, as_json, store))


async def _show(text: str, as_json: bool, store: str | None) -> None:
    from holdfast.cli import next_steps

    async with backend(store, resolve_actor(None)) as service:
        gate = await service.row(query.Gate(await _find_gate(service, text)))
        run = await reference.run(service, gate["run_id"])
        now_ms = service.now_ms()
    commands = next_steps.commands(gate, store) if _is_open(gate) else []
    if as_json:
        terminal.emit({**gate, "filled": gate["initial_data"], "commands": commands})  # `filled`: its name in 0.1.0
        return
    _print(gate, run, commands, now_ms)
    if gate["asked_together"] is not None:
        _print_together(gate["asked_together"], store)


def _print_together(together: View, store: str | None) -> None:
    calls = together["calls"]
    first = calls[0]["gate_id"]
    terminal.show(f"\nAsked together, {counted(len(calls), 'call')}")
    terminal.sheet(_numbered(calls), indent="  ")
    terminal.show("\nAnswer all, or each by its number, with")
    shown = ("--shown", together["shown_hash"])
    for words in (("approve",), ("reject", "--reason", Placeholder("<REASON>")), ("--each", '{"1": "approve", "2": "reject"}')):
        terminal.show(f"  {typed('gates', 'together', first, *words, *shown, store=store)}")


def _numbered(calls: Sequence[View]) -> list[tuple[str, str]]:
    return [(str(number), f"{each['tool']} {_readable(each['arguments'])}") for number, each in enumerate(calls, 1)]


def _print(gate: View, run: View, commands: list[str], now_ms: int) -> None:
    terminal.sheet(
        [
            ("Gate", gate["gate_id"]),
            ("Run", f"{run['run_id']} of {run['workflow']} {run['version']}, tenant {run['tenant']}"),
            ("Reason", f"{gate['reason']} in {gate['step']}" if gate["step"] is not None else gate["reason"]),
            ("Asks", ", ".join(gate["reviewers"]) or "anyone"),
            *([("Four eyes", f"{_involved(gate)} cannot decide")] if gate["four_eyes"] else []),
            *([("Proposes", gate["proposed_action"])] if gate["proposed_action"] else []),
            *([("Evidence", ", ".join(gate["evidence_ids"]))] if gate["evidence_ids"] else []),
            *([("Risk", gate["risk_level"])] if gate["risk_level"] else []),
            *([("Approvals", _approvals(gate))] if gate.get("quorum", 1) > 1 else []),
            *([("Edited", f"by {gate['edited_by']}; another person decides")] if gate.get("edited_by") else []),
            *([("Not by", ", ".join(gate["not_by"]))] if gate["not_by"] else []),
            ("Opened", moment.around(moment.ms(gate["opened_at"]), now_ms)),
            ("Deadline", moment.around(moment.ms(gate["due_at"]), now_ms) if gate["due_at"] is not None else "none"),
            *([("Expires", moment.around(moment.ms(gate["expires_at"]), now_ms))] if gate["expires_at"] is not None else []),
            *(("Given on", _given_on(each, now_ms)) for each in gate["assigned"]),
            ("Reminders", str(gate["reminders"])),
            ("State", _state(gate, now_ms)),
            ("Hash", gate["shown_hash"]),
            *([("Call", consequence.of_call(gate["call"]))] if gate["call"] is not None else []),
            *([("Can still spend", _money(gate))] if _is_open(gate) else []),
        ]
    )
    terminal.show("\nShown")
    fields = gate["shown"] if isinstance(gate["shown"], dict) else {"": gate["shown"]}
    if gate["reason"] == EFFECT_UNKNOWN:  # `What follows` has its answers, in the words of the commands
        fields = {name: value for name, value in fields.items() if name != "answers"}
    terminal.sheet([(name, _readable(value)) for name, value in fields.items()], indent="  ")
    if gate["consequences"]:
        terminal.show("\nWhat follows")
        terminal.sheet(consequence.follows(gate), indent="  ")
    if gate["form"] is not None:
        terminal.show("\nForm")
        form.show(gate["form"], gate["initial_data"] if isinstance(gate["initial_data"], dict) else {})
    if commands:
        terminal.show("\nAnswer with")
        for command in commands:
            terminal.show(f"  {command}")


def _money(gate: View) -> str:
    """Return the most that can still be spent after a decision."""
    return (
        f"at most {gate['spendable_usd']} dollars can be spent"
        if gate["spendable_usd"] is not None
        else "no cost limit; unknown cost"
    )


def _approvals(gate: View) -> str:
    """`1 of 2 approved, by ann`."""
    names = _approvers(gate)
    return f"{len(names)} of {gate['quorum']} approved" + (f", by {', '.join(names)}" if names else "")


def _approved(gate: View) -> str:
    """`1 of 2: ann`."""
    names = _approvers(gate)
    return f"{len(names)} of {gate['quorum']}" + (f": {', '.join(names)}" if names else "")


def _approvers(gate: View) -> list[str]:
    return [*gate["approved_by"], *([gate["by"]] if gate["decision"] == "approve" else [])]


def _involved(gate: View) -> str:
    """The persons who started the run or contributed to it."""
    return ", ".join([gate["requester"] or "the requester of the run", *gate.get("contributors", ())])


def _readable(value: Any) -> str:
    """Text as it is; anything else as JSON, on one line where that is short."""
    if isinstance(value, str):
        return value
    from holdfast.core.values.content import labelled

    value = labelled(value)
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2)


def _given_on(assigned: View, now_ms: int) -> str:
    why = f": {assigned['reason']}" if assigned["reason"] else ""
    asks = f"asks {', '.join(assigned['reviewers'])} since {moment.around(moment.ms(assigned['at']), now_ms)}"
    return f"by {assigned['by'] or 'unknown'}{why}; {asks}"


def _state(gate: View, now_ms: int) -> str:
    if gate["state"] == "decided":
        why = f": {gate['decision_reason']}" if gate["decision_reason"] else ""
        roles = f" as {', '.join(gate['roles'])}" if gate["roles"] else ""
        return f"{gate['decision']} by {Actor(gate['by'], gate['os_user'] or '', gate['client'] or '')}{roles}{why}"
    if gate["state"] == "expired":
        return "expired: it accepts no decision any more"
    if gate["state"] == "withdrawn":
        return f"withdrawn: {gate['decision_reason']}"
    if gate["escalated_at"] is not None:
        return f"escalated {moment.around(moment.ms(gate['escalated_at']), now_ms)}"
    return "open"


# --- Deciding ---------------------------------------------------------------------------------------------------------


async def _decided(message: Decide, caller: Caller) -> View:
    from holdfast.cli import next_steps

    async with backend(caller.store, caller.by) as service:
        gate = await _resolve_gate(service, message.gate, message.decision, message.shown_hash, caller.store)
        shown = message.shown_hash
        if shown is None:
            shown = await show_first(service, gate, caller.as_json, caller.store)
        await service.execute(msgspec.structs.replace(message, gate=gate, shown_hash=shown))
        row = next(row for row in await _list_gates(service, run_of(GateId(gate))) if row["gate_id"] == gate)
        if _is_open(row):  # another person is needed
            whole = await service.row(query.Gate(gate))
            row = {**row, "approvals": whole["approvals"], "edited_by": whole["edited_by"]}
        onward = [] if caller.as_json or _is_open(row) else await next_steps.onward(service, row["run_id"], caller.store)
    if not caller.as_json:
        rest = ""
        if _is_open(row):
            rest = f" It is still open. {'Another person decides' if message.decision != 'approve' else _approvals(row)}."
        terminal.say(f"Gate {gate}: {message.decision} by {caller.by.claim}.{rest}")
        for line in onward:
            terminal.say(line)
    return row


def _deciding(decision: str) -> Deed:
    return lambda told, caller: _decided(msgspec.structs.replace(told, decision=decision), caller)


_GATE: Final = ArgumentSpec(
    "GATE", help="Id of the gate, or of a run that asked nothing else. The beginning of an id is enough."
)
_DECIDE: Final[Mapping[str, str | ArgumentSpec]] = {
    "gate": _GATE,
    "shown_hash": ArgumentSpec("--shown HASH", help="Decide only if the gate still shows this hash (see `gates show`)."),
}
for _decision, _about_it in (
    ("approve", "Approve what a gate shows. Fill in the other fields of its form with --data."),
    ("edit", "Approve what a gate shows with changes, given as --data."),
    ("reject", "Reject what a gate shows. The run takes the edge for a rejection, or fails."),
    ("answer", "Answer the question of a gate with --data, or give the response in place of a tool."),
    ("retry", "Try again what failed or is unknown."),
):
    _words = {**_DECIDE, "decision": ""}
    GATES.verb(_decision, command.Decide, words=_words, about=_about_it, deed=_deciding(_decision), signed=True, roles=True)
GATES.verb(
    "decide",
    command.Decide,
    words={**_DECIDE, "decision": ArgumentSpec("DECISION", needed=True, help="Decision that `gates show` lists.")},
    about="Decide a gate with any decision that it allows, also one of its own.",
    deed=_decided,
    signed=True,
    roles=True,
)


# --- Whom it asks -----------------------------------------------------------------------------------------------------


async def _assign(message: Delegate | Reassign, caller: Caller) -> View:
    async with backend(caller.store, caller.by) as service:
        gate = await _find_gate(service, message.gate)
        await service.execute(msgspec.structs.replace(message, gate=gate))
        return await service.row(query.Gate(gate))


def _say_assigned(gate: View) -> None:
    terminal.say(f"Gate {gate['gate_id']} asks {', '.join(gate['reviewers'])} now.")


_ASSIGN: Final[Mapping[str, str | ArgumentSpec]] = {"gate": _GATE, "to": "--to NAME"}
GATES.verb("delegate", command.Delegate, words=_ASSIGN, says=_say_assigned, deed=_assign, signed=True, roles=True)
GATES.verb("reassign", command.Reassign, words=_ASSIGN, says=_say_assigned, deed=_assign, signed=True)


# --- Several at once --------------------------------------------------------------------------------------------------


@app.command()
def together(
    gate: GateArgument,
    decision: Annotated[
        str | None, typer.Argument(metavar="DECISION", help="Decision for all calls: approve or reject.")
    ] = None,
    each: Annotated[
        str | None,
        typer.Option(
            "--each",
            metavar="JSON",
            help=(
                'Decision for each call, by its number in `gates show`: {"1": "approve", "2":'
                ' {"decision": "edit", "data": {...}}}. Calls that you do not name stay open.'
            ),
        ),
    ] = None,
    reason: Reason = None,
    shown_hash: Annotated[
        str | None,
        typer.Option("--shown", metavar="HASH", help="Decide only if the gates still show this hash (see `gates show`)."),
    ] = None,
    *,
    caller: SignedInRoles,
) -> None:
    """Decide several tool calls that one step asks about at the same time. All decisions take effect, or none."""
    if (decision is None) == (each is None):
        raise UsageError("Pass a decision for all calls (approve or reject), or --each. Nothing was decided.")
    if decision is not None and decision not in ("approve", "reject"):
        raise UsageError(f"{decision!r}: a decision for all calls is approve or reject; use --each for others.")
    given = json_value(each, "--each") if each is not None else decision
    done = asyncio.run(_decide_together(gate, given, reason, shown_hash, caller))
    if caller.as_json:
        terminal.emit(done)
    else:
        terminal.say("\n".join(f"Gate {gate}: {said}." for gate, said in done.items()))


async def _decide_together(
    text: str, answer: Any, reason: str | None, shown_hash: str | None, caller: Caller
) -> dict[str, str]:
    from holdfast.service.declarations.command import DecideTogether

    async with backend(caller.store, caller.by) as service:
        gate = await _find_gate(service, text)
        row = await service.row(query.Gate(gate))
        together = row["asked_together"]
        gates = [gate] if together is None else [each["gate_id"] for each in together["calls"]]
        each = answer if isinstance(answer, dict) else {str(number): answer for number in range(1, len(gates) + 1)}
        decisions = {_of_number(number, gates): _answer(number, answer, reason) for number, answer in each.items()}
        if shown_hash is None and _is_open(row):
            shown_hash = digest([row["shown_hash"]]) if together is None else together["shown_hash"]
            if not caller.as_json and together is not None:
                _say_shown(f"Asked together, {counted(len(gates), 'call')}", _numbered(together["calls"]))
        await service.execute(DecideTogether(gate, {**decisions}, shown_hash))
    return {gate: each.decision for gate, each in decisions.items()}


def _of_number(number: str, gates: Sequence[str]) -> str:
    """Raises UsageError."""
    if not number.isdecimal() or not 1 <= int(number) <= len(gates):
        raise UsageError(f"There is no call {number!r}; `gates show` lists 1 to {len(gates)}. Nothing was decided.")
    return gates[int(number) - 1]


def _answer(number: str, answer: Any, reason: str | None) -> GateAnswer:
    """Return the decision about one call; `reason` is that of all. Raises UsageError."""
    from holdfast.service.declarations.command import GateAnswer

    more = {"decision": answer} if isinstance(answer, str) else answer
    try:
        return msgspec.convert({"reason": reason, **more}, GateAnswer)
    except (TypeError, msgspec.ValidationError):
        raise UsageError(
            f"Of call {number}: give a decision, or an object with decision, data and reason. Nothing was decided."
        ) from None


async def show_first(asking: QueryBackend, gate: str, as_json: bool, store: str | None) -> str | None:
    """Show what an open gate asks about, and return its hash. Raise DecisionRefused if a person has edited it: another may have
    looked at it before."""
    row = await asking.row(query.Gate(gate))
    if not _is_open(row):
        return None
    if row["edited_by"]:
        look = typed("gates", "show", gate, store=store)
        raise DecisionRefused(
            f"Gate {gate} was edited by {row['edited_by']} after it was opened. Nothing was decided. Look at what it shows now,"
            f" and decide with --shown {row['shown_hash']}:\n  {look}"
        )
    if not as_json:
        fields = row["shown"] if isinstance(row["shown"], dict) else {"shown": row["shown"]}
        _say_shown(f"Gate {gate} shows", [(name, _readable(value)) for name, value in fields.items()])
    return str(row["shown_hash"])


def _say_shown(title: str, fields: Iterable[tuple[str, str]]) -> None:
    """Print what is decided about, beside the data; the further lines of a value are set in below it."""
    lines = [f"{name}: {value}".replace("\n", "\n    ") for name, value in fields]
    terminal.say("\n".join([f"{title}:", *lines]))


async def _list_gates(asking: QueryBackend, run: str) -> list[View]:
    """All that a run has asked."""
    return await asking.rows(query.Gates(run=run, all=True), reference.MAX_OF_A_RUN)


async def _resolve_gate(asking: QueryBackend, text: str, decision: str, shown_hash: str | None, store: str | None) -> str:
    """The gate that a person decides: by its id, or by its run's where that can mean no other.

    A run that has asked more than one thing may ask another by now than the one that was looked at; only the hash of what
    was shown tells. Raises NotFound, AlreadyDecided, DecisionRefused.
    """
    from holdfast.cli import next_steps

    if ":" in text:
        return await reference.gate(asking, text)
    try:
        run = await reference.run(asking, text)
    except NotFound:
        raise NotFound(f"There is no gate {text}, and no run; `holdfast gates list` shows the gates that are open.") from None
    rows = await _list_gates(asking, run["run_id"])
    still: list[str] = [row["gate_id"] for row in rows if _is_open(row)]
    if not rows:
        raise NotFound(f"Run {text} asks nothing; it is {run['status']}.")
    if not still:
        last = rows[-1]
        how = f"{last['decision']} by {last['by'] or 'unknown'}" if last["decision"] else "withdrawn"
        raise AlreadyDecided(f"Run {text} has no open gate; the last was {how}.")
    if len(rows) == 1:
        return still[0]
    if shown_hash is not None:
        seen = [id_ for id_ in still if (await asking.row(query.Gate(id_)))["shown_hash"] == shown_hash]
        if len(seen) == 1:
            return seen[0]
    named = "\n".join(f"  {row['gate_id']}  {_became(row)}" for row in rows[-_MAX_NAMED:])
    commands = "\n".join(
        f"  {typed(*words, store=store)}"
        for gate in still[:_MAX_NAMED]
        for words in (("gates", "show", gate), next_steps.deciding(gate, decision))
    )
    raise DecisionRefused(
        f"Run {text} has asked {len(rows)} questions, so the run's id does not identify one. Nothing was"
        f" decided.\n{named}\nLook, and decide by the gate's own id (or add --shown HASH, which `gates show` prints):\n"
        f"{commands}"
    )


def _is_open(gate: View) -> bool:
    return gate["state"] in ("open", "escalated")


def _became(gate: View) -> str:
    return f"{gate['decision']} by {gate['by'] or 'unknown'}" if gate["decision"] else str(gate["state"])


async def _find_gate(asking: QueryBackend, text: str) -> str:
    """The gate to look at: by its id, or a run's only open one, or the first of those that are asked together, else its last.
    Raises NotFound, and UsageError where others are open."""
    if ":" in text:
        return await reference.gate(asking, text)
    try:
        run = await reference.run(asking, text)
    except NotFound:
        raise NotFound(f"There is no gate {text}, and no run; `holdfast gates list` shows the gates that are open.") from None
    rows = await _list_gates(asking, run["run_id"])
    still = [row for row in rows if _is_open(row)]
    if len(still) > 1 and {(row["reason"], row["step"]) for row in still} != {(TOOL_APPROVAL, still[0]["step"])}:
        raise UsageError(
            f"Run {text} has {len(still)} open gates; name one of them: {', '.join(row['gate_id'] for row in still)}."
        )
    if not rows:
        raise NotFound(f"Run {text} asks nothing; it is {run['status']}.")
    return str((still[0] if still else rows[-1])["gate_id"])


EXAMPLES: Final = {
    "list": "--risk high",
    "show": "019aa8b2",
    "approve": "019aa8b2 --as grace --role support",
    "edit": "019aa8b2 --data '{\"amount\": 30}' --as grace",
    "reject": "019aa8b2 --reason 'Already refunded.' --as grace",
    "answer": "019aa8b2 --data '\"Berlin\"'",
    "retry": "019aa8b2",
    "decide": "019aa8b2 escalate --as grace",
    "delegate": "019aa8b2 --to ann --as grace",
    "reassign": "019aa8b2 --to ann --to role:legal",
    "together": "019aa8b2 approve --as grace",
}
