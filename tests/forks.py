"""Processes of `holdfast`, forked from one that has imported what they need: half a second less of processor time for each.

They are what `subprocess` would have started in all but how an interpreter begins and ends. What a process does when it is
killed, stopped, signalled or left alone needs no more; whatever is about the start itself starts an interpreter.
Never here: what is right.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Final, TextIO

from holdfast import cli

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [f"holdfast.cli.{command}" for command in ("run", "runs", "serve", "worker", "report", "progress")]
    + ["holdfast.compose", "holdfast.stores.postgres", "holdfast.stores.sqlite", "typer._adapters", "rich.console"]
)


class Fork:
    """One that has been started; with the methods of `subprocess.Popen`."""

    def __init__(
        self, *words: str, folder: Path | None = None, environment: Mapping[str, str] = os.environ, data: bool = True
    ) -> None:
        """Start `holdfast WORDS`; nobody reads its stdout without `data`."""
        reads, writes = zip(os.pipe(), os.pipe(), strict=True)
        if not data:
            os.close(writes[0])
            writes = os.open(os.devnull, os.O_WRONLY), writes[1]
        self.args = words
        self.stdout, self.stderr = (os.fdopen(end, encoding="utf-8") for end in reads)
        self._process = _FORKS.Process(
            target=_live, args=(words, str(folder or Path.cwd()), dict(environment), *map(DupFd, writes))
        )
        self._process.start()
        for end in writes:
            os.close(end)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it has still to say, when it has ended. Raises TimeoutExpired."""
        said = ["", ""]

        def read(number: int, stream: TextIO) -> None:
            with stream:
                said[number] = stream.read()

        readers = [
            threading.Thread(target=read, args=each, daemon=True) for each in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        return said[0], said[1]

    def send_signal(self, which: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, which)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _live(words: tuple[str, ...], folder: str, environment: dict[str, str], *streams: Any) -> None:
    for number, stream in enumerate(streams, 1):
        os.dup2(stream.detach(), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["holdfast", *words]
    cli.main()
