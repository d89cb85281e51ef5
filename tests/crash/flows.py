"""The workflows that are killed: the tour and the detour, which have everything, the stroll, which is a flow, and the walk,
small enough for pairs.

Never here: a kill. Their tools touch nothing but the world outside, and tell the boundaries before and after.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

from holdfast import Context, RetryPolicy, Workflow, check, flow, human_gate, llm_node, step, task, tool, tool_node
from holdfast.errors import ToolFailed
from holdfast.models.forwarded.requests import read
from holdfast.testing.model_server import Rule, ToolCall
from tests.crash.boundary import Boundaries
from tests.crash.world import STUTTER, Visit

MODEL = "claude-haiku-4-5"
LARGE = "x" * 80_000
"""More than stands in an event: it becomes a blob."""

RUN_OF = "run of "
"""How the boundaries of bare steps are called."""

RULES = (
    Rule(user=": draft 1", text="a rough draft"),
    Rule(user=": draft 2", text="a fine draft"),
    Rule(user=": research", turn=1, tool_calls=(ToolCall("search", {"what": "one"}), ToolCall("search", {"what": "two"}))),
    Rule(user=": research", turn=2, tool_calls=(ToolCall("search", {"what": "three"}),)),
    Rule(user=": research", turn=3, text="three findings"),
    Rule(user=": word", text="a word"),
    Rule(user=": view", text="hills, and behind them the sea, as far as one can see", pause_s=0.005),
    Rule(user=": relay", text="the word that is passed on"),
    Rule(user=": confirm", turn=1, tool_calls=(ToolCall("peek", {"what": "inside"}),)),
    Rule(user=": confirm", turn=2, text="a parcel"),
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


@tool(effect="once")
def invite(who: str, key: str) -> Any:
    """Invite somebody."""
    return _ask("invite", key, who=who)


@tool(effect="idempotent")
def stutter(word: str, key: str) -> Any:
    """Say a word. The first time that it is asked for, it is refused."""
    answer = _ask(STUTTER, key, word=word)
    if answer is None:
        raise ToolFailed("not now")
    return answer


@tool(effect="read", approval=True)
def peek(what: str, key: str) -> Any:
    """Look at something that a person lets one look at."""
    return _ask("peek", key, what=what)


@tool(effect="idempotent")
def call_back(parcel: str, key: str) -> Any:
    """Call a parcel back."""
    return _ask("call_back", key, parcel=parcel)


@tool(effect="once", compensation=call_back)
def ship(parcel: str, key: str) -> Any:
    """Ship a parcel."""
    return _ask("ship", key, parcel=parcel)


@tool(effect="once")
def unlock(seat: str, key: str) -> Any:
    """Give a seat back."""
    return _ask("unlock", key, seat=seat)


def look_up_lock(key: str) -> Any:
    with Here.boundaries.around("lookup of lock", key=key):
        return Here.visit.ask("lock", key, {}, lookup=True)


@tool(effect="verify", verify=look_up_lock, compensation=unlock)
def lock(seat: str, key: str) -> Any:
    """Keep a seat."""
    return _ask("lock", key, seat=seat)


@step(effect="once")
def charge(amount: int, key: str) -> Any:
    """Charge a card, as a step of a flow."""
    return _ask("charge", key, amount=amount)


TOOLS = (search, note, book, pay, send_mail, invite, stutter, peek, call_back, ship, unlock, lock, charge)
POLICIES = {each.name: each.policy for each in TOOLS}


def prompt(state: Any, text: str) -> dict[str, str]:
    """A prompt whose asker the provider's journal can tell."""
    return {"system": "Do as you are told.", "user": f"{state.tenant}: {text}"}


def make_tour() -> Workflow:
    """intake → look → draft ⟲ good → { research, pay, book → log } → join → approval → send → end"""
    wf = Workflow("tour", cost_limit_usd="0.0036", snapshot_every=10)

    wf.node("intake")(task(lambda state: {"text": LARGE, "size": len(LARGE)}))
    wf.node("look")(tool_node(name=search)(lambda state: {"what": f"{state.events['intake'].output['size']} letters"}))
    wf.node("draft")(
        llm_node(model=MODEL, max_tokens=50)(
            lambda state: prompt(state, f"draft {1 if state.previous['draft'] is None else 2}")
        )
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


def make_detour() -> Workflow:
    """What the tour leaves out: { left, right } → speak → listen → again → confirm → ship → lock → fail, and all is undone. It
    fails before that in `again`, and is taken up."""
    wf = Workflow("detour", cost_limit_usd="0.003", snapshot_every=10)

    wf.node("begin")(task(lambda state: 1))
    for name in ("left", "right"):  # both mean the same effect
        wf.node(name)(tool_node(name=invite, key="invite:{who}")(lambda state: {"who": "bob"}))
        wf.edge("begin", name)
        wf.edge(name, "speak")

    @wf.node("speak")
    @task(tools=[note, stutter], retry=RetryPolicy(max_attempts=5, initial_s=0.01, jitter=0))
    async def speak(state, ctx):
        before = await ctx.tool("note", line="before")
        return [before, await ctx.tool("stutter", word="hello")]

    @wf.node("listen")
    @task
    async def listen(state, ctx):
        answer = await ctx.ask("go on?")
        return [answer.decision, await ctx.wait_signal("go")]

    @wf.node("again")
    @task(tools=[note, stutter])
    async def again(state, ctx):
        before = await ctx.tool("note", line="before it fails")
        return [before, await ctx.tool("stutter", word="once more")]

    wf.node("confirm")(llm_node(model=MODEL, tools=[peek], max_tokens=60)(lambda state: prompt(state, "confirm")))
    wf.node("ship")(tool_node(name=ship)(lambda state: {"parcel": state.events["confirm"].output}))
    wf.node("lock")(tool_node(name=lock)(lambda state: {"seat": state.events["listen"].output[1]}))

    @wf.node("fail")
    @task
    async def fail(state):
        raise ValueError("no way back")

    for source, target in pairwise(("speak", "listen", "again", "confirm", "ship", "lock", "fail")):
        wf.edge(source, target)
    return wf


def bare(name: str, *, fails: bool = False) -> Any:
    """A bare step that does nothing but run; its first time it `fails`."""

    async def run() -> str:
        with Here.boundaries.around(f"{RUN_OF}{name}"):
            await asyncio.sleep(0)
        if fails and Here.boundaries.crossed(f"before {RUN_OF}{name}") == 1:
            raise ConnectionResetError("not now")
        return name

    return step(name=name, retry=RetryPolicy(max_attempts=3, initial_s=0.01, jitter=0))(run)


async def post(ctx: Context, line: str) -> Any:
    """An item of a map: an effect, and a bare step."""
    return [await ctx.tool(note, line=line), await bare(f"post {line}")()]


@flow(cost_limit_usd="0.0016")
async def stroll(ctx: Context) -> list[Any]:
    """A bare step that fails at first, a step with an effect, a sleep, a model that is heard while it speaks, two bare steps at
    once, and a map of two items; it says how far it is."""
    await ctx.stream("progress").write("off")
    first = await bare("flaky", fails=True)() if ctx.version("way", 2) == 2 else "old"
    await charge(3)
    async with ctx.stream("progress") as progress:
        await progress.write({"charged": 3})
    await ctx.sleep(0.02)
    view = await ctx.model(MODEL, f"{ctx.tenant}: view", system="Do as you are told.", max_tokens=50, stream=True)
    await ctx.stream("progress").write(view)
    posted = await ctx.map(post, ["one", "two"], max_parallel=1)
    return [first, *await ctx.gather(bare("left")(), bare("right")()), *posted]


class _Heard:
    """What a program gets of a streamed reply. Keeps ReplyWriter."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def begin(self, max_tokens: int | None) -> None:
        self.pieces.append(f"{max_tokens}")

    def tell(self, piece: str) -> None:
        self.pieces.append(piece)


def make_relay() -> Workflow:
    """A program whose calls of a model go through its step: one after another, two at once, and streamed ones. It sends them all
    again in each life."""
    wf = Workflow("relay", cost_limit_usd="0.008")

    @wf.node("program")
    @task
    async def program(state, ctx):
        async def ask(text: str, *, stream: bool = False) -> list[str]:
            said = {"model": MODEL, "max_tokens": 50, "system": "Do as you are told.", "stream": stream}
            body = {**said, "messages": [{"role": "user", "content": f"{ctx.tenant}: {text}"}]}
            reply = await calls.forward(read("/v1/messages", {}, json.dumps(body).encode()), heard := _Heard())
            assert not stream or heard.pieces == ["None", *reply.pieces]
            return [piece.split('"usage"')[0] for piece in reply.pieces]

        async with ctx.program_calls("call") as calls:
            first = await ask("relay one")
            both = await asyncio.gather(ask("relay left"), ask("relay right", stream=True))
            return [len(each) for each in (first, *both, await ask("relay last", stream=True))]

    return wf


FLOWS = {wf.name: wf for wf in (make_tour(), make_detour(), make_walk(), make_relay(), stroll)}
