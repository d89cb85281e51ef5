"""The demand of a step on its place: labels, capacity, and parts of pools.

Never here: which worker has it (scheduling), which pool lends it (lending).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

MAX_AMOUNT: Final = 10**12
MAX_PRIORITY: Final = 1_000
MAX_NAMES: Final = 100
LABEL: Final = re.compile(r"[^\s,]{1,100}")
"""A label, a tag, or the name of a pool."""
SHELL: Final = "holdfast.shell"
"""The task of running scripts, one after the other, as a step tells it to. Processes that have the step's workflow can do
it too."""
RESERVED: Final = "holdfast."
"""So begin the names of tasks that users cannot give."""
_NO_VARIABLE: Final = re.compile(r"[^A-Z0-9_]")


def variable_of(pool: str) -> str:
    """The environment variable that tells a script how much it has of a pool. Two pools may have the same."""
    return f"HOLDFAST_POOL_{_NO_VARIABLE.sub('_', pool.upper())}"


class Demand(msgspec.Struct, frozen=True, omit_defaults=True):
    """The resources of a step, besides one slot. All of them must be free at once."""

    labels: tuple[str, ...] = ()
    """Labels that a worker must have, all of them."""
    tags: tuple[str, ...] = ()
    """Tags that a worker must have, all of them."""
    cpu_m: int = 0
    """CPU, in thousandths of a core."""
    memory_mb: int = 0
    """Memory in MiB."""
    gpus: int = 0
    """Number of GPUs."""
    pools: dict[str, int | None] = {}
    """Amounts of pools by name; None for the amount that earlier steps of the node have used."""
    priority: int = 0
    """Priority; a higher one goes first."""
    task: str | None = None
    """Name under which a connected worker offers the step. Remote tasks set it themselves."""

    @property
    def is_remote(self) -> bool:
        """True if only connected workers can do it."""
        return self.task not in (None, SHELL)

    @property
    def runs_scripts(self) -> bool:
        """True if it is the demand of a script's step."""
        return self.task == SHELL

    def problems(self) -> Iterator[str]:
        """Yield each problem of the demand, as text."""
        for what, names in (("labels", self.labels), ("tags", self.tags), ("pools", tuple(self.pools))):
            if len(names) > MAX_NAMES:
                yield f"{what} has {len(names)} entries; at most {MAX_NAMES} are possible"
            for name in names:
                if not LABEL.fullmatch(name):
                    yield f"{what} has {name!r:.130}; it must be 1 to 100 characters without blanks and commas, like zone=eu"
        for what, amount in (("cpu_m", self.cpu_m), ("memory_mb", self.memory_mb), ("gpus", self.gpus)):
            if not 0 <= amount <= MAX_AMOUNT:
                yield f"{what} is {amount}; it must be 0 to {MAX_AMOUNT}"
        for pool, wanted in self.pools.items():
            if wanted is not None and not 0 < wanted <= MAX_AMOUNT:
                yield f"of pool {pool!r} it wants {wanted}; an amount must be 1 to {MAX_AMOUNT}"
        if self.task is not None and not LABEL.fullmatch(self.task):
            yield f"task is {self.task!r:.130}; a name is 1 to 100 characters without blanks and commas"
        if abs(self.priority) > MAX_PRIORITY:
            yield f"priority is {self.priority}; it must be -{MAX_PRIORITY} to {MAX_PRIORITY}"


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a process gives to steps, besides its slots, in the words of a Demand."""

    tags: tuple[str, ...] = ()
    cpu_m: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def problems(self) -> Iterator[str]:
        """Yield each problem, in words."""
        return Demand(tags=self.tags, cpu_m=self.cpu_m, memory_mb=self.memory_mb, gpus=self.gpus).problems()


NOTHING: Final = Demand()
"""What most steps ask for: one slot, wherever their workflow is."""
