"""An agent of Pydantic AI in a flow: it calls tools at the same time, and no answer or result is asked for twice.

The SDK is used as it is. Its model is wrapped so that each request is a step (`RecordedModel`), and its tools call steps. Kill
the process and run it again with the same --key: the agent gets what was recorded, and goes on from there.

The requests are steps and not `ctx.model`: no cost limit holds for them. `ctx.agent` is the loop whose money is counted.

    holdfast run examples/agent_sdk.py:quote -i '{"question": "What do a lamp and a desk cost?"}' --key quote
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models.wrapper import WrapperModel

from holdfast import Context, flow, step

MODEL = "openai-chat:gpt-5-mini"
PRICES_EUR = {"lamp": 40, "desk": 310, "chair": 120}


class Question(BaseModel):
    question: str


@step
async def request_model(request: Callable[[], Awaitable[ModelResponse]]) -> list[Any]:
    """Send a request to a model. Its answer is recorded as JSON, in the SDK's own form, and given again on a replay."""
    messages: list[Any] = ModelMessagesTypeAdapter.dump_python([await request()], mode="json")
    return messages


class RecordedModel(WrapperModel):
    """A model of the SDK whose requests are steps."""

    async def request(self, *arguments: Any) -> ModelResponse:
        (answer,) = ModelMessagesTypeAdapter.validate_python(await request_model(lambda: self.wrapped.request(*arguments)))
        assert isinstance(answer, ModelResponse)
        return answer


@step
async def find_price(item: str) -> int:
    """Look up a price in EUR."""
    return PRICES_EUR[item]


def agent() -> Agent[None, str]:
    """Make the agent. Its tools are plain functions that call steps."""
    assistant = Agent(RecordedModel(MODEL), instructions="Answer in one sentence, with the sum.")

    @assistant.tool_plain
    async def price(item: str) -> int:
        """Return the price of an item in EUR."""
        return await find_price(item)

    return assistant


@flow
async def quote(ctx: Context, request: Question) -> str:
    answer = await agent().run(request.question)
    return answer.output
