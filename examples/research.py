"""Research: one run plans, a child for each topic does the work, and all of them together stay within one limit.

    holdfast run examples/research.py:research --input '{"question": "Which harbour is the quietest?"}' --cost-limit 0.20

Kill it at any moment and start it again with the same --key: a topic that was looked at is not looked at again, and however
many children ask a model at the same time, the whole tree spends no more than the limit of `research`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from holdfast import Context, flow

MODEL = "claude-haiku-4-5"


class Question(BaseModel):
    question: str


class Plan(BaseModel):
    topics: list[str]


class Topic(BaseModel):
    topic: str


@flow(version=1)
async def look_into(ctx: Context, topic: Topic) -> dict[str, str]:
    """One topic, in a run of its own."""
    return {
        "topic": topic.topic,
        "found": await ctx.model(MODEL, f"Say in one sentence: {topic.topic}", max_tokens=200),
    }


@flow(version=1, cost_limit_usd=1)
async def research(ctx: Context, asked: Question) -> dict[str, Any]:
    plan = await ctx.model(MODEL, f"List topics to look into: {asked.question}", output=Plan, max_tokens=300)
    found = await ctx.gather(
        *(
            ctx.child(look_into, {"topic": topic}, key=topic, on_failure="return")
            for topic in dict.fromkeys(plan.topics)
        )
    )
    known = [each.output.found for each in found if each.status == "completed"]
    answer = await ctx.model(MODEL, "Answer from this:\n" + "\n".join(known), max_tokens=400)
    return {"answer": answer, "looked_into": len(known), "of": len(found)}
