"""Work and questions over the network: the gRPC port of a serving process, and those who connect to it.

Never here: a rule of runs, a store. `Client` and `Worker` are loaded when first asked for, because they bring grpc.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.wire.task import CallFailed, Job, Tasks

if TYPE_CHECKING:
    from holdfast.wire.client import Client
    from holdfast.wire.credential import Trust
    from holdfast.wire.worker import Worker

__all__ = ["CallFailed", "Client", "Job", "Tasks", "Trust", "Worker"]


_LATER = {"Client": "client", "Trust": "credential", "Worker": "worker"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"holdfast.wire.{_LATER[name]}"), name)
    raise AttributeError(f"module 'holdfast.wire' has no attribute {name!r}")
