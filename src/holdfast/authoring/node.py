"""The kinds of nodes, as decorators: what a node's function returns, and what is declared about it.

Never here: executing a node (engine.steps.execution), the graph around it (workflow).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, overload

import msgspec
from pydantic import BaseModel

from holdfast.authoring.agents import compaction
from holdfast.authoring.agents.cache import SemanticCache, expect_cache
from holdfast.authoring.agents.memory import MemoryTool
from holdfast.authoring.agents.offer import NamedWorkflow, ToolOffer
from holdfast.authoring.agents.offer import check as check_offers
from holdfast.authoring.agents.router import Router, expect_complexity, expect_latency
from holdfast.authoring.agents.skill import Skill, SkillSource, skills_of, tools_of
from holdfast.authoring.tool import Tool, find
from holdfast.authoring.values.adapter import PLAIN, Adapter
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.signature import Signature
from holdfast.core.facts.graph import EXPIRED, GATE_DECISIONS, MAX_OF_DECISION, Join, JoinMode, Kind
from holdfast.core.nouns.routing import Complexity
from holdfast.core.values import proposal
from holdfast.core.values.demand import LABEL, RESERVED
from holdfast.core.values.ids import Unique
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import DEFAULT_RETRY, RetryPolicy
from holdfast.core.values.proposal import RiskLevel
from holdfast.errors import UsageError

Handler = Callable[..., Any]
Guard = Callable[[Any], bool | None]
ToolRef = str | Tool

DEFAULT_MAX_TOKENS: Final = 4096
DEFAULT_MAX_TURNS: Final = 10
MAX_TURNS: Final = 1000
_ALWAYS_SAID: Final = frozenset({"decisions", "four_eyes", "max_tokens", "max_turns"})
"""Settings that 0.1.0 wrote down even at their defaults. So that its runs keep their workflow, that stays so; no name is ever
added here or taken away."""
CODE: Final = "code"
"""The setting that is the workflow of a child itself, where it is not given by its name."""
OFFERED: Final = "offered"
"""The setting that is the workflows themselves that a model may ask for."""
_SAYS_NOTHING: Final = frozenset({"compensations", "stream", CODE, OFFERED})
"""Settings that are no part of what a workflow is: nothing in a run becomes another for them."""
_JOINS: Final[tuple[JoinMode, ...]] = ("all", "all_required", "any", "best_effort")


class NodeDefinition:
    """A node's function with its options; `@wf.node(name)` gives it a place in a workflow.

    Shared args:
        retry: Attempts, as a number or a RetryPolicy. By default only transient errors (time-outs, rate limits) are retried, up
            to three attempts.
        timeout_s: Time limit of one attempt, in seconds.
        join: Condition under which the node starts if several edges lead to it: a mode, or a Join.
        guard: Guard that must allow the node to start: its name, or the function.
        continue_on_error: True to go on with the edges of success after the node has failed.
    """

    is_flow = False
    """True if its function calls steps, whose results are recorded."""
    each: NodeDefinition | None = None
    """The work for an item, where it is a map."""
    item_functions: Mapping[str, Any] = MappingProxyType({})
    """The work for items that no other process would find beside it by its name."""

    def __init__(
        self,
        handler: Handler,
        kind: Kind,
        *,
        retry: RetryPolicy | int | None,
        timeout_s: float | None,
        join: Join | str | None,
        guard: str | Guard | None,
        continue_on_error: bool,
        settings: dict[str, Any],
    ) -> None:
        self.handler = handler
        self.parameters = self._parameters_of(handler)
        self.returns = self._returns_of(handler) if kind == "task" else PLAIN
        """The adapter of what its function returns."""
        self.kind = kind
        self.retry = retry_policy(retry)
        self.timeout_s = timeout_s
        self.join = join_of(join)
        self.guard = guard
        self.continue_on_error = continue_on_error
        self.settings = settings
        self.tools: dict[str, Tool] = {}
        self.resolve()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, for tests of it."""
        return self.handler(*args, **kwargs)

    def _parameters_of(self, handler: Handler) -> tuple[str, ...]:
        return parameters(handler)

    def _returns_of(self, handler: Handler) -> Adapter:
        return Signature(handler).returns

    def bind_arguments(self, view: Any, context: Any) -> dict[str, Any]:
        """Return the arguments of its function, from the run as it sees it and its operations."""
        return {name: context if name == "ctx" else view for name in self.parameters}

    @functools.cached_property
    def item(self) -> Adapter:
        """The adapter of the item of a map, by the hint of its parameter; where nothing can make that of JSON (a Protocol), the
        item stays data."""
        try:
            return Signature(self.handler).parameter("item")
        except UsageError:
            return PLAIN

    @property
    def label(self) -> str:
        """The name of its function in errors."""
        return str(getattr(self.handler, "__qualname__", self.handler)).rpartition("<locals>.")[2]

    @property
    def is_for_items(self) -> bool:
        """Return True if its function takes an item beside the state, which only a map has."""
        return len([name for name in self.parameters if name != "ctx"]) > 1

    def called(self, tool: Tool) -> Tool:
        """Return the function that is called where its code calls `tool`."""
        return tool

    def resolve(self, tools: dict[str, Tool] | None = None) -> list[str]:
        """Find the tools that the node names, among `tools` first; the names of those that are nowhere."""
        missing = []
        for ref in self.tool_refs:
            name = ref.name if isinstance(ref, Tool) else ref
            if name in self.tools:
                continue
            found = ref if isinstance(ref, Tool) else (tools or {}).get(name) or find(name, self.handler)
            if found is None:
                missing.append(name)
            else:
                self.tools[name] = found
        for holder in list(self.tools.values()):
            other = holder.compensation
            if other is None or holder.compensation_name in self.tools:
                continue
            undo = other if isinstance(other, Tool) else (tools or {}).get(other) or find(other, holder.function)
            if undo is None:
                missing.append(str(other))
            else:
                self.compensations[undo.name] = undo
        return missing

    @property
    def tool_refs(self) -> Sequence[ToolRef]:
        refs: Sequence[ToolRef] = self.settings.get("tools", ())
        return refs

    @property
    def compensations(self) -> dict[str, Tool]:
        found: dict[str, Tool] = self.settings.setdefault("compensations", {})
        return found

    def options(self) -> dict[str, Any]:
        """Return the settings as plain data, for the workflow's identity. Settings at their default are left out, so that a
        setting which a later version adds does not change the identity of workflows without it."""
        defaults = inspect.signature(DECORATORS[self.kind]).parameters
        return {
            name: _plain(value)
            for name, value in sorted(self.settings.items())
            if value not in (None, (), [], {}) and name not in _SAYS_NOTHING
            if name in _ALWAYS_SAID or name not in defaults or value != defaults[name].default
        }


def _plain(value: Any) -> Any:
    """A setting as plain data: a model's schema by its hash, a tool by its name and what matters about it, a skill by both."""
    if isinstance(value, type) and issubclass(value, BaseModel):
        return digest(value.model_json_schema())[:16]
    if isinstance(value, Tool):
        return value.name
    if isinstance(value, Skill):
        return [value.name, value.hash]
    if isinstance(value, SemanticCache):
        return value.identity
    if isinstance(value, Router):
        return [value.name, *msgspec.to_builtins(value.models)]
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if callable(value):
        return getattr(value, "__qualname__", "function")
    return msgspec.to_builtins(value)


def retry_policy(value: Any) -> RetryPolicy:
    """Return the policy of `retry=`. Raises UsageError for what says nothing."""
    if value is None:
        return DEFAULT_RETRY
    if isinstance(value, RetryPolicy):
        return value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"retry={value!r}: it is a number of attempts, like retry=3, or a RetryPolicy.")
    return RetryPolicy(max_attempts=value)


def join_of(join: Join | str | None, text: str = "join") -> Join:
    """Return the join of `join=`. Raises UsageError for what says nothing."""
    if join is None:
        return Join()
    if isinstance(join, Join):
        return join
    modes = {str(mode): Join(mode) for mode in _JOINS}
    if join not in modes:
        raise UsageError(
            f"{text}={join!r} is none of 'all', 'all_required', 'any', 'best_effort'; for a quorum use"
            f" {text}=Join('quorum', 2), for a time-out {text}=Join('any', timeout_s=30)."
        )
    return modes[join]


def check_turns(max_turns: int, max_tokens: int) -> None:
    """Raises UsageError for bounds of an agent loop that are none."""
    if not 1 <= max_turns <= MAX_TURNS:
        raise UsageError(f"max_turns={max_turns}: use 1 to {MAX_TURNS}.")
    if max_tokens < 1:
        raise UsageError(f"max_tokens={max_tokens}: a reply needs at least one token.")


Options = ParamSpec("Options")


class NodeDecorator(Protocol[Options]):
    """A decorator that stands bare above a function, or called with options."""

    @overload
    def __call__(self, function: Handler, /, *none: Options.args, **options: Options.kwargs) -> NodeDefinition: ...

    @overload
    def __call__(self, *none: Options.args, **options: Options.kwargs) -> Callable[[Handler], NodeDefinition]: ...


def _with_or_without_options(make: Callable[Concatenate[Handler, Options], NodeDefinition]) -> NodeDecorator[Options]:
    """`make`, whose first parameter is the function, as a decorator of either form."""

    @functools.wraps(make)
    def decorate(function: Handler | None = None, /, **options: Any) -> Any:
        bound: Any = functools.partial(make, **options)
        return bound if function is None else bound(function)

    either: Any = decorate
    decorator: NodeDecorator[Options] = either
    return decorator


def _define(kind: Kind, function: Any, common: dict[str, Any], **settings: Any) -> NodeDefinition:
    if not callable(function) or isinstance(function, NodeDefinition):
        raise UsageError(f"@{kind} goes directly above a function, below @wf.node(...).")
    return NodeDefinition(function, kind, settings=settings, **common)


def _defining(kind: Kind, common: dict[str, Any], **settings: Any) -> Callable[[Handler], NodeDefinition]:
    """The decorator that defines such a node."""
    return lambda function: _define(kind, function, common, **settings)


@_with_or_without_options
def task(
    function: Handler,
    /,
    *,
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
    tools: Sequence[ToolRef] = (),
) -> NodeDefinition:
    """Define a node in plain Python: `async def f(state)`, or `def f(state)`, which runs in a thread. A parameter `ctx`
    receives the operations.

    The function returns the node's output: JSON data, a Pydantic model, a dataclass or a msgspec Struct.

    Args:
        tools: Tools that `ctx.tool` may call in it.
    """
    return _define("task", function, _common(locals()), tools=tuple(tools))


def llm_node(
    *,
    model: str | Router,
    tools: Sequence[ToolOffer] = (),
    output: type[BaseModel] | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    max_turns: int = DEFAULT_MAX_TURNS,
    temperature: float | None = None,
    cheaper_models: Sequence[str] = (),
    min_tokens: int | None = None,
    continue_conversation: bool = False,
    stream: bool = False,
    tell_budget: bool = False,
    compact_above_tokens: int | None = None,
    compact_with: str | None = None,
    skills: Sequence[SkillSource] = (),
    fallback_models: Sequence[str] = (),
    complexity: Complexity | int | Callable[[Any], Complexity | int] | None = None,
    max_latency_s: float | None = None,
    cache: SemanticCache | None = None,
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
) -> Callable[[Handler], NodeDefinition]:
    """Define a node that calls a model, or with `tools` runs an agent loop.

    The function returns the prompt: `{"system": ..., "user": ...}`. The node's output is the model's text, or an object that
    fits `output`.

    A workflow among the tools runs as a child; the model gets its output, or the reason why none exists. With a `Handoff` the
    node's output is what the other agent returns.

    With a Router each call goes to its cheapest model that can answer. If that model is unavailable, another one of the router
    is called, or one of `fallback_models`.

    Args:
        model: Name of the model, `provider:name`, or a Router that chooses one.
        output: Pydantic model of the output; by default the output is text. A reply that does not fit gets one chance of
            correction.
        temperature: Sampling temperature; by default the provider's.
        continue_conversation: True to let a later visit in a loop continue the conversation of the visit before. The function
            then returns the next message.
        complexity: Difficulty of the task for a Router, 1 to 5, or a function of the state that returns it.

    Raises:
        UsageError: The options contradict each other.
    """
    if not callable(complexity):
        expect_complexity(complexity)
    expect_latency(max_latency_s)
    check_turns(max_turns, max_tokens)
    compaction.of(compact_above_tokens, compact_with)
    known = skills_of(skills)
    tools = (*tools, *tools_of(known))
    expect_cache(cache, answers_alone=isinstance(model, str) and not tools and not continue_conversation)
    check_offers(tools, answers=output is not None)
    offered = tuple(each for each in tools if not isinstance(each, str | Tool))
    given = tuple(each for each in tools if isinstance(each, str | Tool))
    memories = tuple(each.identity for each in offered if isinstance(each, MemoryTool))
    children = tuple(each.name for each in offered if not isinstance(each, MemoryTool))
    return _defining(
        "llm_node",
        _common(locals()),
        model=model,
        tools=given,
        children=children,
        memories=memories,
        **{OFFERED: offered},
        output=output,
        max_tokens=max_tokens,
        max_turns=max_turns,
        temperature=temperature,
        cheaper_models=tuple(cheaper_models),
        min_tokens=min_tokens,
        continue_conversation=continue_conversation,
        stream=stream,
        tell_budget=tell_budget,
        compact_above_tokens=compact_above_tokens,
        compact_with=compact_with,
        skills=known,
        fallback_models=tuple(fallback_models),
        complexity=complexity,
        max_latency_s=max_latency_s,
        cache=cache,
    )


def tool_node(
    *,
    name: ToolRef,
    key: str | None = None,
    unique: Unique = "run",
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
) -> Callable[[Handler], NodeDefinition]:
    """Define a node that calls one tool. The function returns the tool's arguments; the response is the node's output.

    Args:
        name: The tool, or its name.
        key: Name of the effect by its meaning, filled from the arguments: `key="invite:{supplier}:{round}"`. A call with a
            known key gets the recorded outcome.
        unique: Where the key is unique: in the `run`, or in the `tenant`, so that another run gets the outcome too.

    Raises:
        UsageError: `unique="tenant"` without a key.
    """
    if unique not in ("run", "tenant") or (unique == "tenant" and key is None):
        raise UsageError(f"unique={unique!r}: a key is unique in the 'run' or, where one is given, in the 'tenant'.")
    return _defining("tool_node", _common(locals()), tools=(name,), key=key, unique=unique)


def remote_task(
    *,
    task: str,
    tools: Sequence[ToolRef] = (),
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
) -> Callable[[Handler], NodeDefinition]:
    """Define a node whose task a connected worker performs, in any language. The function returns the task's arguments as JSON
    data; the worker's result is the node's output.

    Args:
        task: Name under which workers offer the task.
        tools: Tools that the worker may call. They run in the serving process and are recorded there.

    Raises:
        UsageError: The name of the task cannot be used.
    """
    if not LABEL.fullmatch(task):
        raise UsageError(f"task={task!r:.130}: a task's name is 1 to 100 characters without blanks and commas.")
    if task.startswith(RESERVED):
        raise UsageError(f"task={task!r}: names that begin with {RESERVED!r} are Holdfast's own; call the task otherwise.")
    return _defining("remote_task", _common(locals()), task=task, tools=tuple(tools))


def child(
    *,
    workflow: NamedWorkflow | str,
    version: int | None = None,
    key: str | None = None,
    cost_limit_usd: float | str | Decimal | None = None,
    max_tokens: int | None = None,
    on_failure: Literal["raise", "return"] = "raise",
    retry: RetryPolicy | int | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
) -> Callable[[Handler], NodeDefinition]:
    """Define a node that runs another workflow. The function returns the child's input, and the node's output is what the child
    returns.

    Args:
        workflow: The workflow, or its name.
        key: Name of the child by its meaning, filled from the input: `key="invoice:{number}"`. A loop with the same key gets
            the same child.
        on_failure: `raise` fails the node if the child does not complete. `return` makes the output an object with `run_id`,
            `status`, `output` and `error`.

    Raises:
        UsageError: `on_failure` is another word.
    """
    if on_failure not in ("raise", "return"):
        raise UsageError(f"on_failure={on_failure!r}: a child's failure is to 'raise', or to be 'return'ed.")
    name, code = (workflow, {}) if isinstance(workflow, str) else (workflow.name, {CODE: workflow})
    return _defining(
        "child",
        {**_common({**locals(), "timeout_s": None})},
        workflow=name,
        version=version,
        key=key,
        cost_limit_usd=None if cost_limit_usd is None else str(cost_limit_usd),
        max_tokens=max_tokens,
        on_failure=on_failure,
        **code,
    )


@_with_or_without_options
def human_gate(
    function: Handler,
    /,
    *,
    form: type[BaseModel] | None = None,
    reviewers: Sequence[str] = (),
    timeout_days: float | None = None,
    timeout_hours: float | None = None,
    timeout_s: float | None = None,
    remind_every_s: float | None = None,
    cancel_after_s: float | None = None,
    expires_after_s: float | None = None,
    four_eyes: bool = False,
    quorum: int = 1,
    hash_optional: bool = False,
    proposed_action: str | None = None,
    risk_level: RiskLevel | None = None,
    not_by: Sequence[str] = (),
    decisions: Sequence[str] = GATE_DECISIONS,
    retry: RetryPolicy | int | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
) -> NodeDefinition:
    """Define a node at which a person decides. The function returns what the person is shown: any object.

    If the object has a field `reviewers`, it names persons or roles; no others may decide. Fields named like `proposed_action`,
    `risk_level` and `evidence_ids` fill these parameters.

    The deadline is the sum of the three time-outs. It decides nothing: it escalates the question.

    Args:
        form: Pydantic model of the decision's data. Its fields begin with those shown that have the same name. By default the
            form has one field, `edited_body`, filled with the `diff` shown, or with everything.
        reviewers: Persons or roles who may decide; by default anyone.
        timeout_days: Days until the deadline.
        timeout_hours: Hours until the deadline.
        timeout_s: Seconds until the deadline.
        remind_every_s: Seconds between reminders before the deadline.
        cancel_after_s: Seconds after the deadline at which the run is cancelled; by default never.
        expires_after_s: Seconds after which no answer counts: the run takes the edge `when="expired"`, or fails. By default
            never.
        four_eyes: True to bar the person who started the run, and all who contributed to it. The run must have a known starter.
        quorum: Number of different persons who must approve; one is enough to reject.
        hash_optional: True to let decisions sent to a server leave out `shown_hash`.
        proposed_action: Action that the person decides about, shown in lists of questions.
        risk_level: Risk of the action, shown in lists of questions.
        not_by: Names of earlier gates: a person who decided one of them cannot decide this one.
        decisions: Allowed decisions. Your own words are of letters, digits and `_`, and each needs an edge that names it.

    Raises:
        UsageError: An option cannot be used.
    """
    if isinstance(decisions, str) or not decisions or len({*decisions}) < len(decisions):
        raise UsageError(f'Name each answer once, in a list, as in decisions=["approve", "reject"]; not {decisions!r:.200}.')
    for decision in decisions:
        if not decision.isidentifier() or len(decision) > MAX_OF_DECISION or decision == EXPIRED:
            raise UsageError(
                f"decisions={decision!r:.80}: a gate takes {', '.join(GATE_DECISIONS)}, and words of your own, of up to"
                f" {MAX_OF_DECISION} letters, digits and '_', except {EXPIRED!r}, which is no decision."
            )
    for problem in proposal.problems(proposed_action, risk_level=risk_level):
        raise UsageError(f"Declare the gate otherwise: {problem}.")
    deadline_s = (timeout_days or 0) * 86_400 + (timeout_hours or 0) * 3_600 + (timeout_s or 0)
    common = {"retry": retry, "timeout_s": None, "join": join, "guard": guard, "continue_on_error": False}
    return _define(
        "human_gate",
        function,
        common,
        form=form,
        reviewers=tuple(reviewers),
        deadline_s=deadline_s or None,
        remind_every_s=remind_every_s,
        cancel_after_s=cancel_after_s,
        expires_after_s=expires_after_s,
        four_eyes=four_eyes,
        decisions=tuple(decisions),
        not_by=tuple(not_by),
        quorum=quorum,
        hash_optional=hash_optional,
        proposed_action=proposed_action,
        risk_level=risk_level,
    )


@_with_or_without_options
def branch(
    function: Handler,
    /,
    *,
    model: str | None = None,
    max_tokens: int = 1024,
    temperature: float | None = None,
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
) -> NodeDefinition:
    """Define a node that chooses the next edge. The function returns the name of an edge (its `when`, or its target), or
    several.

    With `model` the function returns a prompt, and the model chooses among these names. Guards apply to its choice as to any
    other.

    Args:
        model: Name of the model that chooses, `provider:name`; by default the function chooses.
    """
    return _define("branch", function, _common(locals()), model=model, max_tokens=max_tokens, temperature=temperature)


@_with_or_without_options
def check(
    function: Handler,
    /,
    *,
    retry: RetryPolicy | int | None = None,
    timeout_s: float | None = None,
    join: Join | str | None = None,
    guard: str | Guard | None = None,
    continue_on_error: bool = False,
    tools: Sequence[ToolRef] = (),
) -> NodeDefinition:
    """Define a validation. The function returns True or "pass", False or "fail", or "retry" to go back along a declared loop;
    `(result, reason)` adds the reason.

    False goes back too if a loop leads back and no edge is for failure. A check that fails without an edge for it fails its
    step.

    Args:
        tools: Tools that `ctx.tool` may call in it.
    """
    return _define("check", function, _common(locals()), tools=tuple(tools))


DECORATORS: Final[dict[Kind, Callable[..., Any]]] = {
    "task": task,
    "llm_node": llm_node,
    "tool_node": tool_node,
    "remote_task": remote_task,
    "child": child,
    "human_gate": human_gate,
    "branch": branch,
    "check": check,
}
"""The decorator of each kind: a setting that has the default of its parameter there was not given."""


def _common(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("retry", "timeout_s", "join", "guard", "continue_on_error")}


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters that a handler is to be given; those with defaults of their own keep them.

    Raises UsageError for one that cannot be called with state and ctx.
    """
    known = inspect.signature(function).parameters.values()
    names = tuple(each.name for each in known if each.name == "ctx" or each.default is each.empty)
    wanted = [name for name in names if name != "ctx"]
    if len(wanted) > 1 and (len(wanted) != 2 or "item" not in wanted):
        raise UsageError(
            f"{getattr(function, '__qualname__', function)}: a node's function takes `state` and, if it needs"
            f" operations, `ctx`; it cannot be given {', '.join(wanted[1:])}."
        )
    return names


__all__ = [
    "NodeDefinition",
    "branch",
    "check",
    "child",
    "describe",
    "human_gate",
    "llm_node",
    "parameters",
    "remote_task",
    "task",
    "tool_node",
]
