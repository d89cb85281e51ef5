"""A fleet as one runs it: real processes on a real PostgreSQL and a real Redis, started, stopped, killed and frozen."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.testing.postgres_server import PostgresServer
from holdfast.testing.redis_server import RedisServer
from holdfast.testing.tcp_proxy import TcpProxy
from tests.cli.conftest import Shell
from tests.forks import Fork

Start = Callable[..., Fork]
MAX_S = 30.0
TAKEN_OVER_S = 3.0
"""A leader's lease of 2 s, and the next look of whoever waits to lead."""
LEADS = "This process leads."
STANDS_BY = "This process is on standby."


class WorkerConnection:
    """A process of the fleet and what it says, line by line as it says it."""

    def __init__(self, process: Fork) -> None:
        self.process = process
        self.lines: list[str] = []
        self._said = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._said:
                self.lines.append(line)
                self._said.notify_all()

    def says(self, words: str, within_s: float = MAX_S) -> str:
        """Wait for a line with these words in it; the line."""
        with self._said:
            assert self._said.wait_for(lambda: any(words in line for line in self.lines), within_s), self.lines
            return next(line for line in self.lines if words in line)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(MAX_S)


@pytest.fixture
def fleet(database: str, process: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WorkerConnection]]:
    """Starts processes of a fleet, whose store and queue are also this process's, and ends them with the test."""
    started: list[WorkerConnection] = []

    def start(*words: str, **environment: str) -> WorkerConnection:
        started.append(WorkerConnection(process(*words, **environment)))
        return started[-1]

    with RedisServer() as redis:
        monkeypatch.setenv("HOLDFAST_STORE", database)
        monkeypatch.setenv("HOLDFAST_QUEUE", redis.url)
        yield start
        for member in started:
            member.process.kill()
            member.process.wait(MAX_S)


Fleet = Callable[..., WorkerConnection]


def serving(fleet: Fleet) -> WorkerConnection:
    return fleet("serve", "--port", "0")


def pair(fleet: Fleet) -> tuple[WorkerConnection, WorkerConnection]:
    """One that leads, and one that stands by."""
    leader = serving(fleet)
    leader.says(LEADS)
    standby = serving(fleet)
    standby.says("Serving lane default")
    return leader, standby


def status_of(shell: Shell, run: str) -> str:
    status: str = shell("runs", "show", run, "--json").data["status"]
    return status


FOUND_AFTER_S = 2.0
"""A leader that was not told of a step leaves it to others for so long."""


def becomes(shell: Shell, run: str, status: str, within_s: float = MAX_S) -> float:
    """Wait until the run is that; how long it took."""
    began_s = time.monotonic()
    while status_of(shell, run) != status:
        assert time.monotonic() < began_s + within_s, status_of(shell, run)
        time.sleep(0.02)
    return time.monotonic() - began_s


def types_of(shell: Shell, run: str) -> list[str]:
    return [json.loads(line)["type"] for line in shell("runs", "events", run, "--json").out.splitlines()]


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=MAX_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def figure(metrics: str, name: str) -> float:
    (found,) = re.findall(rf"^{name} (\S+)$", metrics, re.MULTILINE)
    return float(found)


# --- Who leads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_when_the_leader_dies_or_stands_still_the_other_leads_within_three_seconds(
    fleet: Fleet, shell: Shell, how: signal.Signals
) -> None:
    leader, standby = pair(fleet)
    fleet("worker", "flow:greet").says("Worker on")
    leader.process.send_signal(how)
    standby.says(LEADS, TAKEN_OVER_S)
    assert shell("run", "flow:greet", "-i", '{"customer": "Ada"}').out == "Dear Ada\n"
    if how == signal.SIGSTOP:
        leader.process.send_signal(signal.SIGCONT)
        leader.says(STANDS_BY)
        time.sleep(1)
        assert STANDS_BY not in "".join(standby.lines)


def test_a_leader_that_is_stopped_is_followed_at_once(fleet: Fleet) -> None:
    leader, standby = pair(fleet)
    began_s = time.monotonic()
    assert leader.stop() == 0
    leader.says("SIGTERM: another process leads from now on")
    standby.says(LEADS, TAKEN_OVER_S - (time.monotonic() - began_s))


def test_deadlines_are_kept_though_no_worker_has_the_workflow(fleet: Fleet, shell: Shell) -> None:
    said = shell("run", "flow:overdue", "--here", "--json")
    run = said.data["run_id"]
    assert said.data["status"] == "waiting"
    serving(fleet).says(LEADS)
    becomes(shell, run, "requires_attention")
    assert "GateEscalated" in types_of(shell, run)


def test_without_a_leader_the_workers_find_everything_themselves(fleet: Fleet, shell: Shell) -> None:
    fleet("worker", "flow:greet").says("Worker on")
    assert shell("run", "flow:greet", "-i", '{"customer": "Ada"}').out == "Dear Ada\n"


def test_without_a_queue_the_fleet_does_the_same(fleet: Fleet, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_QUEUE")
    serving(fleet).says(LEADS)
    for _ in range(2):
        fleet("worker", "flow:greet").says("Worker on")
    assert shell("run", "flow:greet", "-i", '{"customer": "Ada"}').out == "Dear Ada\n"


# --- `run` in a fleet -------------------------------------------------------------------------------------------------


def test_run_follows_what_a_worker_does(fleet: Fleet, shell: Shell) -> None:
    serving(fleet).says(LEADS)
    worker = fleet("worker", "flow:greet")
    worker.says("Worker on")
    said = shell("run", "flow:greet", "-i", '{"customer": "Ada"}')
    assert said.out == "Dear Ada\n"
    assert "No worker" not in said.err
    assert worker.stop() == 0
    worker.says("1 step, 1 run completed")


def test_without_a_worker_run_says_so_and_detaches_or_runs_it_here(fleet: Fleet, shell: Shell) -> None:
    serving(fleet).says(LEADS)
    left = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--detach")
    run = left.out.strip()
    assert left.code == 0
    assert "Started. A worker takes it up:" in left.err
    assert status_of(shell, run) == "running"
    here = shell("run", "flow:greet", "-i", '{"customer": "Bob"}', "--here")
    assert here.out == "Dear Bob\n"
    assert "no worker" not in here.err
    fleet("worker", "flow:greet").says("Worker on")
    becomes(shell, run, "completed")


# --- Stopping ---------------------------------------------------------------------------------------------------------


def test_a_stopping_worker_takes_no_new_work_and_leaves_the_rest_to_others(fleet: Fleet, shell: Shell, home: Path) -> None:
    serving(fleet).says(LEADS)
    first = fleet("worker", "flow:slow", STEP_S="6")
    first.says("Worker on")
    run = shell("run", "flow:slow", "--detach").out.strip()
    while not (home / f"began-{first.process.pid}").exists():
        time.sleep(0.02)
    second = fleet("worker", "flow:slow", STEP_S="0")
    second.says("Worker on")
    first.process.terminate()
    first.says("SIGTERM: nothing new is taken")
    others = [shell("run", "flow:slow", "--detach").out.strip() for _ in range(3)]
    assert first.process.wait(MAX_S) == 0
    left_s = time.monotonic()
    first.says(": 1 step")
    for each in [run, *others]:
        becomes(shell, each, "completed", 10.0 - (time.monotonic() - left_s))
    second.stop()
    second.says("7 steps, 4 runs completed")


def test_a_worker_whose_step_goes_on_too_long_hands_it_over_and_leaves(fleet: Fleet, shell: Shell, home: Path) -> None:
    serving(fleet).says(LEADS)
    first = fleet("worker", "flow:slow", "--grace-s", "1", STEP_S="60")
    first.says("Worker on")
    run = shell("run", "flow:slow", "--detach").out.strip()
    while not (home / f"began-{first.process.pid}").exists():
        time.sleep(0.02)
    second = fleet("worker", "flow:slow", STEP_S="0")
    second.says("Worker on")
    began_s = time.monotonic()
    assert first.stop() == 0
    assert 1 <= time.monotonic() - began_s < 1 + 10, "the grace, and little more"
    first.says("1 step handed over")
    becomes(shell, run, "completed")
    lines = shell("runs", "events", run, "--json").out.splitlines()
    *_, (left, begun) = [each for each in pairwise(map(json.loads, lines)) if each[1]["type"] == "StepStarted"]
    waited = datetime.fromisoformat(begun["at"]) - datetime.fromisoformat(left["at"])
    assert waited.total_seconds() < FOUND_AFTER_S, "it was told, not found"


# --- Ports and commands -----------------------------------------------------------------------------------------------


def test_the_port_tells_of_health_and_figures(fleet: Fleet, shell: Shell) -> None:
    leader, standby = pair(fleet)
    bases = [re.findall(r"http://\S+?(?=\.\s)", member.says("health and metrics on"))[0] for member in (leader, standby)]
    fleet("worker", "flow:slow", "--slots", "7").says("Worker on")
    for base in bases:
        assert get(f"{base}/healthz") == (200, "ok\n")
        assert get(f"{base}/readyz") == (200, "ok\n")
        assert get(f"{base}/elsewhere")[0] == 404
    until_s = time.monotonic() + MAX_S
    while figure(metrics := get(f"{bases[0]}/metrics")[1], "holdfast_workers") != 1:
        assert time.monotonic() < until_s, metrics
    assert [figure(metrics, f"holdfast_{name}") for name in ("leads", "slots", "slots_free", "jobs_waiting")] == [1, 7, 7, 0]
    assert figure(get(f"{bases[1]}/metrics")[1], "holdfast_leads") == 0


def test_a_worker_tells_of_its_health_where_it_is_asked_to(fleet: Fleet, shell: Shell) -> None:
    worker = fleet("worker", "flow:slow", "--slots", "7", "--port", "0")
    (base,) = re.findall(r"http://\S+?(?=\.\s)", worker.says("Health and metrics on"))
    assert get(f"{base}/healthz") == (200, "ok\n")
    assert get(f"{base}/readyz") == (200, "ok\n")
    metrics = get(f"{base}/metrics")[1]
    assert [figure(metrics, f"holdfast_worker_{name}") for name in ("slots", "steps")] == [7, 0]
    refused = shell("worker", "--connect", "127.0.0.1:1", "--port", "0")
    assert (refused.code, "--port" in refused.err) == (2, True)


def test_a_port_tells_when_the_store_is_away_and_when_it_is_back(
    home: Path, process: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PostgresServer() as server:
        monkeypatch.setenv("HOLDFAST_STORE", server.url)
        member = WorkerConnection(process("serve", "--port", "0"))
        try:
            (base,) = re.findall(r"http://\S+?(?=\.\s)", member.says("health and metrics on"))
            member.says(LEADS)
            server.stop(signal.SIGQUIT)
            assert get(f"{base}/readyz") == (503, "the store cannot be reached\n")
            assert get(f"{base}/healthz") == (200, "ok\n")
            server.restart()
            until_s = time.monotonic() + MAX_S
            while get(f"{base}/readyz")[0] != 200:
                assert time.monotonic() < until_s
            assert member.stop() == 0
        finally:
            member.process.kill()
            member.process.wait(MAX_S)


def test_what_cannot_be_served_is_reported(fleet: Fleet, shell: Shell, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = shell("serve", "--port", str(taken.getsockname()[1]))
    assert said.code == 2
    assert "Cannot listen on 127.0.0.1:" in said.err
    assert "Name another with --port" in said.err
    assert shell("serve", "--port", "65536").code == 2
    nowhere = shell("serve", "--port", "0", "--host", "no.such.host.invalid")
    assert nowhere.code == 2
    assert "Cannot listen on no.such.host.invalid" in nowhere.err
    alone = shell("serve", "--store", "sqlite:///holdfast.db")
    assert alone.code == 2
    assert "on SQLite the workers of one machine need no leader" in alone.err
    assert not list(home.glob("holdfast.db*"))


def test_workers_without_the_file_run_each_job_where_what_it_asks_for_is(fleet: Fleet, shell: Shell, home: Path) -> None:
    """What is run is new to the fleet: nobody had this workflow before."""
    serving(fleet).says(LEADS)
    plain, strong = fleet("worker", "--yaml"), fleet("worker", "--yaml", "--label", "gpu", "--tag", "fast")
    for worker in (plain, strong):
        worker.says("Worker on")
    (home / "flow.yaml").write_text("""
jobs:
  first: {runs-on: any, steps: [{run: echo first}]}
  second: {runs-on: gpu, needs: first, resources: {cpu: 10, tags: [fast]}, steps: [{run: echo second}]}
  third: {runs-on: any, needs: second, steps: [{run: echo third}]}
""")
    said = shell("run", "flow.yaml", "--detach")
    assert becomes(shell, said.out.strip(), "completed", 10) < 10
    strong.says("second | second")
    assert not any("second | second" in line for line in plain.lines)


def test_what_a_service_starts_is_left_to_the_workers_of_its_lane(shell: Shell, fleet: Fleet, home: Path) -> None:
    (home / "holdfast.toml").write_text('[lanes.shop]\nservices = ["till"]\n')
    fleet("worker", "flow:greet").says("Worker on")
    start = ("run", "flow:greet", "-i", '{"customer": "Ada"}', "--detach", "--as")
    tills, hers = (shell(*start, who).out.strip() for who in ("till", "ada"))
    becomes(shell, hers, "completed")
    assert status_of(shell, tills) == "running"
    fleet("worker", "flow:greet", "--lane", "shop")
    becomes(shell, tills, "completed")


@pytest.mark.parametrize("mistake", ['services = "till"', 'service = ["till"]', "services = [1]"])
def test_a_lane_that_is_not_described_as_one_is_reported(shell: Shell, home: Path, mistake: str) -> None:
    (home / "holdfast.toml").write_text(f"[lanes.shop]\n{mistake}\n")
    said = shell("worker", "flow:greet")
    assert said.code == 2, said.err
    name = mistake.partition(" ")[0]
    assert f"lanes.shop.{name}" in said.err or f"nothing here knows {name} in [lanes.shop]" in said.err


def test_a_queue_that_cannot_be_named_so_is_reported(shell: Shell, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, words in (("amqp://host", "is no queue that this Holdfast knows"), ("redis://host:port", "cannot be read")):
        monkeypatch.setenv("HOLDFAST_QUEUE", url)
        for command in (("serve", "--port", "0"), ("worker", "flow:greet")):
            said = shell(*command)
            assert said.code == 2, said.err
            assert words in said.err


def test_who_starts_before_the_database_waits_for_it(process: Start) -> None:
    postgres = PostgresServer()
    postgres.start()
    try:
        postgres.stop()
        members = [
            WorkerConnection(process(*words, HOLDFAST_STORE=postgres.url))
            for words in (("worker", "flow:greet"), ("serve", "--port", "0"))
        ]
        for member in members:
            member.says("Is the server running? Retrying for 60 s.")
        postgres.restart()
        for member, words in zip(members, ("Worker on", "Serving lane"), strict=True):
            member.says("The store is there, after")
            member.says(words)
            member.stop()
        postgres.stop()
        late = WorkerConnection(process("worker", "flow:greet", "--wait-s", "0.1", HOLDFAST_STORE=postgres.url))
        assert late.process.wait(MAX_S) == 1
    finally:
        postgres.close()


def test_a_database_that_goes_away_while_a_worker_opens_it_is_waited_for(database: str, process: Start) -> None:
    address = urlsplit(database)
    with TcpProxy(address.port or 0) as wire:
        wire.lose_reply_to(".sessions (session, label")
        there = address._replace(netloc=f"{address.username}@127.0.0.1:{wire.port}").geturl()
        member = WorkerConnection(process("worker", "flow:greet", HOLDFAST_STORE=there))
        member.says("Retrying for 60 s.")
        member.says("Worker on")
        assert wire.lost
        member.stop()


def test_up_is_a_whole_fleet_that_leaves_nothing_behind(home: Path, process: Start, shell: Shell) -> None:
    member = WorkerConnection(process("up", "flow:greet", "--workers", "2", "--throwaway"))
    try:
        store = member.says("export HOLDFAST_STORE=").strip().removeprefix("export HOLDFAST_STORE=")
        member.says("export HOLDFAST_QUEUE=")
        member.says("[worker 2] Worker on")
        said = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--store", store)
        assert said.out == "Dear Ada\n"
        assert member.stop() == 0
        member.says("The fleet has stopped, and its data is removed.")
        port = int(re.findall(r":(\d+)/", store)[0])
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1)
    finally:
        member.process.kill()
        member.process.wait(MAX_S)


def test_up_starts_again_what_was_killed_and_keeps_its_runs(process: Start, shell: Shell, reachable: Path) -> None:
    words = ("up", "flow:greet", "--workers", "1", "--data", str(reachable))
    member = WorkerConnection(process(*words))
    try:
        store = member.says("export HOLDFAST_STORE=").strip().removeprefix("export HOLDFAST_STORE=")
        member.says("[worker 1] Worker on")
        run = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--json", "--store", store).data["run_id"]
        os.kill(_worker_of(member.process.pid), signal.SIGKILL)
        member.says("The worker 1 was ended by SIGKILL by itself. It restarts in 0.5 s")
        member.lines.clear()
        member.says("[worker 1] Worker on")
        assert shell("run", "flow:greet", "-i", '{"customer": "Bo"}', "--store", store).out == "Dear Bo\n"
        assert member.stop() == 0
        member.says(f"Its runs are kept in {reachable}")
        member = WorkerConnection(process(*words))
        assert member.says("export HOLDFAST_STORE=").strip().removeprefix("export HOLDFAST_STORE=") == store
        assert shell("runs", "show", run, "--store", store).code == 0
    finally:
        member.stop()


def _worker_of(up: int) -> int:
    """The process of the worker that `up` has started."""
    for pid in Path(f"/proc/{up}/task/{up}/children").read_text().split():
        if b"\0worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    raise AssertionError("no worker")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that other accounts can reach: as root, PostgreSQL runs as nobody."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
