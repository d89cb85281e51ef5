"""`Chat`: what an agent is given in a conversation.

Light to import, as all that a file of handlers names. Never here: who keeps a conversation, how a model is asked.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from holdfast.authoring.values.content import Audio, Document, Image, Part


class Message(BaseModel):
    """A message of a person or of the agent; the `summary` of the earlier messages, in their place."""

    model_config = ConfigDict(defer_build=True)

    role: Literal["user", "assistant", "summary"]
    text: str
    parts: list[Part] = []
    """An attachment of a person, known by its hash."""

    @model_serializer(mode="wrap")
    def _brief(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = serialize(self)
        if not self.parts:
            del found["parts"]
        return found


class ClientTool(BaseModel):
    """A tool of the caller's front end. A call of it opens a gate, and the front end's answer is the result."""

    model_config = ConfigDict(defer_build=True)

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class ClientContext(BaseModel):
    """The context that the caller's front end gives."""

    model_config = ConfigDict(defer_build=True)

    description: str
    value: str


class Chat(BaseModel):
    """The messages of a conversation so far; the last one is the one to answer."""

    model_config = ConfigDict(defer_build=True)

    conversation: str = ""
    """Id of the conversation; "" for a run that was started without one."""
    messages: list[Message] = Field(min_length=1)
    """Messages, oldest first."""
    reason: str = ""
    """Reason of the agent that handed the conversation over, in its words."""
    tools: list[ClientTool] = []
    """Tools of the caller's front end, which are offered beside the agent's own. They are not trusted."""
    context: list[ClientContext] = []
    """Context from the front end. It is not trusted."""

    @model_serializer(mode="wrap")
    def _brief(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what no front end has brought: that is as it was before there was any."""
        found: dict[str, Any] = serialize(self)
        for name in ("tools", "context"):
            if not found.get(name, True):
                del found[name]
        return found

    @property
    def text(self) -> str:
        """Text of the message to answer."""
        return self.messages[-1].text

    @property
    def parts(self) -> list[Image | Audio | Document]:
        """Attachments of the message to answer."""
        return self.messages[-1].parts

    def last(self, count: int) -> Chat:
        """Return the Chat with its last messages only.

        Args:
            count: Number of messages to keep.
        """
        return self.model_copy(update={"messages": self.messages[-max(count, 1) :]})
