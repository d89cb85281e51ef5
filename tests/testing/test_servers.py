"""The real servers of the test kit: they come up, break as asked, and never outlive whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from holdfast.errors import UsageError
from holdfast.testing.postgres_server import FAST, PostgresServer, installed
from holdfast.testing.redis_server import RedisServer

OWNER = """
import sys, time
from holdfast.testing.postgres_server import PostgresServer
from holdfast.testing.redis_server import RedisServer
with PostgresServer() as postgres, RedisServer() as redis:
    print(postgres.pid, redis.pid, flush=True)
    time.sleep(60)
"""
NO_SETPRIV = """
from holdfast.testing import server_process
server_process._setpriv = lambda: None
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def value(server: PostgresServer, question: str) -> object:
    connection = await asyncpg.connect(server.url)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


@pytest.mark.parametrize("version", sorted(installed()))
async def test_every_version_that_is_installed_can_be_asked_for(version: int) -> None:
    with PostgresServer(version=version, settings=FAST) as server:
        assert str(await value(server, "show server_version")).split(".", maxsplit=1)[0] == str(version)
        folder = server.folder
    assert not folder.exists()


def test_a_version_that_is_not_there_is_asked_for_in_vain() -> None:
    with pytest.raises(UsageError, match=r"PostgreSQL 9 is not installed.*pip install '\.\[servers\]'"):
        PostgresServer(version=9)


async def test_what_was_committed_outlives_an_immediate_stop() -> None:
    with PostgresServer() as server:
        await value(server, "create table t as select 1 as n")
        server.stop(signal.SIGQUIT)
        server.restart()
        assert await value(server, "select n from t") == 1


async def test_a_standby_follows_and_can_be_promoted() -> None:
    with PostgresServer(settings=FAST) as primary:
        await value(primary, "create table t as select 1 as n")
        standby = PostgresServer(settings=FAST)
        try:
            standby.follow(primary, name="second")
            assert await value(standby, "select n from t") == 1
            assert await value(standby, "select pg_is_in_recovery()") is True
            primary.stop(signal.SIGQUIT)
            standby.promote()
            await value(standby, "insert into t values (2)")
        finally:
            standby.close()


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_setting"), PostgresServer(settings=["no_such_setting=1"]):
        pass
    with pytest.raises(RuntimeError, match="no-such-setting"), RedisServer(settings=["--no-such-setting", "1"]):
        pass


def test_redis_forgets_everything_when_it_is_killed() -> None:
    with RedisServer() as server:
        port = server.port
        server.stop(signal.SIGKILL)
        server.start()
        assert server.port == port


@pytest.mark.parametrize("before", ["", NO_SETPRIV], ids=["setpriv", "no setpriv"])
def test_servers_die_with_the_process_that_started_them(before: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", before + OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 2
    assert all(is_running(pid) for pid in pids)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    late_s = time.monotonic() + 30
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < late_s, "a server outlived its owner"
        time.sleep(0.02)
