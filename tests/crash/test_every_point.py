"""kill -9 at every point at which something lasts, and what the world outside has seen of it.

Which points there are is counted, in a run that nobody kills. `make crash` kills at all of them, by number; otherwise
one victim dies at each kind of point.
"""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from tests.crash.boundary import kinds
from tests.crash.case import Case, Nursery
from tests.crash.judge import judge
from tests.crash.world import World

EVERYTHING = os.environ.get("HOLDFAST_CRASH") == "all"
SHARES = 16 if EVERYTHING else 1
"""Parts of equal size, for as many cores as there are."""
MAX_LIVES = 4
TRIES = 3
"""To die at a kind of point. Steps run at the same time, and not each run crosses each kind of point."""
PAIR_STRIDE = 1 if EVERYTHING else 509
"""Of the pairs, every so many are tried; no divisor of the numbers of boundaries, so that all of them have their turn."""

share = pytest.mark.parametrize("share", range(SHARES))
complete = pytest.mark.skipif(not EVERYTHING, reason="takes minutes: make crash")


def reference(world: World, victims: Nursery, flow: str) -> Case:
    """The run that nobody kills."""
    case = Case(world, victims, flow)
    case.live()
    judge(case, case)
    return case


def finished(case: Case) -> Case:
    """The case, lived to its end."""
    while case.lives[-1].killed:
        assert len(case.lives) < MAX_LIVES
        case.live()
    return case


def report(name: str, number: int, counted: int, hit: Counter[str]) -> None:
    """What was really hit, for whoever runs this with `-s` or reads the report of `make crash`."""
    print(f"{name}: {number} cases, {counted} boundaries counted, {len(hit)} kinds hit: {json.dumps(hit)}")


def hit_by(case: Case) -> list[str]:
    return [kind for life in case.lives if life.killed for kind in life.died_at["kinds"]]


@pytest.mark.parametrize(
    "flow", ["tour", *(pytest.param(flow, marks=pytest.mark.long) for flow in ("detour", "stroll", "relay"))]
)
def test_a_run_killed_at_any_kind_of_point_ends_as_if_nothing_had_been(world: World, victims: Nursery, flow: str) -> None:
    unbroken = reference(world, victims, flow)
    wanted = kinds(unbroken.lives[0].trace)
    if flow != "tour" and not EVERYTHING:
        wanted -= kinds(reference(world, victims, "tour").lives[0].trace)
    deaths = {kind: [(kind,)] * TRIES for kind in wanted}
    """How each kind of point can be reached: by deaths before it, and then its own."""
    hit: Counter[str] = Counter()
    number = 0
    while missing := sorted(kind for kind in deaths if kind not in hit and deaths[kind]):
        ways = deaths[missing[0]].pop(0)
        case = Case(world, victims, flow)
        for kind in ways:
            case.live(on=kind)
        judge(finished(case), unbroken)
        hit.update(hit_by(case))
        number += 1
        if len(ways) == 1 and (flow == "tour" or EVERYTHING):
            # Some points are there only for who takes up a run that was left.
            for kind in {kind for life in case.lives[1:] for kind in kinds(life.trace)}:
                deaths.setdefault(kind, []).append((*ways, kind))
    assert set(deaths) <= set(hit)
    report(f"every kind of the {flow}", number, len(unbroken.lives[0].crossed), hit)


@complete
@share
@pytest.mark.parametrize("flow", ["tour", "detour", "stroll", "relay"])
def test_a_run_killed_at_any_point_ends_as_if_nothing_had_been(world: World, victims: Nursery, flow: str, share: int) -> None:
    unbroken = reference(world, victims, flow)
    counted = len(unbroken.lives[0].crossed)
    hit: Counter[str] = Counter()
    for at in range(1 + share, counted + 1, SHARES):
        case = Case(world, victims, flow)
        case.live(at=at)
        judge(finished(case), unbroken)
        hit.update(hit_by(case))
    report(f"every point of the {flow}, share {share}", len(range(1 + share, counted + 1, SHARES)), counted, hit)


@share
@pytest.mark.long
def test_a_run_killed_at_any_two_points_ends_as_if_nothing_had_been(world: World, victims: Nursery, share: int) -> None:
    unbroken = reference(world, victims, "walk")
    counted = len(unbroken.lives[0].crossed)
    hit: Counter[str] = Counter()
    pairs = 0
    for first in range(1 + share, counted + 1, SHARES):
        second = 1 + first % PAIR_STRIDE
        while True:
            case = Case(world, victims, "walk")
            if not case.live(at=first).killed:
                # What a busy process commits in two goes, this one has committed in one.
                assert first > len(case.lives[0].crossed) > counted / 2
                judge(case, unbroken)
                break
            died = case.live(at=second).killed
            judge(finished(case), unbroken)
            hit.update(hit_by(case))
            pairs += died
            if not died:
                break  # the second life has fewer boundaries than that
            second += PAIR_STRIDE
    report(f"every pair, share {share}", pairs, counted, hit)
