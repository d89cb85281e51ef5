"""Opening what a command works on: a store, or the server that HOLDFAST_URL names. Never here: what is done with it."""

from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.cli import variable
from holdfast.cli.page import log_output, terminal
from holdfast.errors import NotFound, StoreError, UsageError
from holdfast.platform.masking import without_passwords

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend, QueryBackend
    from holdfast.client import AsyncClient
    from holdfast.compose import Engine
    from holdfast.core.views.sealing import Sealing
    from holdfast.ports import Administration, BlobPlace
    from holdfast.ports import Store as StorePort
    from holdfast.service.control.run_reader import RunReader
    from holdfast.service.principal import Principal
    from holdfast.service.service import Service
    from holdfast.settings import Settings

Opened = TypeVar("Opened")

WAIT_S: Final = 60.0
"""What a process that serves or works waits for its store at the start: as long as a database takes to be restarted."""
_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_OF_ENVIRONMENT: Final = '--store "${HOLDFAST_STORE:?the address of the store, with its password}"'


def server(store: str | None) -> str | None:
    """The address of the server that a command works on, None where it works on a store: one that `--store` names, or where
    HOLDFAST_URL names no server. Raises UsageError where the environment names both."""
    address = os.environ.get(variable.SERVER)
    if store is not None or not address:
        return None
    if os.environ.get("HOLDFAST_STORE"):
        raise UsageError(
            "HOLDFAST_URL names a server and HOLDFAST_STORE a store: unset HOLDFAST_STORE to work on the server,"
            " HOLDFAST_URL to work on the store. Nothing was done."
        )
    return address


@asynccontextmanager
async def backend(store: str | None, principal: Principal, *, make: bool = False) -> AsyncIterator[Backend]:
    """Yield the backend of a command: a server, or a store that exists, or with `make` is made if need be. Raises NotFound,
    StoreError, UsageError."""
    from holdfast.cli.backend import LocalBackend, RemoteBackend

    if (address := server(store)) is not None:
        async with _client(address, principal) as client:
            yield RemoteBackend(client)
    else:
        async with acting(store, make=make) as service:
            yield LocalBackend(service, principal)


@asynccontextmanager
async def listing(store: str | None, principal: Principal) -> AsyncIterator[QueryBackend]:
    """The same for whom only lists what needs no engine: runs, gates, events, what jobs have printed."""
    from holdfast.cli.backend import ListBackend, RemoteBackend

    if (address := server(store)) is not None:
        async with _client(address, principal) as client:
            yield RemoteBackend(client)
    else:
        async with looking(store) as inquiries:
            yield ListBackend(inquiries)


def _client(address: str, principal: Principal) -> AsyncClient:
    """Raises UsageError for a token that cannot be read."""
    from holdfast.client import AsyncClient

    return AsyncClient(
        address, own_token(), by=principal.name, roles=principal.roles, traceparent=os.environ.get(variable.TRACE)
    )


def own_token(file: Path | None = None) -> str | None:
    """Return the token in a file, or that of the environment: HOLDFAST_TOKEN, or the file HOLDFAST_TOKEN_FILE. No option takes
    one, as other users of the machine could read it. Raises UsageError for a file that cannot be read."""
    from holdfast.platform import privacy

    token, named = os.environ.get(variable.TOKEN), os.environ.get(variable.TOKEN_FILE)
    if file is None and (token or not named):
        return token or None
    return privacy.read_secret(file or Path(named or ""), "token").decode("utf-8", "replace").strip() or None


def located(store: str | None) -> tuple[str, Settings]:
    """Return the store that is meant, and the settings that name it if no option does. Raises UsageError if a server is
    meant."""
    from holdfast import settings

    if server(store) is not None:
        raise UsageError(
            "This command needs a store, and HOLDFAST_URL names a server. Pass --store, or run it beside the server's store."
            " Nothing was done."
        )
    known = settings.load()
    log_output.set_up(known.logs)
    return store or known.store, known


def is_fleet(place: str) -> bool:
    """True if the store at `place` is one that a fleet shares."""
    return place.startswith(("postgresql://", "postgres://"))


@asynccontextmanager
async def asking(store: str | None, *, make: bool = False) -> AsyncIterator[Engine]:
    """An engine that asks and decides, and executes nothing, on a store that is there, or with `make` is made if need be.
    Raises NotFound, StoreError."""
    from holdfast.compose import Engine

    where, known = located(store)
    if not make:
        _expect(where)
    async with Engine.open(where, execute=False, settings=known) as engine:
        yield engine


@asynccontextmanager
async def acting(store: str | None, *, make: bool = False) -> AsyncIterator[Service]:
    """Yield the service through which a person acts on a store that exists, or with `make` is made if need be. Raises NotFound,
    StoreError."""
    from holdfast.compose import Engine
    from holdfast.service.service import Service

    where, known = located(store)
    if not make:
        _expect(where)
    async with Engine.open(where, execute=False, settings=known) as engine:
        yield Service(engine)


@asynccontextmanager
async def looking(store: str | None) -> AsyncIterator[RunReader]:
    """Questions that need no engine, to a store that is there. Raises NotFound, StoreError."""
    from holdfast.service.control.run_reader import RunReader

    async with opened(store) as found:
        yield RunReader(found)


@asynccontextmanager
async def opened(store: str | None) -> AsyncIterator[StorePort]:
    """The store itself, which has to be there, for what needs no engine. Raises NotFound, StoreError."""
    from holdfast.storage import open_store

    where, elsewhere, sealing = _place(store)
    found = await open_store(where, elsewhere, sealing=sealing)
    try:
        yield found
    finally:
        await found.aclose()


@asynccontextmanager
async def administering(store: str | None) -> AsyncIterator[Administration]:
    """The administration of a store. Raises NotFound for a file that is not there, StoreError."""
    from holdfast.storage import open_administration

    found = await open_administration(*_place(store))
    try:
        yield found
    finally:
        await found.aclose()


@asynccontextmanager
async def patiently(open_: Callable[[], AbstractAsyncContextManager[Opened]], wait_s: float) -> AsyncIterator[Opened]:
    """`open_`, as soon as its store is there: one that is away, or goes away meanwhile, is tried again for `wait_s` at most.
    Raises StoreError."""
    async with AsyncExitStack() as stack:
        yield await _entered(stack, open_, wait_s)


async def _entered(stack: AsyncExitStack, open_: Callable[[], AbstractAsyncContextManager[Opened]], wait_s: float) -> Opened:
    began_s, said = time.monotonic(), False
    pauses_s = itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1]))
    while True:  # `wait_s` ends it
        try:
            found = await stack.enter_async_context(open_())
        except StoreError as problem:
            left_s = began_s + wait_s - time.monotonic()
            if not problem.passes or left_s <= 0:
                raise
            if not said:
                terminal.say(f"{problem.message} Retrying for {wait_s:g} s.")
                said = True
        else:
            if said:
                terminal.say(f"The store is there, after {time.monotonic() - began_s:.0f} s.")
            return found
        await asyncio.sleep(min(next(pauses_s), left_s))


def _place(store: str | None) -> tuple[str, BlobPlace | None, Sealing]:
    """Return the place of a store that has to exist, of its large payloads, and how they are kept. Raises NotFound,
    StoreError."""
    from holdfast.settings import Secrets
    from holdfast.storage import open_blobs, sealing_of

    where, known = located(store)
    _expect(where)
    return where, open_blobs(known.blobs, Secrets(known.secrets_file)), sealing_of(known)


def mask_passwords(place: str) -> str:
    """A store's place as it may be read on a screen or in a log: without a password."""
    return without_passwords(place)


def is_there(place: str) -> bool:
    """True if a store may be at `place`: a file has to exist, and only a server's answer shows more."""
    path = place.removeprefix("sqlite:///")
    return "://" in path or Path(path).exists()


def _expect(place: str) -> None:
    """Raises NotFound for a file that is not there: asking would make an empty store of it."""
    if not is_there(place):
        raise NotFound(
            f"No store exists at {place} yet; `holdfast run` creates one. If yours is elsewhere, name it with --store or"
            " HOLDFAST_STORE."
        )


EXEC: Final = "exec"
"""The workflow of programs: `holdfast exec` continues its runs, and no worker."""


class Placeholder(str):
    """A word like `<NAME>` that a person has to replace. It is printed unquoted, so a shell rejects a command that has it."""

    __slots__ = ()


def typed(*words: str, store: str | None) -> str:
    """Return a command as a person can type it here, quoted for a shell except for placeholders."""
    command = " ".join(["holdfast", *(word if isinstance(word, Placeholder) else shlex.quote(word) for word in words)])
    # A password is printed nowhere, and without it nothing could be opened.
    if store is not None and mask_passwords(store) != store:
        return f"{command} {_OF_ENVIRONMENT}"
    return f"{command} --store {shlex.quote(store)}" if store is not None else command
