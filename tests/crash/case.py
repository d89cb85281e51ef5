"""A case: one run, the lives of the processes that work on it one after another, and what came of it.

Never here: what is right.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from tests.crash.boundary import read_trace
from tests.crash.victim import MAX_S, Life
from tests.crash.world import Seen, World

_PATIENCE_S: Final = MAX_S + 30
"""A victim ends by itself sooner."""


class Nursery:
    """The process that forks victims, and what is told to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def bear(self, life: Life) -> int:
        """Have a victim live, and wait for its end: its exit status as `waitpid` tells it."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(life).decode() + "\n")
        self._process.stdin.flush()
        return int(self.hear())

    def hear(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_S)
        assert readable, f"nothing was heard of a victim for {_PATIENCE_S:g} s"
        return self._process.stdout.readline().strip()


@contextmanager
def nursery(world: World) -> Iterator[Nursery]:
    command = [sys.executable, "-m", "tests.crash.nursery"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **world.environment}
    ) as process:
        try:
            opened = Nursery(process)
            assert opened.hear() == "ready"
            yield opened
        finally:
            process.kill()


class Lived(NamedTuple):
    """One life that is over: whether it was killed, what it wrote down, and what was in the journals before it began."""

    killed: bool
    trace: list[dict[str, Any]]
    result: dict[str, Any] | None
    before: Seen

    @property
    def crossed(self) -> list[dict[str, Any]]:
        return [line for line in self.trace if "n" in line]

    @property
    def died_at(self) -> dict[str, Any]:
        """The boundary at which it was killed."""
        return self.crossed[-1]


class Case:
    """Lives of one run in a directory of its own."""

    def __init__(self, world: World, nursery: Nursery, flow: str) -> None:
        self.flow = flow
        self.name = f"{flow}-{next(world.numbers)}"
        self.directory = world.directory / self.name
        self.directory.mkdir()
        self.lives: list[Lived] = []
        self._world = world
        self._nursery = nursery

    def __repr__(self) -> str:
        deaths = [f"{life.died_at['n']} ({', '.join(life.died_at['kinds'])})" for life in self.lives if life.killed]
        return f"{self.flow} in {self.directory}, killed at {' and '.join(deaths) or 'nothing'}"

    @property
    def seen(self) -> Seen:
        return Seen(self._world.directory, self.name)

    def live(self, **how: Any) -> Lived:
        """Another life. Raises if it neither ends well nor is killed where it was meant to be."""
        life = Life(self.flow, str(self.directory), len(self.lives) + 1, **how)
        before = self.seen
        status = self._nursery.bear(life)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if killed:
            self._world.catch_up()
        words = life.words.read_text()
        assert killed or status == 0, f"{self!r}: life {life.number} failed:\n{words}"
        result = json.loads(life.result.read_text()) if life.result.exists() else None
        lived = Lived(killed, read_trace(life.trace), result, before)
        assert not killed or life.at == lived.died_at["n"] or life.on in lived.died_at["kinds"], "something else killed it"
        self.lives.append(lived)
        return lived
