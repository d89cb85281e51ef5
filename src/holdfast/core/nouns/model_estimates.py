"""Models in practice, judged by the replies they have given: how fast one writes, how much, and which part of its quoted price
that costs. A router goes by it, and no limit does.

The first replies count alike; from then on each takes off one in ten of what was known. Observations also fade with time: a
model that was too slow once is not left out for ever.

Never here: a store, a price, which model is taken (routing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

EVERYWHERE: Final = ("", "")
"""The workflow and the node of what was seen of a model in all of them."""
FORGOTTEN_MS: Final = 30 * 86_400_000
"""After so long without a reply nothing is known of a model any more."""
SPEED_MS: Final = 3_600_000
"""How long the speed of the last reply says how fast the next one comes: a provider's bad hour passes."""
MAX_ESTIMATES: Final = 1_000
"""Of one workflow that are looked at."""
_MAX_COUNTED: Final = 10
_FINE: Final = 1_000
_MOST: Final = 10**12

Kind = tuple[str, str, str]
"""Workflow, node, model."""


class ModelUse(msgspec.Struct, frozen=True):
    """The figures of one reply of a model. `quoted_nanousd` is the quote for a reply of that length by the bound of its
    request."""

    workflow: str
    node: str
    model: str
    output_tokens: int
    took_ms: int
    quoted_nanousd: int
    cost_nanousd: int
    at_ms: int

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """Of what it tells something: of the model in its node, and of the model."""
        return (self.workflow, self.node, self.model), (*EVERYWHERE, self.model)


class ModelEstimate(msgspec.Struct, frozen=True):
    """The figures of a model's replies to a node, in thousandths: tokens, tokens a second, part of the quoted price; from how
    many replies, and when the last came."""

    workflow: str
    node: str
    model: str
    output_tokens_m: int
    tokens_per_s_m: int
    price_part_m: int
    samples: int
    at_ms: int

    @property
    def kind(self) -> Kind:
        return (self.workflow, self.node, self.model)


def learned(estimates: Mapping[Kind, ModelEstimate], uses: Iterable[ModelUse]) -> dict[Kind, ModelEstimate]:
    """The estimates that `uses` change, taken in their order."""
    found: dict[Kind, ModelEstimate] = {}
    for use in uses:
        for kind in use.kinds:
            before = found.get(kind) or estimates.get(kind)
            if before is None or use.at_ms - before.at_ms > FORGOTTEN_MS:
                before = ModelEstimate(*kind, 0, 0, 0, 0, 0)
            found[kind] = _update(before, use)
    return found


def _update(before: ModelEstimate, use: ModelUse) -> ModelEstimate:
    samples = before.samples + 1

    def moved(known_m: int, part: int, whole: int) -> int:
        seen_m = min(_MOST, max(0, part) * _FINE // max(1, whole))
        return known_m + (seen_m - known_m) // min(samples, _MAX_COUNTED)

    return ModelEstimate(
        *before.kind,
        moved(before.output_tokens_m, use.output_tokens, 1),
        moved(before.tokens_per_s_m, use.output_tokens * 1_000, use.took_ms),
        moved(before.price_part_m, use.cost_nanousd, use.quoted_nanousd),
        samples,
        max(before.at_ms, use.at_ms),
    )


def by_place(estimates: Iterable[ModelEstimate]) -> dict[tuple[str, str], dict[str, ModelEstimate]]:
    """By workflow and node, and there by model."""
    found: dict[tuple[str, str], dict[str, ModelEstimate]] = {}
    for each in estimates:
        found.setdefault((each.workflow, each.node), {})[each.model] = each
    return found


class Experience(NamedTuple):
    """The knowledge about models at a moment: as one node of a workflow has seen them, and as all have."""

    here: Mapping[str, ModelEstimate]
    everywhere: Mapping[str, ModelEstimate]
    now_ms: int

    def tokens_per_s(self, model: str) -> float | None:
        """Return how fast a model writes: in this node, or else anywhere; None while that is unknown."""
        for place in (self.here, self.everywhere):
            seen = place.get(model)
            if seen is not None and self.now_ms - seen.at_ms <= SPEED_MS:
                return seen.tokens_per_s_m / _FINE
        return None

    def output_tokens(self, model: str, most: int) -> int:
        """Return how much it writes, of the `most` that it may."""
        found = self._seen(model, lambda each: each.output_tokens_m)
        return most if found is None else min(most, round(found))

    def price_part(self, model: str) -> float:
        """Return the part of the quote for a reply of that length that is really paid: an input has fewer tokens than its
        bound, and some of them may be in a provider's cache."""
        found = self._seen(model, lambda each: each.price_part_m)
        return 1.0 if found is None else found

    def _seen(self, model: str, figure: Callable[[ModelEstimate], int]) -> float | None:
        """Return a figure of a model. The task shapes a reply more than the model does: a model that this node has not asked
        gets the figure of the others here, so that a cheaper one gets its turn."""
        own, anywhere = ([place[model]] if model in place else [] for place in (self.here, self.everywhere))
        for seen in (own, self.here.values(), anywhere):
            if young := [figure(each) for each in seen if self.now_ms - each.at_ms <= FORGOTTEN_MS]:
                return sum(young) / len(young) / _FINE
        return None


NOTHING_SEEN: Final = Experience({}, {}, 0)
"""What is known before there was any reply."""
