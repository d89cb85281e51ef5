"""Real processes of a fleet that speaks gRPC, and what a test needs to see of them. Nothing here decides what is right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.forks import Fork

HERE = Path(__file__).parent
FLOWS = HERE / "flows.py"
TASKS = f"{HERE / 'tasks.py'}:tasks"
MAX_S = 20.0
LEASE_S = 2.0


class Process:
    """A process and what it says on stderr, line by line as it says it."""

    def __init__(self, process: Fork | subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._said = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()

    def says(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until so many lines have fitted the pattern; the last of them."""
        found: list[re.Match[str]] = []

        def enough() -> bool:
            found[:] = [match for line in self.lines if (match := re.search(pattern, line))]
            return len(found) >= times

        with self._said:
            assert self._said.wait_for(enough, MAX_S), (pattern, self.lines)
        return found[times - 1]

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(MAX_S)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(MAX_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


def holdfast(*words: str, folder: Path, **environment: str) -> Process:
    return Process(Fork("holdfast", *words, folder=folder, environment=os.environ | environment, has_data=False))


@contextmanager
def ended(*processes: Process) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)
            process.end()


class Server:
    """A `holdfast serve --grpc`, on a SQLite store in `folder` unless another is named."""

    def __init__(self, folder: Path, *words: str, store: str | None = None, **environment: str) -> None:
        self.folder = folder
        names = (
            "echo",
            "trace",
            "hold",
            "think",
            "post",
            "fail",
            "big",
            "late",
            "picture",
            "gated",
            "chain",
            "posted",
            "payday",
            "watched",
        )
        self.process = holdfast(
            "serve",
            *(f"{FLOWS}:{name}" for name in names),
            "--grpc",
            "127.0.0.1:0",
            "--port",
            "0",
            "--worker-lease-s",
            str(LEASE_S),
            "--store",
            store or str(folder / "runs.db"),
            *words,
            folder=folder,
            **environment,
        )

    @property
    def address(self) -> str:
        return self.process.says(r"^gRPC on (.*?:\d+), store")[1]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def worker(self, name: str, *words: str, address: str | None = None, slots: int = 4, target: str | None = TASKS) -> Process:
        return holdfast(
            "worker",
            *([target] if target is not None else []),
            "--connect",
            address or self.address,
            "--name",
            name,
            "--slots",
            str(slots),
            *words,
            folder=self.folder,
        )


def until(path: Path, lines: int = 1) -> list[str]:
    """Wait until a file of a task's own has so many lines."""
    late_s = time.monotonic() + MAX_S
    while True:
        found = path.read_text().splitlines() if path.exists() else []
        if len(found) >= lines:
            return found
        assert time.monotonic() < late_s, found
        time.sleep(0.005)
