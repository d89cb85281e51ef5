"""Months that go: into archives when every run of them has ended, and for good when a person says so.

A run is archived in an order that may be cut short anywhere: its archive is written, read back and compared; then a row
says where it is; and only where every run of the month is found so, as it is now, do the tables let it go. A process that reads
finds the events in the tables until then, and in the archive from then on.

Never here: SQL, how tables let go (that is each store's), whether a month should go (a person's, or a setting's).
"""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import Payload
from holdfast.errors import CorruptHistory, MonthHeld, StoreBusy, UsageError
from holdfast.ports import Holder, RemovedData
from holdfast.stores.archive import NO_RESPONSE, Archive, EffectLine, EventLine
from holdfast.stores.archive_store import ArchiveStore
from holdfast.stores.month import Month
from holdfast.stores.nouns.tables import Steps, StoreParts, do, lock, many
from holdfast.stores.row import CONVERSATION, Row, decode_exchange

T = TypeVar("T")

_decode_payload = msgspec.json.Decoder(Payload).decode

MAX_RUNS: Final = 200
"""Or other rows, of one statement."""
_MAX_EVENTS: Final = 500
"""Of one batch, which is in memory: so many events, or one run."""
_MAX_MESSAGES: Final = 20
"""Of one statement: a message has up to a megabyte."""
_MAX_BLOBS: Final = 50
"""That go in one transaction."""
_SHOWN: Final = 20
_MAX_TRIES: Final = 20
_PAUSE_S: Final = 0.5
_NIL: Final = "00000000-0000-0000-0000-000000000000"

_WHY: Final = {
    "unended": "it has not ended",
    "money": "money is held or in doubt",
    "call": "a call of it is still in flight",
    "effect": "the outcome of an effect is unknown",
    "told": "it ended less than three days ago, and a tail may not have returned it yet",
}


class Retention(ABC):
    """Archives and removes months. Each kind of store says the statements, and how its tables let a month go."""

    def __init__(self, ground: StoreParts) -> None:
        self._tables = ground.tables
        self._clock = ground.clock
        self._sealing = ground.sealing
        self._elsewhere = ground.elsewhere
        self._shelf = ArchiveStore(ground)

    # --- What a store does in its own way -----------------------------------------------------------------------------

    @abstractmethod
    async def _holders(self, month: Month, most: int) -> Sequence[Row]:
        """The first runs that hold `month` back as those of a Holder, each with how many there are."""

    @abstractmethod
    async def _let_go(self, month: Month) -> bool:
        """Have the month out of the tables, if by now everything of it there is archived and nothing holds it back; False if
        not, or if another process is in the way."""

    # --- Archiving ----------------------------------------------------------------------------------------------------

    async def archive(self, month: Month) -> RemovedData:
        """See ports.Administration."""
        if month >= self._shelf.this_month():
            raise UsageError(f"The month {month} is not over yet: only months that are over are archived. Nothing was done.")
        for _ in range(_MAX_TRIES):
            await self._expect_free(month)
            await self._archive_runs(month)
            # Before it goes, for no process comes back to a month that has gone.
            await self._forget_what_was_shown(month.first, month.next.first)
            if await self._let_go(month):
                ((runs, events, stored_bytes),) = await self._tables.ask("archived_of", month.first, month.next.first)
                return RemovedData(int(runs), int(events), int(stored_bytes))
            await asyncio.sleep(_PAUSE_S)
        raise StoreBusy(
            f"The tables of {month} could not be let go: other transactions read or write them all the time (a backup? a"
            " long query?). Its archives are written and nothing is lost; try again later."
        )

    async def _expect_free(self, month: Month) -> None:
        rows = await self._holders(month, _SHOWN)
        if rows:
            holders, count = [Holder(*row[:-1]) for row in rows], rows[0][-1]
            names = ", ".join(f"{each.run} ({each.status}; {_WHY[each.why]})" for each in holders)
            more = f" and {count - len(holders)} more" if count > len(holders) else ""
            raise MonthHeld(
                f"{month} cannot be archived: {count} of its runs hold it back: {names}{more}. Nothing was changed. End or"
                " settle them, or wait, and try again.",
                runs=tuple(holders),
                count=count,
            )

    async def _archive_runs(self, month: Month) -> None:
        async for batch in self._batches(month):
            runs = [RunId(run) for run, *_ in batch]
            events = await self._tables.ask("events_to_archive", runs)
            effects = await self._tables.ask("effects_to_archive", runs)
            # Off the event loop: a history may be long.
            lines = await asyncio.to_thread(_by_run, events, _event_line)
            ledger = await asyncio.to_thread(_by_run, effects, _effect_line)
            writing = [self._write(row, lines.get(row[0], []), ledger.get(row[0], [])) for row in batch]
            written = [row for row in await asyncio.gather(*writing) if row is not None]
            if written:
                await self._remember(written)

    async def _batches(self, month: Month) -> AsyncIterator[Sequence[Row]]:
        """Runs that are still to be archived, as many at a time as fit into memory."""
        # Before the first id of the month: ids of runs have bits set that this one has not.
        after: str = month.first
        while rows := await self._tables.ask("unarchived", after, month.next.first, MAX_RUNS):
            totals = itertools.accumulate(seq for _, _, seq, _ in rows)
            fitting = sum(1 for total in totals if total <= _MAX_EVENTS)
            batch = rows[: max(fitting, 1)]
            yield batch
            after = batch[-1][0]

    async def _remember(self, archives: Sequence[Row]) -> None:
        """Write down archives: (run, tenant, seq, sha256, stored_bytes). An older one takes no newer one's place."""
        now_ms = self._clock.now_ms()

        def steps() -> Steps[None]:
            yield many("put_archives", [(*each, now_ms) for each in archives])

        await self._tables.transact(steps)

    async def _write(self, row: Row, lines: Sequence[EventLine], ledger: Sequence[EffectLine]) -> Row | None:
        """Archive one run, and return the row of its place; None if another process has archived it meanwhile. Raises
        CorruptHistory if it did not come back whole."""
        run, tenant, seq, earlier = row
        lines = [line for line in lines if line.seq <= seq]  # the rest came meanwhile
        if earlier is not None:  # something was recorded of the run after it had been archived
            before = await self._shelf.read(run, tenant, earlier)
            lines = [*before.events, *(line for line in lines if line.seq > len(before.events))]
            ledger = ledger or list(before.effects)
        if [line.seq for line in lines] != list(range(1, seq + 1)):
            there = await self._shelf.archive(run)
            if there is not None and len(there.events) >= seq:
                return None
            raise CorruptHistory(
                f"Run {run} is at event {seq}, and its history has {len(lines)} events: {Month.of(run)} cannot be archived."
                " Nothing of it was removed.",
                run=run,
            )
        sha256, stored_bytes = await self._shelf.put(Archive(run, tenant, tuple(lines), tuple(ledger)))
        return run, tenant, seq, sha256, stored_bytes

    # --- Removing for good --------------------------------------------------------------------------------------------

    async def prune(self, before: Month) -> RemovedData:
        """See ports.Administration. A blob is kept for the month in which it was written, and a run refers to none that was
        written before it began: when all runs of a time are gone, so is everybody who referred to the blobs of that time, but
        for the outcomes of tenant-wide effects and for messages, whose conversations go on."""
        if before > self._shelf.this_month():
            raise UsageError(f"{before} is in the future: only months that are over can be removed. Nothing was done.")
        held = await self._tables.ask("first_unarchived", before.first) or await self._tables.ask(
            "first_in_tables", before.first
        )
        if held:
            run, status = held[0]
            raise MonthHeld(
                f"Nothing before {before} can be removed: {Month.of(run)} is not archived yet (its run {run}, {status}, is"
                f" still in the tables). Run `holdfast store archive --before {before}` first. Nothing was removed.",
                runs=(run,),
                count=1,
            )
        runs = events = freed_bytes = 0
        await self._forget_what_was_shown(_NIL, before.first)
        for statement in ("drop_scores", "drop_labels"):
            async for _ in self._turns(statement, _NIL, before.first):
                await asyncio.sleep(0)
        async for seqs in self._turns("prune_archives", before.first, self._shelf.now_ms()):
            runs, events = runs + len(seqs), events + sum(seqs)
        kept = await self._outcomes_kept() | await self._parts_kept()
        while (sizes := await self._forget_some_blobs(before, kept)) is not None:
            freed_bytes += sum(sizes)
        if self._elsewhere is not None:
            freed_bytes += await self._elsewhere.prune(str(before), kept)
        return RemovedData(runs, events, freed_bytes)

    async def _forget_what_was_shown(self, first: str, end: str) -> None:
        """Jobs' outputs keep the end of what they printed, and histories what models answered; the whole goes."""
        for statement in ("drop_job_logs", "drop_chunks", "drop_streams"):
            async for _ in self._turns(statement, first, end):
                await asyncio.sleep(0)

    async def _turns(self, statement: str, *bound: Any) -> AsyncIterator[list[Any]]:
        """The first column of what a statement answers that does so many at a time, until nothing is left."""
        while rows := await self._tables.change(statement, *bound, MAX_RUNS):
            yield [row[0] for row in rows]

    async def _forget_some_blobs(self, before: Month, referenced: Collection[str]) -> Sequence[int] | None:
        """Forget some of what was kept for months before one, but for the hashes `referenced`. Return the sizes of unused ones,
        None if nothing was left to forget."""

        def steps() -> Steps[Sequence[int] | None]:
            yield lock("lock_blobs")
            homes = yield do("delete_homes", str(before), _MAX_BLOBS, [*referenced])
            if not homes:
                return None
            return [size for (size,) in (yield do("delete_homeless", [sha256 for (sha256,) in homes]))]

        return await self._tables.transact(steps)

    async def _outcomes_kept(self) -> set[str]:
        """The blobs that tenant-wide effects are remembered by: a run of any time may mean such an effect again, and gets
        the outcome that was recorded then."""
        kept: set[str] = set()
        after = ""
        while rows := await self._tables.ask("large_responses", after, MAX_RUNS):
            payloads = (_decode_payload(response) for _, response in rows)  # the names of blobs stand as they are
            kept |= {payload.blob for payload in payloads if payload.blob is not None}
            after = rows[-1][0]
        return kept

    async def _parts_kept(self) -> set[str]:
        """The blobs of what is attached to messages: each run that a conversation starts is given all that was said."""
        kept: set[str] = set()
        after: tuple[Any, ...] = ("", "", "")
        while rows := await self._tables.ask("messages_with_parts", CONVERSATION, *after, _MAX_MESSAGES):
            kept |= {part.sha256 for *_, body in rows for part in decode_exchange(self._sealing.open(body)).parts}
            after = tuple(rows[-1][:3])
        return kept


def _by_run(rows: Sequence[Row], line: Callable[[Row], T]) -> dict[str, list[T]]:
    return {run: [line(row) for row in group] for run, group in itertools.groupby(rows, key=lambda row: row[0])}


def _event_line(row: Row) -> EventLine:
    _, seq, at_ms, append_id, type_, payload, trace_id = row
    return EventLine(seq, at_ms, append_id, type_, msgspec.Raw(payload), trace_id)


def _effect_line(row: Row) -> EffectLine:
    _, call, step, tool, policy, key, request, intended_at_ms, state, updated_at_ms, response, error, by = row
    answer = NO_RESPONSE if response is None else msgspec.Raw(response)
    return EffectLine(
        call, step, tool, policy, key, msgspec.Raw(request), intended_at_ms, state, updated_at_ms, answer, error, by
    )
