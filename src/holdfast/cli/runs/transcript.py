"""`holdfast runs show --calls`: what models were asked and what they answered, as one reads a conversation.

Never here: what is kept of requests (settings), the words of a model while they come (stream).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from holdfast.cli import reference
from holdfast.cli.connect import backend
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.core.values.money import nanousd
from holdfast.core.views.transcript import spoken, text_of
from holdfast.service.declarations import query
from holdfast.service.declarations.query import View

_INDENT: Final = "    "


def show(run: str, *, as_json: bool, store: str | None) -> None:
    """Print the model calls of a run, each with what is new in its request, and with its reply."""
    asyncio.run(_show(run, as_json, store))


async def _show(run: str, as_json: bool, store: str | None) -> None:
    async with backend(store, resolve_actor(None)) as service:
        calls = await service.rows(query.ModelCalls(run=await reference.run_id(service, run)))
    if as_json:
        for each in calls:
            terminal.emit_line(each)
        return
    if not calls:
        terminal.say("This run has made no model calls.")
        return
    numbers = {each["call"]: number for number, each in enumerate(calls, 1)}
    for number, each in enumerate(calls, 1):
        if number > 1:
            terminal.show("")
        terminal.show(" ".join(_head(number, each)))
        for role, text in _parts(each, numbers):
            terminal.show(f"  {role}")
            for line in text.splitlines() or [""]:
                terminal.show(_INDENT + line)


def _head(number: int, call: View) -> Iterator[str]:
    """Yield the parts of a call's first line."""
    yield f"Call {number}: {call['model']} in {call['step']}, {call['status']}, {moment.second(call['at'])},"
    if call["ended_at"] is not None:
        yield f"{moment.span(moment.ms(call['ended_at']) - moment.ms(call['at']))},"
    yield f"{call['input_tokens']} + {call['output_tokens']} tokens"
    if nanousd(call["cost_usd"]):
        yield f"(${call['cost_usd']})"


def _parts(call: View, numbers: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a conversation that are new with a call, each under the name of who speaks."""
    request = call["request"]
    if request is None:
        yield "request", "(only its hash is kept: setting keep_requests)"
    else:
        if request.get("system"):
            yield "system", request["system"]
        if request.get("tools"):
            yield "tools", ", ".join(each["name"] for each in request["tools"])
        turns = request.get("turns") or []
        if call["after"] is not None:
            yield "earlier", f"({call['same_turns']} as in call {numbers.get(call['after'], call['after'])})"
        for place, turn in enumerate(turns):
            if place or call["after"] is None or turn["type"] != "model":  # the reply to the earlier call stands there
                yield from spoken(turn)
    if call["reply"] is not None:
        yield from _reply(call["reply"])
    if call["error"] is not None:
        yield "error", call["error"]["message"]


def _reply(reply: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if reply.get("text"):
        yield "assistant", reply["text"]
    for each in reply.get("tool_requests") or ():
        yield f"assistant calls {each['name']}", text_of(each["arguments"])
    if reply.get("answer") is not None:
        yield "assistant answers", text_of(reply["answer"]["arguments"])
