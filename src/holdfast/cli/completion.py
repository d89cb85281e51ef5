"""Suggestions of a shell for an id: the newest runs, and the open gates.

Never here: a word on the screen, or an error; the user is in the middle of typing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from holdfast.service.declarations import query
from holdfast.service.declarations.query import MOST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.cli.backend import QueryBackend

_MOST: Final = 20
_PATIENCE_S: Final = 2.0
"""Who types does not wait for longer."""


def runs(incomplete: str) -> list[str]:
    """The newest runs that begin so. (For a gate's or a call's id a run's is the beginning.)"""

    async def find_ids(asking: QueryBackend) -> list[str]:
        return [row["run_id"] for row in await asking.rows(query.Runs(prefix=incomplete.lower()), _MOST)]

    return _ask(find_ids)


def gates(incomplete: str) -> list[str]:
    """The open gates that begin so."""

    async def find_ids(asking: QueryBackend) -> list[str]:
        open_now = [row["gate_id"] for row in await asking.rows(query.Gates(), MOST)]
        return [gate for gate in open_now if gate.startswith(incomplete)][:_MOST]

    return _ask(find_ids)


def _ask(question: Callable[[QueryBackend], Awaitable[list[str]]]) -> list[str]:
    import holdfast.service.control.run_reader
    import holdfast.stores.sqlite  # noqa: F401 - loaded first: the patience is for the store
    from holdfast.cli.connect import listing
    from holdfast.cli.page.typed_input import resolve_actor

    async def ask() -> list[str]:
        async with asyncio.timeout(_PATIENCE_S), listing(None, resolve_actor(None)) as asking:
            return await question(asking)

    logging.disable()
    with contextlib.suppress(Exception):  # no store, none that answers, none that is one: then nothing is offered
        return asyncio.run(ask())
    return []
