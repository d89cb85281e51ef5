"""What may go wrong in a simulated world, how often it does under a seed, and how often it did.

Each seed draws which kinds happen at all: a fault that others drown is alone under another seed. Never here: what a
fault does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from tests.simulation.chance import Chance

RATES: Final[dict[str, float]] = {
    # a process
    "crash_before_commit": 0.02,
    "crash_after_commit": 0.03,
    "crash_while_sending": 0.06,
    "crash_any_time": 0.03,
    "freeze_after_commit": 0.03,
    "freeze_any_time": 0.03,
    "renewals_stall": 0.03,
    "stop": 0.02,
    "clock_jump": 0.2,
    # the disk
    "reply_lost_after_commit": 0.03,
    "reply_lost_before_commit": 0.03,
    "commit_refused": 0.02,
    "read_refused": 0.005,
    "slow_disk": 0.05,
    # a model
    "model_refuses": 0.08,
    "model_limits_rate": 0.12,
    "model_uncertain": 0.08,
    "model_hangs": 0.04,
    "model_late": 0.05,
    "model_breaks": 0.03,
    "usage_missing": 0.05,
    "usage_absurd": 0.05,
    "answer_misfits": 0.15,
    "unknown_tool": 0.1,
    # a tool
    "tool_says_no": 0.08,
    "tool_raises": 0.08,
    "tool_loses_connection": 0.1,
    "tool_cannot_say": 0.08,
    "tool_hangs": 0.05,
    "tool_late": 0.05,
    "tool_answers_nonsense": 0.03,
    "lookup_fails": 0.2,
    # users' code
    "handler_raises": 0.06,
    "handler_hangs": 0.02,
    "code_changed": 0.2,
    "guard_denies": 0.2,
    "guard_breaks": 0.02,
    # people and programs
    "decided_twice": 0.3,
    "decided_late": 0.3,
    "decided_with_nonsense": 0.3,
    "decided_for_wrong_gate": 0.2,
    "signal_twice": 0.3,
    "started_twice": 0.3,
    "paused": 0.15,
    "cancelled": 0.05,
    "limit_raised_unasked": 0.1,
    "reconciled": 0.5,
    "taken_up_again": 0.7,
    # a script of a workflow file
    "script_cannot_begin": 0.05,
    "script_hangs": 0.05,
    "script_killed": 0.05,
    "script_supervisor_killed": 0.06,
    "script_writes_nonsense": 0.05,
    # users' code again: each draws in this order
    "function_raises": 0.4,
    "forked": 0.6,
    "letter_edited": 0.4,
    "scheduled": 0.6,
    "supervised": 0.4,
    # all processes at once, for longer than a lease: nobody is there to find another dead
    "all_stand_still": 0.1,
    "disk_away": 0.1,
    "labelled": 0.3,
}
"""How likely each is, at each occasion, where it happens at all."""

OBSERVED: Final = ("conflict",)
"""What happens by itself, and is counted where it does."""

_FELT_S: Final = 300.0
"""How long: a process stands still, or is away, for less, and another takes its work over."""

MAX_DEATHS: Final = 12
"""Crashes and freezes of one program; more would only keep it from going anywhere."""


class Faults:
    """The faults of one program."""

    def __init__(self, chance: Chance, kinds: Iterable[str] | None = None) -> None:
        """`kinds`, where given, are those that happen; else a subset is drawn."""
        stream = chance.stream("swarm")
        share = stream.choice((0.0, 0.1, 0.25, 0.5, 0.9))
        force = stream.choice((0.5, 1.0, 1.0, 2.0, 4.0))
        drawn = {kind: stream.random() < share for kind in RATES}
        wanted = drawn if kinds is None else {kind: kind in set(kinds) for kind in RATES}
        self.rates = {kind: min(0.9, rate * force) if wanted[kind] else 0.0 for kind, rate in RATES.items()}
        self.seen: Counter[str] = Counter()
        self.over = False
        self.clock: Callable[[], float] = lambda: 0.0
        self.felt_until_s = 0.0
        """Until when something may be late because of the last that has happened."""
        self._chance = chance
        self._deaths = 0

    @property
    def spent(self) -> bool:
        """Whether nothing will take a process down any more."""
        return self._deaths >= MAX_DEATHS

    def strikes(self, kind: str) -> bool:
        """Whether `kind` happens on this occasion."""
        drawn = self._chance.stream(f"fault/{kind}").random() < self.rates[kind]
        if not drawn or self.over:
            return False
        self.seen[kind] += 1
        self.strike_now()
        return True

    def strike_now(self) -> None:
        """Have the judges know that from now on, for a while, things may be late."""
        self.felt_until_s = self.clock() + _FELT_S

    def kills(self, kind: str) -> bool:
        """The same for what takes a process down: only so often in one program."""
        if self._deaths >= MAX_DEATHS or not self.strikes(kind):
            return False
        self._deaths += 1
        return True
