"""Two models get the same question, and the first answer counts: a race in plain asyncio.

The slower call is cancelled. It was already sent, so it still ends, and the run pays for both calls. After a crash the same
model has won, because the history records which answer came first.

    holdfast run examples/model_race.py:first_answer -i '{"question": "Why do cats purr?"}' --key cats
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from holdfast import Context, flow

MODELS = ("claude-haiku-4-5", "gpt-5-mini")


class Question(BaseModel):
    question: str


class Answer(BaseModel):
    model: str
    text: str


@flow(cost_limit_usd="0.05")
async def first_answer(ctx: Context, request: Question) -> Answer:
    calls = [asyncio.create_task(ctx.model(each, request.question, max_tokens=200), name=each) for each in MODELS]
    done, slower = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in slower:
        call.cancel()
    winner = min(done, key=calls.index)  # both may have answered
    return Answer(model=winner.get_name(), text=await winner)
