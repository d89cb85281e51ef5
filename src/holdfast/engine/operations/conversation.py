"""Talking with models inside a step: one exchange, or the agent loop — model, tools, model — until the model stops.

Everything that leaves goes through the journal, so that a killed loop goes on with the turn that comes next. Never
here: money, providers, what a tool's failure means.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pydantic import BaseModel, ValidationError

from holdfast.authoring.agents.compaction import Compaction
from holdfast.authoring.agents.offer import ANSWER
from holdfast.authoring.node import DEFAULT_MAX_TOKENS
from holdfast.authoring.values.adapter import adapter_of
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.content import Audio, Document, Image
from holdfast.authoring.values.plain import encode
from holdfast.core.values.content import ContentPart
from holdfast.core.values.policies import LIMIT
from holdfast.engine.operations import budget, compaction, steering
from holdfast.engine.operations import prompt as prompts
from holdfast.engine.operations import tool_requests as requests
from holdfast.engine.operations.client_tool import ResultSender
from holdfast.engine.operations.compaction import TurnSpan
from holdfast.engine.operations.exchange import RequestOptions
from holdfast.errors import SchemaMismatch, StepError
from holdfast.ports import AnswerSpec, ModelReply, ModelRequest, ModelTurn, ToolReply, ToolRequest, ToolTurn, Turn, UserTurn

if TYPE_CHECKING:
    from holdfast.engine.operations.context import StepContext

_TOO_EARLY: Final = "Not taken: first read the tools' answers."
_TAKEN: Final = "Taken."
_WHOLE: Final = ("stop", "tool_call")
"""How a reply ends that has all that the model had to say."""


async def talk(context: StepContext, exchange: RequestOptions, turns: list[Turn] | None = None) -> Any:
    """The model's answer to a prompt: text, or with `output` (or `answer`, a bare schema) a validated object.

    A workflow among what is `offered` is done by a child, and where the conversation is handed over the answer is that of the
    other agent.
    `turns` is the conversation so far, to which everything that is said now is added: another prompt can follow; older turns
    that are summed up are one then in `turns` too.
    Raises SchemaMismatch when a mended answer still does not fit, StepError (class `limit`) when the model wants more
    than `max_turns` turns, OperationFailed when a call fails.
    """
    prompt, model, output, offered, max_turns = (
        exchange.prompt,
        exchange.name,
        exchange.output,
        exchange.offered,
        exchange.max_turns,
    )
    answer = exchange.answer
    system, said = prompts.read(prompt)
    specs = tuple(requests.spec(each) for each in offered.values())
    if output is not None:
        answer = AnswerSpec(ANSWER, "The final answer.", output.model_json_schema())
    turns = [] if turns is None else turns
    messages = TurnSpan(len(turns), len(said) if isinstance(prompt, dict) and "messages" in prompt else 0)
    for each in said:
        turns.append(each if isinstance(each, ModelTurn) else await _user_turn(context, each))
    heard = [*turns]
    asked = ModelRequest(
        model=model,
        system=system,
        turns=(),
        max_tokens=exchange.max_tokens or DEFAULT_MAX_TOKENS,
        tools=specs,
        answer=answer,
        temperature=exchange.temperature,
    )
    mended = False
    used = 0
    while used < max_turns + mended:
        used += 1
        request, messages = await _prepared(context, asked, turns, heard, messages, exchange.compaction)
        cached = context.cached_answers(exchange.cache, request) if exchange.cache is not None and _is_alone(request) else None
        found = await cached.find() if cached is not None else None
        if exchange.tell_budget and found is None:
            request = budget.telling(request, await context.ahead(budget.beside))
        cheaper = _cheaper(request, exchange.cheaper_models, exchange.min_tokens)
        reply, call = (
            (found, None)
            if found is not None
            else await context.call_model(
                request, cheaper, stream=exchange.stream, route=exchange.route, fallbacks=exchange.fallback_models
            )
        )
        tell = ResultSender(context, call)
        turns.append(ModelTurn(reply.turn))
        wanted = [request for request in reply.tool_requests if answer is None or request.name != answer.name]
        if (handoff := requests.handoff_of(wanted, offered)) is not None:
            handed = await requests.hand_over(context, reply, handoff, offered, heard, tell)
            turns.append(handed.turn)
            if not handed.is_refused:
                return _fitting(handed.answer, handoff.name, output)
            continue
        if wanted and offered:
            if used >= max_turns + mended:
                break
            turns.append(await requests.replies(context, reply, wanted, offered, _TOO_EARLY, tell))
            continue
        problem, value = _fit(reply, output, answer)
        if problem is None:
            if cached is not None and found is None and reply.finish_reason in _WHOLE:
                await cached.keep(reply)
            turns.extend(await _closing_turns(reply, tell))
            return value
        if mended:
            raise SchemaMismatch(f"The answer of {model} does not fit its schema, after one attempt to mend it: {problem}.")
        mended = True
        turns.extend(await _complaint(context, reply, wanted, problem, answer, tell))
    raise StepError(f"{model} did not come to an end within {max_turns} turns.", error_class=LIMIT)


async def _prepared(
    context: StepContext,
    question: ModelRequest,
    turns: list[Turn],
    history: list[Turn],
    messages: TurnSpan,
    compact: Compaction | None,
) -> tuple[ModelRequest, TurnSpan]:
    """The request that is made next, and where the messages of the prompt stand in it: with what was said meanwhile, and the
    older turns summed up where they are too much. Both lists are brought up to that."""
    if messages.number:
        said = [await _user_turn(context, prompts.message(each)) for each in await context.ahead(steering.messages)]
        turns.extend(said)
        history.extend(said)
    request = msgspec.structs.replace(question, turns=tuple(turns))
    if compact is None:
        return request, messages
    request, messages = await context.ahead(partial(compaction.fitted, request, compact, messages))
    if request.turns != (*turns,):
        turns[:] = request.turns
        history[:] = [turns[0], *(turn for turn in turns[1:] if turn in history)]
    return request, messages


async def _user_turn(context: StepContext, user: prompts.Parts) -> UserTurn:
    """Return a person's message as a turn, its parts kept; a part with an address is read in a place of its own."""
    pieces = [each if isinstance(each, str) else await _store_part(context, each) for each in user]
    return UserTurn(str(pieces[0]), tuple(pieces[1:]))


async def _store_part(context: StepContext, part: Image | Audio | Document) -> ContentPart:
    if part.url is None:
        return await context.keep_part(part)
    fetch = context.fetching
    found = await context.call_tool(fetch.name, {"part": part.model_dump()}, allowed={fetch.name: fetch})
    return msgspec.convert(found, ContentPart)


def _fitting(answer: Any, name: str, output: type[BaseModel] | None) -> Any:
    """The answer of another agent, where the step has said of what shape one is. Raises SchemaMismatch."""
    if output is None:
        return answer
    try:
        return adapter_of(output).written(output.model_validate(msgspec.json.decode(encode(answer))))
    except ValidationError as problem:
        raise SchemaMismatch(f"What came of {name!r} does not fit the step's output: {describe(problem)}.") from None


async def _closing_turns(reply: ModelReply, tell: ResultSender) -> list[Turn]:
    """Return the turns that must follow a final answer before anything else can."""
    open_ = requests.open_requests(reply)
    return [ToolTurn(tuple([await tell(ToolReply(each.id, each.name, _TAKEN)) for each in open_]))] if open_ else []


def _is_alone(request: ModelRequest) -> bool:
    """True if a request is one question in words, and nothing besides."""
    return len(request.turns) == 1 and isinstance(request.turns[0], UserTurn) and not request.turns[0].parts


def _cheaper(request: ModelRequest, models: Sequence[str], min_tokens: int | None) -> list[ModelRequest]:
    """Yield the requests that may go out instead when money is short: a shorter reply, then cheaper models, each long and
    short."""
    sizes = [request.max_tokens, *([min_tokens] if min_tokens is not None and min_tokens < request.max_tokens else [])]
    ways = [(name, size) for name in (request.model, *models) for size in sizes]
    return [msgspec.structs.replace(request, model=name, max_tokens=size) for name, size in ways[1:]]


def _fit(reply: ModelReply, output: type[BaseModel] | None, answer: AnswerSpec | None) -> tuple[str | None, Any]:
    """Return the problem of the answer (None without one), and its value."""
    if reply.answer is None and reply.tool_requests:
        return f"it asks for {reply.tool_requests[0].name!r}, and there is no such tool", None
    if answer is None:
        return None, reply.text
    if reply.answer is None:
        return f"it is text, not a call of {answer.name}", None
    given = reply.answer.arguments
    if not isinstance(given, dict):
        return "its arguments are not a JSON object", None
    if output is None:
        return _fits_schema(given, answer), given
    try:
        return None, adapter_of(output).written(output.model_validate(given))
    except ValidationError as problem:
        return describe(problem), None


def _fits_schema(arguments: dict[str, Any], answer: AnswerSpec) -> str | None:
    """For the engine's own answers, which are an enum and a text."""
    for name, shape in answer.schema["properties"].items():
        if name in answer.schema["required"] and name not in arguments:
            return f"{name} is missing"
        if "enum" in shape and arguments.get(name) not in shape["enum"]:
            return f"{name} is {arguments.get(name)!r}, which is none of {', '.join(shape['enum'])}"
    return None


async def _complaint(
    context: StepContext,
    reply: ModelReply,
    calls: Sequence[ToolRequest],
    problem: str,
    answer: AnswerSpec | None,
    tell: ResultSender,
) -> list[Turn]:
    """The one chance to mend: the model receives what does not fit. Every request must be replied to; a tool that was
    not offered is denied, which is recorded."""
    words = f"This does not fit: {problem}. " + (
        f"Call {answer.name} with an answer that does." if answer is not None else "Answer in words."
    )
    if not reply.tool_requests and reply.answer is None:
        return [UserTurn(words)]
    told: list[Turn] = [await requests.replies(context, reply, calls, {}, words, tell)]
    return told if reply.answer is not None else [*told, UserTurn(words)]
