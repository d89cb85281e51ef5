"""`holdfast runs show`: all about one run.

Never here: what it waits for in words (advice), its history (history).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli import moment, reference, table, terminal
from holdfast.cli.opening import asking, looking
from holdfast.cli.table import ID, Column

if TYPE_CHECKING:
    from holdfast.control.tree import Member
    from holdfast.core.ids import SessionId
    from holdfast.core.state import State, Step

STEPS: Final = (
    Column("step", 12), Column("status"), Column("began"), Column("took"), Column("attempts", goes=2),
    Column("worker", 12, goes=1), Column("detail", 12, goes=3),
)  # fmt: skip
MAPS: Final = (
    Column("map", 12), Column("status"), Column("items"), Column("done"), Column("failed"), Column("under way"),
    Column("failures", 12, goes=1),
)  # fmt: skip
EFFECTS: Final = (Column("call", ID), Column("tool", 8), Column("state"), Column("age"))
SCORES: Final = (
    Column("name", 8),
    Column("value", 8),
    Column("by", 8),
    Column("age", goes=2),
    Column("comment", 12, goes=1),
)


TREE: Final = (
    Column("run", ID), Column("workflow", 8), Column("status"), Column("changed", goes=3), Column("cost"),
    Column("limit", goes=2), Column("tokens", goes=1),
)  # fmt: skip


TRACE: Final = (
    Column("node", 12), Column("type", 8), Column("event"), Column("took", goes=3), Column("tokens", goes=1),
    Column("cost", goes=2),
)  # fmt: skip


def show(run: str, *, tree: bool, trace: bool, as_json: bool, store: str | None) -> None:
    """Print a run: its steps, its money, its effects, and what it waits for; with everything below it, a line for each; or
    its trace."""
    shown = _show_trace if trace else _show_tree if tree else _show
    asyncio.run(shown(run, as_json, store))


async def _show_trace(run: str, as_json: bool, store: str | None) -> None:
    from holdfast.core.money import usd
    from holdfast.service import view

    async with looking(store) as inquiries:
        events = await inquiries.trace((await reference.run(inquiries, run)).run)
    if as_json:
        for each in events:
            terminal.emit_line(view.of_trace(each))
        return
    table.show(TRACE, [
        (
            each.node_name or "-", each.event_type, str(each.seq),
            moment.span(each.latency_ms) if each.latency_ms is not None else "-",
            str(sum(each.token_usage.values())) if each.token_usage else "-",
            f"${usd(each.cost_nanousd)}" if each.cost_nanousd else "-",
        )
        for each in events
    ])  # fmt: skip


async def _show_tree(run: str, as_json: bool, store: str | None) -> None:
    from holdfast.core.money import usd
    from holdfast.service import view

    async with looking(store) as inquiries:
        tree = await inquiries.tree((await reference.run(inquiries, run)).run)
        now_ms = inquiries.now_ms()
    if as_json:
        terminal.emit(view.of_tree(tree))
        return
    table.show(TREE, [_member(each, now_ms) for each in tree.members])
    held = tree.outstanding_nanousd
    more = f", ${usd(held)} held or in doubt" if held else ""
    tokens = f"{tree.tokens.used} tokens" + (
        f", {tree.tokens.outstanding} held or in doubt" if tree.tokens.outstanding else ""
    )
    terminal.show(f"\n{len(tree.members)} runs, ${usd(tree.settled_nanousd)} spent{more}; {tokens}")
    if not tree.is_whole:
        terminal.say(f"The tree has more: only its first {len(tree.members)} runs are shown.")


def _member(member: Member, now_ms: int) -> tuple[str, ...]:
    from holdfast.core.money import usd

    name, row = "  " * member.depth + member.run, member.row
    if row is None:
        return name, "-", "requested", "-", "-", "-", "-"
    spent = row.settled_nanousd + row.held_nanousd + row.in_doubt_nanousd
    limit = "-" if row.limit_nanousd is None else f"${usd(row.limit_nanousd)}"
    changed = moment.ago(row.updated_at_ms, now_ms)
    tokens = str(member.tokens.used + member.tokens.outstanding)
    tokens += f" of {member.tokens.limit}" if member.tokens.limit is not None else ""
    return name, f"{row.workflow} {row.version}", row.status, changed, f"${usd(spent)}", limit, tokens


async def _show(run: str, as_json: bool, store: str | None) -> None:
    from holdfast.cli import advice
    from holdfast.service import view

    async with asking(store) as engine:
        row = await reference.run(engine, run)
        state = await engine.run(row.run).state()
        if as_json:
            terminal.emit(await view.of_run_whole(engine, state))
            return
        found = await view.of_run(engine, state)
        maps = [await view.of_map(engine, state, map_) for map_ in state.maps.values()]
        effects = await engine.effects(row.run, limit=view.MOST_EFFECTS)
        scores = await engine.scores(row.run)
        workers = await engine.names_of({step.worker for step in state.steps.values() if step.worker is not None})
        hindered = await engine.hindered(row.run)
        missing_ms = await engine.missing_since_ms(row)
        now_ms = engine.now_ms()
    terminal.sheet(_head(state, found, now_ms))
    terminal.show("\nSteps")
    table.show(STEPS, [_step(step, workers, now_ms) for step in state.steps.values()])
    if maps:
        terminal.show("\nMaps")
        table.show(MAPS, [_map(each) for each in maps])
    if effects:
        terminal.show("\nEffects")
        table.show(EFFECTS, [
            (row.call, row.tool, change.state if change else "intended", moment.ago(row.intended_at_ms, now_ms))
            for row, change in effects
        ])  # fmt: skip
    if scores:
        terminal.show("\nScores")
        table.show(SCORES, [
            (each.name, f"{each.value:g}", each.by, moment.ago(each.at_ms, now_ms), each.comment) for each in scores
        ])  # fmt: skip
    waits = [
        f"Its process cannot go on since {moment.around(each.since_ms, now_ms)}, and tries again: {each.why}"
        for each in hindered
    ]
    if missing_ms is not None:
        waits.append(advice.of_missing(missing_ms, now_ms, store))
    waits += advice.of_state(state, store)
    if waits:
        terminal.show("\nWaits")
        for line in waits:
            terminal.show(line)


def _head(state: State, found: dict[str, Any], now_ms: int) -> list[tuple[str, str]]:
    from holdfast.cli.telling import by, failure

    limit = f" of ${found['limit_usd']}" if found["limit_usd"] is not None else ""
    held = (
        f", ${found['held_usd']} held or in doubt" if state.budget.held_nanousd + state.budget.in_doubt_nanousd else ""
    )
    pairs = [
        ("Run", state.run),
        ("Workflow", f"{state.workflow} {state.version}"),
        ("Tenant", state.tenant),
        ("Status", found["status"]),
        ("Started", moment.around(state.started_at_ms, now_ms) + by(state)),
    ]
    if state.key is not None:
        pairs.append(("Key", state.key))
    if state.parent is not None:
        pairs.append(("Child of", f"{state.parent.run}, for {state.parent.step}"))
    if state.origin is not None:
        pairs.append(("Fork of", f"{state.origin.run}, from {state.origin.place}"))
    if state.ended:
        took = moment.span(state.ended_at_ms - state.started_at_ms)
        pairs.append(("Ended", f"{moment.around(state.ended_at_ms, now_ms)}, after {took}"))
    else:
        pairs.append(("Changed", moment.around(state.at_ms, now_ms)))
    pairs.append(
        ("Spent", f"${found['cost_usd']}{limit}{held}; {state.tokens_used} tokens, {state.steps_started} steps")
    )
    pairs += [
        ("Would stop", f"{message} Its limits are only recorded, so it went on.")
        for message in state.would_stop.values()
    ]
    pairs += [
        ("Bound", f"{model} billed a call above its bound; its calls are held at {percent / 100:g} times that since.")
        for model, percent in {**state.token_bound_percents, **state.bound_percents}.items()
    ]
    if state.error is not None:
        pairs.append(("Error", f"{state.error.node}: {failure(state.error)}".removeprefix(": ")))
        if state.error.trace is not None:
            pairs.append(("Trace", state.error.trace.rstrip()))
    elif state.reason is not None:
        pairs.append(("Reason", state.reason))
    if state.ended == "completed":
        from holdfast.core.content import labelled

        pairs.append(("Output", json.dumps(labelled(found["output"]), ensure_ascii=False, indent=2)))
    return pairs


def _step(step: Step, workers: Mapping[SessionId, str], now_ms: int) -> tuple[str, ...]:
    from holdfast.cli.telling import failure

    detail = failure(step.error) if step.error is not None else step.reason or ", ".join(step.decisions or ())
    worker = "-" if step.worker is None else workers.get(step.worker, step.worker)
    began = moment.ago(step.began_ms or None, now_ms)
    return step.id, step.status, began, took(step, now_ms), str(step.attempt or "-"), worker, detail


def _map(found: dict[str, Any]) -> tuple[str, ...]:
    counts = (str(found[each]) for each in ("items", "completed", "failed", "under_way"))
    failures = "; ".join(f"{each['item']}: {each['error']['message']}" for each in found["failures"])
    return found["map"], found["status"], *counts, failures


def took(step: Step, now_ms: int) -> str:
    """How long a step has been under way, waits included; of one that is over, how long it was."""
    if not step.began_ms:
        return "-"
    return moment.span((step.since_ms if step.status in _OVER else now_ms) - step.began_ms)


_OVER: Final = frozenset({"completed", "failed", "skipped", "cancelled"})
