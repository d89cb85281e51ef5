"""The workflows of the load: model calls, tools of three policies, a gate and a timer; a pool; a task of connected workers; jobs
of a workflow file; a flow of bare steps, a stream, a map and a child; a flow in plain asyncio. Their tools touch the world outside only.

Never here: a fault.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from holdfast import Context, Demand, Workflow, flow, human_gate, llm_node, remote_task, step, task, tool, tool_node
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from tests.crash.world import Visit

MODEL = "claude-haiku-4-5"
LIMIT_USD = "0.003"
CASE = "chaos"
HOUR_S: Final = 3600
"""Longer than everything that comes in time."""


def _ask(name: str, key: str, *, lookup: bool = False, **arguments: Any) -> Any:
    return Visit(CASE).ask(name, key, arguments, lookup=lookup)


@tool(effect="idempotent")
def note(run: str, line: str, key: str) -> Any:
    """Write a line, once for each key."""
    return _ask("note", key, run=run, line=line)


def look_up_booking(key: str) -> Any:
    return _ask("book", key, lookup=True)


@tool(effect="verify", verify=look_up_booking)
def book(run: str, key: str) -> Any:
    """Book a seat."""
    return _ask("book", key, run=run)


@tool(effect="once")
def pay(run: str, key: str) -> Any:
    """Pay. It cannot be asked whether it has."""
    return _ask("pay", key, run=run)


errand = Workflow("errand", cost_limit_usd=LIMIT_USD)
errand.node("draft")(llm_node(model=MODEL, max_tokens=60)(lambda state: f"{state.run_id}: draft"))
errand.node("note")(tool_node(name=note)(lambda state: {"run": state.run_id, "line": state.events["draft"].output}))
errand.node("book")(tool_node(name=book)(lambda state: {"run": state.run_id}))
errand.node("approval")(human_gate(lambda state: {"diff": state.events["draft"].output}))
errand.node("pay")(tool_node(name=pay)(lambda state: {"run": state.run_id}))


@errand.node("rest")
@task(tools=[note])
async def rest(state, ctx):
    first = await ctx.tool("note", run=state.run_id, line="before a rest")
    await ctx.sleep(0.3)
    second = await ctx.tool("note", run=state.run_id, line="after it")
    return [first["done"], second["done"]]


errand.node("word")(llm_node(model=MODEL, max_tokens=60)(lambda state: f"{state.run_id}: word"))
errand.node("end")(task(lambda state: [state.events["rest"].output, state.events["pay"].output["done"]]))
OUTPUT = [["note", "note"], "pay"]

errand.edge("draft", "note")
errand.edge("draft", "book")
errand.edge("note", "approval")
errand.edge("book", "approval")
errand.edge("approval", "pay")
errand.edge("pay", "rest")
errand.edge("rest", "word")
errand.edge("word", "end")


POOL: Final = "CHAOS"
POOL_SLOTS: Final = 2
lending = Workflow("lending")
lending.node("lend", demand=Demand(pools={POOL: 1}))(tool_node(name=note)(lambda state: {"run": state.run_id, "line": "lent"}))

handing = Workflow("handing")
handing.node("hand")(remote_task(task="hand", tools=[note])(lambda state: {"run": state.run_id}))

JOBS = """
jobs:
  first:
    runs-on: any
    outputs: {n: "${{ steps.say.outputs.n }}"}
    steps:
      - {id: say, run: 'echo n=7 >> "$GITHUB_OUTPUT"'}
  second:
    runs-on: any
    needs: first
    steps:
      - {env: {N: "${{ needs.first.outputs.n }}"}, run: 'test "$N" = 7'}
"""
script = workflow_of(load(JOBS, "script"))


@step
async def price(number: int) -> int:
    return number


@flow
async def leg(ctx: Context, number: int) -> int:
    return await price(number)


async def seat(ctx: Context, number: int) -> int:
    await ctx.tool("note", run=ctx.run_id, line=f"seat {number}")
    return await price(number)


@flow(tools=[note])
async def trip(ctx: Context) -> list[int]:
    found = [await price(number) for number in range(10)]
    await ctx.stream("progress").write(found)
    found.append(await ctx.child(leg, 10))
    found += await ctx.map(seat, [11, 12, 13], max_parallel=2)
    return found


@step
async def think(number: int) -> int:
    await asyncio.sleep(0.05 * (number % 3))
    return number


@flow(cost_limit_usd=LIMIT_USD, tools=[note, pay])
async def crossing(ctx: Context) -> list[int]:
    """Groups, gathers, races and time limits, around every kind of operation: what is under way at once meets each fault."""
    async with asyncio.TaskGroup() as group:
        seats = [group.create_task(seat(ctx, number)) for number in range(3)]
        paying = group.create_task(ctx.tool("pay", run=ctx.run_id))
        group.create_task(ctx.model(MODEL, f"{ctx.run_id}: flow", max_tokens=60))
    found = [each.result() for each in seats]
    assert paying.result()["done"] == "pay"
    async with asyncio.timeout(HOUR_S):
        asking = asyncio.create_task(ctx.ask({"question": "Go on?"}, decisions=["approve"]))
        found += await asyncio.gather(think(3), ctx.child(leg, 4), asyncio.wait_for(think(5), HOUR_S))
        assert (await asking).decision == "approve"
    try:
        await asyncio.wait_for(ctx.wait_signal("never"), 0.3)
    except TimeoutError:
        found.append(await price(6))
    racing = [asyncio.create_task(each) for each in (ctx.sleep(HOUR_S), ctx.child(late, HOUR_S), seat(ctx, 7))]
    for slower in (await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED))[1]:
        slower.cancel()
    found.append(await racing[2])
    came = [await coming for coming in asyncio.as_completed([think(8), think(9), think(10)])]
    mapping = asyncio.create_task(ctx.map(seat, [11, 12], max_parallel=2))
    await asyncio.gather(asyncio.sleep(0.3), ctx.sleep(0.2))
    return [*found, *sorted(came), *await mapping]


@flow
async def late(ctx: Context, seconds: int) -> None:
    """Ends when it is called off."""
    await ctx.sleep(seconds)


class Promise(NamedTuple):
    """What a run of a workflow comes to: its output, if that is compared, and how often each tool happens."""

    output: Any
    happens: dict[str, int]


PROMISED: Final = {
    "errand": Promise(OUTPUT, {"book": 1, "pay": 1, "note": 3}),
    "lending": Promise(None, {"note": 1}),
    "handing": Promise("handed", {"note": 1}),
    "script": Promise(None, {}),
    "trip": Promise([*range(14)], {"note": 3}),
    "crossing": Promise([*range(13)], {"note": 6, "pay": 1}),
}
