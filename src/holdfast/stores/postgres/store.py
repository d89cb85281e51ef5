"""The store: opened, and held against what it must promise.

Never here: a statement. Each port is kept in the room of its name.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.errors import StoreUnreadable
from holdfast.ports import BlobPlace, Store
from holdfast.stores.canary import Canary, lacking, tell
from holdfast.stores.nouns import nouns, of_tenant
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.clock import StoreClock
from holdfast.stores.postgres.connection import MAX_CONNECTIONS, Connections
from holdfast.stores.postgres.context import StoreContext, sql
from holdfast.stores.postgres.guard import expect_kept
from holdfast.stores.postgres.lending import Lending
from holdfast.stores.postgres.log import Log
from holdfast.stores.postgres.schema import expect_ready
from holdfast.stores.postgres.scope import Scopes
from holdfast.stores.postgres.session import LEASE_S, Leadership, Sessions
from holdfast.stores.postgres.shared_value import SharedValues
from holdfast.stores.postgres.stream import Streams
from holdfast.stores.postgres.tail import Tail, Watch
from holdfast.stores.postgres.upkeep import Upkeep
from holdfast.stores.postgres.view import Views

log = logging.getLogger("holdfast")

OLDEST: Final = 15
_UNSAFE: Final = "off"
_ALONE: Final = "local"
_MAX_TENANTS: Final = 1000
_ISOLATION: Final = "read committed"


class PostgresStore(Store, frozen=True, kw_only=True, eq=False):
    """The ports onto a schema of a PostgreSQL database, for all processes of a fleet."""

    context: StoreContext
    of_tenants: dict[str | None, Store] = msgspec.field(default_factory=dict)
    """What the tenants see who have asked lately."""

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        lease_s: float = LEASE_S,
        connections: int = MAX_CONNECTIONS,
        elsewhere: BlobPlace | None = None,
        audit_keys: tuple[bytes, ...] = (),
        sealing: Sealing = PLAIN,
        own_ms: Callable[[], int] | None = None,
    ) -> Self:
        """Open the store at `url`, its tables made where there are none. See docs/howto/deploy.md for what may be in it.

        `lease_s` is how long this process's sessions live without renewal; `own_ms` takes the place of the database's
        time in histories, where a test owns time; `elsewhere` is a place of archives beside the table; `audit_keys` sign
        the audit log (core.values.audit); `sealing` is how payloads are kept. Raises UsageError, StoreUnreadable,
        StoreTooNew, StoreBusy; KeyMissing, StoreUnreadable where `sealing` is not the store's.
        """
        address = Address.of(url)
        async with contextlib.AsyncExitStack() as undo:
            opened = await Connections.open(address, connections)
            undo.push_async_callback(opened.close)
            (greeting,) = await opened.fetch(sql(address)["greet"])
            _expect_durable(address, greeting)
            _warn(address, greeting)
            await expect_ready(opened)
            await expect_kept(opened)
            await expect_keys(opened, sealing)
            newest_ms = await opened.value(sql(address)["newest_at_ms"])
            clock = StoreClock(greeting["now_ms"], newest_ms or 0, own_ms)
            context = StoreContext(
                opened, clock, greeting["process"], greeting["snapshot"], lease_s, elsewhere, audit_keys, sealing
            )
            undo.pop_all()
        return cls.on(context)

    @classmethod
    def on(cls, context: StoreContext) -> Self:
        """The ports of what was opened."""
        log, sessions = Log(context), Sessions(context)
        return cls(
            **nouns(context.ground),
            context=context,
            sealing=context.sealing,
            clock=context.clock,
            log=log,
            scopes=Scopes(context),
            lending=Lending(context),
            shared_values=SharedValues(context),
            streams=Streams(context),
            sessions=sessions,
            views=Views(context),
            watch=Watch(context),
            tail=Tail(context, log),
            upkeep=Upkeep(context, sessions),
            leadership=Leadership(context),
        )

    def of_tenant(self, tenant: str | None) -> Store:
        if (known := self.of_tenants.get(tenant)) is not None:
            return known
        if len(self.of_tenants) == _MAX_TENANTS:
            self.of_tenants.clear()
        context = self.context._replace(connections=self.context.connections.of_tenant(tenant))
        # What is not named here is shared. The tail has all commits, and its readers look for the runs' rows.
        found = self.of_tenants[tenant] = msgspec.structs.replace(
            self,
            context=context,
            of_tenants={},
            **of_tenant(context.ground),
            log=Log(context),
            scopes=Scopes(context),
            shared_values=SharedValues(context),
            streams=Streams(context),
            views=Views(context),
        )
        return found


async def expect_keys(connections: Connections, sealing: Sealing) -> None:
    """See that keys and settings are those of the store; be the first who says them. Raises KeyMissing, StoreUnreadable."""
    statements, where = sql(connections.address), connections.address.shown
    if lacking(sealing, [Canary(*each) for each in await connections.fetch(statements["canaries"])], where) is None:
        return
    async with connections.writing() as db:
        await db.execute(statements["lock_canaries"])
        before = [Canary(*each) for each in await db.fetch(statements["canaries"])]
        if (added := lacking(sealing, before, where)) is not None:
            await db.execute(statements["add_canary"], *added)
            tell(before, added, where, has_runs=await db.fetchval(statements["has_runs"]))


def _expect_durable(address: Address, greeting: Any) -> None:
    """Raises StoreUnreadable for a server on which an acknowledged commit could be lost, or that takes none."""
    major = greeting["version"] // 10_000
    if major < OLDEST:
        raise StoreUnreadable(f"{address.shown} is PostgreSQL {major}; Holdfast needs {OLDEST} or newer.")
    if greeting["is_standby"]:
        raise StoreUnreadable(
            f"{address.shown} is a standby, which takes no writes. Name the primary, or all servers in one URL with"
            " target_session_attrs=read-write."
        )
    if greeting["synchronous_commit"] == _UNSAFE:
        raise StoreUnreadable(
            f"{address.shown} has synchronous_commit=off: it would acknowledge what a crash can lose. Set it to on (or"
            " remote_apply) for this database or user."
        )
    if greeting["isolation"] != _ISOLATION:
        raise StoreUnreadable(
            f"{address.shown} has default_transaction_isolation={greeting['isolation']}, where a transaction that waited"
            f" for a row may not see its new version. Set it to '{_ISOLATION}' for this database or user."
        )


def _warn(address: Address, greeting: Any) -> None:
    """Say what is weaker than it looks, and may be meant so."""
    if greeting["fsync"] == _UNSAFE:
        log.warning("%s runs with fsync=off: a crash of its machine may lose what was acknowledged.", address.shown)
    if greeting["standbys"] and greeting["synchronous_commit"] == _ALONE:
        log.warning(
            "%s has synchronous standbys, and synchronous_commit=local does not wait for them: a failover may lose what"
            " was acknowledged.",
            address.shown,
        )
