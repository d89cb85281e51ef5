"""What a router learns of models: the mean at first, then the latest the most, and nothing for ever."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.nouns.model_estimates import (
    EVERYWHERE,
    FORGOTTEN_MS,
    SPEED_MS,
    Experience,
    ModelEstimate,
    ModelUse,
    by_place,
    learned,
)

NOW_MS = 10 * FORGOTTEN_MS
USE = ModelUse("desk", "answer", "small", 100, 1_000, 1_000, 500, NOW_MS)


def use(**changes: Any) -> ModelUse:
    return msgspec.structs.replace(USE, **changes)


def after(*uses: ModelUse) -> ModelEstimate:
    return learned({}, uses)["desk", "answer", "small"]


def seen(*uses: ModelUse, workflow: str = "desk", node: str = "answer", now_ms: int = NOW_MS) -> Experience:
    places = by_place(learned({}, uses).values())
    return Experience(places.get((workflow, node), {}), places[EVERYWHERE], now_ms)


def test_the_first_replies_count_alike_and_the_later_ones_take_off_a_tenth() -> None:
    assert after(use(output_tokens=100), use(output_tokens=200)).output_tokens_m == 150_000
    assert after(*[use(output_tokens=100)] * 10, use(output_tokens=1_100)).output_tokens_m == 200_000
    assert after(*[use(output_tokens=100)] * 1_000, use(output_tokens=1_100)).output_tokens_m == 200_000


def test_a_reply_tells_of_its_speed_and_of_what_was_paid_of_its_quote() -> None:
    found = after(use(output_tokens=50, took_ms=500, quoted_nanousd=4_000, cost_nanousd=1_000))
    assert (found.tokens_per_s_m, found.price_part_m, found.samples) == (100_000, 250, 1)


def test_each_reply_counts_in_its_node_and_for_its_model_everywhere() -> None:
    found = learned({}, [use(), use(workflow="other", output_tokens=300)])
    assert {kind: each.output_tokens_m for kind, each in found.items()} == {
        ("desk", "answer", "small"): 100_000,
        ("other", "answer", "small"): 300_000,
        (*EVERYWHERE, "small"): 200_000,
    }
    known = learned(found, [use(output_tokens=200)])
    assert known["desk", "answer", "small"].samples == 2


def test_an_unused_model_is_estimated_from_its_node_and_then_from_other_nodes() -> None:
    uses = use(model="dear", output_tokens=20), use(workflow="other", output_tokens=300)
    known, elsewhere = seen(*uses), seen(*uses, node="sum up")
    assert known.output_tokens("dear", 1_000) == 20
    assert known.output_tokens("small", 1_000) == 20, "the task makes the length, and a cheaper one gets its turn"
    assert elsewhere.output_tokens("small", 1_000) == 300
    assert elsewhere.output_tokens("unknown", 1_000) == 1_000
    assert elsewhere.price_part("unknown") == 1.0


def test_nothing_writes_more_than_it_may() -> None:
    assert seen(use(output_tokens=500)).output_tokens("small", 300) == 300


def test_a_measured_speed_counts_for_an_hour_and_never_for_another_model() -> None:
    uses = use(), use(workflow="other", took_ms=500), use(model="dear")
    known = seen(*uses)
    assert known.tokens_per_s("small") == 100
    assert seen(*uses, workflow="third").tokens_per_s("small") == 150
    assert known.tokens_per_s("unknown") is None
    assert known._replace(now_ms=NOW_MS + SPEED_MS).tokens_per_s("small") == 100
    assert known._replace(now_ms=NOW_MS + SPEED_MS + 1).tokens_per_s("small") is None


def test_after_a_month_without_a_reply_nothing_is_known_and_the_next_begins_again() -> None:
    known = seen(use(output_tokens=20), now_ms=NOW_MS + FORGOTTEN_MS)
    assert known.output_tokens("small", 1_000) == 20
    assert known._replace(now_ms=NOW_MS + FORGOTTEN_MS + 1).output_tokens("small", 1_000) == 1_000
    again = after(use(output_tokens=20), use(output_tokens=500, at_ms=NOW_MS + FORGOTTEN_MS + 1))
    assert (again.output_tokens_m, again.samples) == (500_000, 1)


@pytest.mark.parametrize("wrong", [use(took_ms=0), use(quoted_nanousd=0), use(output_tokens=10**30), use(output_tokens=-5)])
def test_a_reply_that_says_what_cannot_be_breaks_nothing(wrong: ModelUse) -> None:
    found = msgspec.structs.astuple(after(wrong))[3:]
    assert all(0 <= figure < 2**63 for figure in found)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_an_estimate_is_among_what_was_seen(amounts: list[int]) -> None:
    found = after(*[use(output_tokens=amount) for amount in amounts])
    assert min(amounts) * 1_000 - len(amounts) <= found.output_tokens_m <= max(amounts) * 1_000
    assert found.samples == len(amounts)
