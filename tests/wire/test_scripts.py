"""Workflow files whose jobs run on connected workers: what they see there, and what becomes of them when the worker does not
stay.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine
from holdfast.service.declarations import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.testing.tcp_proxy import TcpProxy
from holdfast.wire import Client
from holdfast.wire.client import Event
from tests.wire.conftest import Hire
from tests.wire.kit import MAX_S, Server, ended, holdfast, until

WHERE = "awk '/^PPid/ {print $2}' /proc/$PPID/status"
"""Prints which process runs the script: the parent of its supervisor."""


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """It runs no script itself."""
    serving = Server(folder, "--yaml", "--no-shell")
    with ended(serving.process):
        yield serving


@pytest.fixture
def hire_shell(hire: Hire) -> Hire:
    """Starts workers that run scripts and nothing else."""
    return lambda name, *words, **how: hire(name, "--shell", *words, target=None, **how)


class Held:
    """A script that says in a file who runs it, and then waits until it is told to go on."""

    def __init__(self, folder: Path, name: str = "job") -> None:
        self.begun = folder / f"{name}-begun"
        self.go = folder / f"{name}-go"

    @property
    def script(self) -> str:
        ended = f"trap 'echo ended >> {self.begun}; exit 1' TERM"
        return f"{ended}; {WHERE} >> {self.begun}; while [ ! -e {self.go} ]; do sleep 0.02; done"

    async def lines(self, count: int) -> list[str]:
        return await asyncio.to_thread(until, self.begun, count)


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


def file_of(*steps: str, **job: Any) -> str:
    """A file with one job, written as JSON: YAML takes that."""
    described = {"runs-on": "any", **job, "steps": [{"run": each} if isinstance(each, str) else each for each in steps]}
    return json.dumps({"name": "file", "jobs": {"work": described}})


async def lost(client: Client, run: str) -> int:
    return sum([isinstance(told, Event) and told.type == "AttemptLost" async for told in client.watch(run)])


PIPELINE = f"""
name: pipeline
jobs:
  make:
    runs-on: any
    env: {{WORD: "hello"}}
    steps:
      - run: |
          mkdir inner && echo "$WORD" > inner/file
          echo "LATER=world" >> "$GITHUB_ENV"
      - id: say
        working-directory: inner
        run: |
          echo "text=$(cat file) $LATER" >> "$GITHUB_OUTPUT"
          echo "pid=$({WHERE})" >> "$GITHUB_OUTPUT"
    outputs:
      text: ${{{{ steps.say.outputs.text }}}}
      pid: ${{{{ steps.say.outputs.pid }}}}
  tell:
    runs-on: any
    needs: make
    strategy:
      matrix: {{n: [1, 2]}}
    steps:
      - run: echo "number ${{{{ matrix.n }}}} of ${{{{ needs.make.outputs.text }}}}"
"""


async def test_jobs_run_at_a_worker_that_has_no_store_and_knows_no_workflow(
    client: Client, hire_shell: Hire, server: Server
) -> None:
    worker = hire_shell("hand")
    view = await client.result(await client.submit(yaml=PIPELINE))
    assert view.status == "completed", view.error
    assert view.output["jobs"]["make"]["outputs"] == {"text": "hello world", "pid": str(worker.pid)}
    server.process.says(r"tell \(1\) \| number 1 of hello world")
    server.process.says(r"tell \(2\) \| number 2 of hello world")


async def test_combinations_that_ask_by_an_expression_are_placed_with_workers_one_by_one(
    client: Client, hire_shell: Hire
) -> None:
    """Each where its own label is; the step around them runs no script, so the server does it itself."""
    workers = {name: hire_shell(name, "--label", name) for name in ("left", "right")}
    text = file_of(
        {"id": "who", "run": f'echo "${{{{ matrix.side }}}}=$({WHERE})" >> "$GITHUB_OUTPUT"'},
        **{"runs-on": "${{ matrix.side }}", "strategy": {"matrix": {"side": [*workers]}}},
        outputs={side: f"${{{{ steps.who.outputs.{side} }}}}" for side in workers},
    )
    view = await client.result(await client.submit(yaml=text))
    assert view.status == "completed", view.error
    assert view.output["jobs"]["work"]["outputs"] == {side: str(worker.pid) for side, worker in workers.items()}


async def test_a_script_at_a_worker_learns_its_pools_and_its_use_is_learned(
    client: Client, hire_shell: Hire, server: Server
) -> None:
    hire_shell("frugal")
    async with Engine.open(str(server.folder / "runs.db"), execute=False) as engine:
        await engine.set_pool("LICENCES", slots=9)
    says = "echo has=$HOLDFAST_POOL_LICENCES; printf 'LICENCES=3\\nX=1\\n' >> $HOLDFAST_USAGE"
    run = await client.submit(yaml=file_of(says, pools={"LICENCES": 5}))
    assert (await client.result(run)).status == "completed"
    server.process.says(r"has=5")
    server.process.says(r"line 2: 'X' is no pool that the job takes of")
    async with asyncio.timeout(MAX_S), Engine.open(str(server.folder / "runs.db"), execute=False) as engine:
        service = Service(engine, [])
        while not (learned := (await service.query(Principal(), query.Pool(name="LICENCES"))).rows[0]["estimates"]):
            await asyncio.sleep(0.05)
    assert [(each["node"], each["amount"]) for each in learned] == [("work", 3)]


async def test_without_a_worker_that_has_a_shell_a_job_waits_and_says_so(
    client: Client, server: Server, hire_shell: Hire, folder: Path
) -> None:
    runs = [await client.submit(yaml=file_of("true", **{"runs-on": label})) for label in ("any", "gpu")]
    for run in runs:
        view = await client.query(run)
        while not (view.waiting_for or view.status == "completed"):
            view = await client.query(run)
        assert [wait["reason"] for wait in view.waiting_for] == ["placement"]
    easy, run = runs
    words = (sys.executable, "-m", "holdfast", "queue", "why", run, "--store", str(folder / "runs.db"))
    asked = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=60, check=False)
    assert "a shell for the workflow file, label gpu, which no running worker has" in " ".join(asked.stdout.split())
    hire_shell("plain")
    assert (await client.result(easy)).status == "completed"
    assert (await client.query(run)).status == "waiting"
    hire_shell("equipped", "--label", "gpu")
    assert (await client.result(run)).status == "completed"


async def test_the_job_of_a_killed_worker_runs_again_from_its_first_step(
    client: Client, hire_shell: Hire, held: Held, tmp_path: Path
) -> None:
    first = hire_shell("victim")
    run = await client.submit(yaml=file_of(f"echo first >> {tmp_path / 'steps'}", held.script))
    assert await held.lines(1) == [str(first.pid)]
    second = hire_shell("heir")
    first.signal(signal.SIGKILL)
    assert (await held.lines(2))[-1] == str(second.pid) or (await held.lines(3))[-1] == str(second.pid)
    held.go.touch()
    assert (await client.result(run)).status == "completed"
    assert until(tmp_path / "steps", 2) == ["first", "first"]
    assert await lost(client, run) == 1


async def test_a_step_that_runs_once_is_asked_about_when_its_worker_dies_in_it(
    client: Client, hire_shell: Hire, held: Held, tmp_path: Path
) -> None:
    first = hire_shell("unlucky")
    run = await client.submit(yaml=file_of({"run": held.script, "effect": "once", "id": "pay"}, f"touch {tmp_path}/after"))
    await held.lines(1)
    second = hire_shell("careful")
    first.signal(signal.SIGKILL)
    gate = ""
    async for told in client.watch(run):
        if isinstance(told, Event) and told.type == "GateOpened":
            gate = str(told.fields["gate"])
            break
    assert (await client.query(run)).status == "requires_attention"
    assert second.pid
    shown = (await client.gate(gate))["shown_hash"]
    await client.decide(gate, "answer", {"outputs": {}}, by="ida", shown_hash=shown)
    assert (await client.result(run)).status == "completed"
    assert (tmp_path / "after").exists()
    assert str(second.pid) not in held.begun.read_text()


async def test_a_worker_that_was_cut_off_comes_back_to_its_script(
    client: Client, hire_shell: Hire, held: Held, server: Server
) -> None:
    with TcpProxy(server.port) as proxy:
        worker = hire_shell("returning", address=f"127.0.0.1:{proxy.port}")
        run = await client.submit(yaml=file_of(held.script, "echo on"))
        await held.lines(1)
        proxy.cut()
        worker.says("Connected to", times=2)
        server.process.says("Worker returning is back, at 1 jobs")
        held.go.touch()
        assert (await client.result(run)).status == "completed"
        assert (len(await held.lines(1)), await lost(client, run)) == (1, 0)


async def test_what_a_script_came_to_while_its_worker_was_away_is_reported_when_it_is_back(
    client: Client, hire_shell: Hire, held: Held, server: Server, tmp_path: Path
) -> None:
    with TcpProxy(server.port) as proxy:
        worker = hire_shell("insistent", address=f"127.0.0.1:{proxy.port}")
        run = await client.submit(yaml=file_of(f"{held.script}; echo late; touch {tmp_path}/done", "echo on"))
        await held.lines(1)
        proxy.closed = True
        proxy.cut()
        worker.says("Not connected to")
        held.go.touch()
        await asyncio.sleep(0.1)  # time for a line that has nowhere to go
        proxy.closed = False
        assert (await client.result(run)).status == "completed"
        server.process.says(r"work \| late")
        assert (tmp_path / "done").exists()
        assert (len(await held.lines(1)), await lost(client, run)) == (1, 0)


async def test_a_combination_that_another_has_failed_is_broken_off_at_its_worker(
    client: Client, hire_shell: Hire, held: Held, tmp_path: Path
) -> None:
    hire_shell("patient")
    after = tmp_path / "after"
    fails = f"if [ $N = 1 ]; then while [ ! -e {held.begun} ]; do sleep 0.02; done; exit 1; fi; {held.script}"
    job = file_of(
        {"run": fails, "env": {"N": "${{ matrix.n }}"}},
        {"if": "always()", "run": f"echo on >> {after}"},
        strategy={"matrix": {"n": [1, 2]}},
    )
    view = await client.result(await client.submit(yaml=job))
    assert view.status == "failed"
    assert (await held.lines(2))[1] == "ended"
    assert until(after, 2) == ["on", "on"]


async def test_a_run_that_is_cancelled_ends_its_script_at_the_worker(client: Client, hire_shell: Hire, held: Held) -> None:
    hire_shell("obedient")
    run = await client.submit(yaml=file_of(held.script))
    await held.lines(1)
    await client.cancel(run)
    assert (await held.lines(2))[1] == "ended"
    assert (await client.result(run)).status == "cancelled"


async def test_a_long_log_arrives_whole(client: Client, hire_shell: Hire, server: Server) -> None:
    hire_shell("talkative")
    run = await client.submit(yaml=file_of("seq -f 'line %g' 1 5000", "echo the end"))
    assert (await client.result(run)).status == "completed"
    server.process.says(f"{run[:18]}.* the end")
    said = [line for line in server.process.lines if run[:18] in line]
    assert sum("| line " in line for line in said) == 5_000
    assert not [line for line in said if "lost" in line]


async def test_what_does_not_fit_into_a_message_fails_its_step_in_words(client: Client, hire_shell: Hire) -> None:
    hire_shell("wordy")
    inflated = "printf 'a=%s\\n' \"$(head -c 900000 /dev/zero | tr '\\0' '\\1')\" >> \"$GITHUB_OUTPUT\""
    view = await client.result(await client.submit(yaml=file_of(inflated)))
    assert view.error is not None
    assert "a message at most" in view.error["message"]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"run": "exit 3"}, "It ended with exit code 3."),
        ({"run": "true", "shell": "no-such-shell {0}"}, "no-such-shell"),
        ({"run": "ln -s / out && exit 0"}, ""),
        ({"run": "true", "working-directory": "nowhere"}, "nowhere"),
    ],
)
async def test_a_step_that_fails_there_says_why_as_it_would_here(
    client: Client, hire_shell: Hire, step: dict[str, str], told: str
) -> None:
    hire_shell("honest")
    view = await client.result(await client.submit(yaml=file_of(step)))
    assert (view.status, told in str(view.error)) == ("failed" if told else "completed", True)


async def test_the_script_of_a_killed_server_is_ended_and_its_job_done_again_for_the_next(held: Held, tmp_path: Path) -> None:
    first = Server(tmp_path, "--yaml", "--no-shell")
    with ended(first.process), TcpProxy(first.port) as proxy:
        worker = first.worker("loyal", "--shell", address=f"127.0.0.1:{proxy.port}", target=None)
        with ended(worker):
            async with Client.connect(first.address) as client:
                worker.says("Connected to")
                run = await client.submit(yaml=file_of(held.script))
                await held.lines(1)
            first.process.end()
            second = Server(tmp_path, "--yaml", "--no-shell")
            with ended(second.process):
                proxy.server_port = second.port
                assert sorted((await held.lines(3))[1:]) == [str(worker.pid), "ended"]
                held.go.touch()
                async with Client.connect(second.address) as client:
                    assert (await client.result(run)).status == "completed"


async def test_a_worker_that_would_do_nothing_gets_an_error(server: Server, folder: Path) -> None:
    for words, told in (
        (("--connect", server.address), "This worker has nothing to execute"),
        (("--shell", "--yaml"), "--shell requires --connect"),
    ):
        process = holdfast("worker", *words, folder=folder)
        with ended(process):
            process.says(told)
            assert process.process.wait(20) == 2
