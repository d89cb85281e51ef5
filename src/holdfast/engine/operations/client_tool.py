"""A call of a tool of the caller's front end: a gate, whose answer is the result.

Nothing is called here and no effect is recorded: the answer of a front end is the caller's word. Never here: which tools may be
brought (core.nouns.client_tools).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.facts.streams import arguments_of, source_of
from holdfast.core.nouns.client_tools import CLIENT_TOOL, RESULT_FORM, ClientTool
from holdfast.core.values.ids import CallId, Path
from holdfast.core.values.payload import digest
from holdfast.engine.attempts.journal import StepJournal
from holdfast.ports import ToolReply, ToolRequest

if TYPE_CHECKING:
    from holdfast.engine.operations.context import StepContext


class ResultSender(NamedTuple):
    """Sends the reply to a model's request of `call` to those who watch the run as well, and returns it."""

    context: StepContext
    call: CallId | None

    async def __call__(self, reply: ToolReply, message: str = "") -> ToolReply:
        """`message` is the id of the message with which a front end brought it."""
        return await self.context.tell_result(self.call, reply, message)


async def reply(context: StepContext, request: ToolRequest, tool: ClientTool, tell: ResultSender) -> ToolReply:
    """Return what the front end has answered, once it has. Arguments that do not fit go back to the model unasked."""
    if (flaw := _misfit(tool, request.arguments)) is not None:
        return await tell(ToolReply(request.id, request.name, f"Not called: {flaw}.", is_error=True))
    call = None if tell.call is None else source_of(tell.call, arguments_of(request.name, request.id))
    answer = await context.ahead(
        partial(_ask_front_end, {"tool": tool.name, "arguments": request.arguments, "call": call})
    )  # the one operation of its branch
    if answer["decision"] != "answer":
        said = f"Not done: {answer['reason'] or 'the user declined'}."
        return await tell(ToolReply(request.id, request.name, said, is_error=True))
    data = answer["data"]
    result = ToolReply(request.id, request.name, data["content"], is_error=data.get("failed", False))
    return await tell(result, data.get("message", ""))


async def _ask_front_end(content: dict[str, Any], journal: StepJournal, path: Path) -> Any:
    """Ask the front end, and return its answer once it has given one."""
    return await journal.ask(
        path,
        CLIENT_TOOL,
        digest([CLIENT_TOOL, content]),
        content=content,
        allowed=("answer", "reject"),
        form=RESULT_FORM,
        filled={},
        hash_optional=True,  # the result names its call, which is asked about once
    )


def _misfit(tool: ClientTool, arguments: Any) -> str | None:
    if not isinstance(arguments, dict):
        return "the arguments are no JSON object"
    from holdfast.core.values import schema  # noqa: PLC0415 - 100 ms for those who have one

    try:
        found = schema.problems(tool.schema, arguments, "arguments")
    except schema.TooMuch as much:
        return f"the arguments cannot be held against their schema: {much}"
    return "; ".join(found) or None
