"""The time limit of a caller's reads, the same in every store.

Never here: a connection, whose turn it is.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import TooMuch

READ_S: Final = 10.0
"""How long a requested read may take, and may wait for its turn among those of its tenant."""
READS: Final = "reads of the store are made"
"""What is shared, in errors."""
MAX_WAITING: Final = 10_000
"""Reads; requests are bounded before."""


def too_long(read_s: float) -> TooMuch:
    """Return the refusal of a read that takes longer."""
    return TooMuch(
        f"This took longer than {read_s:g} s to find in the store, and no read may. Ask for less: fewer rows, a shorter time,"
        " or no text. Nothing was done."
    )
