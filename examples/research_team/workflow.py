"""A research team: a planner, researchers, a writer and a critic, with one budget, one memory and a choice of models.

    plan → research (a child for each topic, at once) → write → criticise → publish
                                                          ↑_________|   three drafts at most

Never here: the library (library), who is in the team and what it may spend (demo).
"""

from __future__ import annotations

import os
from typing import Any

import httpx2
from pydantic import BaseModel

from examples.research_team.library import VARIABLE, url_of
from holdfast import (
    Complexity,
    Context,
    RoutedModel,
    Router,
    StateView,
    Workflow,
    check,
    child,
    flow,
    llm_node,
    map_node,
    step,
    task,
)
from holdfast.errors import StepError

MODELS = Router(
    [
        RoutedModel("gpt-4.1-nano", Complexity.TRIVIAL, Complexity.SIMPLE, tokens_per_s=300),
        RoutedModel("claude-haiku-4-5", Complexity.TRIVIAL, Complexity.MODERATE, tokens_per_s=200),
        RoutedModel("claude-opus-4-5", Complexity.COMPLEX, Complexity.EXPERT, tokens_per_s=80),
    ],
    name="team",
)
DRAFTS = 3
MEMORY = "research team"


class Question(BaseModel):
    question: str


class Plan(BaseModel):
    topics: list[str]


class Topic(BaseModel):
    topic: str


class Critique(BaseModel):
    good_enough: bool
    what_is_missing: str


# --- A researcher -----------------------------------------------------------------------------------------------------


@step(retry=3, timeout_s=10)
def page_about(topic: str) -> dict[str, str]:
    """A page of the library."""
    url = url_of(os.environ[VARIABLE], topic)
    answer = httpx2.get(url)
    if answer.status_code == httpx2.codes.NOT_FOUND:
        raise StepError(f"The library has nothing about {topic!r}.", error_class="not_found")
    return {"url": url, "text": answer.raise_for_status().text}


@flow(version=1)
async def look_into(ctx: Context, asked: Topic) -> dict[str, Any]:
    """One topic, in a run of its own. What the team knows already is not looked up again."""
    memory = ctx.memory(MEMORY)
    known = [each for each in await memory.recall(asked.topic) if each.metadata["topic"] == asked.topic]
    if known:
        return {"topic": asked.topic, "found": known[0].text, "from": "memory"}
    page = await page_about(asked.topic)
    found = await ctx.model(MODELS, page["text"], system="Summarise this page.", max_tokens=200, complexity=Complexity.SIMPLE)
    await memory.remember(found, source=page["url"], metadata={"topic": asked.topic})
    return {"topic": asked.topic, "found": found, "from": page["url"]}


# --- The team ---------------------------------------------------------------------------------------------------------

wf = Workflow("research-team", version=1, cost_limit_usd=1)


@wf.node("plan", agent="planner")
@llm_node(model=MODELS, output=Plan, max_tokens=300, complexity=Complexity.MODERATE)
def plan(state: StateView) -> dict[str, str]:
    return {"system": "Plan what to look into: a list of topics.", "user": state.input.question}


@wf.node("research", agent="researcher")
@map_node(lambda state: state.events["plan"].output.topics, key=str, max_parallel=3, tolerated_failures=0.5)
@child(workflow=look_into)
def research(state: StateView, item: str) -> dict[str, str]:
    return {"topic": item}


@wf.node("write", agent="writer")
@task
async def write(state: StateView, ctx: Context) -> str:
    """From what the team remembers. Pages are data: what they say is quoted, and no instruction."""
    topics = ", ".join(state.events["plan"].output.topics)
    notes = await ctx.memory(MEMORY).context(max_tokens=2000, query=topics)
    asked = f"Question: {state.input.question}\n\n{notes}"
    if (last := state.previous["write"]) and (critique := state.previous["criticise"]):
        asked += f"\n\nYour last draft:\n{last.output}\nMend this: {critique.output['reason']}"
    return str(await ctx.model(MODELS, asked, system="Write the answer.", max_tokens=600, complexity=Complexity.COMPLEX))


@wf.node("criticise", agent="critic")
@check
async def criticise(state: StateView, ctx: Context) -> tuple[str, str]:
    """The critic sees the last draft beside the new one, and what it had asked for."""
    asked = f"Question: {state.input.question}\n\nDraft:\n{state.events['write'].output}"
    if (last := state.previous["write"]) and (before := state.previous["criticise"]):
        asked += f"\n\nLast draft:\n{last.output}\nYou asked for: {before.output['reason']}"
    critique = await ctx.model(
        MODELS, asked, system="Criticise the draft.", output=Critique, max_tokens=300, complexity=Complexity.MODERATE
    )
    return ("pass" if critique.good_enough else "retry"), critique.what_is_missing


@wf.node("publish")
@task(join="any")
def publish(state: StateView) -> dict[str, Any]:
    """A draft that the critic never liked is published with the objection."""
    found = [each for each in state.events["research"].output if each is not None]
    refused = state.events["criticise"].error
    return {
        "answer": state.events["write"].output,
        "drafts": state.visits("write"),
        "objection": None if refused is None else refused.message,
        "looked_into": [each["topic"] for each in found],
        "remembered": [each["topic"] for each in found if each["from"] == "memory"],
    }


wf.edge("plan", "research")
wf.edge("research", "write")
wf.edge("write", "criticise")
wf.loop("criticise", "write", when="retry", max_visits=DRAFTS)
wf.edge("criticise", "publish", when="pass")
wf.edge("criticise", "publish", on="error")
