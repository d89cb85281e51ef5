"""The fleet under test: PostgreSQL with its standby behind a wire, Redis, two that may lead, and workers; real processes.

What ends by itself is started again after a second, as any supervisor would. Never here: a fault, a judgement.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from holdfast.testing.postgres_server import FAST, PostgresServer
from holdfast.testing.redis_server import RedisServer
from holdfast.testing.server_process import free_port
from holdfast.testing.tcp_proxy import TcpProxy

ROOT = Path(__file__).parents[2]
FLOWS = tuple(
    f"{Path(__file__).with_name('flows.py')}:{name}"
    for name in ("errand", "lending", "handing", "trip", "leg", "crossing", "late")
)
TASKS = str(Path(__file__).with_name("tasks.py"))
LEASE_S = 2.0
START_LIMIT_S = 90.0
"""Eight processes that all begin at once, on two cores that others use too."""
_AGAIN_S = 1.0
_DISK_BYTES = 700 * 1024 * 1024


class Member:
    """One process of the fleet, over all its lives."""

    def __init__(self, name: str, words: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._words = words
        self._environment = dict(environment)
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.falls: list[str] = []
        """How it has ended each time when nobody had told it to."""
        self._told = False
        """Whether it is to end: then nobody but who told it so starts it again."""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, **environment: str) -> None:
        assert not self.runs
        self._told = False
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.member", *self._words],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment, **environment},
            )

    def signal(self, which: signal.Signals) -> None:
        if self.runs:
            assert self._process is not None
            self._process.send_signal(which)

    def tell_to_stop(self) -> None:
        """Ask it to end, which is no fall."""
        self._told = True
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self._told = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def raise_again(self) -> None:
        """Start it again if it has ended by itself."""
        if self._process is not None and not self.runs and not self._told:
            last = self.words.strip().rpartition("\n")[2]
            self.falls.append(f"{self.name} ended by itself with {self._process.returncode}: {last}")
            self.start()

    @property
    def words(self) -> str:
        """All that it has said."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """A disk of its own for what is started inside; None where nobody may mount one."""
    place = tempfile.mkdtemp(prefix="holdfast-disk-")
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=1777", "tmpfs", place], check=False, capture_output=True
    ).returncode
    before, tempfile.tempdir = tempfile.tempdir, place if mounted else tempfile.tempdir
    try:
        yield Path(place) if mounted else None
    finally:
        tempfile.tempdir = before
        if mounted:
            subprocess.run(["umount", "--lazy", place], check=True, capture_output=True)
        Path(place).rmdir()


class Fleet:
    """A context manager. `url` leads to whoever is the primary."""

    def __init__(
        self,
        directory: Path,
        environment: Mapping[str, str],
        *,
        workers: int = 3,
        slots: int = 20,
        standby: bool = False,
        hands: int = 0,
    ) -> None:
        """`hands` are workers that are connected to a serving process of their own, and have no store."""
        self._open = contextlib.ExitStack()
        self._with_standby = standby
        self.disk: Path | None = None
        self.postgres = PostgresServer(settings=FAST)
        self.standby: PostgresServer | None = None
        self.redis = RedisServer()
        self._directory = directory
        self._environment = dict(environment)
        self._counts = workers, slots, hands
        self.leaders: list[Member] = []
        self.workers: list[Member] = []
        self.hands: list[Member] = []
        """The process that takes connected workers, and these."""
        self._watch: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            if self._with_standby:
                self.disk = undo.enter_context(small_disk())
            undo.callback(lambda: self.standby and self.standby.close())
            self.postgres.start()
            undo.callback(lambda: self.postgres.close())
            undo.enter_context(self.redis)
            self.wire = undo.enter_context(TcpProxy(self.postgres.port))
            if self._with_standby:
                self.attach_standby()
            self.url = self.postgres.url_of("postgres", port=self.wire.port)
            self._start_members(undo)
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self._environment,
            "HOLDFAST_STORE": self.url,
            "HOLDFAST_QUEUE": self.redis.url,
            "HOLDFAST_LEASE_S": str(LEASE_S),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }

    @property
    def members(self) -> list[Member]:
        return [*self.leaders, *self.workers, *self.hands]

    def _start_members(self, undo: contextlib.ExitStack) -> None:
        workers, slots, hands = self._counts
        for number in range(2):
            self.leaders.append(self._member(f"serve-{number}", ("serve", "--port", "0")))
        for number in range(workers):
            self.workers.append(self._member(f"worker-{number}", ("worker", *FLOWS, "--yaml", "--slots", str(slots))))
        if hands:
            port = f"127.0.0.1:{free_port()}"
            self.hands.append(self._member("port", ("serve", *FLOWS, "--port", "0", "--grpc", port, "--no-shell")))
        for number in range(hands):
            words = ("worker", TASKS, "--connect", port, "--name", f"hand-{number}")
            self.hands.append(self._member(f"hand-{number}", words))
        for number, member in enumerate(self.members):
            undo.callback(member.kill)
            member.start()
            if not number:
                self._until(lambda: "This process leads" in self.leaders[0].words)
        self._until(lambda: all("Worker on" in worker.words for worker in self.workers))

    def _member(self, name: str, words: tuple[str, ...]) -> Member:
        return Member(name, words, self.environment, self._directory / f"{name}.log")

    def _until(self, met: object) -> None:
        late_s = time.monotonic() + START_LIMIT_S
        while not met():  # type: ignore[operator]
            assert time.monotonic() < late_s, "\n".join(f"{each.name}: {each.words}" for each in self.members)
            time.sleep(0.05)

    async def watch(self) -> None:
        """Start again whatever ends by itself, for ever."""
        while True:
            await asyncio.sleep(_AGAIN_S)
            for member in self.members:
                member.raise_again()

    def leading(self) -> Member:
        """Whoever said last that it leads."""
        led = [each for each in self.leaders if each.runs and each.words.rfind("This process leads") > -1]
        return max(led or self.leaders, key=lambda each: each.log.stat().st_mtime if each.log.exists() else 0)

    def say(self, statement: str) -> str:
        """Have the primary do something, not over the wire."""
        return self.postgres.run("psql", "--quiet", "-At", f"--dbname={self.postgres.url}", f"--command={statement}")

    def attach_standby(self) -> None:
        """Give the primary a standby that has everything before it is acknowledged."""
        standby = PostgresServer(settings=FAST)
        standby.follow(self.postgres, name="standby")
        self.standby = standby
        self.say("alter system set synchronous_standby_names = 'standby'")
        self.say("select pg_reload_conf()")
        self._until(lambda: "sync" in self.say("select sync_state from pg_stat_replication").split())

    def fail_over(self) -> None:
        """The primary is lost; its standby takes its place and address."""
        assert self.standby is not None
        lost, self.postgres = self.postgres, self.standby
        self.standby = None
        lost.stop(signal.SIGQUIT)
        self.wire.cut()
        self.postgres.promote()
        self.say("alter system set synchronous_standby_names = ''")
        self.say("select pg_reload_conf()")
        self.wire.server_port = self.postgres.port
        lost.close()
