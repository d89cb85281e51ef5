"""An attempt from its begin to its end: a short runner for each kind of node, and the commit of its result, its error or its
suspension.

Never here: the order of nodes (core), what an operation does (journal), which attempts there are (executor).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel

from holdfast.authoring.agents import compaction
from holdfast.authoring.agents.offer import ANSWER
from holdfast.authoring.agents.router import expect_complexity
from holdfast.authoring.agents.skill import introduced
from holdfast.authoring.mapping import ItemDefinition, MapDefinition
from holdfast.authoring.node import CODE, OFFERED, NodeDefinition
from holdfast.authoring.parts import NodeResult
from holdfast.authoring.step import enter, is_immediate
from holdfast.authoring.values.form import form_of
from holdfast.authoring.values.plain import encode, refusal
from holdfast.authoring.values.sensitive import seal_for
from holdfast.authoring.values.view import Fields, typed_state
from holdfast.core.capacity.estimates import Use, reported
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.typed_state import misfits
from holdfast.core.nouns.routing import Complexity
from holdfast.core.values.ids import NodeName, root_of
from holdfast.core.values.payload import INLINE_BYTES, Payload
from holdfast.core.values.policies import CHECK_FAILED, ERROR, NON_DETERMINISTIC, REJECTED, ROUTING, TEMPORARY, VALIDATION
from holdfast.core.values.proposal import of_shown
from holdfast.engine.attempts import cursor, divergence
from holdfast.engine.attempts.attempt import Attempt, cancelled, is_left
from holdfast.engine.attempts.cursor import Abandonment, Displacement, Divergence, Refusal, Suspension
from holdfast.engine.attempts.journal import StepJournal, error_of, let_wait
from holdfast.engine.attempts.residents import Flow
from holdfast.engine.attempts.time_limit import within
from holdfast.engine.flow.flowing import FlowAttempt
from holdfast.engine.flow.task_factory import is_step
from holdfast.engine.operations import conversation
from holdfast.engine.operations import prompt as prompts
from holdfast.engine.operations.child import Request
from holdfast.engine.operations.context import StepContext
from holdfast.engine.operations.exchange import RequestOptions
from holdfast.engine.operations.stream import tell_rest
from holdfast.engine.steps import item, remote_task
from holdfast.errors import (
    Conflict,
    CorruptHistory,
    InvalidInput,
    NotFound,
    OperationFailed,
    PlaceLost,
    RunEnded,
    SchemaMismatch,
    SeqConflict,
    StaleAttempt,
    StepError,
    StoreError,
    Unstorable,
    UsageError,
)
from holdfast.models.rate_limiter import RateLimiter
from holdfast.platform import log_ids
from holdfast.platform.border import fact, is_cut_off, is_ours, isolated
from holdfast.platform.threads import is_async
from holdfast.ports import AnswerSpec, RecordedAttempt, Turn

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


async def _stood_in(context: StepContext, ended: RecordedAttempt) -> Result:
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
    given = definition.bind_arguments(await attempt.view(), context)
    if attempt.item is not None:
        given["item"] = definition.item.load(await item.value(attempt))
    if attempt.has_tasks and is_async(handler):
        context.flow = flow = FlowAttempt(context.journal, handler(**given))
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


def _as_data(value: Any) -> Any:
    """Return what a node's function gives on, with the models in it as data, such as what a model has answered before."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict) and any(isinstance(each, BaseModel | dict | list) for each in value.values()):
        return Fields({name: _as_data(each) for name, each in value.items()})
    return [_as_data(each) for each in value] if isinstance(value, list) else value


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
    return await _result_of(returned, context)


def _dumped(definition: NodeDefinition, returned: Any) -> Any:
    """Return what a function returned as data that JSON has. Raises InvalidInput."""
    try:
        return definition.returns.dump(returned)
    except InvalidInput as problem:
        raise InvalidInput(refusal(f"The result of {definition.label!r}", problem.message)) from None


async def _result_of(result: NodeResult, context: StepContext) -> Result:
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
    asked = RequestOptions(
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


async def _complexity(attempt: Attempt, value: Any) -> Complexity | None:
    """Return the difficulty of the task, for a router: a level, or the result of a function of the state."""
    try:
        return expect_complexity(value(await attempt.view()) if callable(value) else value)
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
        asked = RequestOptions(
            chosen, settings["model"], settings["max_tokens"], answer=answer, temperature=settings["temperature"]
        )
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


log = logging.getLogger("holdfast")


async def carry(attempt: Attempt, finished: Callable[[Attempt, BaseException | None], None]) -> None:
    """Execute an attempt, then the one that its end has started, and so on: a task for each would take longer than all else
    about a short step. `finished` is called with the last, and with its problem if it could not bring its end home; those
    before it have left their slots to it."""
    problem: BaseException | None = None
    following: Attempt | None = None
    while True:
        try:
            await isolated(execute(attempt), copy_context())
        except BaseException as broken:  # noqa: BLE001 - it is passed on
            problem = broken
        following = attempt.next
        if following is None or problem is not None:
            break
        attempt = following
    finished(attempt, problem)  # whatever came, its slot is free again
    if following is not None:
        try:
            if not isinstance(problem, GeneratorExit):
                await following.leave(())  # it has not begun, and will not here
        finally:
            finished(following, None)
    if isinstance(problem, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        raise problem


async def execute(attempt: Attempt) -> None:
    """Run `attempt` to its end and have the end committed.

    Raises a cancellation that the engine has asked for, and StoreError where the end could not be committed.
    """
    context = _context(attempt)
    journal, residents = context.journal, attempt.services.residents
    cursor.begin()
    is_step.set(True)
    log_ids.enter(context.log_ids)
    seal_for(attempt.tenant, attempt.services.payloads.sealing)
    enter(context if attempt.calls_steps else None)
    if context.log_ids.traceparent or attempt.services.propagation.exports:
        context.enter_span()
    try:
        lent = await _reserved_pools(attempt) if attempt.pools else []
        if lent and not attempt.runs_scripts:
            attempt.pace = RateLimiter(attempt.services.runtime.clock, lent)
        await journal.open()
        hears_nothing = journal.before.cleans_up and not attempt.has_tasks
        command = cancelled(attempt) if hears_nothing else await _end(attempt, context, journal)
        if attempt.has_tasks and not isinstance(command, cmd.SuspendStep):
            residents.drop(context, attempt.number)
        if command is not None:
            if isinstance(command, cmd.CompleteStep):
                for stream in journal.borders:
                    await tell_rest(journal, stream)
            if attempt.writes:  # what code wrote that does not run again is there before any listener hears of its end
                await attempt.services.streams.flushed()
            attempt.said_its_last = True
            await _report(attempt, command, journal)
        if lent and isinstance(command, cmd.CompleteStep):
            _learn(attempt, [pool for pool, _ in lent])
        await attempt.drain()
    except BaseException as problem:  # noqa: BLE001 - all of it is seen to
        residents.drop(context, attempt.number)
        await _see_to(problem, attempt, journal)


def _context(attempt: Attempt) -> StepContext:
    """The `ctx` of an attempt: that of the attempt before, where its flow is still in memory."""
    state = attempt.mailbox.state
    step = None if state is None or not attempt.has_tasks else state.step(attempt.step)
    if step is not None:
        context: StepContext | None = attempt.services.residents.take(attempt.run, step, attempt.definition)
        if context is not None:
            context.go_on(attempt)
            return context
    return StepContext(attempt, StepJournal(attempt), conversation.talk)


async def _see_to(problem: BaseException, attempt: Attempt, journal: StepJournal) -> None:
    """Have an attempt fail that could not make out its end, or have it committed, unless its step has moved on.

    Raises what is not the step's own: what ends the task or the process.
    """
    match problem:
        case CorruptHistory():  # its own run is lost to us; the others are not
            log.error("holdfast leaves run %s alone: %s", attempt.run, problem)
            return
        case Conflict() | NotFound():
            if await _is_over(attempt):
                return  # what moved the step knows better
        case asyncio.CancelledError():
            if _was_asked_to_leave(attempt):
                await attempt.leave(journal.take())
                raise problem
            # Else its own code has cancelled the task that it runs in.
        case Unstorable():
            pass
        case StoreError():
            raise problem
        case _:
            if is_ours(problem):
                raise problem
            log.error(
                "holdfast: the step %s of run %s met a fault of Holdfast, and fails; please report it",
                attempt.step,
                attempt.run,
                exc_info=problem,
            )
    await _fail(attempt, journal, problem)


async def _reserved_pools(attempt: Attempt) -> list[tuple[DeclaredPool, int]]:
    """The pools of which something was reserved for it, and how much."""
    client, workflow = attempt.services.pool_client, attempt.graph.definition.name
    pools = await attempt.patiently(lambda: client.read(workflow))
    return [(pools[name], amount) for name, amount in attempt.pools.items() if name in pools]


def _learn(attempt: Attempt, pools: Collection[DeclaredPool]) -> None:
    """Learn from its use of pools how much steps of its node are expected to take from now on."""
    used = [*(reported(attempt.reports, pools) if attempt.pace is None else attempt.pace.uses())]
    if used:
        workflow = attempt.graph.definition.name
        attempt.services.pool_client.learn(Use(workflow, root_of(attempt.name), pool, amount) for pool, amount in used)


def _expect_patch(attempt: Attempt, output: Payload) -> None:
    """Check the patch of an output against the workflow's typed state. Raises SchemaMismatch, which fails the step."""
    model, strategies = attempt.state_model, attempt.graph.definition.state
    assert model is not None
    if output.blob is not None:
        if strategies:
            raise SchemaMismatch(
                f"The output of {attempt.name!r} has more than {INLINE_BYTES // 1024} KiB; patches of the state that may meet"
                " others have less: put what is large into a file, or the output of a node in another workflow, and its name"
                " into the state."
            )
        return
    if isinstance(value := output.value(), dict):
        typed_state(model, value)
        if misfit := next(iter(misfits(strategies, value)), None):
            raise SchemaMismatch(f"The output of {attempt.name!r}: {misfit}.")


async def _end(attempt: Attempt, context: StepContext, journal: StepJournal) -> cmd.Command | None:
    """Return the end of the attempt, as a command; None if its last operation already carried it."""
    node = attempt.graph.node(attempt.name)
    limit_s = node.timeout_s if node is not None else None
    try:
        if limit_s is None:
            result = await cursor.heeding(run(attempt, context))
        else:
            async with within(limit_s, "the attempt"):
                result = await cursor.heeding(run(attempt, context))
        if result is LEFT:
            return None
        output = await attempt.store_value(result.output)
        if attempt.state_model is not None:
            _expect_patch(attempt, output)
        turns = result.conversation
        talk = None if turns is None else await attempt.store_value(msgspec.to_builtins(turns))
        ways = result.decisions and tuple(attempt.services.payloads.redact(way) for way in result.decisions)
        said = None if not result.trace else await attempt.store_value(result.trace)
        return cmd.CompleteStep(attempt.step, attempt.number, output, ways, journal.take(), context.provisional, talk, said)
    except Abandonment as left:
        return cmd.FailAttempt(attempt.step, attempt.number, left.error, None, journal.take())
    except Refusal as left:
        refused = journal.error(NON_DETERMINISTIC, str(left), problem=left)
        return cmd.FailAttempt(attempt.step, attempt.number, refused, None, journal.take())
    except Divergence as left:
        recorded, asked = await divergence.describe_divergence(attempt, left)
        return cmd.StopStep(attempt.step, attempt.number, left.path, recorded, asked)
    except (Displacement, PlaceLost):
        return cmd.LoseAttempt(attempt.step, attempt.number, journal.take())
    except Suspension as left:
        return cmd.SuspendStep(attempt.step, attempt.number, journal.take(), timers=left.timers)
    except BaseException as problem:
        if is_ours(problem) or problem is attempt.store_problem:
            raise  # not the step's own error
        kind = type(problem)  # isinstance would ask the exception itself
        if issubclass(kind, StaleAttempt | RunEnded | SeqConflict) and await attempt.is_over():
            raise
        return _failed(attempt, journal, problem)


def _failed(attempt: Attempt, journal: StepJournal, problem: BaseException) -> cmd.Command:
    if is_cut_off() and is_left(attempt):
        raise asyncio.CancelledError from None  # its clean-up has raised the problem
    error, path = error_of(journal, problem)
    spent = issubclass(type(problem), OperationFailed) and fact(problem, "spent") is True
    return cmd.FailAttempt(attempt.step, attempt.number, error, path, journal.take(), spent)


def _was_asked_to_leave(attempt: Attempt) -> bool:
    """True if the engine, or the end of the event loop, has cancelled the task of an attempt; its own code may have, too."""
    task, each = asyncio.current_task(), attempt
    while not each.called_off and each.next is not None:
        each = each.next  # the same task goes on with it
    if is_left(each):
        return True
    return all(other.cancelling() for other in asyncio.all_tasks() if other is not task)


async def _is_over(attempt: Attempt) -> bool:
    try:
        return await attempt.is_over()
    except NotFound:
        return True


async def _fail(attempt: Attempt, journal: StepJournal, problem: BaseException) -> None:
    """Have it committed that an attempt has failed, where its end could not be made out or stored."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    attempt.said_its_last = True
    error, _ = error_of(journal, problem)
    with contextlib.suppress(Conflict, NotFound):  # the step has moved on
        await attempt.report(cmd.FailAttempt(attempt.step, attempt.number, error, None, ()))


async def _report(attempt: Attempt, command: cmd.Command, journal: StepJournal) -> None:
    """Have the end committed; where the store can hold no such end, that it cannot."""
    try:
        await attempt.report(command)
    except Unstorable as problem:
        why = journal.error(VALIDATION, f"The outcome of {attempt.name!r} cannot be stored: {problem.message}")
        failed = cmd.FailAttempt(attempt.step, attempt.number, why, None, ())
        await attempt.report(failed)
