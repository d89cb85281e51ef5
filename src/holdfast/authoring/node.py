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
from holdfast.authoring.agents.offer import Named, Offer
from holdfast.authoring.agents.offer import check as check_offers
from holdfast.authoring.agents.router import Router, expect_complexity, expect_latency
from holdfast.authoring.agents.skill import Given, Skill, skills_of, tools_of
from holdfast.authoring.tool import Tool, find
from holdfast.authoring.values.adapter import PLAIN, Adapter
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.signature import Signature
from holdfast.core.facts.graph import EXPIRED, GATE_DECISIONS, MOST_OF_DECISION, Join, JoinMode, Kind
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
MOST_TURNS: Final = 1000
_ALWAYS_SAID: Final = frozenset({"decisions", "four_eyes", "max_tokens", "max_turns"})
"""Settings that 0.1.0 wrote down also where nobody had given them. For its runs to keep their workflow that stays so; no
name is ever added here or taken away."""
CODE: Final = "code"
"""The setting that is the workflow of a child itself, where it is not given by its name."""
OFFERED: Final = "offered"
"""The setting that is the workflows themselves that a model may ask for."""
_SAYS_NOTHING: Final = frozenset({"compensations", "stream", CODE, OFFERED})
"""Settings that are no part of what a workflow is: nothing in a run becomes another for them."""
_JOINS: Final[tuple[JoinMode, ...]] = ("all", "all_required", "any", "best_effort")


class NodeDefinition:
    """A node's function and everything declared about it; `@wf.node(name)` gives it its place in a workflow."""

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

    def given(self, view: Any, context: Any) -> dict[str, Any]:
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

    def resolve(self, known: dict[str, Tool] | None = None) -> list[str]:
        """Find the tools that the node names, among `known` first; the names of those that are nowhere."""
        missing = []
        for ref in self.tool_refs:
            name = ref.name if isinstance(ref, Tool) else ref
            if name in self.tools:
                continue
            found = ref if isinstance(ref, Tool) else (known or {}).get(name) or find(name, self.handler)
            if found is None:
                missing.append(name)
            else:
                self.tools[name] = found
        for holder in list(self.tools.values()):
            other = holder.compensation
            if other is None or holder.compensation_name in self.tools:
                continue
            undo = other if isinstance(other, Tool) else (known or {}).get(other) or find(other, holder.function)
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


def retry_policy(given: Any) -> RetryPolicy:
    """Return the policy of `retry=`. Raises UsageError for what says nothing."""
    if given is None:
        return DEFAULT_RETRY
    if isinstance(given, RetryPolicy):
        return given
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise UsageError(f"retry={given!r}: it is a number of attempts, like retry=3, or a RetryPolicy.")
    return RetryPolicy(max_attempts=given)


def join_of(given: Join | str | None, said: str = "join") -> Join:
    """Return the join of `join=`. Raises UsageError for what says nothing."""
    if given is None:
        return Join()
    if isinstance(given, Join):
        return given
    modes = {str(mode): Join(mode) for mode in _JOINS}
    if given not in modes:
        raise UsageError(
            f"{said}={given!r} is none of 'all', 'all_required', 'any', 'best_effort'; for a quorum use"
            f" {said}=Join('quorum', 2), for a time-out {said}=Join('any', timeout_s=30)."
        )
    return modes[given]


def check_turns(max_turns: int, max_tokens: int) -> None:
    """Raises UsageError for bounds of an agent loop that are none."""
    if not 1 <= max_turns <= MOST_TURNS:
        raise UsageError(f"max_turns={max_turns}: use 1 to {MOST_TURNS}.")
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
    """Plain Python: `async def f(state)` or `def f(state)` (run in a thread), optionally with `ctx` for operations.

    What it returns is the node's output: JSON data, a Pydantic model, a dataclass or a msgspec Struct. `tools` are
    those that `ctx.tool` may call. `retry` is a number of attempts or a RetryPolicy; undeclared, only what passes by
    itself (time-outs, rate limits) is tried again. `timeout_s` bounds one attempt.
    """
    return _define("task", function, _common(locals()), tools=tuple(tools))


def llm_node(
    *,
    model: str | Router,
    tools: Sequence[Offer] = (),
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
    skills: Sequence[Given] = (),
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
    """A model call, or with `tools` a loop of them until the model stops or `max_turns` is reached.

    The function returns the prompt: `{"system": ..., "user": ...}`. The output is the model's text, or with `output`
    an object that fits that Pydantic model (a reply that does not gets one chance to be mended). `max_tokens` bounds
    each reply, and with it what a call can cost; where the worst case does not fit the money that is left, a reply
    of `min_tokens` or one of `cheaper_models` may do instead.

    With `continue_conversation` a later visit, in a loop, goes on with the conversation of the visit before: what the
    function returns then is said after all that was said, instead of beginning anew.

    A workflow among the `tools` is offered under its name, with its input as arguments: what the model asks of it is done by a
    child, whose output, or why there is none, is what the model hears. With a `Handoff` it may hand the conversation over: then
    the node's output is what the other agent returns.

    With `stream` whoever watches the run hears each reply as it comes (`Engine.watch_stream`); what comes of it is the same.

    With `tell_budget` each request ends with what is left of the run's limits and, once 80 % of one is used, with the wish to
    come to an end.

    Before a call whose input is bounded above `compact_above_tokens` the older turns are summed up, by a call of `compact_with`
    or of the model itself; the newest stay word for word.

    `skills` are folders with a `SKILL.md`, read now: the model is told what each is for, and asks for those that it needs.

    With a `Router` in the place of the model each call goes to the cheapest of its models that can answer: `complexity` says
    how hard the task is, by itself or as a function of the state, `max_latency_s` how long a reply may be expected to take.
    Where a model cannot answer for now, another of the router is asked, or of `fallback_models`.

    With a `cache` a question that means the same as one that the model has answered gets that answer, without a call.
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
    """One call of the tool `name`; the function returns its arguments.

    `key` names the effect by what it is, filled from the arguments: `key="invite:{supplier}:{round}"`; then a loop that
    means the same thing gets the recorded outcome. With `unique="tenant"` another run of the tenant does, too.
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
    """The task `task`, done by a worker that is connected to a serving process and offers it; in whatever language.

    The function returns the task's arguments, as JSON data; the output is what the worker returns. `tools` are those that
    the worker may have called: they run in the serving process, under the ledger.
    """
    if not LABEL.fullmatch(task):
        raise UsageError(f"task={task!r:.130}: a task's name is 1 to 100 characters without blanks and commas.")
    if task.startswith(RESERVED):
        raise UsageError(f"task={task!r}: names that begin with {RESERVED!r} are Holdfast's own; call the task otherwise.")
    return _defining("remote_task", _common(locals()), task=task, tools=tuple(tools))


def child(
    *,
    workflow: Named | str,
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
    """A run of another workflow, which may be given by its name; the function returns its input. The node's output is what the
    child returns, or with `on_failure="return"` an object that says how it ended: `run_id`, `status`, `output`, `error`.

    `key` names the child by what it is, filled from the input: `key="invoice:{number}"`; then a loop that means the same
    gets the same child. `cost_limit_usd` and `max_tokens` bound it by itself, below what is left to the run. All else is as of
    `ctx.child`.
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
    """A person decides. The function returns what is shown: any object; `reviewers` in it are whom it asks, persons or roles:
    nobody else's decision is taken.

    `form` is the shape of the decision's data, filled from fields of the same name in what is shown; without one there
    is a single field, `edited_body`, filled with the `diff` that is shown, else with everything. The deadline
    (`timeout_days`, `timeout_hours`, `timeout_s` add up) never decides: it summons attention, and `cancel_after_s`
    later cancels the run. After `expires_after_s` no answer counts any more: the run takes the edge `when="expired"`, or fails.
    With `four_eyes` nobody decides who started the run or contributed to it, and it must be known who started it. With
    `quorum=2` two different persons approve, and one is enough to reject. `not_by` names gates before this one: who decided one
    of them cannot decide this one. With `hash_optional` a decision that comes to a server may leave out `shown_hash`.
    `proposed_action` and `risk_level` are what people find and filter their questions by; those that are not declared, and
    `evidence_ids`, are taken from fields of what is shown.

    `decisions` are those that it takes; besides the usual ones any of your own, in letters, digits and `_`, each with an edge
    that names it.
    """
    if isinstance(decisions, str) or not decisions or len({*decisions}) < len(decisions):
        raise UsageError(f'Name each answer once, in a list, as in decisions=["approve", "reject"]; not {decisions!r:.200}.')
    for decision in decisions:
        if not decision.isidentifier() or len(decision) > MOST_OF_DECISION or decision == EXPIRED:
            raise UsageError(
                f"decisions={decision!r:.80}: a gate takes {', '.join(GATE_DECISIONS)}, and words of your own, of up to"
                f" {MOST_OF_DECISION} letters, digits and '_', except {EXPIRED!r}, which is no decision."
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
    """Define a node that chooses where to go: the function returns the name of an edge (its `when`, or its target), or several.

    With `model` the function returns a prompt, and the model chooses among exactly these names; guards are asked about its
    choice as about any other.
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
    """Validation. The function returns True or "pass", False or "fail", or "retry" to go back along a declared loop.

    `(result, reason)` adds why. False goes back too, where a loop leads back and no edge is for failure; a check that
    fails without an edge for it fails its step.
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


def _common(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("retry", "timeout_s", "join", "guard", "continue_on_error")}


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
