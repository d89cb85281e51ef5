"""The graph of a flow as far as it ran: which operations began once which others had ended.

Never here: operations (operations), drawing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from holdfast.core.views.operations import OperationRow


def follows(rows: Sequence[OperationRow]) -> Iterator[tuple[int, int]]:
    """Yield the edges between operations, by their places in the list, which is in the order in which they began: from each to
    those that began after its end, where no other lies between. What ran side by side has no edge between it."""
    ends_ms = [*accumulate((-1 if row.ended_at_ms is None else row.ended_at_ms for row in rows), max)]
    for target, row in enumerate(rows):
        latest_ms = -1
        for source in range(target - 1, -1, -1):
            if ends_ms[source] <= latest_ms:
                break  # one that began later lies between this and all before it
            before = rows[source]
            if before.ended_at_ms is None or before.ended_at_ms > row.began_at_ms:
                continue
            if before.ended_at_ms > latest_ms:
                yield source, target
            latest_ms = max(latest_ms, before.began_at_ms)
