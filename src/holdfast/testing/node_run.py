"""One node of a workflow by itself, in a real engine on a throwaway store: for tests of what a node does.

The nodes before it are stood in for by what they are said to have come to; a model by the replies that it is to give; time by
a clock that jumps to whatever the node sleeps for. The rest is what runs in production: the journal, the ledger of effects,
schemas, retries. Never here: the nodes after it.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel, ConfigDict

from holdfast.authoring.context import Context
from holdfast.authoring.flow import FlowDefinition
from holdfast.authoring.mapping import MapDefinition
from holdfast.authoring.node import NodeDefinition, branch, human_gate, task
from holdfast.authoring.tool import GIVEN, Tool, find
from holdfast.authoring.values.view import StateView, fields
from holdfast.authoring.workflow import Workflow
from holdfast.compose import Engine
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import Edge, Join
from holdfast.core.facts.state import State
from holdfast.core.nouns.shared_values import packed
from holdfast.core.values.ids import GateId, NodeName, node_of
from holdfast.core.values.policies import VALIDATION, ErrorRecord
from holdfast.core.views.status import Wait, waiting_for
from holdfast.errors import ModelRefused, UsageError
from holdfast.platform.machine import LeapingTime
from holdfast.ports import (
    EmbeddingReply,
    EmbeddingRequest,
    ForwardedReply,
    ForwardedRequest,
    ModelDelta,
    ModelReply,
    ModelRequest,
    ToolRequest,
    Usage,
)
from holdfast.service.control.handle import Run
from holdfast.settings import Settings
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.pieces import streamed
from holdfast.testing.wire import tokens
from holdfast.testing.wires.embeddings import DIMENSIONS, vector

_TESTER: Final = "the test"
_PERSON: Final = "the person asked"
_SOON_S: Final = 0.005
_AGAIN: Final = "run_node.again"
_DECIDING: Final = ("branch", "check")


class Decided(NamedTuple):
    """A person's decision, for a test."""

    decision: str
    """Decision that the gate allows."""
    data: Any = None
    """Data of the decision."""


class ToolCall(NamedTuple):
    """A tool call: one that a model is to ask for, or one that the node has made."""

    name: str
    """Name of the tool."""
    arguments: dict[str, Any]
    """Arguments of the call."""
    response: Any = None
    """Response of the tool."""
    error: ErrorRecord | None = None
    """Error with which the call failed."""


class NodeOutcome(NamedTuple):
    """The outcome of a node."""

    status: str
    """`completed`, `failed`, `skipped`, or `waiting` for a person or a signal."""
    output: Any
    """Output of the node."""
    decisions: tuple[str, ...]
    """Edges that a branch, a check or a gate has chosen."""
    error: ErrorRecord | None
    """Error with which the node failed."""
    shown: Any
    """Data that the last gate or question showed; None without one."""
    requests: tuple[ModelRequest, ...]
    """Requests that models received: `system`, `turns`, `tools` and more."""
    tool_calls: tuple[ToolCall, ...]
    """Tool calls of the node, in order."""


Reply = str | dict[str, Any] | BaseModel | ToolCall | Sequence[ToolCall]
"""What a model says: a text; an object that fits the `output` asked for; a wish to call tools."""


async def run_node(
    workflow: Workflow,
    node: str,
    *,
    input: Any = None,  # noqa: A002 - the word of the public surface
    outputs: Mapping[str, Any] | None = None,
    replies: Sequence[Reply] = (),
    answers: Sequence[Decided] = (),
    signals: Mapping[str, Any] | None = None,
    tools: Mapping[str, Callable[..., Any]] | None = None,
    settings: Settings | None = None,
    timeout_s: float = 30.0,
) -> NodeOutcome:
    """Run one node of a workflow alone, and return its outcome. Waits of the node take no time.

    Args:
        workflow: The workflow.
        node: Name of the node.
        input: Input of the run.
        outputs: Outputs of the nodes before it, by name; of a gate also `Decided(decision, data)`.
        replies: Replies of models, in the order of their calls.
        answers: Decisions on the node's own questions, in order.
        signals: Data of signals, by name.
        tools: Functions in the place of tools, by name; other tools are really called.
        settings: Settings; by default the built-in defaults.
        timeout_s: Time limit in seconds.

    Raises:
        UsageError: The workflow has no such node.
        TimeoutError: The node took longer than `timeout_s`.
    """
    model, clock = _Replies(replies), LeapingTime()
    known = (settings or Settings()).model_copy(update={"hold_back": {}})
    alone = _alone(workflow, node, outputs or {}, tools or {})
    with tempfile.TemporaryDirectory(prefix="holdfast-node-") as folder:
        store = await SqliteStore.connect(Path(folder) / "node.db", machine_ms=clock)
        try:
            async with asyncio.timeout(timeout_s), Engine.open(store, workflows=[alone], model=model, settings=known) as engine:
                run = await engine.start(alone, input, by=_TESTER)
                for name, data in (signals or {}).items():
                    await engine.signal(run.id, name, data)
                await _play(engine, run, node, outputs or {}, deque(answers), clock)
                return await _outcome(engine, run, node, model)
        finally:
            await store.aclose()


class _Replies:
    """A model that gives prepared replies, one a call."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._left = deque(replies)
        self.requests: list[ModelRequest] = []

    async def prepare(self, model: str) -> None:
        """Nothing needs to be loaded."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        return streamed(self.request(request))

    async def embed(self, request: EmbeddingRequest) -> EmbeddingReply:
        """As the model server does: texts that share words are near each other."""
        made = (packed(vector(text, request.dimensions or DIMENSIONS)) for text in request.texts)
        return EmbeddingReply(tuple(made), Usage(sum(map(tokens, request.texts)), 0))

    async def forward(self, request: ForwardedRequest, tell: Callable[[str], None]) -> ForwardedReply:
        raise ModelRefused("run_node has no replies for programs. Nothing was called.", error_class=VALIDATION)

    async def request(self, request: ModelRequest) -> ModelReply:
        self.requests.append(msgspec.structs.replace(request, call=None))
        if not self._left:
            raise ModelRefused(
                f"The node has called a model {len(self.requests)} times; run_node was given no reply for the last."
                " Give it one more in replies=[...]."
            )
        said = self._left.popleft()
        if isinstance(said, BaseModel):
            said = said.model_dump(mode="json")
        wishes = (said,) if isinstance(said, ToolCall) else said if isinstance(said, list | tuple) else ()
        asked = tuple(
            ToolRequest(f"call-{len(self.requests)}-{at}", each.name, each.arguments) for at, each in enumerate(wishes)
        )
        answer = None
        if isinstance(said, dict):
            name = request.answer.name if request.answer is not None else "answer"
            answer = ToolRequest(f"call-{len(self.requests)}", name, said)
        text = said if isinstance(said, str) else ""
        return ModelReply(text, asked, answer, Usage(1, 1), "stop", f"reply-{len(self.requests)}", turn={"parts": []})


class _Anything(BaseModel):
    """The form of a gate that stands in for another: whatever it is said to have taken."""

    model_config = ConfigDict(extra="allow")


def _alone(workflow: Workflow, node: str, outputs: Mapping[str, Any], tools: Mapping[str, Callable[..., Any]]) -> Workflow:
    """The workflow of `node`, of stand-ins for those before it, and of places for its edges to lead to."""
    graph = workflow.graph
    for name in (node, *outputs):
        if name not in graph.nodes:
            raise UsageError(f"{workflow!r} has no node {name!r}; it has {', '.join(graph.nodes)}.")
    made = Workflow(
        workflow.name,
        version=workflow.version,
        input=workflow.input_model,
        state=workflow.state_model,
        state_strategies=workflow.state_strategies,
    )
    made.guards.update(workflow.guards)
    made.node(node)(_with_tools(workflow.nodes[node], tools))
    for name, output in outputs.items():
        kind = graph.nodes[NodeName(name)].kind
        made.node(name)(_stand_in(kind, output))
        decision = _as_decided(output).decision if kind == "human_gate" else output if kind in _DECIDING else None
        made.edge(name, node, when=decision)
    for edge in (edge for edge in graph.definition.edges if edge.source == node):
        if edge.max_visits is not None:
            made.loop(node, _way_back(made, node), max_visits=2, when=edge.when, guard=edge.guard)
            continue
        if edge.target not in made.nodes:
            made.node(edge.target)(task(lambda state: None))
        _copy(made, node, edge)
    return made


def _way_back(workflow: Workflow, node: str) -> str:
    """Return the target of the node's loops: a node before it that lets it begin once."""

    async def repeat_node(state: StateView, ctx: Context) -> None:
        if state.visits(_AGAIN) > 1:
            await ctx.wait_signal(_AGAIN)

    if _AGAIN not in workflow.nodes:
        workflow.node(_AGAIN)(task(repeat_node))
        workflow.edge(_AGAIN, node)
    return _AGAIN


def _copy(workflow: Workflow, node: str, edge: Edge) -> None:
    workflow.edge(node, edge.target, when=edge.when, guard=edge.guard, on=edge.on, optional=edge.optional)


def _with_tools(definition: NodeDefinition, tools: Mapping[str, Callable[..., Any]]) -> NodeDefinition:
    """The node as it is, without its join, and with other functions behind some of its tools."""
    alone = copy.copy(definition)
    alone.join = Join()
    if isinstance(alone, MapDefinition):
        alone.each = _with_tools(alone.each, tools)
        alone.tools = alone.each.tools
        return alone
    doubles = {}
    for name, function in tools.items():
        known = alone.tools.get(name)
        if known is None and isinstance(alone, FlowDefinition):
            known = find(name, alone.handler)  # a flow need not list what it calls as itself
        if known is None:
            raise UsageError(f"The node has no tool {name!r}; it has {', '.join(alone.tools) or 'none'}.")
        doubles[name] = _double(known, function)
    alone.tools = {name: doubles.get(name, known) for name, known in alone.tools.items()}
    if isinstance(alone, FlowDefinition):
        alone.doubles = doubles
    return alone


def _double(tool: Tool, function: Callable[..., Any]) -> Tool:
    """A tool in everything but what it does."""
    double = copy.copy(tool)
    double.function = function
    double.given = GIVEN & set(inspect.signature(function).parameters)
    return double


def _stand_in(kind: str, output: Any) -> NodeDefinition:
    """A node that comes to `output` without doing anything."""
    if kind == "human_gate":
        return human_gate(lambda state: {}, form=_Anything)
    if kind in _DECIDING:
        return branch(lambda state: output)
    return task(lambda state: output)


def _as_decided(output: Any) -> Decided:
    return output if isinstance(output, Decided) else Decided("edit", output)


async def _play(
    engine: Engine, run: Run, node: str, outputs: Mapping[str, Any], answers: deque[Decided], clock: LeapingTime
) -> None:
    """Answer for people and move time, until the node has a result or waits for an answer that the test lacks."""
    while True:
        state = await run.until(lambda state: _came_to_an_end(state, node) or bool(_waits(state)))
        if _came_to_an_end(state, node):
            return
        waits = _waits(state)
        gates = [wait for wait in waits if wait.kind == "gate"]
        for wait in gates:
            before = node_of(wait.step) if wait.step is not None else NodeName(node)
            roles = state.gates[GateId(wait.id or "")].opened.reviewers  # the person who is asked answers
            if before != node:
                await engine.decide(wait.id, *_as_decided(outputs[before]), by=_PERSON)
            elif answers:
                await engine.decide(wait.id, *answers.popleft(), by=_PERSON, roles=roles)
            else:
                return
        if not gates and any(wait.kind == "signal" and wait.due_at_ms is None for wait in waits):
            return
        due = [wait.due_at_ms for wait in waits if wait.kind in ("timer", "retry", "signal") and wait.due_at_ms]
        if not gates and due:
            clock.reach(min(due))
        await asyncio.sleep(_SOON_S)


def _waits(state: State) -> list[Wait]:
    """Return what the run waits for, besides a slot, which it will have in a moment."""
    return [wait for wait in waiting_for(state) if wait.kind != "slot"]


def _came_to_an_end(state: State, node: str) -> bool:
    step = state.steps.get(NodeName(node))
    done = step is not None and step.status in ("completed", "failed", "skipped", "cancelled")
    return done or state.visits.get(NodeName(node), 0) > 1 or bool(state.ended)


async def _outcome(engine: Engine, run: Run, node: str, model: _Replies) -> NodeOutcome:
    """Return the outcome of the node's first visit, read from the history."""
    status, output, error, shown = "waiting", None, None, None
    decisions: tuple[str, ...] = ()
    calls: dict[str, ToolCall] = {}
    step, tenant = f"{node}#1", (await run.state()).tenant
    value = engine.payloads.value
    for recorded in await run.events():
        match recorded.event:
            case ev.StepCompleted() as event if event.step == step:
                status, output, decisions = "completed", await value(event.output, tenant), event.decisions or ()
            case ev.StepFailed() as event if event.step == step:
                status, error = "failed", event.error
            case ev.StepSkipped() as event if event.step == step:
                status = "skipped"
            case ev.GateOpened() as event if event.step == step:
                shown = await value(event.shown, tenant)
            case ev.EffectIntended() as event if event.step == step:
                calls[event.call] = ToolCall(event.tool, await value(event.request, tenant))
            case ev.EffectCompleted() as event if event.call in calls:
                calls[event.call] = calls[event.call]._replace(response=await value(event.response, tenant))
            case ev.EffectFailed() as event if event.call in calls:
                calls[event.call] = calls[event.call]._replace(error=event.error)
    return NodeOutcome(status, fields(output), decisions, error, fields(shown), tuple(model.requests), tuple(calls.values()))
