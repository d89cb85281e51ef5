"""Quotes requests before they are sent: what each model of a router would cost and take, by its price and what was seen of it.

Never here: which is chosen (core.nouns.routing), what was seen (core.nouns.model_estimates), sending.
"""

from __future__ import annotations

import msgspec

from holdfast.authoring.agents.router import Route
from holdfast.core.nouns.model_estimates import Experience
from holdfast.core.nouns.routing import ModelNeeds, Quote, RoutedModel, ranked, refusal
from holdfast.errors import UnboundableRequest, UnknownPrice
from holdfast.models.bounds import input_tokens_at_most
from holdfast.models.prices import Prices
from holdfast.ports import ModelRequest, Usage


def quotes(request: ModelRequest, route: Route, prices: Prices, experience: Experience) -> list[Quote]:
    """Return a quote of the request for each model of the router, in their order."""
    needs = route.needs._replace(tools=bool(request.tools), vision=any(part.type == "image" for part in request.content))
    return [_quote(known, request, needs, prices, experience) for known in route.router.models]


def _quote(candidate: RoutedModel, request: ModelRequest, needs: ModelNeeds, prices: Prices, experience: Experience) -> Quote:
    model = candidate.model
    try:
        price = prices.of(model)
        input_tokens = input_tokens_at_most(msgspec.structs.replace(request, model=model), price.context_window_tokens)
    except (UnknownPrice, UnboundableRequest) as problem:
        return Quote(model, 0, 0, 0, None, problem.message)
    tokens = input_tokens + request.max_tokens
    output_tokens = experience.output_tokens(model, request.max_tokens)
    speed = experience.tokens_per_s(model) or candidate.tokens_per_s
    latency_s = None if speed is None else output_tokens / max(speed, 1e-6)
    worst_nanousd = price.worst_case_nanousd(input_tokens, request.max_tokens)
    paid_nanousd = round(price.cost_nanousd(Usage(input_tokens, output_tokens)) * experience.price_part(model))
    return Quote(
        model,
        tokens,
        worst_nanousd,
        min(worst_nanousd, paid_nanousd),
        latency_s,
        refusal(candidate, needs, tokens, price.context_window_tokens, latency_s),
    )


def routed(request: ModelRequest, route: Route, prices: Prices, experience: Experience) -> list[ModelRequest]:
    """The request to each model that can answer it, the cheapest first. Raises UnboundableRequest where none can."""
    found = quotes(request, route, prices, experience)
    if not (ranks := ranked(found)):
        why_not = "; ".join(f"{each.model}: {each.refusal}" for each in found)
        raise UnboundableRequest(
            f"No model of the router {route.router.name!r} can answer this. Nothing was called. {why_not}."
        )
    return [msgspec.structs.replace(request, model=each.model) for each in ranks]
