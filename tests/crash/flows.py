"""The workflows that are killed: the tour, which has one of everything, and the walk, small enough for pairs of kills.

Never here: a kill. Their tools touch nothing but the world outside, and tell the boundaries before and after.
"""

from __future__ import annotations

from typing import Any

from holdfast import Workflow, check, human_gate, llm_node, task, tool, tool_node
from holdfast.testing.model_server import Rule, ToolCall
from tests.crash.boundary import Boundaries
from tests.crash.world import Visit

MODEL = "claude-haiku-4-5"
LARGE = "x" * 80_000
"""More than stands in an event: it becomes a blob."""

RULES = (
    Rule(user=": draft 1", text="a rough draft"),
    Rule(user=": draft 2", text="a fine draft"),
    Rule(
        user=": research", turn=1, tool_calls=(ToolCall("search", {"what": "one"}), ToolCall("search", {"what": "two"}))
    ),
    Rule(user=": research", turn=2, tool_calls=(ToolCall("search", {"what": "three"}),)),
    Rule(user=": research", turn=3, text="three findings"),
    Rule(user=": word", text="a word"),
)


class Here:
    """What this process has of the world: set before a life begins."""

    visit: Visit
    boundaries: Boundaries


def _ask(tool_name: str, key: str, **arguments: Any) -> Any:
    with Here.boundaries.around(f"call of {tool_name}", key=key):
        return Here.visit.ask(tool_name, key, arguments)


@tool(effect="read")
def search(what: str, key: str) -> Any:
    """Look something up."""
    return _ask("search", key, what=what)


@tool(effect="idempotent")
def note(line: str, key: str) -> Any:
    """Write a line, once for each key."""
    return _ask("note", key, line=line)


def look_up_booking(key: str) -> Any:
    with Here.boundaries.around("lookup of book", key=key):
        return Here.visit.ask("book", key, {}, lookup=True)


@tool(effect="verify", verify=look_up_booking)
def book(seat: str, key: str) -> Any:
    """Book a seat."""
    return _ask("book", key, seat=seat)


@tool(effect="once")
def pay(amount: int, key: str) -> Any:
    """Pay. It cannot be asked whether it has."""
    return _ask("pay", key, amount=amount)


@tool(effect="once")
def send_mail(body: str, key: str) -> dict[str, bool]:
    """Send a mail."""
    with Here.boundaries.around("mail", key=key):
        Here.visit.mail("the tour", body, key)
    return {"sent": True}


POLICIES = {each.name: each.policy for each in (search, note, book, pay, send_mail)}


def prompt(state: Any, text: str) -> dict[str, str]:
    """A prompt whose asker the provider's journal can tell."""
    return {"system": "Do as you are told.", "user": f"{state.tenant}: {text}"}


def make_tour() -> Workflow:
    """intake → look → draft ⟲ good → { research, pay, book → log } → join → approval → send → end"""
    wf = Workflow("tour", cost_limit_usd="0.0036", snapshot_every=10)

    wf.node("intake")(task(lambda state: {"text": LARGE, "size": len(LARGE)}))
    wf.node("look")(tool_node(name=search)(lambda state: {"what": f"{state.events['intake'].output['size']} letters"}))
    wf.node("draft")(
        llm_node(model=MODEL, max_tokens=50)(lambda state: prompt(state, f"draft {state.visits('draft')}"))
    )
    wf.node("good")(check(lambda state: state.events["draft"].output == "a fine draft"))
    wf.node("research")(llm_node(model=MODEL, tools=[search], max_tokens=60)(lambda state: prompt(state, "research")))
    wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": 7}))
    wf.node("book")(tool_node(name=book)(lambda state: {"seat": "4a"}))

    @wf.node("log")
    @task(tools=[note])
    async def log(state, ctx):
        ctx.now()
        first, second = await ctx.gather(ctx.tool("note", line="booked"), ctx.tool("note", line="and more"))
        await ctx.sleep(0.02)
        third = await ctx.tool("note", line="after a while")
        return [first, second, third]

    wf.node("join")(
        task(lambda state: {name: state.events[name].output for name in ("look", "draft", "research", "pay", "log")})
    )
    wf.node("approval")(human_gate(lambda state: {"diff": state.events["draft"].output}))
    wf.node("send")(tool_node(name=send_mail)(lambda state: {"body": state.events["approval"].payload["edited_body"]}))
    wf.node("end")(task(lambda state: {**state.events["join"].output, "send": state.events["send"].output}))

    wf.edge("intake", "look")
    wf.edge("look", "draft")
    wf.edge("draft", "good")
    wf.loop("good", "draft", max_visits=2)
    for name in ("research", "pay", "book"):
        wf.edge("good", name)
    wf.edge("book", "log")
    for name in ("research", "pay", "log"):
        wf.edge(name, "join")
    wf.edge("join", "approval")
    wf.edge("approval", "send")
    wf.edge("send", "end")
    return wf


def make_walk() -> Workflow:
    """A word from a model, paid for once."""
    wf = Workflow("walk", cost_limit_usd="0.0008")
    wf.node("word")(llm_node(model=MODEL, max_tokens=50)(lambda state: prompt(state, "word")))
    wf.node("pay")(tool_node(name=pay)(lambda state: {"amount": 7}))
    wf.edge("word", "pay")
    return wf


FLOWS = {wf.name: wf for wf in (make_tour(), make_walk())}
