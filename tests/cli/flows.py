"""The workflows that the command line's tests run."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from pydantic import BaseModel

from holdfast import (
    OutcomeUnknown,
    SemanticCache,
    Workflow,
    branch,
    check,
    flow,
    human_gate,
    llm_node,
    step,
    task,
    tool,
    tool_node,
)


class Order(BaseModel):
    customer: str
    pieces: int = 1


greet = Workflow("greet", version=3, input=Order, cost_limit_usd="0.50")


@greet.node("greeting")
@task
async def greeting(state):
    return f"Dear {state.input.customer}"


rendering = Workflow("rendering", runs_on=["gpu", "zone=eu"])


@rendering.node("draw")
@task
async def draw(state):
    return "a picture"


letter = Workflow("letter", input=Order)


@letter.node("draft")
@task
def draft(state):
    return f"Dear {state.input.customer},\nhere \x1b[31myou are."


@letter.node("approval")
@human_gate(reviewers=["ann", "bob"], timeout_days=3)
async def approval(state):
    return {"diff": state.events["draft"].output, "risk": {"level": "low"}}


@letter.node("send")
@task
async def send(state):
    return {"sent": state.events["approval"].payload["edited_body"]}


letter.edge("draft", "approval")
letter.edge("approval", "send")
letter.loop("approval", "draft", when="retry", max_visits=3)

claim = Workflow("claim")


@claim.node("ask")
@human_gate(decisions=("approve", "to_legal"), expires_after_s=86_400)
def ask_about_claim(state):
    return {"diff": "5 dollars"}


for _where in ("pay", "legal"):
    claim.node(_where)(task(lambda state, where=_where: where))  # type: ignore[misc]
claim.edge("ask", "pay")
claim.edge("ask", "legal", when="to_legal")

reminded = Workflow("reminded")


@reminded.node("question")
@human_gate(timeout_s=0.2, remind_every_s=0.1)
async def question(state):
    return {"diff": "Shall we?"}


two_questions = Workflow("two_questions")


@two_questions.node("ask")
@task
async def ask(state, ctx):
    answers = await ctx.gather(ctx.ask("One?"), ctx.ask("Two?", reviewers=["ann"]))
    return [answer.decision for answer in answers]


broken = Workflow("broken")


@broken.node("work")
@task
async def work(state):
    raise ValueError("nothing \x1b[31m works")


patient = Workflow("patient")


@patient.node("listen")
@task
async def listen(state, ctx):
    await ctx.sleep(0.05)
    return await ctx.wait_signal("go")


three_steps = Workflow("three_steps", max_steps=2)
for _name in ("a", "b", "c"):
    three_steps.node(_name)(task(lambda state: 1))
three_steps.edge("a", "b")
three_steps.edge("b", "c")


@tool(effect="once")
async def pay(amount: int) -> dict[str, int]:
    with Path("paid").open("a") as file:
        file.write("x")
    if Path("paid").stat().st_size == 1:
        raise OutcomeUnknown("the bank hung up")
    return {"paid": amount}


payment = Workflow("payment")


@payment.node("pay")
@tool_node(name=pay)
async def pay_five(state):
    return {"amount": 5}


affordable = Workflow("affordable")


@affordable.node("answer")
@llm_node(model="claude-haiku-4-5", max_tokens=100)
async def affordable_answer(state):
    return "How much?"


costly = Workflow("costly", cost_limit_usd="0.000001")


@costly.node("answer")
@llm_node(model="claude-haiku-4-5", max_tokens=100)
async def answer(state):
    return {"system": "Be brief.", "user": "Hello?"}


slow = Workflow("slow")


@slow.node("first")
@task
async def first(state):
    print("at work")
    Path(f"began-{os.getpid()}").touch()
    await asyncio.sleep(float(os.environ.get("STEP_S", "0.3")))
    return 1


@slow.node("second")
@task
async def second(state):
    return 2


slow.edge("first", "second")

stuck = Workflow("stuck")


@stuck.node("hang")
@task
def hang(state):
    Path(f"began-{os.getpid()}").touch()
    time.sleep(60)


every_kind = Workflow("every_kind")
every_kind.node("start")(task(lambda state: 1))
every_kind.node("think")(llm_node(model="claude-haiku-4-5")(lambda state: "think"))
every_kind.node("act")(tool_node(name=pay)(lambda state: {"amount": 1}))
every_kind.node("ask")(human_gate(lambda state: "ok?"))
every_kind.node("choose")(branch(lambda state: "left"))
every_kind.node("verify")(check(lambda state: True))
every_kind.node("sorry")(task(lambda state: 1))


@every_kind.guard
def in_stock(state):
    return True


every_kind.edge("start", "think")
every_kind.edge("think", "act", guard=in_stock)
every_kind.edge("act", "ask")
every_kind.edge("act", "sorry", on="error")
every_kind.edge("ask", "choose", when="approve")
every_kind.edge("choose", "verify", when="left")
every_kind.edge("choose", "sorry", when="right", optional=True)
every_kind.loop("verify", "think", when="retry", max_visits=3)

invalid = Workflow("invalid")
invalid.node("a")(task(lambda state: 1))
invalid.edge("a", "nowhere")
invalid.edge("a", "elsewhere")

busy = Workflow("busy")
busy.node("begin")(task(lambda state: 1))
busy.edge("begin", "work")


@busy.node("work")
@task
async def spin(state):
    Path(f"began-{os.getpid()}").touch()
    if not os.environ.get("BRIEFLY"):
        time.sleep(60)  # as no step should: nothing else of its process moves meanwhile
    return "done"


wordy = Workflow("wordy")
wordy.node("n0")(task(lambda state: 0))
for _number in range(1, 20):
    wordy.node(f"n{_number}")(task(lambda state: "word " * 40_000))
    wordy.edge(f"n{_number - 1}", f"n{_number}")

overdue = Workflow("overdue")


@overdue.node("question")
@human_gate(timeout_s=3.0)
async def overdue_question(state):
    return {"diff": "Shall we?"}


class Release(BaseModel):
    publish: bool
    copies: int
    note: str | None = None


release = Workflow("release")


@release.node("decide")
@human_gate(form=Release)
async def decide(state):
    return {"diff": "Shall we?"}


@tool(effect="idempotent")
async def give_back(seat: int) -> int:
    return seat


@tool(effect="once", compensation=give_back)
async def reserve(seat: int) -> dict[str, int]:
    return {"seat": seat}


booking = Workflow("booking")
booking.node("first")(tool_node(name=reserve)(lambda state: {"seat": 1}))
booking.node("second")(tool_node(name=reserve)(lambda state: {"seat": 2}))
booking.node("pay")(tool_node(name=pay)(lambda state: {"amount": 1}))
booking.edge("first", "second")
booking.edge("second", "pay")


@tool(effect="once")
async def wire_money(amount: int) -> dict[str, int]:
    Path(f"began-{os.getpid()}").touch()
    await asyncio.sleep(float(os.environ.get("STEP_S", "0.01")))
    with Path("wired").open("a") as file:
        file.write("x")
    return {"wired": amount}


wiring = Workflow("wiring")
wiring.node("wire")(tool_node(name=wire_money)(lambda state: {"amount": 5}))


@tool(effect="once")
async def fall(over: str) -> str:
    raise RuntimeError(f"fell over {os.environ['ANTHROPIC_API_KEY']}")


falling = Workflow("falling")
falling.node("fall")(tool_node(name=fall)(lambda state: {"over": "a stone"}))


changing = Workflow("changing")


@changing.node("work")
@task
async def changing_work(state, ctx):
    if Path("changed").exists():
        await ctx.sleep(0)
    return (await ctx.ask("send it?")).decision


@step
def weigh(item):
    if item == "air":
        raise ValueError("it has no weight")
    return len(item)


@flow
async def scales(ctx, items):
    return await ctx.map(weigh, items, key=str, tolerated_failures=1)


@flow
async def talkative(ctx, words):
    await ctx.stream("progress").write({"asked": words})
    said = await ctx.model("claude-haiku-4-5", words, max_tokens=200, stream=True)
    await ctx.stream("progress").write("\x1b[31mred")
    if words == "wait":
        await ctx.wait_signal("go on")
    return len(said)


@flow
async def spoken(ctx, upto):
    for number in range(upto):
        await ctx.stream("progress").write(number)
    return upto


@tool(effect="once", approval=True)
def wages(to: str, amount: int) -> str:
    return f"paid {amount} to {to}"


@flow(tools=[wages])
async def payday(ctx, given):
    return await ctx.gather(*(ctx.tool(wages, to=name, amount=amount) for name, amount in given.items()))


@flow(cost_limit_usd=1)
async def cached(ctx):
    return await ctx.model("claude-haiku-4-5", "Do you ship?", max_tokens=50, cache=SemanticCache())
