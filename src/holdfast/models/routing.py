"""Quotes requests before they are sent: what each model of a router would cost and take, by its price and what was seen of it.

Never here: which is chosen (core.routing), sending.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from holdfast.authoring.router import Route
from holdfast.core.routing import Needs, Quote, RoutedModel, ranked, refusal
from holdfast.errors import UnboundableRequest, UnknownPrice
from holdfast.models.bounds import input_tokens_at_most
from holdfast.models.prices import Prices
from holdfast.ports import ModelRequest, Usage

_KEEPS: Final = 0.9
"""Of what was known, when another reply comes: as in the running averages of the pattern."""


class _Seen(NamedTuple):
    tokens_per_s: float
    output_tokens: float


class Learned:
    """How fast models were, and how much they wrote, in the calls of this process."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def take(self, model: str, usage: Usage, seconds: float) -> None:
        """A reply came after so long."""
        speed = usage.output_tokens / max(seconds, 1e-3)
        before = self._seen.get(model, _Seen(speed, usage.output_tokens))
        self._seen[model] = _Seen(
            _KEEPS * before.tokens_per_s + (1 - _KEEPS) * speed,
            _KEEPS * before.output_tokens + (1 - _KEEPS) * usage.output_tokens,
        )

    def tokens_per_s(self, known: RoutedModel) -> float | None:
        """How fast a model writes, as far as is known."""
        seen = self._seen.get(known.model)
        return known.tokens_per_s if seen is None else seen.tokens_per_s

    def output_tokens(self, model: str, most: int) -> int:
        """What it writes, of `most` that it may."""
        seen = self._seen.get(model)
        return most if seen is None else min(most, round(seen.output_tokens))


def quotes(request: ModelRequest, route: Route, prices: Prices, learned: Learned) -> list[Quote]:
    """What the request would be with each model of the router, in their order."""
    needs = route.needs._replace(
        tools=bool(request.tools), vision=any(part.type == "image" for part in request.content)
    )
    return [_quote(known, request, needs, prices, learned) for known in route.router.models]


def _quote(known: RoutedModel, request: ModelRequest, needs: Needs, prices: Prices, learned: Learned) -> Quote:
    model = known.model
    try:
        price = prices.of(model)
        input_tokens = input_tokens_at_most(msgspec.structs.replace(request, model=model), price.context_window_tokens)
    except (UnknownPrice, UnboundableRequest) as problem:
        return Quote(model, 0, 0, 0, None, problem.message)
    tokens = input_tokens + request.max_tokens
    output_tokens, speed = learned.output_tokens(model, request.max_tokens), learned.tokens_per_s(known)
    latency_s = None if speed is None else output_tokens / max(speed, 1e-6)
    return Quote(
        model, tokens, price.worst_case_nanousd(input_tokens, request.max_tokens),
        price.cost_nanousd(Usage(input_tokens, output_tokens)), latency_s,
        refusal(known, needs, tokens, price.context_window_tokens, latency_s),
    )  # fmt: skip


def routed(request: ModelRequest, route: Route, prices: Prices, learned: Learned) -> list[ModelRequest]:
    """The request to each model that can answer it, the cheapest first. Raises UnboundableRequest where none can."""
    found = quotes(request, route, prices, learned)
    if not (ranks := ranked(found)):
        told = "; ".join(f"{each.model}: {each.refusal}" for each in found)
        raise UnboundableRequest(
            f"No model of the router {route.router.name!r} can answer this. Nothing was called. {told}."
        )
    return [msgspec.structs.replace(request, model=each.model) for each in ranks]
