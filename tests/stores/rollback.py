"""An audit log that somebody puts back as it once stood, under a process that goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.core.values.audit import FIRST, Entry, Verification
from holdfast.ports import Store

ROLLED_BACK: Final = (
    "delete from audit where number > 3; update audit_head set number = 3, hash = '{hash}', signature = '{signature}'",
    "delete from audit; delete from audit_head",
    f"delete from audit; update audit_head set number = 0, hash = '{FIRST}', signature = ''",
)
ENTRY: Final = Entry(1, "Pause", "run", "done", "ann", False)


async def rolled_back(store: Store, by_hand: Callable[[str], Awaitable[None]], deed: str) -> None:
    """See that the log is never again as it was written, whatever is added to it."""
    for _ in range(3):
        await store.audit.append(ENTRY)
    head = await store.audit.head()
    assert head is not None
    for _ in range(3):
        await store.audit.append(ENTRY)
    assert await problem(store) is None
    await by_hand(deed.format(hash=head.hash, signature=head.signature))
    for _ in range(3):
        await store.audit.append(ENTRY)
        assert await problem(store) is not None


async def problem(store: Store) -> str | None:
    """What is wrong with the log."""
    reading, links = Verification(), await store.audit.links(limit=100)
    return next(filter(None, map(reading.problem, links)), None) or reading.problem_at_end(await store.audit.head())
