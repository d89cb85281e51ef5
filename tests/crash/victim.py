"""One life of a process that works on one run: from opening the store to the end of the run, or to its own.

It starts the run under a key, so that the first life begins it and every other takes it up.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from holdfast import Engine
from holdfast.core.views.status import status
from holdfast.stores.sqlite.database import locks_of
from tests.crash import flows
from tests.crash.boundary import Boundaries, CountedConnection, CountedModel
from tests.crash.person import Person
from tests.crash.world import Visit

MAX_S: Final = 60.0
STORE: Final = "holdfast.db"


class Life(msgspec.Struct, frozen=True):
    """What a victim is told. `directory` is the case's and names it; `at` or `on` is where to die, if anywhere.

    With `copies` the database is copied there at each commit; `pages` in the log make SQLite write it back.
    """

    flow: str
    directory: str
    number: int = 1
    at: int | None = None
    on: str | None = None
    copies: str | None = None
    pages: int | None = None

    @property
    def trace(self) -> Path:
        return Path(self.directory, f"{self.number}.trace")

    @property
    def result(self) -> Path:
        return Path(self.directory, f"{self.number}.json")

    @property
    def words(self) -> Path:
        """What it said, on its standard error."""
        return Path(self.directory, f"{self.number}.err")


def live(life: Life) -> None:
    """Live it. Returns when the run has ended and all is closed, if it ever does."""
    directory = Path(life.directory)
    boundaries = Boundaries(life.trace, at=life.at, on=life.on)
    if life.copies is not None:
        boundaries.on_commit = Copier(directory / STORE, Path(life.copies))
    CountedConnection.boundaries = boundaries
    apsw.Connection = CountedConnection  # type: ignore[misc]
    if life.pages is not None:
        pages = life.pages
        apsw.connection_hooks.append(lambda db: db.wal_autocheckpoint(pages))
    flows.Here.boundaries = boundaries
    flows.Here.visit = Visit(directory.name)
    asyncio.run(_work(life, boundaries))


async def _work(life: Life, boundaries: Boundaries) -> None:
    directory = Path(life.directory)
    wf = flows.FLOWS[life.flow]
    journals = Path(os.environ["CRASH_WORLD"])
    async with asyncio.timeout(MAX_S), Engine.open(directory / STORE, workflows=[wf], model=CountedModel(boundaries)) as engine:
        run = await engine.start(wf, tenant=directory.name, key="the-run")
        boundaries.note(started=run.id)
        state = await Person(engine, run, boundaries, journals, directory).see_through()
        output = await engine.output(state) if state.ended == "completed" else None
        result: dict[str, Any] = {"run": run.id, "status": status(state), "output": output}
        life.result.write_text(json.dumps(result))


class Copier:
    """Copies the database as it is on the disk at each commit: before it, and when it was acknowledged."""

    def __init__(self, store: Path, copies: Path) -> None:
        self._store = store
        self._copies = copies

    def __call__(self, side: str, number: int) -> None:
        there = self._copies / f"{number:04}-{side}"
        there.mkdir(parents=True)
        files = [self._store.with_name(self._store.name + suffix) for suffix in ("", "-wal", "-shm")]
        # By another process: to close one of these files here would drop SQLite's locks on it.
        subprocess.run(["cp", *(str(file) for file in files if file.exists()), str(there)], check=True)
        turning = locks_of(self._store) / "turning"
        if turning.exists():  # between a header that says that there is a log, and the log
            (there / turning.parent.name).mkdir()
            (there / turning.parent.name / turning.name).touch()
