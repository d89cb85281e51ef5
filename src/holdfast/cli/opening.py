"""Opening the store that a command works on. Never here: what is done with it."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import NotFound

if TYPE_CHECKING:
    from holdfast.compose import Engine
    from holdfast.ports import Administration
    from holdfast.ports import Store as StorePort
    from holdfast.settings import Settings


def located(store: str | None) -> tuple[str, Settings]:
    """Which store is meant, and the settings that say so where no option does."""
    from holdfast import settings

    known = settings.load()
    return store or known.store, known


def is_fleet(where: str) -> bool:
    """Whether the store at `where` is one that a fleet shares."""
    return where.startswith(("postgresql://", "postgres://"))


@asynccontextmanager
async def asking(store: str | None) -> AsyncIterator[Engine]:
    """An engine that asks and decides, and executes nothing, on a store that is there. Raises NotFound, StoreError."""
    from holdfast.compose import Engine

    where, known = located(store)
    _expect(where)
    async with Engine.open(where, execute=False, settings=known) as engine:
        yield engine


@asynccontextmanager
async def opened(store: str | None) -> AsyncIterator[StorePort]:
    """The store itself, which has to be there, for what needs no engine. Raises NotFound, StoreError."""
    from holdfast.compose import open_blobs, open_store
    from holdfast.settings import Secrets

    where, known = located(store)
    _expect(where)
    found = await open_store(where, open_blobs(known.blobs, Secrets(known.secrets_file)))
    try:
        yield found
    finally:
        await found.aclose()


@asynccontextmanager
async def administering(store: str | None) -> AsyncIterator[Administration]:
    """The administration of a store. Raises NotFound for a file that is not there, StoreError."""
    from holdfast.compose import open_administration, open_blobs
    from holdfast.settings import Secrets

    where, known = located(store)
    _expect(where)
    found = await open_administration(where, open_blobs(known.blobs, Secrets(known.secrets_file)))
    try:
        yield found
    finally:
        await found.aclose()


def _expect(where: str) -> None:
    """Raises NotFound for a file that is not there: asking would make an empty store of it."""
    path = where.removeprefix("sqlite:///")
    if "://" not in path and not Path(path).exists():
        raise NotFound(
            f"There is no store at {where} yet: `holdfast run` makes one. If yours is elsewhere, name it with --store or"
            " HOLDFAST_STORE."
        )


def typed(*words: str, store: str | None) -> str:
    """A command as a person can type it here, quoted for a shell."""
    named = ("--store", store) if store is not None else ()
    return shlex.join(["holdfast", *words, *named])
