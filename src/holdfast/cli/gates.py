"""`holdfast gates`: what people are asked, and their answers.

Never here: what follows from an answer (the engine decides that).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import completion, form, moment, reference, table, terminal
from holdfast.cli.given import json_value, who
from holdfast.cli.opening import acting, asking, looking, typed
from holdfast.cli.option import MOST_LISTED, AsJson, ListLimit, Reason, Roles, Store, Who
from holdfast.cli.table import ID, Column
from holdfast.errors import AlreadyDecided, DecisionRefused, NotFound, UsageError

if TYPE_CHECKING:
    from holdfast.control.command import AskedTogether
    from holdfast.control.control import Control
    from holdfast.core.projection import GateChange, GateRow, RunRow
    from holdfast.service.gate import Story
    from holdfast.service.principal import Principal

app = typer.Typer(help="See what people are asked, and answer.", no_args_is_help=True)

COLUMNS: Final = (
    Column("gate", ID), Column("state"), Column("open for"), Column("deadline"), Column("reason", 8, goes=3),
    Column("about", 10, goes=4), Column("asks", 6, goes=2), Column("reminders", goes=1),
)  # fmt: skip
TOOL_APPROVAL: Final = "tool_approval"
_SHORT: Final = 80
"""JSON up to this length is shown on one line."""
_MOST_NAMED: Final = 10
"""Gates of one run: a person who is to choose among more looks at the list."""

GateArgument = Annotated[
    str,
    typer.Argument(
        metavar="GATE",
        help="A gate's id or its beginning, or that of a run that asked nothing else.",
        autocompletion=completion.gates,
    ),
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="JSON", help="The form's fields: JSON, @FILE, or @- for stdin.")
]
Shown = Annotated[
    str | None,
    typer.Option("--shown", metavar="HASH", help="Decide only if this is what is shown (`gates show` prints it)."),
]


# --- Looking ----------------------------------------------------------------------------------------------------------


@app.command("list")
def list_(
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only this run's.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that were decided or withdrawn as well.")] = False,
    after: Annotated[
        str | None, typer.Option("--after", metavar="GATE", help="Only those opened after this one.")
    ] = None,
    limit: ListLimit = MOST_LISTED,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """List the open gates, oldest first."""
    asyncio.run(_list(run, everything, after, limit, as_json, store))


async def _list(
    run: str | None, everything: bool, after: str | None, limit: int, as_json: bool, store: str | None
) -> None:
    from holdfast.cli import advice
    from holdfast.service import view

    async with looking(store) as inquiries:
        named = None if run is None else (await reference.run(inquiries, run)).run
        rows = await inquiries.gates(named, open_only=not everything, after=after, limit=limit + 1)
        rows, more = rows[:limit], len(rows) > limit
        now_ms = inquiries.now_ms()
    found = [view.of_gate(row, change) for row, change in rows]
    if more:
        terminal.say(f"There are more: say the same with --after {rows[-1][0].gate}")
    if as_json:
        terminal.emit(found)
        return
    table.show(COLUMNS, [
        (
            gate["gate_id"], gate["state"], moment.ago(row.opened_at_ms, now_ms), moment.due(row.due_at_ms, now_ms),
            gate["reason"], advice.in_short(row), ", ".join(gate["reviewers"]) or "anybody", str(gate["reminders"]),
        )
        for gate, (row, _) in zip(found, rows, strict=True)
    ])  # fmt: skip


@app.command()
def show(gate: GateArgument, as_json: AsJson = False, store: Store = None) -> None:
    """Show what a gate asks about, whom, its form, and the commands that answer it."""
    asyncio.run(_show(gate, as_json, store))


async def _show(given: str, as_json: bool, store: str | None) -> None:
    from holdfast.cli import advice
    from holdfast.core.ids import run_of
    from holdfast.service import gate

    async with asking(store) as engine:
        story = await gate.story_of(engine, await _found(engine, given))
        run = await engine.find(run_of(story.opened.gate))
        found = await gate.whole(engine, story, run)
        now_ms = engine.now_ms()
        is_open = story.state in ("open", "escalated")
        beside = (
            await engine.asked_together(found["gate_id"]) if is_open and story.opened.reason == TOOL_APPROVAL else None
        )
    commands = advice.commands(run.run, story.opened, store) if is_open else []
    together = None if beside is None or len(beside.calls) == 1 else beside
    if as_json:
        terminal.emit({**found, "commands": commands, "asked_together": _of_together(together)})
    else:
        _print(story, run, found["shown"], found["filled"], commands, now_ms)
        if together is not None:
            _print_together(together, store)


def _of_together(together: AskedTogether | None) -> dict[str, Any] | None:
    if together is None:
        return None
    calls = [{"gate_id": each.gate, "tool": each.tool, "arguments": each.arguments} for each in together.calls]
    return {"calls": calls, "shown_hash": together.shown_hash}


def _print_together(together: AskedTogether, store: str | None) -> None:
    first = together.calls[0].gate
    terminal.show(f"\nAsked together, {len(together.calls)} calls")
    terminal.sheet(
        [(str(number), f"{each.tool} {_readable(each.arguments)}") for number, each in enumerate(together.calls, 1)],
        indent="  ",
    )
    terminal.show("\nAnswer all, or each by its number, with")
    shown = ("--shown", together.shown_hash)
    for words in (("approve",), ("reject", "--reason", "..."), ("--each", '{"1": "approve", "2": "reject"}')):
        terminal.show(f"  {typed('gates', 'together', first, *words, *shown, store=store)}")


def _print(story: Story, run: RunRow, shown: Any, filled: Any, commands: list[str], now_ms: int) -> None:
    opened = story.opened
    terminal.sheet([
        ("Gate", opened.gate),
        ("Run", f"{run.run} of {run.workflow} {run.version}, tenant {run.tenant}"),
        ("Reason", f"{opened.reason} in {opened.step}" if opened.step is not None else opened.reason),
        ("Asks", ", ".join(opened.reviewers) or "anybody"),
        *([("Four eyes", f"{opened.requester or 'whoever asked for the run'} cannot decide")] if opened.four_eyes else []),
        ("Opened", moment.around(story.opened_at_ms, now_ms)),
        ("Deadline", moment.around(opened.due_at_ms, now_ms) if opened.due_at_ms is not None else "none"),
        ("Reminders", str(story.reminders)),
        ("State", _state(story, now_ms)),
        ("Hash", opened.shown_hash),
    ])  # fmt: skip
    terminal.show("\nShown")
    fields = shown if isinstance(shown, dict) else {"": shown}
    terminal.sheet([(name, _readable(value)) for name, value in fields.items()], indent="  ")
    if opened.form is not None:
        terminal.show("\nForm")
        form.show(opened.form, filled if isinstance(filled, dict) else {})
    if commands:
        terminal.show("\nAnswer with")
        for command in commands:
            terminal.show(f"  {command}")


def _readable(value: Any) -> str:
    """Text as it is; anything else as JSON, on one line where that is short."""
    if isinstance(value, str):
        return value
    from holdfast.core.content import labelled

    value = labelled(value)
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2)


def _state(story: Story, now_ms: int) -> str:
    if story.decided is not None:
        from holdfast.service import view

        why = f": {story.decided.reason}" if story.decided.reason else ""
        roles = f" as {', '.join(story.decided.roles)}" if story.decided.roles else ""
        return f"{story.decided.decision} by {view.by_whom(story.decided)}{roles}{why}"
    if story.withdrawn is not None:
        return f"withdrawn: {story.withdrawn}"
    if story.escalated_at_ms is not None:
        return f"escalated {moment.around(story.escalated_at_ms, now_ms)}"
    return "open"


# --- Deciding ---------------------------------------------------------------------------------------------------------


def _answering(decision: str) -> Callable[..., None]:
    """The command that gives a gate this answer."""

    def command(
        gate: GateArgument, data: Data = None, reason: Reason = None, shown: Shown = None, by: Who = None,
        role: Roles = None, as_json: AsJson = False, store: Store = None,
    ) -> None:  # fmt: skip
        given = {"data": json_value(data, "--data")} if data is not None else {}
        person = who(by, role)
        found = asyncio.run(_decide(gate, decision, given, reason, shown, person, store))
        if as_json:
            terminal.emit(found)
        else:
            terminal.say(
                f"Gate {found['gate_id']}: {decision} by {person.claim}. Where a worker runs, its run goes on."
            )

    return command


for _decision, _help in (
    ("approve", "Approve what is shown; --data fills in the form's other fields."),
    ("edit", 'Approve it with changes: --data \'{"edited_body": "..."}\'.'),
    ("reject", "Reject it: the run takes the edge for that, or fails."),
    ("answer", "Answer a question, or in a tool's place, with --data."),
    ("retry", "Have it done again."),
):
    app.command(_decision, help=_help)(_answering(_decision))


@app.command()
def together(
    gate: GateArgument,
    decision: Annotated[
        str | None, typer.Argument(metavar="DECISION", help="What is decided of all: approve or reject.")
    ] = None,
    each: Annotated[
        str | None,
        typer.Option(
            "--each", metavar="JSON",
            help='Or of each by its number, as `gates show` has them: {"1": "approve", "2": {"decision": "edit",'
            ' "data": {...}}}; those that are not named stay open.',
        ),
    ] = None,
    reason: Reason = None,
    shown: Annotated[
        str | None,
        typer.Option("--shown", metavar="HASH", help="Decide only if these calls are asked about (`gates show` prints it)."),
    ] = None,
    by: Who = None,
    role: Roles = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:  # fmt: skip
    """Answer the calls of tools that a step asks about at the same time: in one commit, all of the answers or none."""
    if (decision is None) == (each is None):
        raise UsageError("Say what is decided of all (approve or reject), or of each with --each. Nothing was decided.")
    if decision is not None and decision not in ("approve", "reject"):
        raise UsageError(f"{decision!r}: all at once are approved or rejected; --each says other things of each.")
    given = json_value(each, "--each") if each is not None else decision
    done = asyncio.run(_decide_together(gate, given, reason, shown, who(by, role), store))
    if as_json:
        terminal.emit(done)
    else:
        terminal.say("\n".join(f"Gate {gate}: {said}." for gate, said in done.items()))


async def _decide_together(
    gate: str, given: Any, reason: str | None, shown: str | None, by: Principal, store: str | None
) -> dict[str, str]:
    from holdfast.control.command import GateDecision

    async with acting(store) as service:
        engine = service.control
        calls = (await engine.asked_together(await _found(engine, gate))).calls
        said = given if isinstance(given, dict) else {str(number): given for number in range(1, len(calls) + 1)}
        decisions = {}
        for number, each in said.items():
            if not str(number).isdecimal() or not 1 <= int(number) <= len(calls):
                raise UsageError(
                    f"There is no call {number!r}; `gates show` lists 1 to {len(calls)}. Nothing was decided."
                )
            more = {"decision": each} if isinstance(each, str) else each
            if (
                not isinstance(more, dict)
                or "decision" not in more
                or not more.keys() <= {"decision", "data", "reason"}
            ):
                raise UsageError(f"Of call {number}: give a decision, or an object with decision, data and reason.")
            told: dict[str, Any] = {"reason": reason, **more}
            decisions[calls[int(number) - 1].gate] = GateDecision(**told)
        await engine.decide_together(decisions, by=by.claim, roles=by.roles, shown_hash=shown)
    return {gate: each.decision for gate, each in decisions.items()}


async def _decide(
    gate: str, decision: str, given: dict[str, Any], reason: str | None, shown: str | None, by: Principal,
    store: str | None,
) -> dict[str, Any]:  # fmt: skip
    from holdfast.core.ids import GateId, run_of
    from holdfast.service import view
    from holdfast.service.command import Decide

    async with acting(store) as service:
        engine = service.control
        gate = await _meant(engine, gate, decision, shown, store)
        await service.tell(by, Decide(gate, decision, **given, reason=reason, shown_hash=shown))
        rows = await engine.gates(run_of(GateId(gate)), open_only=False, limit=reference.MOST_OF_A_RUN)
        return next(view.of_gate(row, change) for row, change in rows if row.gate == gate)


async def _meant(engine: Control, given: str, decision: str, shown: str | None, store: str | None) -> str:
    """The gate that a person decides: by its id, or by its run's where that can mean no other.

    A run that has asked more than one thing may ask another by now than the one that was looked at; only the hash of what
    was shown tells. Raises NotFound, AlreadyDecided, DecisionRefused.
    """
    if ":" in given:
        return await reference.gate(engine, given)
    run = await reference.run(engine, given)
    rows = await engine.gates(run.run, open_only=False, limit=reference.MOST_OF_A_RUN)
    still = [row.gate for row, change in rows if _is_open(change)]
    if not rows:
        raise NotFound(f"Run {given} asks nothing; it is {run.status}.")
    if not still:
        _, change = rows[-1]
        how = f"{change.decision} by {change.by or 'somebody unnamed'}" if change and change.decision else "withdrawn"
        raise AlreadyDecided(f"Run {given} has no open gate; the last was {how}.")
    if len(rows) == 1:
        return still[0]
    if shown is not None:
        gates = (await engine.run(run.run).state()).gates
        seen = [id_ for id_, gate in gates.items() if gate.opened.shown_hash == shown]
        if len(seen) == 1:
            return seen[0]
    asked = "\n".join(f"  {row.gate}  {_became(change)}" for row, change in rows[-_MOST_NAMED:])
    commands = "\n".join(
        f"  {typed('gates', verb, gate, store=store)}" for gate in still[:_MOST_NAMED] for verb in ("show", decision)
    )
    raise DecisionRefused(
        f"Run {given} has asked {len(rows)} questions, so its id does not say which one you have looked at. Nothing was"
        f" decided.\n{asked}\nLook, and decide by the gate's own id (or add --shown HASH, which `gates show` prints):\n"
        f"{commands}"
    )


def _is_open(change: GateChange | None) -> bool:
    return change is None or change.state in ("open", "escalated")


def _became(change: GateChange | None) -> str:
    if change is None or change.decision is None:
        return change.state if change is not None else "open"
    return f"{change.decision} by {change.by or 'somebody unnamed'}"


async def _found(engine: Control, given: str) -> str:
    """The gate to look at: by its id, or a run's only open one, or the first of those that are asked together, else its last.
    Raises NotFound, and UsageError where others are open."""
    if ":" in given:
        return await reference.gate(engine, given)
    run = await reference.run(engine, given)
    rows = await engine.gates(run.run, open_only=False, limit=reference.MOST_OF_A_RUN)
    still: list[GateRow] = [row for row, change in rows if _is_open(change)]
    if len(still) > 1 and {(row.reason, row.step) for row in still} != {(TOOL_APPROVAL, still[0].step)}:
        raise UsageError(f"Run {given} has {len(still)} open gates; say which: {', '.join(row.gate for row in still)}.")
    if not rows:
        raise NotFound(f"Run {given} asks nothing; it is {run.status}.")
    return (still[0] if still else rows[-1][0]).gate
