"""`holdfast runs show`: all about one run.

Never here: what it waits for in words (advice), its history (history).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli import reference
from holdfast.cli.connect import EXEC, backend
from holdfast.cli.page import moment, table, terminal, waiting
from holdfast.cli.page.count import counted
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.core.values.actor import Actor
from holdfast.core.values.money import nanousd, usd
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

STEPS: Final = (
    Column("step", 16),
    Column("status"),
    Column("began"),
    Column("took"),
    Column("tries", goes=3),
    Column("cost"),
    Column("worker", 12, goes=1),
    Column("detail", 12, goes=4),
)
MAX_OPERATIONS: Final = 100
"""Maximum number of a run's operations shown below its steps: `--operations` lists them all."""
MAX_LINES: Final = 10
"""Number of lines of a program's output that are shown."""
MAPS: Final = (
    Column("map", 12),
    Column("status"),
    Column("items"),
    Column("done"),
    Column("failed"),
    Column("under way"),
    Column("failures", 12, goes=1),
)
EFFECTS: Final = (Column("call", ID), Column("tool", 8), Column("state"), Column("age"))
SCORES: Final = (Column("name", 8), Column("value", 8), Column("by", 8), Column("age", goes=2), Column("comment", 12, goes=1))


TREE: Final = (
    Column("run", ID),
    Column("workflow", 8),
    Column("status"),
    Column("changed", goes=3),
    Column("cost"),
    Column("limit", goes=2),
    Column("tokens", goes=1),
)


TRACE: Final = (
    Column("step", 16),
    Column("type", 8),
    Column("event"),
    Column("took", goes=3),
    Column("tokens", goes=1),
    Column("cost", goes=2),
)
"""`step`: the node, or the operation that the line is about, as `--operations` has it."""


def show(run: str, *, tree: bool, trace: bool, operations: bool, as_json: bool, store: str | None) -> None:
    """Print a run: its steps with their operations, its money, its effects, and what it waits for; with everything below it,
    a line for each; its trace; or all of its operations."""
    shown = _show_trace if trace else _show_tree if tree else _show_operations if operations else _show
    asyncio.run(shown(run, as_json, store))


async def _show_operations(run: str, as_json: bool, store: str | None) -> None:
    async with backend(store, resolve_actor(None)) as service:
        found = await service.rows(query.Operations(run=await reference.run_id(service, run)))
        now_ms = service.now_ms()
    if as_json:
        for each in found:
            terminal.emit_line(each)
        return
    table.show(STEPS, [_operation(each, now_ms) for each in found])


async def _show_trace(run: str, as_json: bool, store: str | None) -> None:
    async with backend(store, resolve_actor(None)) as service:
        run = await reference.run_id(service, run)
        events = await service.rows(query.Trace(run=run))
        operations = [] if as_json else await service.rows(query.Operations(run=run))
    if as_json:
        for each in events:
            terminal.emit_line(each)
        return
    about = {("approval_requested", each["seq"]): each for each in operations if each["kind"] == "question"}
    about |= {(kind, each["ended_seq"]): each for each in operations for kind in _ENDS}
    table.show(
        TRACE,
        [
            (
                each["node_name"] or "-" if operation is None else _placed(operation),
                each["event_type"],
                str(each["seq"]),
                moment.span(each["latency_ms"]) if each["latency_ms"] is not None else "-",
                str(sum(each["token_usage"].values())) if each["token_usage"] else "-",
                f"${each['cost_estimate']}" if nanousd(each["cost_estimate"] or 0) else "-",
            )
            for each in events
            for operation in [about.get((each["event_type"], each["seq"]))]
        ],
    )


_ENDS: Final = ("checkpoint", "approval_decided")
"""Lines of a trace that are about the outcome of an operation."""


async def _show_tree(run: str, as_json: bool, store: str | None) -> None:
    async with backend(store, resolve_actor(None)) as service:
        tree = await service.row(query.Tree(run=await reference.run_id(service, run)))
        now_ms = service.now_ms()
    if as_json:
        terminal.emit(tree)
        return
    table.show(TREE, [_member(each, now_ms) for each in tree["runs"]])
    more = f", ${tree['held_usd']} held or in doubt" if nanousd(tree["held_usd"]) else ""
    tokens = counted(tree["tokens"], "token") + (f", {tree['held_tokens']} held or in doubt" if tree["held_tokens"] else "")
    terminal.show(f"\n{counted(len(tree['runs']), 'run')}, ${tree['cost_usd']} spent{more}; {tokens}")
    if not tree["is_whole"]:
        terminal.say(f"The tree has more: only the first {counted(len(tree['runs']), 'run')} are shown.")


def _member(row: View, now_ms: int) -> tuple[str, ...]:
    name = "  " * row["depth"] + row["run_id"]
    if row["status"] == "requested":
        return name, "-", "requested", "-", "-", "-", "-"
    spent = usd(nanousd(row["cost_usd"]) + nanousd(row["held_usd"]))
    limit = "-" if row["limit_usd"] is None else f"${row['limit_usd']}"
    changed = moment.ago(moment.ms(row["updated_at"]), now_ms)
    tokens = str(row["tokens"] + row["held_tokens"])
    tokens += f" of {row['max_tokens']}" if row["max_tokens"] is not None else ""
    return name, f"{row['workflow']} {row['version']}", row["status"], changed, f"${spent}", limit, tokens


async def _show(run: str, as_json: bool, store: str | None) -> None:
    from holdfast.cli import next_steps

    async with backend(store, resolve_actor(None)) as service:
        found = await service.row(query.Run(await reference.run_id(service, run)))
        listed = None if as_json else await service.page(query.Operations(run=found["run_id"]), MAX_OPERATIONS)
        waits = [] if as_json else await next_steps.of_run(service, found, store)
        printed = [] if as_json or found["workflow"] != EXEC else await _last_lines(service, found["run_id"])
        now_ms = service.now_ms()
    if listed is None:
        terminal.emit(found)
        return
    terminal.sheet(_head(found, now_ms))
    terminal.show("\nSteps")
    table.show(STEPS, list(_steps(found["steps"], listed.rows, now_ms)))
    if listed.cursor is not None:
        terminal.show(f"The first {MAX_OPERATIONS} operations are shown. All of them: holdfast runs show {run} --operations")
    if found["maps"]:
        terminal.show("\nMaps")
        table.show(MAPS, [_map(each) for each in found["maps"]])
    if found["effects"]:
        terminal.show("\nEffects")
        table.show(
            EFFECTS,
            [
                (each["call"], each["tool"], each["state"], moment.ago(moment.ms(each["intended_at"]), now_ms))
                for each in found["effects"]
            ],
        )
    if found["scores"]:
        terminal.show("\nScores")
        table.show(
            SCORES,
            [
                (
                    each["name"],
                    f"{each['value']:g}",
                    each["by"],
                    moment.ago(moment.ms(each["at"]), now_ms),
                    each["comment"] or "",
                )
                for each in found["scores"]
            ],
        )
    if printed:
        terminal.show(f"\nThe end of its output (all of it: holdfast logs {run})")
        for line in printed:
            terminal.show(terminal.line(line))
    stalls = [
        f"Its process is blocked since {moment.around(moment.ms(each['since']), now_ms)}, and retries: {each['reason']}"
        for each in found["stalls"]
    ]
    if found["workflow_missing_since"] is not None:
        stalls.append(next_steps.of_missing(found, now_ms, store))
    if stalls or waits:
        terminal.show("\nWaits")
        for line in (*stalls, *waits):
            terminal.show(line)


async def _last_lines(service: QueryBackend, run: str) -> list[str]:
    """Return the last lines that the program of a run has printed, in its latest attempt."""
    pieces = (await service.query(query.Logs(run=run, text=False))).rows
    if not pieces:
        return []
    last = max(pieces, key=lambda each: (each["attempt"], each["first_byte"]))
    asked = query.Logs(run=run, job=last["job"], attempt=last["attempt"], first_byte=last["first_byte"])
    (piece,) = (await service.query(asked)).rows
    return str(piece["text"]).splitlines()[-MAX_LINES:]


def _head(row: View, now_ms: int) -> list[tuple[str, str]]:
    from holdfast.cli.page.event_words import failed

    limit = f" of ${row['limit_usd']}" if row["limit_usd"] is not None else ""
    held = f", ${row['held_usd']} held or in doubt" if nanousd(row["held_usd"]) else ""
    started_ms = moment.ms(row["started_at"])
    by = Actor(row["started_by"], row["started_by_os_user"] or "", row["started_by_client"] or "")
    pairs = [
        ("Run", row["run_id"]),
        ("Workflow", f"{row['workflow']} {row['version']}"),
        ("Tenant", row["tenant"]),
        ("Status", row["status"]),
        ("Started", moment.around(started_ms, now_ms) + (f" by {by}" if by.name is not None else "")),
    ]
    if row["key"] is not None:
        pairs.append(("Key", row["key"]))
    if row["tags"]:
        pairs.append(("Tags", ", ".join(row["tags"])))
    if row["labels"]:
        pairs.append(("Labels", ", ".join(f"{key}={value}" for key, value in row["labels"].items())))
    if row["parent"] is not None:
        pairs.append(("Child of", f"{row['parent']['run_id']}, for {row['parent']['step']}"))
    if row["forked_from"] is not None:
        pairs.append(("Fork of", f"{row['forked_from']['run_id']}, from {row['forked_from']['step']}"))
    if row["ended_at"] is not None:
        ended_ms = moment.ms(row["ended_at"])
        pairs.append(("Ended", f"{moment.around(ended_ms, now_ms)}, after {moment.span(ended_ms - started_ms)}"))
    else:
        pairs.append(("Changed", moment.around(moment.ms(row["updated_at"]), now_ms)))
    work = f"{counted(row['tokens'], 'token')}, {counted(row['steps_started'], 'step')}"
    pairs.append(("Spent", f"${row['cost_usd']}{limit}{held}; {work}"))
    pairs += [
        ("Would stop", f"{message} Its limits are only recorded, so it went on.") for message in row["would_stop"].values()
    ]
    pairs += [
        ("Bound", f"{model} billed a call above its bound; its calls are held at {percent / 100:g} times that since.")
        for model, percent in row["bound_percents"].items()
    ]
    if (error := row["error"]) is not None:
        pairs.append(("Error", f"{error['node'] or ''}: {failed(**error)}".removeprefix(": ")))
        if error["trace"] is not None:
            pairs.append(("Trace", error["trace"].rstrip()))
    elif row["reason"] is not None:
        pairs.append(("Reason", row["reason"]))
    if row["status"] == "completed":
        from holdfast.core.values.content import labelled

        pairs.append(("Output", json.dumps(labelled(row["output"]), ensure_ascii=False, indent=2)))
    return pairs


def _steps(steps: Sequence[View], operations: Sequence[View], now_ms: int) -> Iterator[tuple[str, ...]]:
    """Yield a line for each step, with its operations below it; those of earlier visits and of items of maps come last."""
    below: dict[str, list[View]] = {}
    for each in operations:
        below.setdefault(each["step"], []).append(each)
    for step in steps:
        yield _step(step, now_ms)
        yield from (_operation(each, now_ms, " ") for each in below.pop(step["step"], ()))
    for name, rows in below.items():
        if name:
            yield name, *["-"] * (len(STEPS) - 2), ""
        yield from (_operation(each, now_ms, " " if name else "") for each in rows)


def _operation(row: View, now_ms: int, step: str | None = None) -> tuple[str, ...]:
    """Return the line of an operation, which begins with its place."""
    began_ms = moment.ms(row["began_at"])
    spent = nanousd(row["cost_usd"]) + nanousd(row["held_usd"])
    return (
        _placed(row, step),
        row["status"],
        moment.ago(began_ms, now_ms),
        took(row["status"], began_ms, moment.ms(row["ended_at"] or row["began_at"]), now_ms),
        str(row["tries"] or "-"),
        f"${usd(spent)}" if spent else "-",
        "",
        "; ".join(_details(row, now_ms)),
    )


def _placed(row: View, step: str | None = None) -> str:
    """Return the place and the name of an operation: after its step's id, the place that `runs fork` takes."""
    place = "" if row["path"] is None else f"/{row['path']}"
    return " ".join(filter(None, (f"{row['step'] if step is None else step}{place}", _named(row))))


def _named(row: View) -> str:
    kind: str = row["kind"]
    return row["name"] if kind in (*_NAMED, row["name"]) else f"{_NOUNS.get(kind, kind)} {row['name']}"


def _details(row: View, now_ms: int) -> Iterator[str]:
    """Yield what there is to know about an operation besides its name: the answer, the tokens, what it waits for, its error."""
    from holdfast.cli.page.event_words import failed

    if row["decision"] is not None:
        yield row["decision"] + (f" by {row['by']}" if row["by"] else "")
    if row["input_tokens"] or row["output_tokens"]:
        yield f"{row['input_tokens']} + {row['output_tokens']} tokens"
    if row["max_tokens"] is not None:
        yield f"maximum lowered to {row['max_tokens']}"
    if row["reused"]:
        yield "outcome reused"
    if row["status"] not in _OVER:
        if row["waiting_for"] is not None:
            yield f"waits for {waiting.short(row['waiting_for'])}"
        if row["due_at"] is not None:
            yield f"until {moment.around(moment.ms(row['due_at']), now_ms)}"
        if row["kind"] in ("question", "child") and row["about"] is not None:
            yield row["about"]
    if row["error"] is not None and row["status"] != "completed":
        yield failed(**row["error"])


_NAMED: Final = frozenset({"function", "tool", "timer", "value"})
"""Operations that their names describe."""
_NOUNS: Final = {"shared_value": "shared value"}


def _step(step: View, now_ms: int) -> tuple[str, ...]:
    from holdfast.cli.page.event_words import failed

    error = step["error"] if step["status"] != "completed" else None  # of an attempt before
    detail = failed(**error) if error is not None else step["reason"] or ", ".join(step["decisions"] or ())
    began_ms, changed_ms = moment.maybe_ms(step["began_at"]), moment.ms(step["changed_at"])
    return (
        step["step"],
        step["status"],
        moment.ago(began_ms, now_ms),
        took(step["status"], began_ms, changed_ms, now_ms),
        str(step["attempts"] or "-"),
        "-",
        step["worker"] or "-",
        detail,
    )


def _map(row: dict[str, Any]) -> tuple[str, ...]:
    counts = (str(row[each]) for each in ("items", "completed", "failed", "under_way"))
    failures = "; ".join(f"{each['item']}: {each['error']['message']}" for each in row["failures"])
    return row["map"], row["status"], *counts, failures


def took(status: str, began_ms: int | None, since_ms: int, now_ms: int) -> str:
    """Return how long a step has been under way, waits included; for one that is over, `since_ms`, how long it was."""
    return "-" if not began_ms else moment.span((since_ms if status in _OVER else now_ms) - began_ms)


_OVER: Final = frozenset({"completed", "failed", "skipped", "cancelled"})
