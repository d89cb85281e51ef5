"""A space of shared values, as the code of a step reads and writes it: each read and each write an operation of its journal.

A write is decided here, on the version that was just read, and taken by the store only while that is the latest; else it is
read and decided again. Never here: what a strategy makes of a conflict (core.nouns.shared_values), keeping a value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.authoring.values.adapter import PLAIN, adapter_of, reader
from holdfast.authoring.values.plain import encode
from holdfast.authoring.values.view import fields
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.contribution import authors
from holdfast.core.facts.state import SHARED, SHARED_READ, SHARED_WAIT
from holdfast.core.nouns import shared_values as rule
from holdfast.core.nouns.shared_values import (
    LOCK_LEASE_S,
    LOCK_WAIT_S,
    MAX_VERSIONS,
    SharedConflict,
    SharedIndex,
    SharedValue,
    Strategy,
)
from holdfast.core.values.ids import Path, node_of
from holdfast.core.values.payload import Payload, digest, inline
from holdfast.core.values.policies import TEMPORARY
from holdfast.engine.attempts.cursor import Suspension, certain, cursor, note_calls
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.operations.shared_lock import HeldLock, SharedLock, SharedLocks
from holdfast.errors import InvalidInput, OperationFailed, SharedLockLost, SharedValueMoved
from holdfast.ports import Recall, SharedFound

_TRIES: Final = 100
"""Of a write that others have come before: with the turns below, no more than a few are ever needed."""
_FREE_TRIES: Final = 3
"""So often a write is tried before its process takes turns with others."""
_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.25
_decode: Final = msgspec.json.Decoder(SharedValue | None).decode


Evict: TypeAlias = Callable[[], Awaitable[tuple[str, ...]]]
"""Which keys of the space go with a write."""


class LatestValue(NamedTuple):
    """A value of the engine's own, of which only the latest version stays, and its index."""

    value: Any
    found_by: SharedIndex
    evict: Evict


class _Write(NamedTuple):
    """A write as the code asks for it; `decide` says what it comes to where some version is the latest."""

    key: str
    asked: dict[str, Any]
    decide: Callable[[SharedValue | None], rule.Resolution]
    expected: int | None
    strategy: Strategy
    gone: bool = False
    """It leaves no value, and no version before it."""
    keep: int = MAX_VERSIONS
    found_by: SharedIndex | None = None
    evict: Evict | None = None
    is_change: bool = False
    """What it writes is made of the version that stands there."""


_LEFT: Final = rule.Resolution(None, is_written=False, is_conflict=True)
"""A write whose lock is over."""


class SharedSpace:
    """One of a step's tenant. Keeps authoring.context.SharedSpace."""

    def __init__(self, journal: StepJournal, locks: SharedLocks, space: str, agent: str | None) -> None:
        self._journal = journal
        self._locks = locks
        self._space = space
        self.name = space
        self._by = rule.expect_name("agent", agent) if agent is not None else node_of(journal.step)
        self._values = journal.attempt.services.runtime.store.shared_values

    async def read(self, key: str, *, type: Any = None) -> SharedValue | None:  # noqa: A002
        """The latest version, as this step saw it first; its value as a `type` where one is given."""
        read = reader(type)
        name, held = self._name(key), self._locks.around(self._space, key)
        with cursor().place() as path:
            known = self._journal.find(path, SHARED_READ, name)
            if known is None:
                await self._locks.within(held)
                latest = await self.latest(key)
                body = msgspec.json.encode(latest)
                seen = cmd.Value(
                    path, SHARED_READ, None, Payload(json=msgspec.Raw(body)), name=name, authors=authors_of(latest)
                )
                self._journal.note(seen)
            else:
                assert known.outcome is not None
                body = bytes(known.outcome.json)
        version = _decode(body)
        if held is not None:
            held.seen = version.version if version is not None else 0
        return None if version is None or version.gone else _read_version(version, read)

    async def write(
        self,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        strategy: Strategy = "reject",
        type: Any = None,  # noqa: A002
    ) -> SharedValue | None:
        """Write a version; see authoring.context.SharedSpace."""
        wanted = PLAIN if type is None else adapter_of(type)
        return await self._put(key, wanted.dump(value), expected_version, strategy)

    async def _put(
        self, key: str, value: Any, expected_version: int | None, strategy: Strategy, *, gone: bool = False
    ) -> SharedValue | None:
        if strategy not in rule.STRATEGIES:
            raise InvalidInput(f"strategy={strategy!r}: a write has one of {', '.join(rule.STRATEGIES)}. Nothing was written.")
        plain = msgspec.json.decode(self._journal.attempt.services.payloads.clean(value))
        asked = {"value": plain, "expected_version": expected_version, "strategy": strategy}
        if gone:
            asked["gone"] = True
        held = self._locks.around(self._space, key)
        if expected_version is None and held is not None and held.seen is not None:
            expected_version, strategy = held.seen, "reject"  # the lock may have been another's since that was read

        def decide(current: SharedValue | None) -> rule.Resolution:
            return rule.resolve(current, plain, expected_version, strategy)

        keep = 1 if gone else MAX_VERSIONS
        return await self._write(_Write(key, asked, decide, expected_version, strategy, gone, keep), held)

    async def delete(
        self, key: str, *, expected_version: int | None = None, strategy: Strategy = "reject"
    ) -> SharedValue | None:
        """Write that there is no value; see authoring.context.SharedSpace."""
        return await self._put(key, None, expected_version, strategy, gone=True)

    async def update(self, key: str, change: Callable[[Any], Any]) -> SharedValue:
        """Write what `change` makes of the latest version; see authoring.context.SharedSpace."""

        def decide(current: SharedValue | None) -> rule.Resolution:
            made = self._journal.attempt.services.payloads.clean(change(None if current is None else current.value))
            return rule.Resolution(msgspec.json.decode(made), is_written=True, is_conflict=False)

        asked = _Write(key, {"value": None, "update": key}, decide, None, "last_write", is_change=True)
        written = await self._write(asked, self._locks.around(self._space, key))
        assert written is not None
        return written

    def lock(self, key: str, *, wait_s: float = LOCK_WAIT_S, lease_s: float = LOCK_LEASE_S) -> SharedLock:
        """The lock on a value; see authoring.context.SharedSpace."""
        self._name(key)
        return self._locks.lock(self._space, key, wait_s, lease_s)

    async def changed(self, key: str, *, after: int = 0, timeout_s: float | None = None) -> SharedValue:
        """Wait until there is a version later than `after`; see authoring.context.SharedSpace."""
        journal, name, args_hash = self._journal, self._name(key), digest(["changed", after, timeout_s])
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        with cursor().place() as path:
            known = await journal.recall(path, SHARED_WAIT, name, args_hash, {"after": after})
            if known is None:
                place = (journal.step, journal.number, path, self._space, key, args_hash)
                await journal.send(cmd.AwaitSharedValue(*place, after, timeout_ms, journal.take()))
                known = await journal.recall(path, SHARED_WAIT, name, args_hash)
            if known is None:
                raise Suspension
        return _come_to(known, path)

    async def versions(self, key: str) -> list[SharedValue]:
        """Return the versions that are kept, the latest last, as of now."""
        tenant, space = self._journal.tenant, self._space
        rule.expect_name("key", key)
        found = await self._journal.attempt.patiently(lambda: self._values.versions(tenant, space, key))
        return [_read_version(version) for version in found]

    async def keep(self, key: str, value: LatestValue) -> SharedValue:
        """Write the only version of a value that is found by its index; what it crowds out goes in the same commit."""

        def decide(current: SharedValue | None) -> rule.Resolution:
            return rule.Resolution(value.value, is_written=True, is_conflict=False)

        asked = {"value": value.value, "index": msgspec.to_builtins(value.found_by)}
        write = _Write(key, asked, decide, None, "last_write", keep=1, found_by=value.found_by, evict=value.evict)
        written = await self._write(write, None)
        assert written is not None
        return written

    async def drop(self, key: str) -> None:
        """Delete a value without a trace: no other will be written under its key."""

        def decide(current: SharedValue | None) -> rule.Resolution:
            return rule.Resolution(None, is_written=current is not None, is_conflict=False)

        await self._write(_Write(key, {"drop": key}, decide, None, "last_write", gone=True, keep=0), None)

    async def search(self, query: SharedIndex | None, limit: int) -> Sequence[SharedFound]:
        """Return what is found in the space, as of now."""
        tenant, space = self._journal.tenant, self._space
        return await self._journal.attempt.patiently(lambda: self._values.search(tenant, space, query, limit))

    async def _write(self, write: _Write, held: HeldLock | None) -> SharedValue | None:
        journal, name, args_hash = self._journal, self._name(write.key), digest(["write", write.asked])
        with cursor().place() as path:
            known = await journal.recall(path, SHARED, name, args_hash, write.asked)
            if known is None:
                await self._send(path, write, args_hash, held)
                known = await journal.recall(path, SHARED, name, args_hash)
            if known is None:
                raise Suspension
        if known.error is None and known.value is None:
            return None  # it was left out
        written = _come_to(known, path)
        if held is not None:
            held.seen = written.version
        return written

    async def _send(self, path: Path, write: _Write, args_hash: str, held: HeldLock | None) -> None:
        """Have the write committed, or its refusal, on whatever version is the latest. Raises OperationFailed where others are
        first again and again."""
        if (turn := certain()) is not None:
            await turn
        async with AsyncExitStack() as turns:
            if held is None:  # a lock has its own order
                at = self._journal.attempt.services.value_turns.at(self._journal.tenant, self._space, write.key)
                await turns.enter_async_context(at)
            await self._try(path, write, args_hash, held, turns)

    async def _try(self, path: Path, write: _Write, args_hash: str, held: HeldLock | None, turns: AsyncExitStack) -> None:
        lost: SharedLockLost | None = None
        for number in range(_TRIES):
            if number == _FREE_TRIES and held is None:
                await turns.enter_async_context(self._locks.turn(self._space, write.key))
            elif number:
                pause_s = min(_PAUSE_S * 2**number, _LONGEST_PAUSE_S)
                await self._journal.attempt.services.runtime.clock.sleep(pause_s)
            fence = None if lost is not None else await self._locks.within(held)
            current = await self.latest(write.key)
            by = authors(await self._journal.attempt.state())
            dropped = await write.evict() if write.evict is not None else ()
            try:
                command = self._command(path, write, args_hash, current, fence, lost, by)
                await self._journal.send(msgspec.structs.replace(command, dropped=dropped))
            except SharedValueMoved:
                continue
            except SharedLockLost as problem:
                lost = problem
                continue
            return
        message = (
            f"Try again later, or share less under one key: {write.key!r} of {self._space!r} was changed by others {_TRIES}"
            " times in a row. Nothing was written."
        )
        raise OperationFailed(message, error=self._journal.error(TEMPORARY, message, retryable=True), path=path)

    def _command(
        self,
        path: Path,
        write: _Write,
        args_hash: str,
        current: SharedValue | None,
        fence: int | None,
        lost: SharedLockLost | None,
        by: tuple[str, ...],
    ) -> cmd.WriteSharedValue:
        journal, base = self._journal, current.version if current is not None else 0
        made = write.decide(current) if lost is None else _LEFT
        outcome, conflict, refusal = inline(None), None, None
        if made.is_written:
            rule.expect_size(encode(made.value))
            now_ms = journal.attempt.services.runtime.store.clock.now_ms()
            outcome = inline(SharedValue(made.value, base + 1, now_ms, self._by, journal.run, write.gone, by))
        if made.is_conflict:
            found_by, there = ("", None) if current is None else (current.by, current.value)
            expected = base if write.expected is None else write.expected
            sides = inline(there), inline(write.asked["value"])
            conflict = SharedConflict(expected, base, found_by, write.strategy, *sides)
            if lost is not None or write.strategy == "reject":
                refusal = lost.message if lost is not None else self._refusal(write, base, found_by)
        # A write that met another version comes to something else for it, also where nothing is written.
        is_steered = made.is_conflict or (made.is_written and write.is_change)
        return cmd.WriteSharedValue(
            journal.step,
            journal.number,
            path,
            self._space,
            write.key,
            args_hash,
            base,
            made.is_written,
            outcome,
            conflict,
            refusal,
            fence,
            journal.take(),
            write.found_by,
            write.keep,
            authors=authors_of(current) if is_steered else (),
        )

    def _refusal(self, write: _Write, base: int, by: str) -> str:
        written = f", written by {by!r}" if by else ""
        return (
            f"{write.key!r} of {self._space!r} is at version {base}{written}, not at {write.expected}. Nothing was written:"
            " read it, and decide again."
        )

    def _name(self, key: str) -> str:
        return f"{self._space}/{rule.expect_name('key', key)}"

    async def latest(self, key: str) -> SharedValue | None:
        """The version that is there now; no journal knows of this look."""
        tenant, space = self._journal.tenant, self._space
        return await self._journal.attempt.patiently(lambda: self._values.find(tenant, space, key))


note_calls(SharedSpace, "shared", "read", "write", "delete", "update", "changed", "versions")


def authors_of(version: SharedValue | None) -> tuple[str, ...]:
    """Return the persons who wrote a version."""
    return () if version is None else version.authors


def _come_to(recall: Recall, path: Path) -> SharedValue:
    """The version that an operation has come to. Raises OperationFailed."""
    if recall.error is not None:
        raise OperationFailed(recall.error.message, error=recall.error, path=path)
    return _read_version(msgspec.convert(recall.value, SharedValue))


def _read_version(version: SharedValue, read: Callable[[Any], Any] = fields) -> SharedValue:
    return msgspec.structs.replace(version, value=read(version.value))
