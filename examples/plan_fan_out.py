"""A model writes a plan, each part of the plan runs as a step of its own, and the results are combined.

The plan decides the number of parts. Each part has its own attempts, money and journal, and one in four may fail. Kill the
process at any moment, and run it again with the same --key: completed parts are not repeated or paid for again.

    holdfast run examples/plan_fan_out.py:report -i '{"question": "Why do cats purr?"}' --key cats
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from holdfast import Context, flow, step

MODEL = "claude-sonnet-5"


class Question(BaseModel):
    question: str


class Plan(BaseModel):
    """What is to be found out, part by part."""

    parts: list[str] = Field(min_length=1, max_length=20)


class Report(BaseModel):
    text: str
    parts: int
    failed: int


@step
def outline(question: str, parts: list[str]) -> str:
    return "\n".join([question, *(f"- {each}" for each in parts)])


async def work_out(ctx: Context, part: str) -> str:
    """What is done for one part of the plan, in a step of its own."""
    return await ctx.model(MODEL, f"In two sentences: {part}", max_tokens=200)


@flow(cost_limit_usd="0.50")
async def report(ctx: Context, request: Question) -> Report:
    plan = await ctx.model(MODEL, request.question, system="Split the question into parts.", output=Plan, max_tokens=500)
    results = await ctx.map(work_out, plan.parts, max_parallel=5, tolerated_failures=0.25)
    texts = [each for each in results if each is not None]
    text = await outline(request.question, texts)
    return Report(text=text, parts=len(results), failed=len(results) - len(texts))
