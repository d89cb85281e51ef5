"""`holdfast top`: the live view on a real store and a real server, in a small terminal, and while the server is away."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from holdfast import Context, Engine, Workflow, flow, task
from holdfast.cli.backend import LocalBackend
from holdfast.cli.connect import backend
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.top.overview import MINUTE_MS, Filter
from holdfast.cli.top.screen import ExplanationScreen, TopApp, reach
from holdfast.errors import RunFailed
from holdfast.service.service import Service
from holdfast.testing.server_process import free_port
from tests.cli.conftest import Shell
from tests.forks import Fork

SIZE = (80, 24)

broken = Workflow("broken")


@broken.node("write")
@task
async def write(state: Any) -> None:
    raise ValueError("no address")


@flow
async def patient(ctx: Context) -> None:
    await ctx.wait_signal("paid")


@flow
async def other(ctx: Context) -> None:
    await ctx.wait_signal("sent")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(f"sqlite:///{tmp_path / 'top.db'}", workflows=[patient, other, broken]) as opened:
        yield opened


def shown(app: TopApp, id_: str) -> str:
    return str(app.screen_stack[0].query_one(f"#{id_}", Static).render())


def cells(app: TopApp) -> list[list[str]]:
    table: Any = app.screen_stack[0].query_one("#runs")
    return [[str(cell) for cell in table.get_row_at(place)] for place in range(table.row_count)]


async def seen(app: TopApp, is_there: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_there():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("size", [SIZE, (160, 48)])
async def test_it_shows_runs_waits_pools_workers_and_errors(engine: Engine, size: tuple[int, int]) -> None:
    await engine.set_pool("API", slots=5)
    runs = [await engine.start(each) for each in (patient, other)]
    app = TopApp(LocalBackend(Service(engine), resolve_actor(None)), "here", Filter())
    async with app.run_test(size=size):
        await seen(app, lambda: len(cells(app)) == 2 and all(row[2] == "waiting" for row in cells(app)))
        assert {row[0] for row in cells(app)} == {run.id[:13] for run in runs}
        assert "1 the signal paid" in shown(app, "waits")
        assert "5/5 free API" in shown(app, "pools")
        assert ERRORS_NONE in shown(app, "errors")
        await engine.start(broken)
        await seen(app, lambda: "ValueError: no address" in shown(app, "errors"))
        await seen(app, lambda: "free" in shown(app, "workers"))
        assert "$0.00 since " in shown(app, "money")
        assert " ago" not in shown(app, "workers"), "a report comes only when it changes"


ERRORS_NONE = "ERRORS: none since 20"


async def test_it_says_from_when_on_it_knows_of_errors_and_costs(engine: Engine) -> None:
    """It reads what comes from its beginning on, and from a new filter on; a whole span only after that long."""
    with pytest.raises(RunFailed):
        await (await engine.start(broken)).result()
    app = TopApp(LocalBackend(Service(engine), resolve_actor(None)), "here", Filter())
    async with app.run_test(size=SIZE) as pilot:
        await seen(app, lambda: ERRORS_NONE in shown(app, "errors"))
        await engine.start(broken)
        await seen(app, lambda: "ERRORS since 20" in shown(app, "errors"))
        await pilot.press("w", *"patient", "enter")
        await seen(app, lambda: "ERRORS: none since 20" in shown(app, "errors"))
    now_ms = 1_800_000_000_000
    assert reach(now_ms - 59_000, now_ms, MINUTE_MS, "minute") == "since 2027-01-15 07:59:01Z"
    assert reach(now_ms - 60_000, now_ms, MINUTE_MS, "minute") == "in the last minute"


async def test_keys_explain_a_run_filter_and_quit(engine: Engine) -> None:
    run = await engine.start(patient)
    await engine.start(other)
    app = TopApp(LocalBackend(Service(engine), resolve_actor(None)), "here", Filter())
    async with app.run_test(size=SIZE) as pilot:
        await seen(app, lambda: len(cells(app)) == 2)
        await pilot.press("w", *"patient", "enter")
        await seen(app, lambda: [row[0] for row in cells(app)] == [run.id[:13]])
        assert "workflow patient" in shown(app, "head")
        await pilot.press("enter")
        await seen(app, lambda: isinstance(app.screen, ExplanationScreen))
        text = str(app.screen.query_one(Static).render())
        assert "It waits for the signal 'paid'." in text
        assert "An operator or a program can send the signal." in text
        await pilot.press("escape")
        await seen(app, lambda: not isinstance(app.screen, ExplanationScreen))
        await pilot.press("e")
        await seen(app, lambda: isinstance(app.screen, ExplanationScreen))
        await pilot.press("q")
        await seen(app, lambda: not isinstance(app.screen, ExplanationScreen))
        await pilot.press("t", *"nobody", "enter")
        await seen(app, lambda: cells(app) == [])
        await pilot.press("q")
    assert app.return_code == 0


def test_it_needs_a_terminal(shell: Shell) -> None:
    said = shell("top")
    assert (said.code, "needs a terminal" in said.err) == (2, True)


def test_without_its_package_it_says_how_to_get_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.cli.top.screen")
    for name in [each for each in sys.modules if each.partition(".")[0] == "textual"]:
        monkeypatch.setitem(sys.modules, name, None)
    said = shell("top")
    assert said.code == 2
    assert "`holdfast top` needs textual, which is not installed" in said.err
    assert "pip install '.[top]'" in said.err


def test_it_says_so_while_its_server_is_away_and_goes_on(
    shell: Shell, process: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    words = ("serve", "flow:patient", "--http", f"127.0.0.1:{port}", "--port", "0")
    first = process(*words)
    monkeypatch.setenv("HOLDFAST_URL", f"http://127.0.0.1:{port}")
    deadline_s = time.monotonic() + 30
    while shell("runs", "list").code != 0:
        assert time.monotonic() < deadline_s

    async def watch() -> None:
        async with backend(None, resolve_actor(None)) as asking:
            app = TopApp(asking, "the server", Filter())
            async with app.run_test(size=SIZE):
                await seen(app, lambda: "all runs" in shown(app, "head"))
                first.send_signal(signal.SIGKILL)
                await seen(app, lambda: "the server does not answer; retrying" in shown(app, "head"))
                again = await asyncio.to_thread(process, *words, HOLDFAST_URL="")
                await seen(app, lambda: "all runs" in shown(app, "head"))
                again.send_signal(signal.SIGTERM)
                await asyncio.to_thread(again.communicate, timeout=60)

    asyncio.run(watch())


def test_it_starts_and_quits_in_a_terminal_of_80_columns(shell: Shell, home: Path) -> None:
    assert shell("run", "flow:greet", "-i", '{"customer": "Ada"}').code == 0
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    here = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    words = [sys.executable, "-m", "holdfast", "top"]
    with subprocess.Popen(words, stdin=follower, stdout=follower, stderr=follower, cwd=home, env=here) as process:
        os.close(follower)
        heard, deadline_s = b"", time.monotonic() + 60
        while b"WORKERS" not in heard or b"POOLS" not in heard:
            assert time.monotonic() < deadline_s, heard[-500:]
            if select.select([leader], [], [], 1.0)[0]:
                heard += os.read(leader, 65_536)
        os.write(leader, b"q")
        while process.poll() is None:
            assert time.monotonic() < deadline_s
            if select.select([leader], [], [], 0.2)[0]:
                try:
                    os.read(leader, 65_536)
                except OSError:
                    break
        assert process.wait(timeout=30) == 0
    os.close(leader)
