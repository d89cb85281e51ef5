"""How long a flow may clean up is its own to say, and a flow that says nothing is the flow that it was."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import flow
from holdfast.core.facts.graph import CLEANUP_S
from holdfast.errors import UsageError


async def handle(ctx: Any) -> None:
    """It does nothing."""


def test_a_flow_that_says_nothing_is_the_same_workflow_as_ever() -> None:
    plain = flow(handle).graph
    assert plain.nodes["flow"].options == {}  # type: ignore[index]
    assert flow(cleanup_s=CLEANUP_S)(handle).graph.hash == plain.hash
    assert plain.cleanup_s == CLEANUP_S


@pytest.mark.parametrize("cleanup_s", [0, 0.5, 3600])
def test_a_flow_says_how_long_it_may_clean_up(cleanup_s: float) -> None:
    graph = flow(cleanup_s=cleanup_s)(handle).graph
    assert graph.cleanup_s == cleanup_s
    assert graph.hash != flow(handle).graph.hash


@pytest.mark.parametrize("cleanup_s", [-1, 100_000, float("nan"), True])
def test_what_is_no_time_is_refused_in_words(cleanup_s: float) -> None:
    with pytest.raises(UsageError, match=r"cleanup_s of the flow 'handle' is .*; it is a number of seconds from 0 to 86400"):
        flow(cleanup_s=cleanup_s)(handle)
