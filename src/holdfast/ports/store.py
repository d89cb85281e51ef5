"""A store: the narrow ports onto one place, which are opened and closed together.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports.beside_runs import Children, DeadLetters, JobLogs
from holdfast.ports.blob import Blobs
from holdfast.ports.caller import Audit, Keys, Replies, SignIns
from holdfast.ports.channel import NotificationRules, Outbox
from holdfast.ports.figures import Census, Costs, ModelEstimates, Scores
from holdfast.ports.graph import Graphs
from holdfast.ports.lending import Lending
from holdfast.ports.log import Log
from holdfast.ports.records import Conversations, Evaluations, Schedules, Supervisors
from holdfast.ports.scope import Scopes
from holdfast.ports.session import Leadership, Sessions
from holdfast.ports.shared_value import SharedValues
from holdfast.ports.stream import Streams
from holdfast.ports.tail import Followers, StoreTail, Watch
from holdfast.ports.view import Views


class StoreClock(Protocol):
    """The store's time, which those who share a store share too."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; it never runs backwards within a process."""
        ...


class Upkeep(Protocol):
    """Opened and closed, and kept in order meanwhile."""

    async def maintain(self) -> None:
        """Do what the store needs done now and then, by any process: rooms for the months to come, what is no longer
        needed. To be asked for about once an hour."""
        ...

    async def aclose(self) -> None:
        """End this process's sessions and let go of the store. May be called again."""
        ...


class Store(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All that the engine needs of a store: narrow ports onto one place, which were opened together.

    A constructor takes those that its object uses. One object may keep several of them.
    """

    clock: StoreClock
    log: Log
    graphs: Graphs
    scopes: Scopes
    children: Children
    lending: Lending
    model_estimates: ModelEstimates
    conversations: Conversations
    census: Census
    costs: Costs
    dead_letters: DeadLetters
    job_logs: JobLogs
    streams: Streams
    schedules: Schedules
    shared_values: SharedValues
    supervisors: Supervisors
    scores: Scores
    evaluations: Evaluations
    notification_rules: NotificationRules
    outbox: Outbox
    keys: Keys
    audit: Audit
    replies: Replies
    sign_ins: SignIns
    blobs: Blobs
    sessions: Sessions
    views: Views
    watch: Watch
    tail: StoreTail
    followers: Followers
    upkeep: Upkeep
    sealing: Sealing = PLAIN
    """How what users have stored is kept; large payloads and sensitive fields too, wherever they are."""
    leadership: Leadership | None = None
    """None where no fleet can share the store."""

    def of_tenant(self, tenant: str | None) -> Store:
        """Return the same store for the queries of one tenant, or of a caller for all (None): it takes no writes, and no
        tenant's reads keep those of others waiting. If the database itself keeps tenants apart, it reads only that tenant's
        rows, whatever is asked for. Otherwise it is the whole store."""
        return self

    async def aclose(self) -> None:
        """Close it, for all its ports."""
        await self.upkeep.aclose()
