"""The order of jobs: needs that lead nowhere, cycles, and everything that comes before a job.

Never here: a file, or what a job does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

MAX_CYCLES: Final = 10
"""Mending a few tends to mend the rest."""

Needs = Mapping[str, Sequence[str]]
"""The jobs that each job needs; all of them are there."""


def cycles(needs: Needs) -> list[list[str]]:
    """Cycles, each from a job back to itself: `a`, `b`, `a` where a needs b and b needs a. Empty only if there is none."""
    found: list[list[str]] = []
    done: set[str] = set()
    for start in needs:
        if start not in done and len(found) < MAX_CYCLES:
            found += _cycles_from(start, needs, done)
    return found[:MAX_CYCLES]


def _cycles_from(start: str, needs: Needs, visited: set[str]) -> Iterator[list[str]]:
    """Depth first, without recursion: a chain of needs may be as long as a file has jobs."""
    trail: list[str] = [start]
    on_trail = {start: 0}
    open_ = [iter(needs[start])]
    while open_:
        following = next(open_[-1], None)
        if following is None:
            left = trail.pop()
            visited.add(left)
            del on_trail[left]
            open_.pop()
        elif following in on_trail:
            yield [*trail[on_trail[following] :], following]
        elif following not in visited:
            on_trail[following] = len(trail)
            trail.append(following)
            open_.append(iter(needs[following]))


def ancestors(needs: Needs) -> dict[str, frozenset[str]]:
    """All jobs that come before each; a cycle's jobs have what can be known of them."""
    found: dict[str, frozenset[str]] = {}
    for job in _ordered(needs):
        before = frozenset(needs[job])
        found[job] = before.union(*(found.get(need, frozenset()) for need in before))
    return found


def _ordered(needs: Needs) -> list[str]:
    """Each job behind those that it needs; the jobs of cycles, and what comes behind them, last."""
    open_ = {job: len(set(before)) for job, before in needs.items()}
    after: dict[str, list[str]] = {job: [] for job in needs}
    for job, before in needs.items():
        for need in set(before):
            after[need].append(job)
    ready = [job for job, count in open_.items() if not count]
    for job in ready:  # grows while it is walked
        for follower in after[job]:
            open_[follower] -= 1
            if not open_[follower]:
                ready.append(follower)
    known = set(ready)
    return ready + [job for job in needs if job not in known]
