"""The runs that are in this process's memory: a mailbox for each, those who wait for them, and who follows their commits.

Never here: executing a step, a session, what follows from a commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import cached_property
from typing import Final, Protocol

from holdfast.core.facts.commands import Command, Tick
from holdfast.core.facts.events import Event
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import State
from holdfast.core.values.ids import AppendId, RunId
from holdfast.engine.runs.catalog import Catalog
from holdfast.engine.runs.mailbox import Flush, Mailbox, Starter
from holdfast.engine.runs.observing import NOBODY, Observers
from holdfast.errors import Conflict, CorruptHistory, NotFound, Unstorable
from holdfast.ports import Clock, Ids, Log, StoreClock

log = logging.getLogger("holdfast")

_LAST_WORDS_S: Final = 15.0
"""What the store gets to take them; others find in it what it has not taken, once the lease is over."""


class Watcher(asyncio.Event):
    """Set when a run may have come to where `met` holds. `elsewhere`: so far that only a look into the store tells."""

    def __init__(self, condition: Callable[[State], bool], *, at_end: bool) -> None:
        super().__init__()
        self._met = condition
        self.at_end = at_end
        """Whether it cannot hold before the run has ended."""
        self.seq = 0
        """The latest that is known of the run."""
        self.elsewhere = True

    def check(self, state: State) -> None:
        """Hold what has just been committed against what is waited for."""
        self.seq = state.seq
        try:
            met = self._met(state)
        except Exception:  # noqa: BLE001 - the waiting caller asks the same again, and hears of the error
            met = True
        if met:
            self.set()


class Subscriber(Protocol):
    """Does what follows from commits; must not raise."""

    def committed(self, mailbox: Mailbox, events: Sequence[Event], state: State) -> None:
        """A run has gone on, here or elsewhere; `events` may be empty, where only its state became known."""
        ...

    def needs(self, mailbox: Mailbox) -> bool:
        """True if its run is to stay in memory."""
        ...


class Runs:
    """The runs of one process. The sweep finds again what is lost with it."""

    def __init__(
        self, log: Log, store_clock: StoreClock, clock: Clock, ids: Ids, catalog: Catalog, observers: Observers = NOBODY
    ) -> None:
        self.log = log
        self.now_ms = store_clock.now_ms
        """The store's time."""
        self.catalog = catalog
        self.observers = observers
        self._observers = observers or None  # asked once whether there are any, and not at each commit
        self.flush = Flush(log, clock, observers)
        self.starter: Starter | None = None
        """Who may start steps here, where this process executes any."""
        self.subscribers: list[Subscriber] = []
        """They hear of a commit one after the other, in this order."""
        self.damaged: set[RunId] = set()
        """Runs whose history cannot be read, or what follows not be stored: lost to this process, and the others are not."""
        self._ids = ids
        self._mailboxes: dict[RunId, Mailbox] = {}
        self._watchers: dict[RunId, dict[Watcher, None]] = {}
        self._unknown_commits: dict[RunId, None] = {}
        self._turns: list[Mailbox] = []
        self._context = copy_context()
        self._closing = False

    # --- Asking and telling -------------------------------------------------------------------------------------------

    def mailbox(self, run: RunId) -> Mailbox:
        found = self._mailboxes.get(run)
        if found is None:
            found = self._mailboxes[run] = Mailbox(run, self)
        return found

    def new_id(self) -> RunId:
        """The name of a run that is about to be started."""
        return self._ids.run(self.now_ms())

    def new_approval(self) -> str:
        """The name of a standing approval that is about to be granted."""
        return self._ids.approval()

    def begin(self, run: RunId, graph: Graph) -> Mailbox:
        """The mailbox of a run that may have been started already."""
        found = self._mailboxes.get(run)
        if found is None:
            found = self._mailboxes[run] = Mailbox(run, self, graph)
        return found

    def new(self, graph: Graph) -> Mailbox:
        """The mailbox of a run that is about to be started."""
        run = self.new_id()
        found = self._mailboxes[run] = Mailbox(run, self, graph)
        return found

    async def send(self, run: RunId, command: Command, graph: Graph | None = None) -> list[Event]:
        """Have `command` decided and committed, as `Mailbox.send` does."""
        return await self.mailbox(run).send(command, graph)

    async def tick(self, run: RunId, tick: Tick) -> bool:
        """Have a run look at what has fallen due for it. True if it has gone on; false if another was there first, or if the
        run is damaged: that is its own fault, and the others go on. Raises StoreError."""
        try:
            return bool(await self.send(run, tick))
        except (Conflict, NotFound):
            return False
        except (CorruptHistory, Unstorable) as problem:
            if run not in self.damaged:  # else another look has met it at the same moment, and logged it
                self.damaged.add(run)
                log.error("holdfast leaves run %s alone: %s", run, problem, extra={"run_id": run})
            return False

    async def state(self, run: RunId, *, fresh: bool = True) -> State:
        """The run as of now; without `fresh`, as of the last that was heard of it here. Raises NotFound."""
        mailbox = self.mailbox(run)
        if fresh or mailbox.state is None:
            await mailbox.send(Tick())
        return await mailbox.stable()

    @asynccontextmanager
    async def watch(self, run: RunId, condition: Callable[[State], bool], *, at_end: bool = False) -> AsyncIterator[Watcher]:
        """Return an event that is set when `condition` may hold of the run; `at_end`, if that cannot be before the run has
        ended."""
        watcher = Watcher(condition, at_end=at_end)
        self._watchers.setdefault(run, {})[watcher] = None
        try:
            yield watcher
        finally:
            watchers = self._watchers[run]
            del watchers[watcher]
            if not watchers:
                del self._watchers[run]
            mailbox = self._mailboxes.get(run)
            if mailbox is not None:
                mailbox.rest()

    def notify(self, seqs: Mapping[RunId, int] | None = None) -> None:
        """Note that another process may have committed: have the watchers look or, given where the runs are now, those of them
        whose run has gone on."""
        for run in self._watchers if seqs is None else seqs:
            for watcher in self._watchers.get(run, ()):
                if seqs is None or seqs[run] > watcher.seq:
                    watcher.elsewhere = True
                    watcher.set()

    # --- What is in memory --------------------------------------------------------------------------------------------

    def watched(self, *, at_end: bool) -> list[RunId]:
        """Return the runs whose end, and nothing before it, is waited for here; or the others that are waited for."""
        return [run for run, watchers in self._watchers.items() if all(each.at_end for each in watchers) == at_end]

    @property
    def resident(self) -> list[tuple[RunId, int]]:
        """The runs in memory, and where each is."""
        return [(run, box.state.seq) for run, box in self._mailboxes.items() if box.state is not None]

    @property
    def busy(self) -> bool:
        """True if something is being decided, or is on its way to the store."""
        return any(box.busy for box in self._mailboxes.values())

    def state_in_memory(self, run: RunId) -> State | None:
        """The run as far as it is in memory; with what is still on its way to the store."""
        box = self._mailboxes.get(run)
        return box.state if box is not None else None

    def has_any_of(self, graph_hash: str) -> bool:
        """True if a run of that workflow is in memory."""
        return any(box.graph is not None and box.graph.hash == graph_hash for box in self._mailboxes.values())

    def take_unknown_commits(self) -> list[RunId]:
        """Return the runs whose last append has an unknown outcome here; the caller sends them a tick."""
        runs, self._unknown_commits = list(self._unknown_commits), {}
        return runs

    # --- What mailboxes tell ------------------------------------------------------------------------------------------

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Asked for once: Python finds the running loop by a look at the process's id, each time."""
        return asyncio.get_running_loop()

    def soon(self, mailbox: Mailbox) -> None:
        """All mailboxes that have a turn get it in one callback, which knows nothing of what the one who posted has in its
        context: a step's own variables are no other's."""
        self._turns.append(mailbox)
        if len(self._turns) == 1:
            self.loop.call_soon(self._take_turns, context=self._context)

    def _take_turns(self) -> None:
        turns, self._turns = self._turns, []
        for mailbox in turns:
            mailbox.turn()

    def append_id(self) -> AppendId:
        return self._ids.append()

    def unknown_commit(self, run: RunId) -> None:
        self._unknown_commits[run] = None

    def committed(self, mailbox: Mailbox, events: Sequence[Event], state: State, *, own: bool) -> None:
        for watcher in self._watchers.get(mailbox.run, ()):
            watcher.check(state)
        if events and self._observers is not None:
            self._observers.committed(events, state, own=own)
        for subscriber in self.subscribers:
            subscriber.committed(mailbox, events, state)

    def evict(self, mailbox: Mailbox) -> None:
        """Let go of a run whose mailbox is idle, if no step here works on it: waiting costs no memory."""
        run = mailbox.run
        if self._closing:
            return
        for subscriber in self.subscribers:
            if subscriber.needs(mailbox):
                return
        if any(watcher.is_set() for watcher in self._watchers.get(run, ())):
            return  # a caller is about to ask
        if self._mailboxes.get(run) is mailbox:
            del self._mailboxes[run]

    # --- The end ------------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Let go of none any more: this process leaves, and what they have yet to say is waited for."""
        self._closing = True

    async def aclose(self) -> None:
        """Close, after a while for what was just handed over, or became doubtful, and is still on its way to the store."""
        self.keep()
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                while busy := [box for box in self._mailboxes.values() if box.busy]:
                    await busy[0].idle()
        except TimeoutError:
            left = sum(box.busy for box in self._mailboxes.values())
            log.warning("holdfast leaves %d runs without a word: its store does not answer.", left)
