"""The GPUs of each script, out of those of its worker: the first that no other script of this process has.

The placement sees to it that all scripts together have no more GPUs than the worker reported. So no script gets the
number of a GPU beyond theirs. Never here: how many there are, how many a script asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from typing import Final

from holdfast.errors import ToolFailed

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
"""The variable that tells a program which it has."""

_taken: Final[set[int]] = set()
"""By their places among the worker's own."""


@contextmanager
def device_variables(amount: int, own: str | None) -> Iterator[dict[str, str]]:
    """Inside, so many are the script's alone; the variable that tells it which, if it asks for any. `own` is what the same
    variable says to this process, None if it sees all that the machine has. Raises ToolFailed if it sees too few."""
    mine = list(islice((place for place in count() if place not in _taken), amount))
    seen = None if own is None else [each.strip() for each in own.split(",") if each.strip()]
    if seen is not None and mine and mine[-1] >= len(seen):
        raise ToolFailed(
            f"The script asks for GPUs: {amount}. Fewer are free of the {len(seen)} that its worker sees ({VISIBLE}={own})."
            " Nothing was run. Start the worker with at most as many --gpus as it sees."
        )
    _taken.update(mine)
    try:
        yield {VISIBLE: ",".join(str(place) if seen is None else seen[place] for place in mine)} if mine else {}
    finally:
        _taken.difference_update(mine)
