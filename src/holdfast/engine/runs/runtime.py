"""The parts that every process on a store has, also one that only leads or asks: runs, workflows, a membership.

Never here: executing a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.core.nouns.evaluations import HoldBack
from holdfast.core.values.ids import SessionId
from holdfast.engine.runs.catalog import Catalog
from holdfast.engine.runs.membership import Membership
from holdfast.engine.runs.observing import NOBODY, Observers
from holdfast.engine.runs.read_models import ReadModels
from holdfast.engine.runs.runs import Runs
from holdfast.engine.runs.version_gate import VersionGate
from holdfast.platform.own_loop import OwnLoop
from holdfast.ports import Clock, Ids, Report, Store


class Runtime(NamedTuple):
    """The parts of one process that know one another."""

    store: Store
    clock: Clock
    catalog: Catalog
    runs: Runs
    membership: Membership
    loop: OwnLoop
    read_models: ReadModels
    version_gate: VersionGate

    @classmethod
    def of(
        cls,
        store: Store,
        clock: Clock,
        ids: Ids,
        catalog: Catalog,
        label: str,
        *,
        works: bool,
        observers: Observers = NOBODY,
        hold_back: Mapping[str, HoldBack] = {},
    ) -> Runtime:
        """`label` says to people which process of which machine this is; one that `works`, be it by
        leading, has a session. `hold_back`: the rules for new versions, by workflow."""
        runs = Runs(store.log, store.clock, clock, ids, catalog, observers)
        watching = WatchOnlyWork(runs, catalog)
        membership = Membership(store.sessions, ids, label, catalog, watching, store.clock.now_ms, works=works)
        return cls(store, clock, catalog, runs, membership, OwnLoop(), ReadModels(), VersionGate(store, hold_back))


class WatchOnlyWork:
    """Keeps `membership.Work` of a process that executes nothing."""

    def __init__(self, runs: Runs, catalog: Catalog) -> None:
        self._runs = runs
        self._catalog = catalog

    def report(self, session: SessionId) -> Report:
        return Report(session, self._catalog.able, 0, 0, 0, self._catalog.labels, lane=self._catalog.lane)

    def session_held(self) -> None:
        pass

    def session_lost(self) -> None:
        pass

    def given_up(self) -> None:
        self._runs.notify()
