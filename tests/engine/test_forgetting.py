"""All caches are dropped between every two commits and nothing changes: same outputs, same calls, same world outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Engine, Workflow, branch, check, human_gate, llm_node, task, tool, tool_node
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.forgetful import forgetful

HAIKU = "claude-haiku-4-5"
World = list[str]


def loop(world: World) -> Workflow:
    """Drafts until the third is good, each made of the one before and of what was said of it; with a guard on the way out."""
    wf = Workflow("loop")

    @tool(effect="idempotent")
    async def draft(number: int) -> str:
        world.append(f"draft {number}")
        return f"draft {number} " + "x" * 70_000  # lives in a blob

    @wf.node("draft")
    @tool_node(name=draft)
    async def draft_node(state):
        before, told = state.previous["draft"], state.previous["good"]
        if before is None or told is None:
            return {"number": 1}
        return {"number": int(before.output.split()[1]) + (told.output.reason == "one more")}

    wf.node("good")(check(lambda state: (state.events["draft"].output.startswith("draft 3"), "one more")))
    wf.node("send")(task(lambda state: state.events["draft"].output[:7]))
    wf.guard("short")(lambda state: True)
    wf.edge("draft", "good")
    wf.edge("good", "send", when="pass", guard="short")
    wf.loop("good", "draft", max_visits=5)
    return wf


def agent(world: World) -> Workflow:
    """Three turns of two tool calls each, then an answer."""
    wf = Workflow("agent")

    @tool(effect="read")
    async def look(where: str) -> str:
        world.append(f"look {where}")
        return f"nothing at {where}"

    @wf.node("agent")
    @llm_node(model=HAIKU, tools=[look], max_turns=6, max_tokens=200)
    async def agent_node(state):
        return {"system": "Look around.", "user": "agent"}

    return wf


def talk(world: World) -> Workflow:
    """An agent that is told to think again, and goes on with the conversation; tools, structured answers and all."""
    wf = Workflow("talk")

    class Idea(BaseModel):
        number: int

    @tool(effect="read")
    async def look(where: str) -> str:
        world.append(f"look {where}")
        return f"nothing at {where}"

    @wf.node("think")
    @llm_node(model=HAIKU, tools=[look], output=Idea, max_tokens=200, continue_conversation=True)
    async def think(state):
        before = state.previous["enough"]
        return "think" if before is None else f"think again: {before.output.reason}"

    wf.node("enough")(check(lambda state: (state.events["think"].output.number == 3, f"not {state.visits('think')}")))
    wf.loop("enough", "think", max_visits=3)
    wf.node("end")(task(lambda state: state.events["think"].output))
    wf.edge("think", "enough")
    wf.edge("enough", "end")
    return wf


def fan_out(world: World) -> Workflow:
    """Six branches of one model call each, joined."""
    wf = Workflow("fan-out", cost_limit_usd="0.005")  # two or three at a time
    wf.node("begin")(task(lambda state: 1))
    for name in "abcdef":

        @wf.node(name)
        @llm_node(model=HAIKU, max_tokens=200)
        async def ask(state, name=name):
            return f"fan {name}"

        wf.edge("begin", name)
        wf.edge(name, "end")
    wf.node("end")(task(join="all_required")(lambda state: {name: state.events[name].output for name in "abcdef"}))
    return wf


def gate(world: World) -> Workflow:
    """A draft, a person, and an e-mail that is undone because what follows fails."""
    wf = Workflow("gate")

    @tool(effect="idempotent")
    async def recall(to: str, response: str) -> str:
        world.append(f"recall {to} {response}")
        return "recalled"

    @tool(effect="once", compensation=recall)
    async def send(to: str, body: str) -> str:
        world.append(f"send {to} {body}")
        return "sent"

    wf.node("approval")(human_gate(lambda state: {"diff": "Dear Ada"}))

    @wf.node("send")
    @tool_node(name=send)
    async def send_node(state):
        return {"to": "ada", "body": state.events["approval"].payload["edited_body"]}

    @wf.node("after")
    @task
    async def after(state):
        raise ValueError("no")

    wf.edge("approval", "send")
    wf.edge("send", "after")
    return wf


def journal(world: World) -> Workflow:
    """Every operation of `ctx`, one after another and side by side."""
    wf = Workflow("journal")

    @tool(effect="once", approval=True)
    async def pay(amount: int, key: str) -> int:
        world.append(f"pay {amount}")
        return amount

    @tool(effect="read")
    async def look(n: int) -> int:
        world.append(f"look {n}")
        return n

    @wf.node("work")
    @task(tools=[pay, look])
    async def work(state, ctx):
        begun = ctx.now()
        first = await ctx.gather(*(ctx.tool("look", n=n) for n in range(4)))
        looked = ctx.now()
        paid = await ctx.tool("pay", amount=5, key="rent")
        await ctx.sleep(0.01)
        slept = ctx.now()
        name = str(ctx.uuid())[14]
        said = await ctx.model(HAIKU, "journal", max_tokens=50)
        spoken = ctx.now()
        answer = await ctx.ask("sure?")
        asked = ctx.now()
        signal = await ctx.wait_signal("go")
        return [first, paid, name, said, answer.decision, signal, begun <= looked < slept <= spoken <= asked <= ctx.now()]

    return wf


def verified(world: World) -> Workflow:
    """A call of unknown outcome, whose tool is asked, and asked again once it has settled, and then called again."""
    wf = Workflow("verified")

    async def was_sent(key: str, to: str) -> str | None:
        world.append(f"asked about {to}")
        return None

    @tool(effect="verify", verify=was_sent, settles_within_s=0.05)
    async def send(to: str, key: str) -> str:
        world.append(f"send {to}")
        if len(world) == 1:
            raise TimeoutError
        return "sent"

    @wf.node("send")
    @tool_node(name=send)
    async def send_node(state):
        return {"to": "ada"}

    return wf


def routed(world: World) -> Workflow:
    """A model chooses the way."""
    wf = Workflow("routed")

    @wf.node("route")
    @branch(model=HAIKU)
    async def route(state):
        return "route this"

    for name in ("left", "right"):
        wf.node(name)(task(lambda state, name=name: name))
        wf.edge("route", name)
    return wf


RULES = (
    *(
        Rule(user="agent", turn=n, tool_calls=(ToolCall("look", {"where": f"{n}a"}), ToolCall("look", {"where": f"{n}b"})))
        for n in (1, 2, 3)
    ),
    Rule(user="agent", turn=4, text="looked everywhere"),
    Rule(user="think", turn=1, tool_calls=(ToolCall("look", {"where": "here"}),)),
    Rule(user="think", turn=2, output={"number": 1}),
    Rule(user="not 1", turn=3, output={"number": 2}),
    Rule(user="not 2", turn=4, output={"number": 3}),
    *(Rule(user=f"fan {name}", text=f"said {name}", latency_s=0.01) for name in "abcdef"),
    Rule(user="journal", text="dear journal"),
    Rule(user="route this", output={"next": "right"}),
)


async def outcome(engine: Engine, wf: Workflow) -> tuple[str, Any]:
    """How a run of `wf` ended. People answer what it asks; they read only rows, so that they remind nobody of it."""
    run = await engine.start(wf)
    if wf.name == "journal":
        await engine.signal(run.id, "go", 1)
    async with asyncio.timeout(60):
        while (row := await engine.find(run.id)).ended_at_ms is None:
            for gate, _ in await engine.gates(run.id):
                asked = gate.reason == "question"
                await engine.decide(gate.gate, "answer" if asked else "approve", {"x": 1} if asked else None)
            await asyncio.sleep(0.01)
    state = await run.state()
    return row.status, await engine.output(state) if row.status == "completed" else state.error.message


@pytest.mark.parametrize("snapshots", [False, True], ids=["from its events", "from snapshots"])
@pytest.mark.parametrize("make", [loop, agent, talk, fan_out, gate, journal, verified, routed])
async def test_a_run_that_forgets_everything_after_every_commit_does_the_same(
    make: Callable[[World], Workflow], snapshots: bool, tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(*RULES)
    plain: World = []
    async with Engine.open(tmp_path / "plain.db", model=model) as engine:
        expected = await outcome(engine, make(plain))
    sent = sorted(call.request_sha256 for call in server.calls)
    told: World = []
    async with Engine.open(tmp_path / "forgetful.db", model=model) as engine:
        flush = forgetful(engine, snapshots=snapshots)
        found = await outcome(engine, make(told))
    assert found == expected
    assert sorted(told) == sorted(plain)
    assert sorted(call.request_sha256 for call in server.calls[len(sent) :]) == sent
    assert flush.forgotten > 3
