"""Kept beside the histories of runs: links to their children, their dead letters, what jobs print, how long streams are.

Links and letters are written with the appends of their runs. Never here: what is to be done about one; how much is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

import msgspec

from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import DeadLetter
from holdfast.core.views.sealing import size_of
from holdfast.ports import MAX_LISTED, ChildLink, Letter, LetterCount, LetterFilter, LogPiece, LogPlace, StreamName
from holdfast.stores.nouns.lists import listed
from holdfast.stores.nouns.tables import Noun, Steps, Tables, many
from holdfast.stores.row import is_run


class Children(Noun):
    """Keeps ports.Children."""

    async def pending(self, before_ms: int, limit: int) -> Sequence[ChildLink]:
        return [ChildLink(*row) for row in await self._tables.ask("pending_children", before_ms, limit)]

    async def link(self, child: RunId) -> ChildLink | None:
        found = await self._tables.ask("child", child) if is_run(child) else ()
        return ChildLink(*found[0]) if found else None

    async def settle(self, link: ChildLink) -> bool:
        return bool(await self._tables.change("settle_child", link.child, link.state, link.ordered))

    async def family(self, root: RunId, after: RunId | None, limit: int) -> Sequence[ChildLink]:
        found = await self._tables.ask("family", root, after, limit) if is_run(root) else ()
        return [ChildLink(*row) for row in found]


class DeadLetters(Noun):
    """Keeps ports.DeadLetters."""

    async def letters(self, **filters: Unpack[LetterFilter]) -> Sequence[Letter]:
        limit, state = filters.pop("limit", MAX_LISTED), filters.pop("state", None)
        run, after = filters.get("run"), filters.get("after")
        if (run is not None and not is_run(run)) or (after is not None and not is_run(after[0])):
            return []
        found = await listed(self._tables, "letters", {**filters, **({state: ()} if state else {})}, limit)
        return [self._letter(*row) for row in found]

    def _letter(self, *row: Any) -> Letter:
        *columns, asked, edited, resolved_at_ms = row
        said: list[Any] = [*columns, bool(asked), bool(edited)]
        kept = DeadLetter(*said)
        return Letter(msgspec.structs.replace(kept, message=self._sealing.open_text(kept.message)), resolved_at_ms)

    async def counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        return [LetterCount(*row) for row in await self._tables.ask("letter_counts", tenant)]

    async def forget(self, before_ms: int) -> int:
        # A process frozen while it writes keeps others from writing: nothing is written for nothing.
        if not await self._tables.ask("any_old_letter", before_ms):
            return 0
        return len(await self._tables.change("forget_letters", before_ms))


class JobLogs(Noun):
    """Keeps ports.JobLogs."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes, str]], cut: Sequence[LogPlace]) -> None:
        now_ms = self._clock.now_ms()
        kept = [(*place, now_ms, self._sealing.seal(tenant, content)) for place, content, tenant in pieces]

        def steps() -> Steps[None]:
            yield many("put_job_log", kept)
            yield many("cut_job_log", cut)

        await self._tables.transact(steps)

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        found = await self._tables.ask("job_logs", run)
        return [
            LogPiece(LogPlace(run, job, attempt, first), size_of(head, kept_bytes), written_at_ms)
            for job, attempt, first, head, kept_bytes, written_at_ms in found
        ]

    async def read(self, place: LogPlace) -> bytes:
        for (content,) in await self._tables.ask("job_log", *place):
            return self._sealing.open(content)
        return b""


class StreamSizes:
    """Keeps that part of ports.Streams, for a store's own port."""

    _tables: Tables

    async def sizes(self, runs: Collection[RunId]) -> Mapping[StreamName, int]:
        found = await self._tables.ask("stream_sizes", [run for run in runs if is_run(run)])
        return {StreamName(run, stream): size for run, stream, size in found}

    async def forget(self, names: Collection[StreamName]) -> None:
        def steps() -> Steps[None]:
            yield many("forget_streams", sorted(names))  # first: a writer that adds to one waits for its row
            yield many("forget_chunks", sorted(names))

        await self._tables.transact(steps)
