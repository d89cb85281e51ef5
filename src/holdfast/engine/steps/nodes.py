"""Runners of attempts, one short one for each kind of node.

Never here: the order of nodes (core), recording (journal), the world (gateway, executor).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel

from holdfast.authoring.agents import compaction
from holdfast.authoring.agents.offer import ANSWER
from holdfast.authoring.agents.router import expect_complexity
from holdfast.authoring.agents.skill import introduced
from holdfast.authoring.immediate import is_immediate
from holdfast.authoring.mapping import ItemDefinition, MapDefinition
from holdfast.authoring.node import CODE, OFFERED, NodeDefinition
from holdfast.authoring.parts import NodeResult
from holdfast.authoring.values.form import form_of
from holdfast.authoring.values.plain import encode
from holdfast.authoring.values.view import Fields
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.nouns.routing import Complexity
from holdfast.core.values.ids import NodeName
from holdfast.core.values.policies import CHECK_FAILED, ERROR, REJECTED, ROUTING, TEMPORARY
from holdfast.core.values.proposal import of_shown
from holdfast.engine.attempts.journal import let_wait
from holdfast.engine.attempts.residents import Flow
from holdfast.engine.flow.flowing import Flowing
from holdfast.engine.operations import conversation
from holdfast.engine.operations import prompt as prompts
from holdfast.engine.operations.child import Request
from holdfast.engine.operations.exchange import Exchange
from holdfast.engine.steps import item, remote_task
from holdfast.errors import InvalidInput, OperationFailed, SchemaMismatch, StepError, UsageError
from holdfast.platform.threads import is_async
from holdfast.ports import AnswerSpec, Ended, Turn

if TYPE_CHECKING:
    from holdfast.core.facts.state import State
    from holdfast.engine.attempts.attempt import Attempt
    from holdfast.engine.operations.context import StepContext

EDITED_BODY: Final = "edited_body"
"""The one field of a gate without a form of its own."""


class Result(NamedTuple):
    """A node's output and, for a node that decides, what it decided."""

    output: Any
    decisions: tuple[str, ...] | None = None
    conversation: list[Turn] | None = None
    """What was said with a model, where the node's next visit is to go on with it."""
    trace: dict[str, Any] | None = None
    """What its code says of how it came to this."""


_WHOLE: Final = ("task", "remote_task")
"""The kinds of nodes that may be plain code."""
LEFT: Final = Result(None)
"""The step was left with its last operation: nothing is to be reported."""


async def run(attempt: Attempt, context: StepContext) -> Result:
    if attempt.name == COMPENSATE:
        return await _compensate(attempt, context)
    definition = attempt.definition
    assert definition is not None
    stand_in = attempt.services.stand_in
    if stand_in is not None and _may_be_plain(definition):
        ended = stand_in.step(attempt.run, attempt.step)
        if ended is not None:
            return await _stood_in(context, ended)
    if isinstance(definition, ItemDefinition):
        done = await item.do(attempt, context, definition)
        return Result(done if definition.returns.is_plain else _dumped(definition, done))
    if not definition.returns.is_plain:
        return await _typed_task(attempt, context, definition)
    return await _RUNNERS[definition.kind](attempt, context, definition.settings)


def _may_be_plain(definition: NodeDefinition | ItemDefinition) -> bool:
    return isinstance(definition, ItemDefinition) or (definition.kind in _WHOLE and not definition.is_flow)


async def _stood_in(context: StepContext, ended: Ended) -> Result:
    """Return the step's result in the run that is replayed, after the calls that it made there."""
    for made in ended.calls:
        await context.retell(made)
    if ended.error is not None:
        raise OperationFailed(ended.error.message, error=ended.error, path=None)
    return Result(ended.output, ended.decisions, trace=ended.trace)


async def _handled(attempt: Attempt, context: StepContext) -> Any:
    """Return the result of the node's function. A plain one runs in a thread, which cannot be stopped: it keeps its slot. One
    that cannot take long runs at once, if it sees nothing large."""
    definition = attempt.definition
    assert definition is not None
    if context.flow is not None:
        return await _flow(attempt, context, context.flow)
    handler = definition.handler
    given = definition.given(await attempt.view(), context)
    if attempt.item is not None:
        given["item"] = definition.item.load(await item.value(attempt))
    if attempt.has_tasks and is_async(handler):
        context.flow = flow = Flowing(context.journal, handler(**given))
        return await _flow(attempt, context, flow)
    if not attempt.sees_large and is_immediate(handler):
        return handler(**given)
    return await attempt.services.threads.run(handler, given)


async def _flow(attempt: Attempt, context: StepContext, flow: Flow) -> Any:
    """Return the result of a flow's function. If the step has to wait, the flow is kept."""
    try:
        return await flow.carry()
    finally:
        if flow.stands:
            let_wait(context.journal)
            attempt.services.residents.keep(context)


def _as_data(given: Any) -> Any:
    """Return what a node's function gives on, with the models in it as data, such as what a model has answered before."""
    if isinstance(given, BaseModel):
        return given.model_dump(mode="json")
    if isinstance(given, dict) and any(isinstance(each, BaseModel | dict | list) for each in given.values()):
        return Fields({name: _as_data(each) for name, each in given.items()})
    return [_as_data(each) for each in given] if isinstance(given, list) else given


async def _task(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    returned = await _handled(attempt, context)
    if not isinstance(returned, NodeResult):
        return Result(returned)
    return await _patched(attempt, context, returned)


async def _typed_task(attempt: Attempt, context: StepContext, definition: NodeDefinition) -> Result:
    """The same of a function whose hint says more than plain data."""
    returned = await _handled(attempt, context)
    if not isinstance(returned, NodeResult):
        return Result(_dumped(definition, returned))
    return await _patched(attempt, context, returned)


async def _patched(attempt: Attempt, context: StepContext, returned: NodeResult) -> Result:
    model = attempt.state_model
    if model is not None and (unknown := [name for name in returned.state_patch if name not in model.model_fields]):
        raise SchemaMismatch(
            f"The patch of {attempt.name!r} names {unknown[0]!r}, and {model.__name__} has no such field; it has"
            f" {', '.join(model.model_fields)}."
        )
    return await _said(returned, context)


def _dumped(definition: NodeDefinition, returned: Any) -> Any:
    """Return what a function returned as data that JSON has. Raises InvalidInput."""
    try:
        return definition.returns.dump(returned)
    except InvalidInput as problem:
        raise InvalidInput(f"What {definition.label!r} returned cannot be kept: {problem.message}.") from None


async def _said(result: NodeResult, context: StepContext) -> Result:
    """Return the result of a task that returned a NodeResult."""
    match result.status:
        case "ok":
            ways = None if result.next_node is None else (result.next_node,)
            return Result(result.state_patch, ways, trace=result.trace)
        case "completed":
            return Result(result.state_patch, (), trace=result.trace)
        case "waiting":
            question = {"question": result.error or "The node waits for an answer.", **result.trace}
            answer = await context.ask(question, decisions=("answer", "reject"))
            if answer.decision == "reject":
                who, why = answer.by or "A person", answer.reason or "rejected"
                raise StepError(f"{who} did not answer: {why}.", error_class=REJECTED)
            said = answer.data if isinstance(answer.data, dict) else {}
            return Result({**result.state_patch, **said}, trace=result.trace)
        case "retryable_error":
            raise StepError(result.error or "The node says that trying again may help.", error_class=TEMPORARY)
        case "fatal_error":
            raise StepError(result.error or "The node says that it cannot do its work.", error_class=ERROR)


async def _llm_node(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    prompt = prompts.with_words(await _handled(attempt, context), introduced(settings.get("skills", ())))
    turns = await _said_before(attempt, context) if settings.get("continue_conversation") else None
    attempt.posts_outcomes = True
    offered = {**attempt.tools, **{each.name: each for each in settings.get(OFFERED, ())}}
    asked = Exchange(
        prompt,
        settings["model"],
        settings["max_tokens"],
        settings["output"],
        temperature=settings["temperature"],
        offered=offered,
        max_turns=settings["max_turns"] if offered else 1,
        cheaper_models=settings["cheaper_models"],
        min_tokens=settings["min_tokens"],
        stream=settings.get("stream", False),
        tell_budget=settings.get("tell_budget", False),
        compact=compaction.of(settings.get("compact_above_tokens"), settings.get("compact_with")),
        fallback_models=settings.get("fallback_models", ()),
        complexity=await _complexity(attempt, settings.get("complexity")),
        max_latency_s=settings.get("max_latency_s"),
        cache=settings.get("cache"),
    )
    answer = await conversation.talk(context, asked, turns)
    return Result(answer, conversation=turns)


async def _complexity(attempt: Attempt, given: Any) -> Complexity | None:
    """Return the difficulty of the task, for a router: a level, or the result of a function of the state."""
    try:
        return expect_complexity(given(await attempt.view()) if callable(given) else given)
    except UsageError as problem:
        raise StepError(problem.message, error_class=ROUTING) from None


async def _said_before(attempt: Attempt, context: StepContext) -> list[Turn]:
    """The conversation of the node's visit before; none where there was none, or where it came to no end."""
    before = (await attempt.state()).previous.get(attempt.name)
    if before is None or before.conversation is None:
        return []
    return msgspec.convert(await attempt.value(before.conversation), list[Turn])


async def _tool_node(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    arguments = _as_data(await _handled(attempt, context))
    if not isinstance(arguments, dict):
        raise InvalidInput(f"A tool_node's function returns the tool's arguments as an object, not {type(arguments).__name__}.")
    attempt.posts_outcomes = True
    (ref,) = settings["tools"]
    name = ref if isinstance(ref, str) else ref.name
    key = settings["key"].format_map(arguments) if settings["key"] is not None else None
    unique = settings.get("unique", "run")
    return Result(await context.call_tool(name, arguments, key=key, unique=unique))


async def _remote_task(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    arguments = _as_data(await _handled(attempt, context))
    return Result(await remote_task.perform(attempt, context, settings["task"], arguments))


async def _map(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    definition = attempt.definition
    assert isinstance(definition, MapDefinition)
    return Result(await context.map_items(definition, partial(_handled, attempt, context)))


async def _child(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    plain = _as_data(await _handled(attempt, context))
    key = settings["key"].format_map(plain) if settings["key"] is not None else None
    asked = Request(
        settings.get(CODE) or settings["workflow"],
        plain,
        settings["version"],
        key,
        settings["cost_limit_usd"],
        max_tokens=settings["max_tokens"],
    )
    outcome = await context.call_child(asked, settings["on_failure"])
    return Result(outcome._asdict() if settings["on_failure"] == "return" else outcome)


async def _deciders(attempt: Attempt, gates: Sequence[str]) -> tuple[str, ...]:
    """Return the people who decided these gates; "" for an unknown one, which is refused."""
    if not gates:
        return ()
    steps = (await attempt.state()).steps
    found = [steps.get(NodeName(name)) for name in gates]
    return tuple(name for step in found for name in ([""] if step is None else [*step.approvers, step.by or ""]))


async def _human_gate(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    shown = _as_data(await _handled(attempt, context))
    if not isinstance(shown, dict):
        shown = {"diff": shown}
    shown = msgspec.json.decode(encode(shown))
    form: type[BaseModel] | None = settings["form"]
    if form is None:
        schema: dict[str, Any] = {"type": "object", "properties": {EDITED_BODY: {}}, "required": [EDITED_BODY]}
        filled = {EDITED_BODY: shown.get("diff", {k: v for k, v in shown.items() if k != "reviewers"})}
    else:
        schema, filled, shown = form_of(form, shown)
    reviewers = shown.get("reviewers", settings["reviewers"])
    await context.open_gate(
        shown,
        allowed=settings["decisions"],
        form=schema,
        filled=filled,
        reviewers=tuple([reviewers] if isinstance(reviewers, str) else map(str, reviewers)),
        four_eyes=settings["four_eyes"],
        quorum=settings["quorum"],
        hash_optional=settings["hash_optional"],
        proposal=of_shown(shown, settings["proposed_action"], risk_level=settings["risk_level"]),
        not_by=await _deciders(attempt, settings["not_by"]),
        timeout_s=settings["deadline_s"],
        remind_every_s=settings["remind_every_s"],
        cancel_after_s=settings["cancel_after_s"],
        expires_after_s=settings["expires_after_s"],
    )
    return LEFT


async def _branch(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    chosen = await _handled(attempt, context)
    if settings["model"] is not None:
        attempt.posts_outcomes = True
        ways = _ways(attempt, await attempt.state())
        answer = AnswerSpec(
            ANSWER,
            "Where the workflow goes next.",
            {
                "type": "object",
                "properties": {"next": {"type": "string", "enum": ways}, "rationale": {"type": "string"}},
                "required": ["next"],
            },
        )
        asked = Exchange(chosen, settings["model"], settings["max_tokens"], answer=answer, temperature=settings["temperature"])
        said = await conversation.talk(context, asked)
        return Result(said, (said["next"],))
    names = (chosen,) if isinstance(chosen, str) else chosen
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise StepError(f"{attempt.name!r} must name its ways, not return {chosen!r}.", error_class=ROUTING)
    return Result(chosen if isinstance(chosen, str) else list(names), tuple(names))


def _ways(attempt: Attempt, state: State) -> list[str]:
    """The names that a branch may choose among: of its edges, and of its loops that have visits left."""
    graph, name = attempt.graph, attempt.name
    loops = [loop for loop in graph.loops_from.get(name, ()) if state.visits.get(loop.target, 0) < (loop.max_visits or 0)]
    edges = [edge for edge in graph.outgoing[name] if edge.on == "success"]
    return list(dict.fromkeys(edge.when or edge.target for edge in (*edges, *loops)))


async def _check(attempt: Attempt, context: StepContext, settings: dict[str, Any]) -> Result:
    said = await _handled(attempt, context)
    result, reason = said if isinstance(said, tuple) and len(said) == 2 else (said, None)
    if result is None or isinstance(result, bool):
        decision = "pass" if result in (None, True) else _negative(attempt)
    elif result in ("pass", "fail", "retry"):
        decision = result
    else:
        raise StepError(
            f"The check {attempt.name!r} returned {result!r}; it returns True, False, 'pass', 'fail' or 'retry'.",
            error_class=CHECK_FAILED,
        )
    return Result({"decision": decision, "reason": reason}, (decision,))


def _negative(attempt: Attempt) -> str:
    """Return the decision that False means here: back along a loop if there is one, unless there is an edge for failure."""
    graph, name = attempt.graph, attempt.name
    if any(edge.when == "fail" for edge in (*graph.outgoing[name], *graph.loops_from.get(name, ()))):
        return "fail"
    return "retry" if name in graph.loops_from else "fail"


async def _compensate(attempt: Attempt, context: StepContext) -> Result:
    """Undo the run's effects, the latest first; each undoing is an effect itself. What a child did, it undoes in its turn."""
    effects = list((await attempt.state()).compensable)
    catalog = attempt.services.runtime.catalog
    known = catalog.tools_of(attempt.graph.hash)
    attempt.posts_outcomes = True
    for done in reversed(effects):
        if done.child is not None:
            await context.undo_child(done.child, done.tool)
            continue
        tool = known.get(done.compensation) or catalog.undoing(attempt.graph.hash, done.tool, done.compensation)
        if tool is None:
            raise InvalidInput(
                f"{done.tool!r} is undone by {done.compensation!r}, which this workflow no longer has. Bring it back; a flow"
                f" finds it in its own module, or where it says tools=[{done.tool}]."
            )
        given = dict(await attempt.value(done.request) or {})
        given["response"] = await attempt.value(done.response)
        arguments = {name: given[name] for name in tool.schema.get("properties", {}) if name in given}
        await context.call_tool(tool.name, arguments, compensates=done.call, allowed={tool.name: tool})
    return Result({"undone": [done.child or done.call for done in reversed(effects)]})


_RUNNERS: Final[dict[str, Callable[[Attempt, StepContext, dict[str, Any]], Awaitable[Result]]]] = {
    "task": _task,
    "llm_node": _llm_node,
    "tool_node": _tool_node,
    "remote_task": _remote_task,
    "child": _child,
    "human_gate": _human_gate,
    "branch": _branch,
    "check": _check,
    "map": _map,
}
