"""Options of operations, as a type checker sees them. Of how a model is asked each stands in one place: `ctx.model` takes those
of one call, `ctx.agent` all.

Never here: a default that a provider or the engine decides, asking.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from holdfast.authoring.agents.cache import SemanticCache
from holdfast.authoring.agents.offer import ToolOffer
from holdfast.authoring.agents.skill import SkillSource
from holdfast.core.nouns.routing import Complexity
from holdfast.core.values.policies import RetryPolicy

if TYPE_CHECKING:
    from holdfast.authoring.mapping import DemandSource


class ModelOptions(TypedDict, total=False):
    """Options of one model call."""

    system: str
    """System prompt."""
    max_tokens: int | None
    """Maximum number of tokens of a reply, by default 4096. It bounds the cost of the call."""
    temperature: float | None
    """Sampling temperature; by default the provider's."""
    stream: bool
    """True to publish the reply while it is generated (`Engine.watch_stream`). The result is the same; a replay publishes
    nothing again."""
    compact_above_tokens: int | None
    """Number of input tokens above which older turns are summarized before the call. The newest turns stay unchanged."""
    compact_with: str | None
    """Model that writes the summary; by default the model itself."""
    fallback_models: Sequence[str]
    """Models to call, in order, while the model is temporarily unavailable or too slow."""
    complexity: Complexity | int
    """Difficulty of the task for a Router, 1 to 5."""
    cache: SemanticCache | None
    """Semantic cache: a question with the meaning of an answered one gets that answer, without a call. By default no cache."""
    max_latency_s: float
    """Longest expected time to the reply in seconds, for a Router."""


class AgentOptions(ModelOptions, total=False):
    """Options of an agent loop, besides those of one model call."""

    tools: Sequence[ToolOffer]
    """Tools that the model may call: tools, workflows (run as children) and handoffs."""
    max_turns: int
    """Maximum number of replies before the loop fails (class `limit`), by default 10."""
    cheaper_models: Sequence[str]
    """Models to use instead when too little money is left."""
    min_tokens: int | None
    """Shorter reply, in tokens, to accept when too little money is left."""
    tell_budget: bool
    """True to end each request with what is left of the run's limits, and from 80 % of one on with a request to finish."""
    skills: Sequence[SkillSource]
    """Skills: folders with a `SKILL.md`, or what was read of them. The model loads those that it needs."""


class ChildOptions(TypedDict, total=False):
    """Options of a child."""

    key: str | None
    """Name of the child by its meaning, in this run. Repeated, it returns the same child."""
    version: int | None
    """Version of a workflow that is passed by name; by default the highest."""
    cost_limit_usd: float | str | Decimal | None
    """Cost limit of the child in dollars, below that of the run."""
    max_tokens: int | None
    """Limit of the child in tokens, input and output together, below that of the run."""
    tenant: str | None
    """Tenant of the child, if it is the run's own; another one is refused."""


class MapOptions(TypedDict, total=False):
    """Options of a map."""

    key: str | Callable[[Any], Any] | None
    """Key of an item: a field of it, or a function of it. By default its number, `review[3]`."""
    max_parallel: int
    """Maximum number of items in progress."""
    demand: DemandSource
    """Resources of each item besides a slot, or a function of the item that returns them."""
    retry: RetryPolicy | int | None
    """Attempts per item, as a number or a RetryPolicy."""


Operation = TypeVar("Operation", bound=Callable[..., Any])


class _OfTheOperation:
    def __repr__(self) -> str:
        return "..."


def spelled_out(operation: Operation) -> Operation:
    """Have `help()` list the options of an operation in the place of `**options`. Each has a default, `...`."""
    signature = inspect.signature(operation)
    *others, options = signature.parameters.values()
    (kind,) = re.findall(r"Unpack\[(\w+)\]", options.annotation)
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_OfTheOperation(), annotation=hint.__forward_arg__)
        for name, hint in globals()[kind].__annotations__.items()
    ]
    setattr(operation, "__signature__", signature.replace(parameters=[*others, *named]))  # noqa: B010 - no function declares it
    return operation
