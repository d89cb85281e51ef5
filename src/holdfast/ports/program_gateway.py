"""The place where programs that steps run make their model calls.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.ports.forwarding import ForwardedCalls


class ProgramGateway(Protocol):
    """The gateway of one process."""

    def open(self, calls: ForwardedCalls) -> AbstractAsyncContextManager[Mapping[str, str | None]]:
        """Inside, one program may make `calls`, by a token of its own. Yields the variables that lead it here; None for one
        that would lead it past."""
        ...

    async def aclose(self) -> None:
        """Take no more calls."""
        ...
