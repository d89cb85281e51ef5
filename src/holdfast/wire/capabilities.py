"""A connected worker's name, labels and resources. Never here: a connection."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class WorkerCapabilities(msgspec.Struct, frozen=True):
    """A worker's name, labels and resources, in the units of a Demand."""

    name: str
    labels: Sequence[str] = ()
    tags: Sequence[str] = ()
    slots: int = 1
    cpu_m: int = 0
    memory_mb: int = 0
    gpus: int = 0
