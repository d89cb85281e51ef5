"""The workflows of the load: model calls, tools of three policies, a gate and a timer; a pool; a task of connected workers; jobs
of a workflow file; a flow of bare steps, a stream, a map and a child. Their tools touch the world outside only.

Never here: a fault.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from holdfast import Context, Demand, Workflow, flow, human_gate, llm_node, remote_task, step, task, tool, tool_node
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from tests.crash.world import Visit

MODEL = "claude-haiku-4-5"
LIMIT_USD = "0.003"
CASE = "chaos"


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
lending.node("lend", demand=Demand(pools={POOL: 1}))(
    tool_node(name=note)(lambda state: {"run": state.run_id, "line": "lent"})
)

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
}
