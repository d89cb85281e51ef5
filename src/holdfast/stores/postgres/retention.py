"""Months that go: into archives when every run of them has ended, and for good when a person says so.

A run is archived in an order that may be cut short anywhere: its archive is written, read back and compared; then a row
says where it is; and only in a transaction that finds every run of the month so, as it is now, do the tables let it go.
Whoever reads finds the events in the table until then, and in the archive from then on.

Never here: whether a month should go (that is a person's, or a setting's).
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from asyncpg import exceptions as pg

from holdfast.core.ids import RunId
from holdfast.core.payload import Payload
from holdfast.errors import CorruptHistory, MonthHeld, StoreBusy, UsageError
from holdfast.ports import Freed, Holder
from holdfast.stores.archive import NO_RESPONSE, Archive, EffectLine, EventLine, pack
from holdfast.stores.postgres.archive import Archives, read
from holdfast.stores.postgres.connection import AGAIN, LOST, Connection, explain, transaction
from holdfast.stores.postgres.partition import LOCK, PARTITIONED, Month, tables

_decode_payload = msgspec.json.Decoder(Payload).decode

_MOST_RUNS: Final = 200
_MOST_EVENTS: Final = 10_000
"""Of one batch, which is in memory: so many events, or one run."""
_SHOWN: Final = 20
_MOST_TRIES: Final = 20
_PART_LOCK_MS: Final = 5_000
"""How long to wait for the month's own tables, which holds up nobody else; long enough for an autovacuum to give way."""
_LOCK_MS: Final = 300
"""How long everybody may have to wait behind this waiting for a lock; then it steps back and tries again."""
_PAUSE_S: Final = 0.5


class Retention(Archives):
    """Archives and removes months."""

    async def archive(self, month: Month) -> Freed:
        """See ports.Administration."""
        if month >= Month.at(self._clock.now_ms()):
            raise UsageError(
                f"The month {month} is not over yet: only months that are over are archived. Nothing was done."
            )
        for _ in range(_MOST_TRIES):
            await self._expect_free(month)
            await self._archive_runs(month)
            if await self._let_go(month):
                await self._forget_job_logs(month.first, month.next.first)
                rows = await self._db.fetch(self._sql["archived_of"], month.first, month.next.first)
                return Freed(*map(int, rows[0]))
            await asyncio.sleep(_PAUSE_S)
        raise StoreBusy(
            f"The tables of {month} could not be let go: somebody reads or writes them all the time (a backup? a long"
            " query?). Its archives are written and nothing is lost; try again later."
        )

    async def holders(self, month: Month, most: int = _SHOWN) -> tuple[Sequence[Holder], int]:
        """The first runs that hold `month` back, and how many there are."""
        rows = await self._db.fetch(self._sql["holders"], month.first, month.next.first, most)
        return [Holder(*row[:-1]) for row in rows], rows[0]["holders"] if rows else 0

    async def _expect_free(self, month: Month) -> None:
        holders, count = await self.holders(month)
        if holders:
            names = ", ".join(f"{each.run} ({each.status}; {_WHY[each.why]})" for each in holders)
            more = f" and {count - len(holders)} more" if count > len(holders) else ""
            raise MonthHeld(
                f"{month} cannot be archived: {count} of its runs hold it back: {names}{more}. Nothing was changed. End or"
                " settle them, or wait, and try again.",
                runs=tuple(holders),
                count=count,
            )

    # --- Writing archives ---------------------------------------------------------------------------------------------

    async def _archive_runs(self, month: Month) -> None:
        async for batch in self._batches(month):
            runs = [RunId(row["run"]) for row in batch]
            events = _by_run(await self._db.fetch(self._sql["events_to_archive"], runs))
            effects = _by_run(await self._db.fetch(self._sql["effects_to_archive"], runs))
            writing = [
                self._write(month, row, events.get(row["run"], []), effects.get(row["run"], [])) for row in batch
            ]
            written = await asyncio.gather(*writing)
            await self._db.execute(self._sql["put_archives"], *zip(*written, strict=True))

    async def _batches(self, month: Month) -> AsyncIterator[Sequence[Any]]:
        """Runs that are still to be archived, as many at a time as fit into memory."""
        # Before the first id of the month: ids of runs have bits set that this one has not.
        after: Any = month.first
        while rows := await self._db.fetch(self._sql["unarchived"], after, month.next.first, _MOST_RUNS):
            totals = itertools.accumulate(row["seq"] for row in rows)
            fitting = sum(1 for total in totals if total <= _MOST_EVENTS)
            batch = rows[: max(fitting, 1)]
            yield batch
            after = batch[-1]["run"]

    async def _write(self, month: Month, row: Any, events: Sequence[Any], effects: Sequence[Any]) -> tuple[Any, ...]:
        """Archive one run; the row that says where it is. Raises CorruptHistory where it did not come back whole."""
        run, tenant = RunId(row["run"]), row["tenant"]
        lines = [_event_line(each) for each in events if each["seq"] <= row["seq"]]  # the rest came meanwhile
        ledger = [_effect_line(each) for each in effects]
        if row["sha256"] is not None:  # something was said of the run after it had been archived
            before = await read(self._places, run, tenant, row["sha256"])
            lines = [*before.events, *(line for line in lines if line.seq > len(before.events))]
            ledger = ledger or list(before.effects)
        if [line.seq for line in lines] != list(range(1, row["seq"] + 1)):
            raise CorruptHistory(
                f"Run {run} is at event {row['seq']}, and its history has {len(lines)} events: {month} cannot be archived."
                " Nothing of it was removed.",
                run=run,
            )
        packed = await asyncio.to_thread(pack, run, tenant, lines, ledger)  # whoever leads goes on meanwhile
        place = self._places[0]
        sha256 = await place.put(tenant, str(month), packed)
        if await read([place], run, tenant, sha256) != Archive(run, tenant, tuple(lines), tuple(ledger)):
            raise CorruptHistory(f"The archive of run {run} is not what was written. Nothing was removed.", run=run)
        return run, tenant, row["seq"], sha256, len(packed)

    # --- Letting go ---------------------------------------------------------------------------------------------------

    async def _let_go(self, month: Month) -> bool:
        """Drop the month's tables, if by now everything in them is archived; False if not, or somebody is in the way."""
        try:
            async with self._db.taken() as db, transaction(db):
                await _wait_at_most(db, _PART_LOCK_MS)
                await db.execute("select pg_advisory_xact_lock($1)", LOCK)
                return await self._drop(db, month)
        except AGAIN:
            return False
        except (*LOST, pg.PostgresError) as problem:
            raise explain(problem, self._db.address) from problem

    async def _drop(self, db: Connection, month: Month) -> bool:
        address = self._db.address
        parts = [month.partition(table) for table in PARTITIONED]
        if not await tables(db, address, parts):
            return True
        history, *others = places = [f"{address.schema}.{part}" for part in parts]
        # Whoever appends to a run writes an event of it: from here on nobody does in this month, and everybody reads.
        await db.execute(f"lock table {history} in share mode")
        await db.execute(f"lock table {', '.join(others)} in share update exclusive mode")
        if await db.fetch(self._sql["unarchived"], month.first, month.next.first, 1):
            return False
        if await db.fetch(self._sql["holders"], month.first, month.next.first, 1):
            return False
        # For the moment that it takes to drop them, nobody reads either: a partition cannot leave its table otherwise,
        # but in two transactions, between which a crash would leave it half gone.
        await _wait_at_most(db, _LOCK_MS)
        await db.execute(f"lock table {', '.join(f'{address.schema}.{table}' for table in PARTITIONED)}")
        await db.execute(f"drop table {', '.join(places)}")
        return True

    # --- Removing for good --------------------------------------------------------------------------------------------

    async def prune(self, before: Month) -> Freed:
        """See ports.Administration. A blob is kept for the month in which it was written, and a run refers to none that was
        written before it began: when all runs of a time are gone, so is everybody who referred to the blobs of that time, but
        for the outcomes of tenant-wide effects."""
        if before > Month.at(self._clock.now_ms()):
            raise UsageError(f"{before} is in the future: only months that are over can be removed. Nothing was done.")
        held = await self._db.fetch(self._sql["first_unarchived"], before.first)
        if held:
            run, status = held[0]
            raise MonthHeld(
                f"Nothing before {before} can be removed: {Month.of(run)} is not archived yet (its run {run}, {status}, is"
                f" still in the tables). Run `holdfast store archive --before {before}` first. Nothing was removed.",
                runs=(run,),
                count=1,
            )
        runs = events = freed_bytes = 0
        await self._forget_job_logs(uuid.UUID(int=0), before.first)
        async for seqs in self._turns("prune_archives", before.first):
            runs, events = runs + len(seqs), events + sum(seqs)
        kept = await self._outcomes_kept()
        async for sizes in self._forget_blobs(before, kept):
            freed_bytes += sum(sizes)
        if self._elsewhere is not None:
            freed_bytes += await self._elsewhere.prune(str(before), kept)
        return Freed(runs, events, freed_bytes)

    async def _forget_job_logs(self, first: uuid.UUID, end: uuid.UUID) -> None:
        """Jobs' outputs keep the end of what they printed; the whole goes."""
        async for _ in self._turns("drop_job_logs", first, end):
            await asyncio.sleep(0)

    async def _turns(self, statement: str, *bound: Any) -> AsyncIterator[list[Any]]:
        """The first column of what a statement answers that does so many at a time, until nothing is left."""
        while True:
            async with self._db.writing() as db:
                rows = await db.fetch(self._sql[statement], *bound, _MOST_RUNS)
            if not rows:
                return
            yield [row[0] for row in rows]

    async def _outcomes_kept(self) -> set[str]:
        """The blobs that tenant-wide effects are remembered by: a run of any time may mean such an effect again, and gets
        the outcome that was recorded then."""
        kept: set[str] = set()
        after = ""
        while rows := await self._db.fetch(self._sql["large_responses"], after, _MOST_RUNS):
            payloads = (_decode_payload(row["response"]) for row in rows)
            kept |= {payload.blob for payload in payloads if payload.blob is not None}
            after = rows[-1]["effect_key"]
        return kept

    async def _forget_blobs(self, before: Month, kept: set[str]) -> AsyncIterator[list[int]]:
        """Forget what was kept for months before one; the sizes of what nobody keeps any more."""
        while True:
            async with self._db.writing() as db:
                await db.execute(self._sql["lock_blobs"])
                homes = await db.fetch(self._sql["delete_homes"], str(before), _MOST_RUNS, [*kept])
                rows = await db.fetch(self._sql["delete_homeless"], [row["sha256"] for row in homes])
            if not homes:
                return
            yield [row["stored_bytes"] for row in rows]


async def _wait_at_most(db: Connection, lock_ms: int) -> None:
    """For each lock, until the end of the transaction."""
    await db.execute("select set_config('lock_timeout', $1, true)", str(lock_ms))


_WHY: Final = {
    "unended": "it has not ended",
    "money": "money is held or in doubt",
    "call": "a call of it is still in flight",
    "effect": "the outcome of an effect is unknown",
}


def _by_run(rows: Sequence[Any]) -> dict[str, list[Any]]:
    return {run: list(group) for run, group in itertools.groupby(rows, key=lambda row: row["run"])}


def _event_line(row: Any) -> EventLine:
    _, seq, at_ms, append_id, type_, payload = row
    return EventLine(seq, at_ms, append_id, type_, msgspec.Raw(payload))


def _effect_line(row: Any) -> EffectLine:
    _, call, step, tool, policy, key, request, intended_at_ms, state, updated_at_ms, response, error, by = row
    answer = NO_RESPONSE if response is None else msgspec.Raw(response)
    return EffectLine(
        call, step, tool, policy, key, msgspec.Raw(request), intended_at_ms, state, updated_at_ms, answer, error, by
    )
