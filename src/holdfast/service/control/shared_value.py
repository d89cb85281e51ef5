"""Shared values, to those who are no run: listed, looked at, written.

Never here: what becomes of a write (core.nouns.shared_values), waking those who wait for it (engine.background.shared_waits).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.facts.contribution import of_claim
from holdfast.core.nouns import shared_values as rule
from holdfast.core.nouns.memory import MAX_ALLOWED, Memory, namespace, ranked
from holdfast.core.nouns.shared_values import SharedValue
from holdfast.core.values.actor import Actor
from holdfast.core.views.projection import SharedChange
from holdfast.engine.operations.memory import recalled
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.ports import MAX_LISTED, SharedEntry
from holdfast.service.control.base import ControlBase, word
from holdfast.service.control.change import changed
from holdfast.service.control.naming import DEFAULT_TENANT

_NOBODY: Final = "a command"
"""The author of a value that is written without a name."""


class SharedValues(ControlBase):
    """Values that the runs and agents of a tenant share."""

    async def shared_values(
        self,
        tenant: str | None = None,
        space: str | None = None,
        *,
        after: tuple[str, str, str] | None = None,
        limit: int = MAX_LISTED,
    ) -> Sequence[SharedEntry]:
        """Return the latest versions of shared values, by tenant, space and key.

        Args:
            after: Tenant, space and key of the last row of the page before.
        """
        return await self.store.shared_values.page(tenant, space, after, limit)

    async def shared_versions(self, space: str, key: str, *, tenant: str = DEFAULT_TENANT) -> Sequence[SharedValue]:
        """Return the kept versions of a shared value, the latest last.

        Raises:
            NotFound: The value does not exist.
        """
        found = await self.store.shared_values.versions(tenant, space, key)
        if not found:
            raise NotFound(
                f"There is no shared value {key!r} in the space {space!r} of tenant {tenant!r}; `holdfast shared list` shows"
                " those that are."
            )
        return found

    async def memories(
        self, agent: str, user: str | None = None, *, tenant: str = DEFAULT_TENANT, words: str | None = None
    ) -> Sequence[Memory]:
        """Return the memories of an agent, most relevant first. With `words` only those that have any of them, the best match
        first. It does not count as a use.

        Raises:
            InvalidInput: A name cannot be used.
        """
        query = None if words is None else rule.SharedIndex(words)
        found = await self.store.shared_values.search(tenant, namespace(agent, user), query, MAX_ALLOWED)
        order = ranked(map(recalled, found), self.store.clock.now_ms())
        scored = {each.key: each for each in order}
        return order if query is None else [scored[each.key] for each in found]

    async def write_shared_value(
        self,
        space: str,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        tenant: str = DEFAULT_TENANT,
        by: str | Actor | None = None,
    ) -> SharedValue:
        """Write a new version of a shared value for steps to read, and return it. Steps that wait for it go on within seconds.

        Raises:
            Conflict: The current version is not `expected_version`.
            InvalidInput: The value is no JSON data, or larger than 64 KiB.
        """
        names = word("tenant", tenant), rule.expect_space(space), rule.expect_name("key", key)
        with self.sensitive(tenant):
            plain = msgspec.json.decode(self.payloads.clean(value))
        rule.expect_size(msgspec.json.encode(plain))
        claim = self._claim(by)

        async def attempt() -> SharedValue | None:
            current = await self.store.shared_values.find(*names)
            base = current.version if current is not None else 0
            if rule.resolve(current, plain, expected_version, "reject").is_conflict:
                raise Conflict(
                    f"{key!r} of {space!r} is at version {base}, and not at {expected_version}. Nothing was written: look at"
                    " it, and decide again."
                )
            written = SharedValue(plain, base + 1, self.store.clock.now_ms(), claim.name or _NOBODY, authors=of_claim(claim))
            kept = await self.store.shared_values.put(SharedChange(*names, base, msgspec.json.encode(written)))
            return written if kept else None

        return await changed(f"{key!r} of {space!r}", attempt)

    async def forget_cached_answer(self, space: str, key: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Remove an answer from a semantic cache. Its space and key are in the events of the runs that got it.

        Raises:
            NotFound: The answer does not exist.
            InvalidInput: The space is not a cache's.
        """
        if not space.startswith(f"{rule.CACHE}/"):
            raise InvalidInput(
                f"{space!r} is no space of cached answers; those begin with {rule.CACHE}/ (`holdfast shared list`)."
                " Nothing was forgotten."
            )
        names = word("tenant", tenant), word("space", space), word("key", key)

        async def attempt() -> bool | None:
            current = await self.store.shared_values.find(*names)
            if current is None or current.gone:
                raise NotFound(f"There is no cached answer {key!r} in {space!r} of tenant {tenant!r}. Nothing was forgotten.")
            gone = SharedValue(None, current.version + 1, self.store.clock.now_ms(), _NOBODY, gone=True)
            change = SharedChange(*names, current.version, msgspec.json.encode(gone), keep=0)
            return await self.store.shared_values.put(change) or None

        await changed(f"{key!r} of {space!r}", attempt)
