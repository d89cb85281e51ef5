"""Where what providers limit is lent to single calls.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.core.quota import Answer, Letter, Pool, Standing, Want


class Shares(msgspec.Struct, frozen=True):
    """What a call was lent of its pools. Once the Clock port shows `expires_at_s`, others may be lent its slots: the
    call must be over by then."""

    id: str
    wants: tuple[Want, ...]
    expires_at_s: float


class Pools(Protocol):
    """Lends what providers limit to calls, each from all its pools or from none. Calls wait; they do not fail."""

    async def reserve(self, wants: Sequence[Want], *, deadline_s: float, priority: int = 0) -> Shares:
        """Wait until all of `wants` are lent: a higher priority goes first, and within one whoever came first.

        `deadline_s`: how long after this returns the call can still be running; its slots come back then, even if this
        process is dead. Whoever is cancelled while waiting leaves nothing behind. Raises PoolLineFull when too many wait
        already, UsageError where a pool lends nothing for so long.
        """
        ...

    def give_back(self, shares: Shares, used: Mapping[str, int]) -> None:
        """The call is over: its slots come back at once, and of each rate in `used` what the call did not use. Where it
        used more, that is charged. Rates that are not in `used` were used as they were lent."""
        ...

    def close(self, pool: Pool, for_s: float) -> None:
        """Its provider takes no more for so long: nothing is lent of it meanwhile, by anybody."""
        ...

    async def show(self, pools: Sequence[Pool]) -> Sequence[Standing]: ...

    async def aclose(self) -> None:
        """Tell what is still to be told; nobody waits any more."""
        ...


class PoolAuthority(Protocol):
    """The one place where pools are counted, as a process visits it. Its own clock decides, never the visitor's."""

    poll_s: float
    """How often to come by while waiting, beside the times that an answer names."""

    async def visit(self, letter: Letter) -> Answer:
        """Take in all that `letter` says, serve those who wait, and answer. To be said again after PoolsAway."""
        ...

    def call(self, holder: str, ring: Callable[[], None]) -> None:
        """Have `ring` called when another's visit may have granted something to `holder`. It may be called for nothing,
        and a call may be lost."""
        ...

    async def show(self, pools: Sequence[str]) -> Sequence[Standing]: ...

    async def aclose(self) -> None: ...
