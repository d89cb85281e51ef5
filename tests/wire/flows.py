"""Workflows with tasks of connected workers, and a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import Context, Workflow, flow, human_gate, remote_task, task, tool


@tool(effect="once")
def note(text: str, file: str) -> str:
    """Write a line into a file, which is the judge's."""
    with Path(file).open("a") as kept:
        kept.write(f"{text}\n")
    return f"noted {text}"


def of(name: str, **options: Any) -> Workflow:
    """A workflow of one remote task, which is given the run's input."""
    made = Workflow(name, cost_limit_usd=1)

    @remote_task(task=name, **options)
    def arguments(state: Any) -> Any:
        return state.input

    made.node("do")(arguments)
    return made


echo = of("echo")
trace = of("trace")
hold = of("hold")
think = of("think")
post = of("post", tools=[note])
fail = of("fail")
big = of("big")
late = of("late", timeout_s=0.3)
picture = of("picture")

posted = Workflow("posted")
"""Of one letter, which fails where its address is none."""


@posted.node("post")
@task
def post_(state: Any) -> str:
    if "@" not in state.input["address"]:
        raise ValueError(f"{state.input['address']} is no address")
    return f"posted to {state.input['address']}"


@tool(effect="once", approval=True)
def pay(to: str) -> str:
    """Send money."""
    return f"paid {to}"


@flow(tools=[pay])
async def payday(ctx: Context, names: list[str]) -> list[str]:
    return await ctx.gather(*(ctx.tool(pay, to=name) for name in names))


class Amount(BaseModel):
    """What a person may change."""

    amount: int


@flow
async def watched(ctx: Context, several: dict[str, Any]) -> list[Any]:
    """Asks several persons, or a second pair of eyes."""
    answer = await ctx.ask(
        {"amount": 5}, form=Amount, quorum=several.get("quorum", 1), four_eyes=several.get("four_eyes", False)
    )
    return [answer.data.amount, answer.approvers]


gated = Workflow("gated")


@gated.node("ask")
@human_gate(reviewers=["ida"])
async def ask(state: Any) -> Any:
    return {"diff": "yes?"}


chain = Workflow("chain")
"""Goes on by itself, one quick step after another."""


@task
def link(state: Any) -> int:
    return 1


for number in range(12):
    chain.node(f"link{number}")(link)
for number in range(11):
    chain.edge(f"link{number}", f"link{number + 1}")
