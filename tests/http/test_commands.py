"""`holdfast serve --http` and `holdfast dev`, as processes that are asked, stopped and killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from holdfast.testing.server_process import free_port
from tests.http.kit import MAX_S, NO_TLS, Asked
from tests.wire.kit import Process, ended, holdfast

FLOWS = Path(__file__).parent / "flows.py"
TOKEN = "a-token-of-some-length"


def private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def serve(folder: Path, *words: str) -> Process:
    return holdfast("serve", *words, "--http", "127.0.0.1:0", "--port", "0", "--store", str(folder / "runs.db"), folder=folder)


def asked(process: Process, token: str = TOKEN, times: int = 1) -> Asked:
    """One who asks the process, once it answers."""
    address = process.says(r"HTTP on (http://\S+)/api/v1\.", times)[1]
    headers = {"authorization": f"Bearer {token}"}
    return Asked(httpx2.AsyncClient(verify=NO_TLS, base_url=f"{address}/api/v1", headers=headers, timeout=MAX_S))


async def test_a_killed_server_s_runs_are_approved_at_the_next(tmp_path: Path) -> None:
    token = private(tmp_path / "token", TOKEN)
    first = serve(tmp_path, f"{FLOWS}:order", "--token-file", str(token))
    with ended(first):
        api = asked(first)
        run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
        first.signal(signal.SIGKILL)
    second = serve(tmp_path, f"{FLOWS}:order", "--token-file", str(token))
    with ended(second):
        api = asked(second)
        gate = await api.gate(run)
        done = await api.post(f"/gates/{gate}/decision", await api.seen(gate), wait_s=10, holdfast_as="ida")
        assert (done["status"], done["output"]) == ("completed", "shipped tea")
        assert second.stop() == 0


async def test_a_process_without_the_code_lists_and_starts(tmp_path: Path) -> None:
    """What it starts waits for a process that has the code; what cannot fit is refused here."""
    worker = serve(tmp_path, f"{FLOWS}:order")
    with ended(worker):
        without = serve(tmp_path)
        with ended(without):
            worker.says("HTTP on")
            api = asked(without)
            assert [row["workflow"] for row in await api.rows("/workflows")] == ["order"]
            assert await api.refused("POST", "/runs", {"workflow": "order", "input": {}}) == (422, "invalid_input")
            run = await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10)
            assert run["status"] == "waiting"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--http", "nowhere"], "is no address"),
        (["--http", "0.0.0.0:0"], "can be reached from other machines"),
        (["--http", "0.0.0.0:0", "--behind-proxy"], "Add --tokens"),
        (["--http", "127.0.0.1:0", "--tls-cert", "x.pem"], "A certificate needs its key"),
        ([f"{FLOWS}:order"], "Without --grpc or --http"),
    ],
)
def test_a_port_that_must_not_be_is_refused_in_words(tmp_path: Path, words: list[str], told: str) -> None:
    process = holdfast("serve", *words, "--port", "0", "--store", str(tmp_path / "runs.db"), folder=tmp_path)
    with ended(process):
        process.says(re.escape(told))
        assert process.process.wait(MAX_S) != 0


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = holdfast("serve", "--http", address, "--port", "0", "--store", str(tmp_path / "x.db"), folder=tmp_path)
        with ended(process):
            process.says(f"Cannot listen on {address}: Address already in use.*Name another with --http")
            assert process.process.wait(MAX_S) == 2


CODE = """
from holdfast import flow, step

@step
async def first(name):
    return f"dear {name}"

@flow
async def greet(ctx, name):
    text = await first(name)
    answer = await ctx.ask({"text": text})
    return text + MARK
"""


async def test_a_change_of_the_code_restarts_the_server_and_its_runs_go_on(tmp_path: Path) -> None:
    code = tmp_path / "greet.py"
    code.write_text(CODE.replace("MARK", '"!"'))
    process = holdfast(
        "dev", f"{code}:greet", "--port", "0", "--store", str(tmp_path / "runs.db"), folder=tmp_path, HOLDFAST_TOKEN=TOKEN
    )
    with ended(process):
        api = asked(process)
        runs = [(await api.post("/runs", {"workflow": "greet", "input": "ann"}, wait_s=10))["run_id"] for _ in range(2)]
        code.write_text(CODE.replace("MARK", '"?"'))
        process.says("greet.py has changed")
        api = asked(process, times=2)
        first, second = [await api.gate(run) for run in runs]
        done = await api.post(f"/gates/{first}/decision", await api.seen(first), wait_s=10)
        assert (done["status"], done["output"]) == ("completed", "dear ann?")
        code.write_text(CODE.replace("first(name)", "second(name)").replace("MARK", '"?"'))
        api = asked(process, times=3)
        await api.post(f"/gates/{second}/decision", await api.seen(second), wait_s=10)
        stopped = await api.get(f"/runs/{runs[1]}")
        assert [each["reason"] for each in stopped["waiting_for"]] == ["code_changed"]
        code.write_text("not Python")
        process.says("it restarts when a file changes")
        code.write_text(CODE.replace("MARK", '"."'))
        api = asked(process, times=4)
        assert (await api.get(f"/runs/{runs[0]}"))["status"] == "completed"
        assert process.stop() == 0


PAYS = """
from pathlib import Path

from holdfast import flow, step

from amounts import amount

@step
async def pay(n):
    for name in ("a.json", "b.txt", "c.md", "d.toml", "e.py", "f.yaml"):
        Path(name).write_text(str(n))

@step
async def rate(n):
    import rates
    return rates.RATE

@flow
async def pays(ctx, n):
    await pay(n)
    return [amount(n), await rate(n)]
"""


def dev(folder: Path, target: str, *words: str, **environment: str) -> Process:
    more = {"HOLDFAST_TOKEN": TOKEN, **environment}
    return holdfast("dev", target, "--port", "0", "--store", "runs.db", *words, folder=folder, **more)


SAYS = """
from holdfast import flow

@flow
async def says(ctx, n):
    print("a line of my flow", n)
    await ctx.ask({"may": "it end?"})
"""


@pytest.mark.parametrize("buffering", ["", "1"])
async def test_what_a_flow_prints_is_in_the_terminal_of_dev_at_once(tmp_path: Path, buffering: str) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    health = free_port()
    process = dev(tmp_path, "says.py:says", "--health-port", str(health), PYTHONUNBUFFERED=buffering)
    with ended(process):
        await asked(process).post("/runs", {"workflow": "says", "input": 7}, wait_s=10)
        process.says(r"^\[server\] a line of my flow 7$")
        async with httpx2.AsyncClient(trust_env=False) as client:
            shown = (await client.get(f"http://127.0.0.1:{health}/metrics")).text
        assert 'holdfast_runs_started_total{workflow="says"} 1.0' in shown


async def test_commands_beside_dev_say_who_executes_and_how_to_show_the_token(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    process = dev(tmp_path, "says.py:says")
    with ended(process):
        asked(process)
        address = process.says(r"the API is at (http://\S+)/api/v1")[1]
        started = _command(tmp_path, {"HOLDFAST_STORE": "runs.db"}, "run", "says.py:says", "-i", "7", "--detach")
        assert "A process that is running executes it." in started.stderr
        refused = _command(tmp_path, {"HOLDFAST_URL": address, "HOLDFAST_TOKEN": ""}, "runs", "list")
        assert "set HOLDFAST_TOKEN" in refused.stderr


async def test_dev_keeps_its_token_beside_the_store_and_is_found_there(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    words = ("dev", "says.py:says", "--port", "0", "--store", "runs.db")
    here = {"HOLDFAST_STORE": str(tmp_path / "runs.db")}
    kept = tmp_path / "runs.db-dev"
    tokens, run = [], ""
    for _ in range(2):
        process = holdfast(*words, folder=tmp_path, HOLDFAST_TOKEN="")
        with ended(process):
            tokens.append(process.says(r"Bearer (\w+)'")[1])
            run = run or (await asked(process, tokens[-1]).post("/runs", {"workflow": "says", "input": 7}))["run_id"]
            address = process.says(r"the API is at (http://\S+)/api/v1")[1]
            opened = _open(run, tmp_path, here)
            assert (opened.returncode, opened.stdout) == (0, f"{address}/runs/{run}\n"), opened.stderr
            assert process.stop() == 0
    assert tokens[0] == tokens[1], "a page signs in by itself after a restart"
    assert {path.name: path.stat().st_mode & 0o777 for path in (kept, kept / "server.json")} == {
        "runs.db-dev": 0o700,
        "server.json": 0o600,
    }
    assert (kept / ".gitignore").read_text() == "*\n"
    gone = _open(run, tmp_path, here)
    assert (gone.returncode, "no `holdfast dev` answers for this store" in gone.stderr) == (2, True)
    (kept / "server.json").chmod(0o644)
    process = holdfast(*words, folder=tmp_path, HOLDFAST_TOKEN="")
    with ended(process):
        assert process.says(r"Bearer (\w+)'")[1] != tokens[0], "others may have read it"
    process = holdfast(*words, folder=tmp_path, HOLDFAST_TOKEN=TOKEN)
    with ended(process):
        asked(process)
        process.says("Ready")
        assert TOKEN not in (kept / "server.json").read_text(), "what a user has named stays where it is"
        assert _open(run, tmp_path, {**here, "HOLDFAST_TOKEN": TOKEN}).returncode == 0


def _open(run: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return _command(folder, environment, "runs", "open", run, "--no-open")


def _command(folder: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)


async def test_streams_and_waits_end_without_a_traceback_when_dev_restarts_or_ends(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    process = dev(tmp_path, "says.py:says")
    listens = {"accept": "text/event-stream"}
    with ended(process):
        for number, end in enumerate((lambda: (tmp_path / "says.py").touch(), lambda: process.signal(signal.SIGINT)), 1):
            api = asked(process, times=number)
            run = (await api.post("/runs", {"workflow": "says", "input": 7}, wait_s=10))["run_id"]
            late = asyncio.create_task(api.http.get(f"/runs/{run}/streams", params={"wait_s": 30}))
            async with (
                api.http.stream("GET", f"/runs/{run}/events", headers=listens) as history,
                api.http.stream("GET", "/events", headers=listens) as tail,
            ):
                of_history, of_tail = history.aiter_lines(), tail.aiter_lines()
                assert [await anext(of_history), await anext(of_tail)]
                end()
                [[line async for line in lines] for lines in (of_history, of_tail)]  # until the server breaks off
            await asyncio.gather(late, return_exceptions=True)
            await api.http.aclose()
        assert await asyncio.to_thread(process.process.wait, MAX_S) == 0
    assert not [line for line in process.lines if re.search(r"Traceback|Error|Exception|Cancel", line)]


async def test_dev_restarts_for_imported_modules_and_not_for_what_a_run_writes(tmp_path: Path) -> None:
    """Also for a module that a step imports as late as it runs, and for none that is there and not imported."""
    (tmp_path / "pays.py").write_text(PAYS)
    (tmp_path / "amounts.py").write_text("def amount(n): return n")
    (tmp_path / "rates.py").write_text("RATE = 1")
    (tmp_path / "b.txt").write_text("before")
    process = dev(tmp_path, "pays.py:pays")
    with ended(process):
        process.says("Ready: the API is at http")
        run = await asked(process).post("/runs", {"workflow": "pays", "input": 7}, wait_s=10)
        assert run["output"] == [7, 1]
        (tmp_path / "amounts.py").write_text("def amount(n): return 2 * n")
        process.says("has changed; the server restarts")
        run = await asked(process, times=2).post("/runs", {"workflow": "pays", "input": 8}, wait_s=10)
        assert run["output"] == [16, 1]
        process.says("Ready: the API is at http", 2)
        async with asyncio.timeout(MAX_S):
            while "rates.py has changed" not in "".join(process.lines):  # a step's import is known within half a second
                (tmp_path / "rates.py").write_text("RATE = 2")
                await asyncio.sleep(0.2)
        run = await asked(process, times=3).post("/runs", {"workflow": "pays", "input": 9}, wait_s=10)
        assert run["output"] == [18, 2]
        changed = re.findall(r"(\w+\.\w+) has changed", "".join(process.lines))
        assert changed == ["amounts.py", "rates.py"]


async def test_dev_restarts_for_files_that_it_is_to_include(tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text(WHO)
    (tmp_path / "prompts").mkdir()
    process = dev(tmp_path, "who.py:who", "--reload-include", "prompts", "--reload-include", "*.csv")
    with ended(process):
        asked(process)
        (tmp_path / "notes.md").write_text("not included")
        (tmp_path / "prompts" / "ask.md").write_text("Answer.")
        process.says("ask.md has changed")
        asked(process, times=2)
        (tmp_path / "rows.csv").write_text("1,2")
        process.says("rows.csv has changed")
        asked(process, times=3)
        assert "notes.md" not in "".join(process.lines)


async def test_dev_starts_again_when_the_module_that_it_lacked_is_written(tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text(WHO)
    process = dev(tmp_path, "who.py:who")
    with ended(process):
        asked(process)
        (tmp_path / "who.py").write_text(f"import later\n{WHO}")
        process.says("it restarts when a file changes")
        (tmp_path / "later.py").write_text("")
        process.says("later.py has changed")
        asked(process, times=2)


def test_dev_includes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    process = dev(tmp_path, f"{FLOWS}:quick", "--reload-include", "../prompts")
    with ended(process):
        process.says("--reload-include takes a pattern below the working directory")
        assert process.process.wait(MAX_S) == 2


WHO = """
import os
from holdfast import flow

@flow
async def who(ctx):
    return os.getpid()
"""


async def test_the_server_of_dev_ends_with_it_also_where_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text(WHO)
    process = holdfast("dev", "who.py:who", "--port", "0", "--store", "runs.db", folder=tmp_path, HOLDFAST_TOKEN=TOKEN)
    with ended(process):
        api = asked(process)
        server = (await api.post("/runs", {"workflow": "who", "input": None}, wait_s=10))["output"]
        process.signal(signal.SIGKILL)
        try:
            async with asyncio.timeout(MAX_S):
                while is_alive(server):
                    await asyncio.sleep(0.05)
        finally:
            if is_alive(server):
                os.kill(server, signal.SIGKILL)


async def test_dev_starts_a_killed_server_again_but_not_for_ever(tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text(WHO)
    process = dev(tmp_path, "who.py:who")
    with ended(process):
        for times in range(1, 5):
            process.says("Ready: the API is at", times)
            api = asked(process, times=times)
            server = (await api.post("/runs", {"workflow": "who", "input": None}, wait_s=10))["output"]
            os.kill(server, signal.SIGKILL)
            if times < 4:
                process.says("was ended by SIGKILL and starts again", times)
        process.says("was ended by SIGKILL; it restarts when a file changes")
        (tmp_path / "who.py").write_text(f"{WHO}\n")
        process.says("who.py has changed")
        process.says("Ready: the API is at", 5)
        assert process.stop() == 0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_fleet_s_store_is_not_for_development(tmp_path: Path) -> None:
    process = holdfast("dev", f"{FLOWS}:quick", "--store", "postgresql://127.0.0.1:1/x", folder=tmp_path)
    with ended(process):
        process.says("`holdfast serve --http` answers for a fleet")
        assert process.process.wait(MAX_S) == 2


async def test_the_token_of_dev_stands_in_no_list_of_processes(tmp_path: Path) -> None:
    """Every user of the machine can read what a process was started with."""
    (tmp_path / "who.py").write_text(WHO)
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(TOKEN)
    words = ("dev", "who.py:who", "--port", "0", "--token-file", str(file), "--store", "runs.db")
    process = holdfast(*words, folder=tmp_path, HOLDFAST_TOKEN="another")
    with ended(process):
        assert (await asked(process).get("/me"))["may"]
        started = [each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline") if each.exists()]
        assert any(b"serve\0who.py:who" in each for each in started)
        assert not any(TOKEN.encode() in each for each in started)
