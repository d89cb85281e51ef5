"""The gate before a new version of a workflow: whether a run of it has to ask, and that a person has released the version.

Never here: the rule (core.nouns.evaluations), the question itself (core.rules.steps), its decision (service.control).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.facts.graph import Graph
from holdfast.core.nouns.evaluations import Evaluation, HeldVersion, HoldBack, Release, held_version
from holdfast.core.nouns.shared_values import RELEASES, SharedValue
from holdfast.core.views.projection import SharedChange
from holdfast.ports import Store

MAX_COMPARED: Final = 1_000
"""Saved evaluations of a workflow that are looked at, the newest."""
MAX_RELEASES: Final = 1_000
"""Versions that a tenant has released, all of which are read for a start."""
_DEFAULT: Final = "default"
"""The tenant whose evaluations count for all: a suite is evaluated once for a deployment."""


class VersionGate:
    """The rules of this process, by workflow. Without a rule a workflow's versions start at once, and nothing is asked here."""

    def __init__(self, store: Store, rules: Mapping[str, HoldBack]) -> None:
        self._store = store
        self.rules = rules

    async def held(self, rule: HoldBack, tenant: str, graph: Graph) -> HeldVersion | None:
        """Return what a new run of a workflow with that rule has to ask before it begins; None if it need not ask."""
        definition = graph.definition
        released = {key for key, each in (await self._releases(tenant)).items() if each.workflow == definition.name}
        if graph.hash in released:
            return None
        evaluations = await self._evaluations(tenant, definition.name)
        return held_version(rule, definition.name, definition.version, graph.hash, evaluations, released)

    async def release(self, tenant: str, graph_hash: str, release: Release) -> None:
        """Let the runs of a version begin from now on. A second release changes nothing."""
        body = msgspec.json.encode(SharedValue(msgspec.to_builtins(release), 1, release.at_ms, release.by))
        await self._store.shared_values.put(SharedChange(tenant, RELEASES, graph_hash, 0, body))

    async def _releases(self, tenant: str) -> dict[str, Release]:
        found = await self._store.shared_values.page(tenant, RELEASES, None, MAX_RELEASES)
        return {each.key: msgspec.convert(each.latest.value, Release) for each in found if not each.latest.gone}

    async def _evaluations(self, tenant: str, workflow: str) -> Sequence[Evaluation]:
        found = await self._store.evaluations.listed(None, workflow, None, MAX_COMPARED)
        return [each for each in found if each.tenant in (tenant, _DEFAULT)]
