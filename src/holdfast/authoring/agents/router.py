"""`Router`: several models under one name, of which each request gets the cheapest that can answer it.

Never here: choosing (core.nouns.routing), prices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.nouns.routing import Complexity, ModelNeeds, RoutedModel
from holdfast.errors import UsageError


class Router:
    """A choice of models, in the place of a model's name: `llm_node(model=router, complexity=Complexity.SIMPLE)`.

    Args:
        models: Names of models, or RoutedModels with their abilities.
        name: Name in the history. The models behind it may change without a new version of the code.

    Raises:
        UsageError: The models or the name cannot be used.
    """

    def __init__(self, models: Sequence[str | RoutedModel], *, name: str = "router") -> None:
        self.models = tuple(RoutedModel(each) if isinstance(each, str) else each for each in models)
        self.name = name
        names = [each.model for each in self.models]
        if not names or len(set(names)) < len(names):
            raise UsageError(f"The router {name!r} needs at least one model, and each once: {', '.join(names) or 'none'}.")
        for each in self.models:
            if not Complexity.TRIVIAL <= each.min_complexity <= each.max_complexity <= Complexity.EXPERT:
                raise UsageError(
                    f"The router {name!r}: {each.model} is for no complexity: {each.min_complexity!r} to"
                    f" {each.max_complexity!r}."
                )

    def __repr__(self) -> str:
        return f"<router {self.name!r} of {', '.join(each.model for each in self.models)}>"


class Route(NamedTuple):
    """The router of a request, and what the request asks of its models."""

    router: Router
    needs: ModelNeeds


def expect_complexity(value: object) -> Complexity | None:
    """A level, by itself or its number. Raises UsageError."""
    try:
        return None if value is None else Complexity(value)  # type: ignore[arg-type]
    except ValueError:
        raise UsageError(
            f"complexity={value!r}: it is one of {', '.join(each.name for each in Complexity)}, or 1 to 5."
        ) from None


def expect_latency(value: object) -> float | None:
    """Seconds above 0. Raises UsageError."""
    if value is None or (type(value) in (int, float) and 0 < value < math.inf):  # type: ignore[operator]
        return value  # type: ignore[return-value]
    raise UsageError(f"max_latency_s={value!r:.100}: it is how long a reply may be expected to take, in seconds above 0.")
