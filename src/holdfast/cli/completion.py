"""What a shell offers where an id is typed: those of the newest runs, and of the gates that are open.

Never here: a word on the screen, or an error; somebody is in the middle of typing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.control.inquiry import Inquiries

_MOST: Final = 20
_PATIENCE_S: Final = 2.0
"""Who types does not wait for longer."""


def runs(incomplete: str) -> list[str]:
    """The newest runs that begin so. (For a gate's or a call's id a run's is the beginning.)"""

    async def found(inquiries: Inquiries) -> list[str]:
        return [row.run for row in await inquiries.runs(prefix=incomplete.lower(), limit=_MOST)]

    return _ask(found)


def gates(incomplete: str) -> list[str]:
    """The open gates that begin so."""

    async def found(inquiries: Inquiries) -> list[str]:
        open_now = [str(row.gate) for row, _ in await inquiries.gates()]
        return [gate for gate in open_now if gate.startswith(incomplete)][:_MOST]

    return _ask(found)


def _ask(question: Callable[[Inquiries], Awaitable[list[str]]]) -> list[str]:
    import holdfast.control.inquiry
    import holdfast.stores.sqlite  # noqa: F401 - loaded first: the patience is for the store
    from holdfast.cli.opening import looking

    async def ask() -> list[str]:
        async with asyncio.timeout(_PATIENCE_S), looking(None) as inquiries:
            return await question(inquiries)

    logging.disable()
    with contextlib.suppress(Exception):  # no store, none that answers, none that is one: then nothing is offered
        return asyncio.run(ask())
    return []
