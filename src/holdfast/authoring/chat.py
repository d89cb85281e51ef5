"""`Chat`: what an agent is given in a conversation.

Light to import, as all that a file of handlers names. Never here: who keeps a conversation, how a model is asked.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Message(BaseModel):
    """What a person or the agent said."""

    role: Literal["user", "assistant"]
    text: str


class Chat(BaseModel):
    """What was said in a conversation so far; the last message is the one to answer."""

    conversation: str = ""
    """Its id; "" where a run was started without one."""
    messages: list[Message] = Field(min_length=1)
    reason: str = ""
    """Why another agent has handed the conversation over, in its words."""

    @property
    def text(self) -> str:
        """What is to be answered."""
        return self.messages[-1].text

    def last(self, count: int) -> Chat:
        """The same with no more than its last messages, `count` of them."""
        return self.model_copy(update={"messages": self.messages[-max(count, 1) :]})
