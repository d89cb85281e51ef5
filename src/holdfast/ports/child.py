"""The links between runs and the runs that they have asked for, their children.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.core.values.ids import RunId


class ChildLink(msgspec.Struct, frozen=True):
    """A child and how far it has come (`state`, see projection.ChildChange). `ordered` is the parent's latest event that
    says what becomes of the child too, `heeded` the one to which somebody has seen."""

    child: RunId
    parent: RunId
    root: RunId
    state: str
    ordered: int
    heeded: int

    @property
    def is_pending(self) -> bool:
        """Whether somebody has to see to it."""
        return self.state in ("requested", "ended") or (self.state == "running" and self.ordered > self.heeded)


class Children(Protocol):
    """Moved by appends, in their transactions: by those of the parent and by those of the child."""

    async def pending(self, before_ms: int, limit: int) -> Sequence[ChildLink]:
        """What somebody has to see to since `before_ms` or longer, longest first."""
        ...

    async def link(self, child: RunId) -> ChildLink | None:
        """What links a run to its parent, None for one that has none."""
        ...

    async def settle(self, link: ChildLink) -> bool:
        """What was to be done about a child, as `link` says, has been done. False where more has come meanwhile."""
        ...

    async def family(self, root: RunId, after: RunId | None, limit: int) -> Sequence[ChildLink]:
        """The links of everything below `root`, oldest first, after one of them."""
        ...
