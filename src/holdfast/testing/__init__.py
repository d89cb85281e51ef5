"""The test kit: servers that stand in for what a run talks to, and witnesses that judge it from outside.

Everything here speaks a real protocol over a real socket, so that what is tested is what runs in production: the
provider's wire format, the mail library, the retry, the time-out. A judge that shares code with the accused is no judge.
Never here: anything that a running Holdfast imports, a server that reaches into another room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.node_run import Decided, NodeOutcome, ToolCall, run_node
    from holdfast.testing.virtual_time import VirtualTime

__all__ = ["Decided", "NodeOutcome", "ToolCall", "VirtualTime", "run_node"]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from holdfast.testing import node_run, virtual_time  # what a server of the kit needs is less

        return getattr(virtual_time if name == "VirtualTime" else node_run, name)
    raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
