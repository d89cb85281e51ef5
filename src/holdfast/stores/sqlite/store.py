"""The store: opened, and closed.

Never here: a statement. Each port is kept in the room of its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import apsw
import msgspec

from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.ports import BlobPlace, Store
from holdfast.stores.canary import Canary, lacking, tell
from holdfast.stores.nouns import nouns, of_tenant
from holdfast.stores.sqlite.context import StoreClock, StoreContext, StorePort, rows, value
from holdfast.stores.sqlite.database import locks_of, resolve
from holdfast.stores.sqlite.lending import Lending
from holdfast.stores.sqlite.log import Log
from holdfast.stores.sqlite.scope import Scopes
from holdfast.stores.sqlite.session import LEASE_S, Sessions
from holdfast.stores.sqlite.shared_value import SharedValues
from holdfast.stores.sqlite.stream import Streams
from holdfast.stores.sqlite.tail import Tail, Watch, data_version
from holdfast.stores.sqlite.thread import CallerReads, Reader, ReaderOfTenant, Writer
from holdfast.stores.sqlite.view import Views

_MAX_TENANTS: Final = 1000
WAIT_S: Final = 30.0
"""How long to wait for another process before naming it: commits take milliseconds, a checkpoint a second at most."""


class SqliteStore(Store, frozen=True, kw_only=True, eq=False):
    """The ports onto one file of this machine, for all processes that open it."""

    context: StoreContext
    of_tenants: dict[str | None, Store] = msgspec.field(default_factory=dict)
    """What the tenants see who have asked lately."""

    @classmethod
    async def connect(
        cls,
        path: Path | str,
        *,
        lease_s: float = LEASE_S,
        wait_s: float = WAIT_S,
        elsewhere: BlobPlace | None = None,
        audit_keys: tuple[bytes, ...] = (),
        sealing: Sealing = PLAIN,
        machine_ms: Callable[[], int] | None = None,
        expects_keys: bool = True,
    ) -> Self:
        """Open the store at `path`, made if it is not there.

        `lease_s` is how long this process's sessions live without renewal, `wait_s` bounds the wait for other
        processes, `elsewhere` is a place of archives beside the table, `audit_keys` sign the audit log (audit), `sealing`
        is how payloads are kept, `machine_ms` takes the machine's clock's place where a test owns time. Without `expects_keys`
        the store is opened by who reads and writes nothing of its users.
        Raises NotAStore, StoreTooNew, StoreUnreadable, StoreFull, StoreBusy; KeyMissing and StoreUnreadable where `sealing` is
        not the store's.
        """
        file = resolve(path)
        async with contextlib.AsyncExitStack() as undo:
            writer = Writer(file, wait_s)
            undo.push_async_callback(writer.close)
            await writer.ready()
            reader = Reader(writer.place, wait_s)
            undo.push_async_callback(reader.close)
            if expects_keys:
                await expect_keys(writer, reader, sealing)
            newest_ms = await reader.ask(lambda db: value(db, "newest_at_ms"))
            context = StoreContext(
                locks=locks_of(file),
                writer=writer,
                reader=reader,
                asked=CallerReads(writer.place, wait_s),
                clock=StoreClock(newest_ms or 0, machine_ms),
                data_version=await writer.ask(data_version),
                lease_s=lease_s,
                elsewhere=elsewhere,
                audit_keys=audit_keys,
                sealing=sealing,
            )
            undo.pop_all()
        return cls.on(context)

    @classmethod
    def on(cls, context: StoreContext) -> Self:
        """The ports of what was opened."""
        sessions = Sessions(context)
        return cls(
            **nouns(context.ground),
            context=context,
            sealing=context.sealing,
            clock=context.clock,
            log=Log(context),
            scopes=Scopes(context),
            lending=Lending(context, sessions),
            shared_values=SharedValues(context),
            streams=Streams(context),
            sessions=sessions,
            views=Views(context),
            watch=Watch(context),
            tail=Tail(context),
            upkeep=Upkeep(context, sessions),
        )

    def of_tenant(self, tenant: str | None) -> Store:
        if (known := self.of_tenants.get(tenant)) is not None:
            return known
        if len(self.of_tenants) == _MAX_TENANTS:
            self.of_tenants.clear()
        context = self.context._replace(reader=ReaderOfTenant(self.context.asked, tenant or ""))
        # What is not named here is the engine's own: it waits for no turn.
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


async def expect_keys(writer: Writer, reader: Reader, sealing: Sealing) -> None:
    """See that keys and settings are those of the store; be the first who says them. Raises KeyMissing, StoreUnreadable."""
    where = str(writer.place.path)

    def read_canaries(db: apsw.Connection) -> list[Canary]:
        return [Canary(sealed, bool(encrypts)) for sealed, encrypts in rows(db, "canaries")]

    def add(db: apsw.Connection) -> None:
        before = read_canaries(db)
        if (added := lacking(sealing, before, where)) is not None:
            rows(db, "add_canary", added)
            tell(before, added, where, has_runs=bool(value(db, "has_runs")))

    if lacking(sealing, await reader.ask(read_canaries), where) is not None:
        await writer.write(add)


class Upkeep(StorePort):
    """Keeps ports.Upkeep."""

    def __init__(self, context: StoreContext, sessions: Sessions) -> None:
        super().__init__(context)
        self._asked = context.asked
        self._sessions = sessions

    async def maintain(self) -> None:
        """One file needs none: it grows by itself, and forgets its dead sessions whenever another is opened."""

    async def aclose(self) -> None:
        """End this process's sessions, do what is queued, and let go of the file. May be called again."""
        await self._sessions.end()
        await self._asked.close()
        await self._reader.close()
        await self._writer.close()
