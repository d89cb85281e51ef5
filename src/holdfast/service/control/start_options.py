"""What a start takes, as a type checker sees it: a flow that needs no input, and the options.

Never here: what an option means, or its default (command).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypedDict, TypeVar

from holdfast.authoring.context import Context
from holdfast.core.values.claim import Claim
from holdfast.core.values.policies import OnLimit

Returned_co = TypeVar("Returned_co", covariant=True)


class WithoutInput(Protocol[Returned_co]):
    """A flow whose parameters besides `ctx` all have a default, or that has none."""

    @property
    def hash(self) -> str: ...

    def __call__(self, ctx: Context, /) -> Coroutine[Any, Any, Returned_co]: ...


class StartOptions(TypedDict, total=False):
    """The options of `Engine.start`."""

    version: int | None
    tenant: str
    cost_limit_usd: float | str | Decimal | None
    max_tokens: int | None
    max_model_calls: int | None
    max_tool_calls: int | None
    max_wall_s: float | None
    on_limit: OnLimit | None
    team: str | None
    team_budget: str | None
    agent: str | None
    key: str | None
    tags: Sequence[str]
    by: str | Claim | None
    queue: bool
