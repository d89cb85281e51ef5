"""Lanes: the shards of a fleet, and which of them a run belongs to, by its workflow, its tenant or who started it.

Each lane has a leader and workers of its own, so that what floods one does not slow the others; pools are shared by all.
Never here: who leads a lane.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

DEFAULT: Final = "default"
"""Where a run belongs that no rule names."""


class Rule(msgspec.Struct, frozen=True):
    """A rule for what belongs to a lane: all runs of these workflows, all of these tenants, and all that these services
    started."""

    workflows: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()


class Lanes:
    """The lanes of a fleet, by name; where two name a run, it belongs to the first."""

    def __init__(self, rules: Mapping[str, Rule] | None = None) -> None:
        self._rules = dict(rules or {})

    @property
    def names(self) -> Collection[str]:
        return {DEFAULT, *self._rules}

    def of(self, workflow: str, tenant: str, started_by: str | None) -> str:
        """The lane of a run."""
        for name, rule in self._rules.items():
            if workflow in rule.workflows or tenant in rule.tenants or started_by in rule.services:
                return name
        return DEFAULT

    def may_have(self, lane: str, workflow: str) -> bool:
        """True if a run of the workflow can belong to `lane`, for some tenant."""
        for name, rule in self._rules.items():
            if name == lane and (rule.tenants or rule.services or workflow in rule.workflows):
                return True
            if workflow in rule.workflows:
                return name == lane
        return lane == DEFAULT
