"""Capacity in holdfast.toml: prices and limits of models, pools, lanes.

Never here: a value of the store, which existing pools keep.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from holdfast.settings.table import TABLE


class DeclaredModel(BaseModel):
    """`[models."NAME"]` in holdfast.toml: a model without a price in the catalogue, or with another price here."""

    model_config = TABLE

    input_usd_per_mtok: Decimal = Field(ge=0)
    """Dollars for a million tokens of input."""
    output_usd_per_mtok: Decimal = Field(ge=0)
    """Dollars for a million tokens of output."""
    cache_read_usd_per_mtok: Decimal | None = Field(default=None, ge=0)
    """Dollars for a million tokens read from the provider's cache; by default the price of other input."""
    cache_write_usd_per_mtok: Decimal | None = Field(default=None, ge=0)
    """Dollars for a million tokens written to it; by default 1.25 times the price of other input."""
    context_tokens: int | None = Field(default=None, gt=0)
    """Size of the model's context: the input of a request is at most this."""
    provider: str | None = None
    """Provider: `anthropic` or `openai`; by default from the model's name."""


class PoolRules(BaseModel):
    """`[pools."NAME"]` in holdfast.toml: a pool of that name, as `holdfast pools set` declares it; or a provider's limits for
    the model, for all its models, or for the key of that name."""

    model_config = TABLE

    slots: int | None = None
    """Maximum in use at a time."""
    rate: int | None = None
    """Maximum in each period."""
    per: Literal["second", "minute", "hour", "day"] | None = None
    """Length of the period."""
    burst: int | None = None
    """Maximum of a rate at once after a pause; by default a tenth of it."""
    counts: Literal["requests", "tokens", "input_tokens", "output_tokens"] | None = None
    """Unit that the provider counts."""
    of: str | None = None
    """Model, provider or key that the pool limits."""
    requests_per_min: int | None = Field(default=None, gt=0)
    """Calls in a minute: the pool `NAME/requests`."""
    tokens_per_min: int | None = Field(default=None, gt=0)
    """Tokens of input and output together in a minute: `NAME/tokens`."""
    input_tokens_per_min: int | None = Field(default=None, gt=0)
    """Tokens of input in a minute: `NAME/input_tokens`."""
    output_tokens_per_min: int | None = Field(default=None, gt=0)
    """Tokens of output in a minute: `NAME/output_tokens`."""
    concurrent: int | None = Field(default=None, gt=0)
    """Calls in flight at once: `NAME/concurrent`."""
    burst_s: float = Field(default=6.0, gt=0, le=60, allow_inf_nan=False)
    """Burst after a pause, as seconds of the limit."""

    @property
    def limits(self) -> dict[str, int]:
        """The provider's limits for a minute, by what they count."""
        found = {
            "requests": self.requests_per_min,
            "tokens": self.tokens_per_min,
            "input_tokens": self.input_tokens_per_min,
            "output_tokens": self.output_tokens_per_min,
        }
        return {counts: limit for counts, limit in found.items() if limit is not None}

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        is_pool = self.slots is not None or self.rate is not None
        if is_pool == bool(self.limits or self.concurrent is not None):
            raise ValueError(
                "it takes slots or a rate; or what a provider allows, at least one of requests_per_min, tokens_per_min,"
                " input_tokens_per_min, output_tokens_per_min and concurrent"
            )
        return self


class LaneRules(BaseModel):
    """`[lanes.NAME]` in holdfast.toml: the runs of a lane, by the names of workflows, of tenants and of services that
    start them (`--as`, `Engine.start(by=...)`); and how their steps are placed."""

    model_config = TABLE

    workflows: tuple[str, ...] = ()
    """Workflows whose runs belong to the lane."""
    tenants: tuple[str, ...] = ()
    """Tenants whose runs belong to the lane."""
    services: tuple[str, ...] = ()
    """Services whose runs belong to the lane."""
    placement: Literal["least_loaded", "best_fit"] | None = None
    """Placement in the lane; by default that of all lanes."""
