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
from holdfast.authoring.agents.offer import Offer
from holdfast.authoring.agents.skill import Given
from holdfast.core.nouns.routing import Complexity
from holdfast.core.values.policies import RetryPolicy

if TYPE_CHECKING:
    from holdfast.authoring.mapping import Demanded


class ModelOptions(TypedDict, total=False):
    """Of one model call, with one chance to mend an answer that does not fit."""

    system: str
    """The system's words."""
    max_tokens: int | None
    """That a reply may have: 4096, unless it is said. It bounds what the call can cost."""
    temperature: float | None
    stream: bool
    """Whoever watches the run hears the reply as it comes; what is returned is the same, and a replay says nothing again."""
    compact_above_tokens: int | None
    """Before a call whose input is bounded above this, the older turns are summed up."""
    compact_with: str | None
    """The model that sums up, where it is another."""
    fallback_models: Sequence[str]
    """Those that are asked where the model cannot answer for now: its trouble passes, or it takes too long."""
    complexity: Complexity | int
    """Of what is asked, for a Router: 1 to 5."""
    cache: SemanticCache | None
    """Answers of this model to questions that mean the same are given again; there is none unless it is said."""
    max_latency_s: float
    """The expected time to the reply, for a Router."""


class AgentOptions(ModelOptions, total=False):
    """Of the agent loop: the model, the tools that it asks for, the model again."""

    tools: Sequence[Offer]
    """The offers to the model: tools, workflows, handoffs."""
    max_turns: int
    """Replies until the loop fails (class `limit`): 10, unless it is said."""
    cheaper_models: Sequence[str]
    """Those that may be asked instead where money is short."""
    min_tokens: int | None
    """A shorter reply that will do where money is short."""
    tell_budget: bool
    """Each request ends with what is left of the run's limits and, from 80 % of one on, with the wish to come to an end."""
    skills: Sequence[Given]
    """Folders with a `SKILL.md`, or what was read of them: the model asks for those that it needs."""


class ChildOptions(TypedDict, total=False):
    """Of `ctx.child`, besides those that say what comes of it."""

    key: str | None
    version: int | None
    cost_limit_usd: float | str | Decimal | None
    max_tokens: int | None
    tenant: str | None


class MapOptions(TypedDict, total=False):
    """Of `ctx.map`, besides those with which an item may have no result."""

    key: str | Callable[[Any], Any] | None
    max_parallel: int
    demand: Demanded
    retry: RetryPolicy | int | None


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
