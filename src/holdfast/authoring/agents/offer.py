"""The offers to a model in an agent loop, each under a name of its own: tools, workflows, and to hand over to another agent.

Never here: telling a model of it, doing what it asks for (engine.operations.conversation).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from holdfast.authoring.agents.chat import Chat, Message
from holdfast.authoring.agents.memory import MemoryTool
from holdfast.authoring.tool import Tool
from holdfast.core.values.demand import NOTHING
from holdfast.core.values.policies import VALIDATION
from holdfast.errors import InvalidInput, StepError, UsageError

ANSWER: Final = "final_result"
"""Under which a model gives an answer that has a shape."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NamedWorkflow(Protocol):
    """A workflow, as far as a node has to know it."""

    name: str

    @property
    def input_schema(self) -> dict[str, Any] | None: ...

    def validated_input(self, raw: Any) -> Any: ...


class Handoff:
    """Another agent to which a model may hand the conversation over. It answers as a child, and gets the messages after that.

    It gets the texts of people and agents up to the message to answer, without tool calls.

    Args:
        workflow: Workflow whose input is a `Chat`, or its name.
        filter: Pure function that shortens the Chat, such as `lambda chat: chat.last(4)`.
        description: Description of the other agent for the model; by default its docstring.

    Raises:
        UsageError: The workflow takes no Chat.
    """

    def __init__(
        self,
        workflow: NamedWorkflow | str,
        *,
        filter: Callable[[Chat], Chat] | None = None,  # noqa: A002 - the field's word
        description: str | None = None,
    ) -> None:
        self.workflow = workflow
        self.to = workflow if isinstance(workflow, str) else workflow.name
        self.name = f"transfer_to_{self.to}"
        self.filter = filter
        self.description = description
        if not isinstance(workflow, str):
            try:
                workflow.validated_input(Chat(messages=[Message(role="user", text="?")]))
            except InvalidInput as problem:
                raise UsageError(
                    f"{workflow!r} cannot be handed a conversation, because its input is no Chat. {problem.message}"
                ) from None

    def __repr__(self) -> str:
        return f"<handoff to {self.to!r}>"

    def input_for(self, chat: Chat) -> dict[str, Any]:
        """Return the part of a conversation that the other agent gets.

        Args:
            chat: The conversation.

        Raises:
            StepError: The filter leaves nothing to answer.
        """
        left: Any = chat if self.filter is None else self.filter(chat)
        if not isinstance(left, Chat) or not left.messages or left.messages[-1].role != "user":
            raise StepError(
                f"The filter of the {self!r} has to return a Chat whose last message is the one to answer, not {left!r:.200}."
                " Nothing was handed over.",
                error_class=VALIDATION,
            )
        return left.model_dump(mode="json")


ToolOffer: TypeAlias = str | Tool | NamedWorkflow | Handoff | MemoryTool
"""A tool, also by its name; a workflow, which is done by a child; another agent; a memory."""


def check(offers: Sequence[ToolOffer], *, answers: bool) -> None:
    """Raises UsageError for what no model can be offered, and where two have one name; with `answers` the name of the answer is
    taken as well."""
    taken: set[str] = {ANSWER} if answers else set()
    for each in offers:
        if not isinstance(each, str | Tool | MemoryTool):
            _expect_takeable(each)
        elif getattr(each, "demand", NOTHING) is not NOTHING:
            raise UsageError(f"{each!r} asks for a place of its own, which a model cannot wait for; offer a child.")
        name = each if isinstance(each, str) else each.name
        if name in taken:
            raise UsageError(
                f"{name!r} is the name under which a model gives its answer; give what is offered another name."
                if answers and name == ANSWER
                else f"The model is offered two things called {name!r}, and could not say which it means; give one of them"
                " another name."
            )
        taken.add(name)


def _expect_takeable(offer: NamedWorkflow | Handoff) -> None:
    if not (isinstance(offer, Handoff) or hasattr(type(offer), "input_schema")):
        raise UsageError(
            f"{offer!r} cannot be offered to a model: a tool can, made with @tool or @step(effect=...), a workflow and a"
            " Handoff."
        )
    if not _NAME.fullmatch(offer.name):
        raise UsageError(
            f"The {'handoff' if isinstance(offer, Handoff) else 'workflow'} {offer.name!r} cannot be offered to a model:"
            " providers take names of 1 to 64 letters, digits, '_' and '-'. Give the workflow another name."
        )
