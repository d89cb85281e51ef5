"""Processes of a module, forked from one that has imported what they need: half a second less of processor time for each.

They are what `python -m MODULE` would be in all but how an interpreter begins and ends. What a process does when it is
killed, stopped, signalled or left alone needs no more; whatever is about the start itself starts an interpreter.
Never here: what is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import multiprocessing
import os
import runpy
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Final, Self, TextIO

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [f"holdfast.cli.{command}" for command in ("run", "runs", "serve", "worker", "progress")]
    + ["holdfast.compose.fleet", "holdfast.service.view", "holdfast.models.providers"]
    + ["holdfast.stores.postgres", "holdfast.stores.sqlite"]
    + ["rich.console", "typer._adapters"]
)
_ROOT: Final = Path(__file__).parents[1]


class _Process:
    """What both kinds share: it lives, and ends."""

    def __init__(
        self, module: str, words: tuple[object, ...], folder: Path, environment: Mapping[str, str], *streams: int
    ) -> None:
        """Start it with these as its standard streams, which are closed here."""
        self.args = (module, *map(str, words))
        self._process = _FORKS.Process(target=_live, args=(self.args, str(folder), dict(environment), *map(DupFd, streams)))
        self._process.start()
        for stream in streams:
            os.close(stream)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, which: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and the server of forks has not told us yet
                os.kill(self.pid, which)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Fork(_Process):
    """One with the methods of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        *words: object,
        folder: Path = _ROOT,
        environment: Mapping[str, str] = os.environ,
        has_data: bool = True,
    ) -> None:
        """Nobody reads its stdout unless it `has_data`."""
        data, messages = os.pipe(), os.pipe()
        self.stdout, self.stderr = (os.fdopen(reads, encoding="utf-8") for reads, _ in (data, messages))
        if not has_data:
            os.close(data[1])
            data = data[0], os.open(os.devnull, os.O_WRONLY)
        super().__init__(module, words, folder, environment, os.open(os.devnull, os.O_RDONLY), data[1], messages[1])

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it has still to say, when it has ended. Raises TimeoutExpired."""
        said = ["", ""]

        def read(number: int, stream: TextIO) -> None:
            with stream:
                said[number] = stream.read()

        readers = [threading.Thread(target=read, args=each, daemon=True) for each in enumerate((self.stdout, self.stderr))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        return said[0], said[1]


class AsyncFork(_Process):
    """One with the methods of `asyncio.subprocess.Process`."""

    @classmethod
    async def start(cls, module: str, *words: object, environment: Mapping[str, str] = os.environ) -> Self:
        orders, data, messages = os.pipe(), os.pipe(), os.pipe()
        process = cls(module, words, _ROOT, environment, orders[0], data[1], messages[1])
        process.stdin = os.fdopen(orders[1], "wb", 0)
        process.stdout, process.stderr = await _reader(data[0]), await _reader(messages[0])
        return process

    async def wait(self) -> int:
        await asyncio.to_thread(self._process.join)
        assert self._process.exitcode is not None
        return self._process.exitcode

    async def communicate(self) -> tuple[bytes, bytes]:
        with contextlib.suppress(OSError):
            self.stdin.close()
        said = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return said


_TYPED: Final = """#!/bin/sh
'''exec' "{python}" -ISE "$0" "$@"
' '''
import _signal, _socket, marshal, os, struct, sys
there = _socket.socket(_socket.AF_UNIX)
there.connect({address!r})
told = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
streams = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("3i", 0, 1, 2))
there.sendmsg([struct.pack("i", len(told))], [streams])
there.sendall(told)
for which in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
    _signal.signal(which, lambda number, _: there.sendall(bytes([number])))
code = struct.unpack("i", there.recv(4))[0]
if code < 0:
    _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""To a shell it is one line, to Python a text and what follows: a first line of `#!` could not name a Python in a folder with a
space in its name."""


class Typed:
    """A folder for a shell's PATH, whose `holdfast` is a fork: it has the streams, the folder and the environment of the command
    that was typed, hears its signals, and dies with it."""

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-typed-"))
        address = str(self.folder / "socket")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(address)
        self._socket.listen(32)
        command = self.folder / "holdfast"
        command.write_text(_TYPED.format(python=sys.executable, address=address))
        command.chmod(0o700)
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self.folder)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._run, args=(self._socket.accept()[0],), daemon=True).start()

    def _run(self, there: socket.socket) -> None:
        with there:
            size, streams, *_ = socket.recv_fds(there, 4, 3)
            told = b""
            while len(told) < struct.unpack("i", size)[0]:
                told += there.recv(2**16)
            words, folder, environment = marshal.loads(told)
            process = _FORKS.Process(target=_live, args=(("holdfast", *words), folder, environment, *map(DupFd, streams)))
            process.start()
            for stream in streams:
                os.close(stream)
            while there in wait([there, process.sentinel]) and process.exitcode is None:
                which = there.recv(1)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid or 0, which[0] if which else signal.SIGKILL)
                if not which:
                    break
            process.join()
            with contextlib.suppress(OSError):
                there.sendall(struct.pack("i", process.exitcode))


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader


def _live(words: tuple[str, ...], folder: str, environment: dict[str, str], *streams: Any) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.detach(), number)
    sys.stdin = open(0)  # noqa: SIM115 - as long as the process
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(words)
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
