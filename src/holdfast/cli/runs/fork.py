"""`holdfast runs fork`: starts a run with another's history before a step, after a preview of what it keeps and costs.

Never here: what a fork has of its original run (core.rules.forking).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from holdfast.cli import bulk, reference
from holdfast.cli.bulk import BULK, BulkSelection
from holdfast.cli.connect import backend
from holdfast.cli.filter import ListOptions
from holdfast.cli.noun import Caller, Signed
from holdfast.cli.option import MaybeRun
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import OK
from holdfast.cli.page.typed_input import json_value
from holdfast.errors import HoldfastError, UsageError
from holdfast.service.declarations.quoting import quote_of

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend
    from holdfast.service.declarations.command import Fork

_MAX_SHOWN: Final = 20

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="STEP",
        help="Step to fork from, like draft#2; in a flow also an operation, like flow#1/3, as `runs show` lists them from /0.",
    ),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        "-i",
        metavar="JSON",
        help="Input of the new run; by default the original's. Give JSON, @FILE, or @- for stdin.",
    ),
]
Output = Annotated[
    str | None, typer.Option("--output", metavar="JSON", help="Output of the step, instead of executing it again.")
]
State = Annotated[
    str | None, typer.Option("--state", metavar="JSON", help="Outputs of other nodes: a JSON object by node name.")
]
RepeatEffects = Annotated[
    bool,
    typer.Option(
        "--repeat-effects", help="Make new calls of once-only tools without asking; by default a person approves each."
    ),
]
CostLimit = Annotated[
    str | None,
    typer.Option(
        "--cost-limit", metavar="USD", help="Cost limit of the new run in dollars; by default the original's first limit."
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Start key: the same key returns the same run, or with --all the same runs."),
]


def fork(
    step: From,
    run: MaybeRun = None,
    data: Input = None,
    output: Output = None,
    state: State = None,
    repeat_effects: RepeatEffects = False,
    cost_limit: CostLimit = None,
    key: Key = None,
    *,
    many: Annotated[BulkSelection[ListOptions], BULK.without("key")],
    caller: Signed,
) -> int:
    """Start a new run from a step of another run, or of all matching runs. Calls that match the original run's calls reuse
    their outcomes."""
    from holdfast.service.declarations import command as cmd

    bulk.expect_one_or_all(run, many)
    said: dict[str, Any] = {}
    for name, text in (("input", data), ("output", output), ("state", state)):
        if text is not None:
            said[name] = json_value(text, f"--{name}")
    if not isinstance(said.get("state", {}), dict):
        raise UsageError('--state is an object of outputs by their nodes, for example {"draft": "better"}. Nothing was done.')
    wish = cmd.Fork(run=run or "", step=step, repeat_effects=repeat_effects, cost_limit_usd=cost_limit, key=key, **said)
    if run is None:
        return asyncio.run(_fork_all(wish, many, caller))
    asyncio.run(_fork(wish, many, caller))
    return OK


async def _fork_all(wish: Fork, many: BulkSelection[ListOptions], caller: Caller) -> int:
    """Fork each under a key of its own, so that a repeated command forks nothing twice."""
    import msgspec

    from holdfast.service.control.bulk import fork_name

    given = {name: value for name in ("input", "output") if (value := getattr(wish, name)) is not msgspec.UNSET}
    said = given | ({"state": wish.state} if wish.state else {})
    name = fork_name(wish.key, wish.step, wish.repeat_effects, *([said] if said else []))

    def of(run: str) -> Fork:
        return msgspec.structs.replace(wish, run=run, key=f"{name}/{run}")

    if not many.dry_run:
        return await bulk.do("fork", of, ("failed",), many, caller, own=f"{name}/")
    async with backend(caller.store, caller.by) as service:
        found, _ = await bulk.find_runs(service, many, ("failed",), f"{name}/")
        rows = [await _would_be(service, of(row["run_id"]), row["tenant"]) for row in found]
    if caller.as_json:
        terminal.emit(rows)
    for row in () if caller.as_json else rows:
        terminal.show(f"{row['run_id']}  {_in_words(row, None if wish.output is msgspec.UNSET else wish.step)}")
    quotes = [row["quote"] for row in rows if row["quote"] is not None]
    worst_case = sum(Decimal(quote["fork"]["worst_case_usd"]) for quote in quotes)
    terminal.say(
        f"fork: {len(quotes)} of {len(rows)} would be forked; ${worst_case} at most if every model call is made again. Nothing"
        " was done."
    )
    return OK


async def _would_be(service: Backend, wish: Fork, tenant: str) -> dict[str, Any]:
    """Return the plan of a fork."""
    from holdfast.service.declarations.query import Runs

    row: dict[str, Any] = {"run_id": wish.run, "refused": None, "fork": None, "quote": None}
    try:
        if known := await service.rows(Runs(tenant=tenant, key=wish.key), 1):
            return {**row, "fork": known[0]["run_id"]}
        quote = await service.row(quote_of(wish))
    except HoldfastError as problem:
        return {**row, "refused": problem.message}
    return {**row, "refused": quote["refused"], "quote": quote["fork"] and quote}


def _in_words(row: dict[str, Any], value: str | None) -> str:
    if row["quote"] is None:
        return f"was forked as {row['fork']}" if row["fork"] else row["refused"]
    quote = row["quote"]["fork"]
    parts = _parts(quote, value)
    counts = (
        f"{len(parts.kept)} kept, {counted(len(parts.reused), 'result')} reused, {counted(len(parts.again), 'step')} run again"
        f" with {counted(len(parts.repeated), 'operation')}"
    )
    return f"would be forked from {quote['begins_at']}: {counts}; at most ${quote['worst_case_usd']}"


async def _fork(wish: Fork, many: BulkSelection[ListOptions], caller: Caller) -> None:
    import msgspec

    async with backend(caller.store, caller.by) as service:
        wish = msgspec.structs.replace(wish, run=await reference.run_id(service, wish.run))
        quote = await service.row(quote_of(wish))
        plan = quote["fork"]
        if not caller.as_json:
            given = wish.step if wish.output is not msgspec.UNSET else None
            lines = [f"refused: {quote['refused']}"] if plan is None else []
            lines = lines or quoted(plan, repeats_effects=wish.repeat_effects, value=given)
            for line in lines:
                (terminal.show if many.dry_run else terminal.say)(line)
        if many.dry_run:
            terminal.emit(quote) if caller.as_json else terminal.say("Nothing was done.")
            return
        asks = plan is not None and not many.yes and terminal.is_live() and sys.stdin is not None and sys.stdin.isatty()
        if asks and not terminal.is_agreed("Start it?"):
            raise UsageError("Nothing was done.")
        found = await service.execute(wish)
        assert found is not None
    if caller.as_json:
        terminal.emit({**found, "quote": quote})
    else:
        terminal.show(found["run_id"])
        terminal.say(f"Run {found['run_id']}: {found['status']}. `holdfast worker` with its workflow continues it.")


class _Parts(NamedTuple):
    """The parts of a fork: what is kept, which steps run again, and what of them is reused or executed."""

    kept: list[str]
    again: list[str]
    reused: list[dict[str, Any]]
    repeated: list[dict[str, Any]]


def _parts(quote: dict[str, Any], value: str | None) -> _Parts:
    """Return the parts of a fork, for one preview as for those of many; `value` is the place whose output was passed."""
    return _Parts(
        [*quote["kept_steps"], *(_named(each) for each in quote["reused_operations"] if each["stands"])],
        [step for step in quote["repeated_steps"] if step != value],
        sorted((each for each in quote["reused_operations"] if not each["stands"]), key=_is_item),
        sorted(quote["repeated_operations"], key=_is_item),
    )


def quoted(quote: dict[str, Any], *, repeats_effects: bool, value: str | None = None) -> list[str]:
    """The quote in words; `value` is the place whose output was passed."""
    why = f" (earlier than you asked: {quote['reason']})" if quote["reason"] else ""
    kept, again, reused, repeated = _parts(quote, value)
    told = [f"  {_named(each)}: its recorded result, free, if the request is the same." for each in reused]
    told += [
        f"  {_named(each)}: {'asked again' if each['kind'] == 'gate' else 'executed again'}, {each['reason']}."
        for each in repeated
    ]
    more = len(told) - _MAX_SHOWN
    return [
        f"A new run of {quote['workflow']}: forked from {quote['begins_at']} of run {quote['run_id']}{why}.",
        f"Kept, not executed again: {_listed(kept)}.",
        *([f"Not executed: {value}, whose output is your --output."] if value is not None else []),
        f"Run again: {', '.join([*again[:_MAX_SHOWN], 'and whatever comes after'])}.",
        *told[:_MAX_SHOWN],
        *([f"  and {more} more (--json has all)."] if more > 0 else []),
        "All other calls of the new run are real.",
        *_repeats([*reused, *repeated], repeats_effects),
        _costs(quote),
    ]


def _is_item(done: dict[str, Any]) -> bool:
    """Of a map, which itself says as much."""
    return "[" in done["step"]


def _repeats(done: Sequence[dict[str, Any]], repeats_effects: bool) -> list[str]:
    """Return what has changed the world already, and would a second time."""
    tools = [each for each in done if each["policy"] not in (None, "read")]
    once = list(dict.fromkeys(each["name"] for each in tools if each["policy"] == "once"))
    other = list(dict.fromkeys(each["name"] for each in tools if each["policy"] != "once"))
    lines = [f"Has happened, and with other arguments happens a second time: {_listed(other)}."] if other else []
    if repeats_effects:
        return [*lines, "Once-only effects may happen a second time without an approval (--repeat-effects)."]
    if once:
        lines.append(
            f"Has happened, and should only once: {_listed(once)}. With other arguments a person approves each call first."
        )
    return lines


def _costs(quote: dict[str, Any]) -> str:
    limit = "it has no limit (--cost-limit sets one)" if quote["limit_usd"] is None else f"its limit is ${quote['limit_usd']}"
    if not float(quote["worst_case_usd"]):
        return f"Cost: nothing, unless it makes new model calls; {limit}."
    free = not any(each["kind"] == "model" for each in quote["repeated_operations"])
    least = "nothing if its requests are the same, " if free else ""
    return f"Cost: {least}at most ${quote['worst_case_usd']} if all these calls are made again; {limit}."


def _named(done: dict[str, Any]) -> str:
    cost = f" (it cost ${done['cost_usd']})" if done["kind"] == "model" else ""
    kind = "question" if done["kind"] == "gate" else done["kind"]
    return f"{kind} {done['name']} at {done['step']}/{done['path']}{cost}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return (", ".join(names[:_MAX_SHOWN]) or "nothing") + more
