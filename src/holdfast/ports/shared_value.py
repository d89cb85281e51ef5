"""The store of shared values, with their latest versions.

Appends write them too (log): a value and the event that records it are one commit. A value written with a SharedIndex is found
by it. Its vector goes in as `core.nouns.shared_values.packed` makes it, and `search` takes a vector made the same way.

Never here: an implementation, a default, what becomes of a write (core.nouns.shared_values).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.core.nouns.shared_values import SharedIndex, SharedValue
from holdfast.core.values.ids import Path, RunId, StepId
from holdfast.core.views.projection import SharedChange


class SharedEntry(NamedTuple):
    """A line of the list of shared values."""

    tenant: str
    space: str
    key: str
    latest: SharedValue


class SharedFound(NamedTuple):
    """A value that a search has found: how like the query it is (by vector their cosine, from -1 to 1; by words only the order
    means anything), how often it was used, and when last, 0 for never."""

    key: str
    latest: SharedValue
    likeness: float
    uses: int
    used_at_ms: int


class SharedArrival(NamedTuple):
    """A step of a run waits for a version that is there."""

    run: RunId
    step: StepId
    path: Path
    version: SharedValue


class SharedValues(Protocol):
    """The shared values of the store, each known by its tenant, its space and its key."""

    async def find(self, tenant: str, space: str, key: str) -> SharedValue | None:
        """The latest version."""
        ...

    async def versions(self, tenant: str, space: str, key: str) -> Sequence[SharedValue]:
        """Return the versions that are kept, the latest last."""
        ...

    async def page(
        self, tenant: str | None, space: str | None, after: tuple[str, str, str] | None, limit: int
    ) -> Sequence[SharedEntry]:
        """By tenant, space and key; `after` are those of the last one before."""
        ...

    async def search(self, tenant: str, space: str, query: SharedIndex | None, limit: int) -> Sequence[SharedFound]:
        """Values of one space that were written with an index, the likest first. By words: those that have any of
        them, stemmed as English. By vector: all of the same model and length. Without a query: all, the latest first.
        Raises MissingExtra where the store has nothing to compare vectors with.

        What is found in a step is noted as a Value of kind `state.SHARED_USE` named after the space, whose payload is a list of
        objects with their `key`: then the commit that carries it counts their use."""
        ...

    async def put(self, change: SharedChange) -> bool:
        """Write a version outside of any run. False, and nothing is written, where another is the latest than the one that
        it is based on."""
        ...

    async def arrivals(self, name: tuple[str, str, str] | None, limit: int) -> Sequence[SharedArrival]:
        """Waits that are over, for the value of that tenant, space and key, or for any."""
        ...

    async def lock(self, tenant: str, space: str, key: str, holder: str, lease_ms: int) -> int | None:
        """Take the lock of a value, which need not exist, for `lease_ms` by the store's clock. Return the fence, a number
        larger than any given for it before; None while another has it."""
        ...

    async def unlock(self, tenant: str, space: str, key: str, fence: int) -> None:
        """Give it back, if it is still that one."""
        ...
