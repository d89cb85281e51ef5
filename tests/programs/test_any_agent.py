"""Agents that know nothing of Holdfast, killed at each of their calls and resumed. The provider's journal is the judge: each
completed call was made once, and all of them cost no more than the limit."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.testing.model_rule import Fault, Rule
from holdfast.testing.model_server import CallRecord, ModelServer, Usage
from tests.forks import Fork

PROGRAMS = Path(__file__).parent
CALLS = 7
PATIENCE_S = 90
LIMIT_USD = "2.00"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        yield server


class Command:
    """`holdfast` in a folder of its own, with the provider in the place of the real ones."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self._folder = folder
        self._environment = {**os.environ, **server.environment}
        self._environment.pop("HOLDFAST_STORE", None)

    def start(self, *words: str) -> Fork:
        (self._folder / "pid").unlink(missing_ok=True)
        return Fork("holdfast", *words, folder=self._folder, environment=self._environment)

    def run(self, *words: str) -> tuple[int, str, str]:
        running = self.start(*words)
        out, err = running.communicate(PATIENCE_S)
        assert running.returncode is not None
        return running.returncode, out, err

    def agent(self, name: str, *words: str, limit: str = LIMIT_USD) -> tuple[str, ...]:
        return "exec", "--cost-limit", limit, "--", sys.executable, str(PROGRAMS / f"{name}_agent.py"), *words

    def kill(self, running: Fork, target: str) -> None:
        if target in ("holdfast", "both"):
            running.kill()
        if target in ("program", "both"):
            os.kill(int((self._folder / "pid").read_text()), signal.SIGKILL)

    def shown(self, run: str) -> Any:
        return msgspec.json.decode(self.run("runs", "show", run, "--json")[1])


@pytest.fixture
def holdfast(tmp_path: Path, server: ModelServer) -> Command:
    return Command(tmp_path, server)


def run_of(err: str) -> str:
    found = re.search(r"Run ([0-9a-f-]{36})", err)
    assert found, err
    return found[1]


def await_calls(server: ModelServer, count: int, running: Fork) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while len(server.calls) < count:
        assert running.poll() is None, running.communicate(PATIENCE_S)
        assert time.monotonic() < until_s
        time.sleep(0.01)


def completed(calls: list[CallRecord]) -> Counter[str]:
    return Counter(call.request_sha256 for call in calls if call.outcome == "sent")


STOPS_USD = "0.003"
"""The limit of a run that is to stop in the middle: a call may cost 0.001 at Anthropic and costs 0.0005; at OpenAI it may cost
0.002 when its maximum is at the floor, and costs 0.0002."""
SHORT = [("wire", "both", 5)]
KILLS = [
    pytest.param(agent, target, call, marks=() if (agent, target, call) in SHORT else pytest.mark.long)
    for agent in ("wire", "anthropic", "openai")
    for target in ("program", "holdfast", "both")
    for call in range(1, CALLS + 1)
]


@pytest.mark.parametrize(("agent", "target", "call"), KILLS)
def test_killed_at_a_call_an_agent_goes_on_and_pays_for_no_call_twice(
    agent: str, target: str, call: int, holdfast: Command, server: ModelServer
) -> None:
    # Every call that is under way at the kill has no reply yet; of one that has, nobody knew whether it was recorded.
    server.script.add(Rule(nth=call, latency_s=0.7), Rule(user="two", latency_s=0.7))
    running = holdfast.start(*holdfast.agent(agent))
    await_calls(server, call, running)
    holdfast.kill(running, target)
    _, err = running.communicate(PATIENCE_S)
    run = run_of(err)

    code, out, err = holdfast.run("exec", "--resume", run)
    assert code == 0, err
    assert len(out.splitlines()) == 5
    assert set(completed(server.calls).values()) == {1}
    assert len(completed(server.calls)) == CALLS
    if target == "program":
        assert len(server.calls) == CALLS  # the call that was under way was finished without it
    shown = holdfast.shown(run)
    assert shown["status"] == "completed"
    assert Decimal(shown["cost_usd"]) + Decimal(shown["held_usd"]) <= Decimal(LIMIT_USD)


@pytest.mark.long
@pytest.mark.parametrize("call", [1, 3, CALLS])
def test_a_job_killed_at_a_call_of_its_script_goes_on_and_pays_for_no_call_twice(
    call: int, holdfast: Command, server: ModelServer, tmp_path: Path
) -> None:
    agent = shlex.join([sys.executable, str(PROGRAMS / "openai_agent.py")])
    agent = f"cd {shlex.quote(str(tmp_path))} && {agent}"
    (tmp_path / "job.yaml").write_text(f"jobs: {{asks: {{runs-on: any, steps: [{{run: {json.dumps(agent)}}}]}}}}\n")
    words = ("run", "job.yaml", "--key", "one", "--cost-limit", LIMIT_USD)
    server.script.add(Rule(nth=call, latency_s=0.7), Rule(user="two", latency_s=0.7))
    running = holdfast.start(*words)
    await_calls(server, call, running)
    holdfast.kill(running, "holdfast")
    running.communicate(PATIENCE_S)

    code, out, err = holdfast.run(*words)
    assert code == 0, (out, err)
    assert set(completed(server.calls).values()) == {1}
    assert len(completed(server.calls)) == CALLS


@pytest.mark.parametrize("agent", ["wire", *(pytest.param(each, marks=pytest.mark.long) for each in ("anthropic", "openai"))])
def test_at_its_limit_an_agent_is_stopped_and_goes_on_from_the_same_call(
    agent: str, holdfast: Command, server: ModelServer
) -> None:
    server.script.add(Rule(usage=Usage(20, 100)))
    code, out, err = holdfast.run(*holdfast.agent(agent, limit=STOPS_USD))
    run, before = run_of(err), server.calls
    assert code == 9
    assert "402" in err
    assert 0 < len(before) < CALLS
    assert holdfast.shown(run)["status"] == "budget_blocked"
    assert f"holdfast budget raise {run} <USD>" in err

    again = holdfast.run("exec", "--resume", run)
    assert again[0] in (7, 9)
    assert len(server.calls) == len(before)

    code, _, err = holdfast.run("budget", "raise", run, "1.00")
    assert code == 0
    assert f"holdfast exec --resume {run}" in err
    code, out, err = holdfast.run("exec", "--resume", run)
    assert code == 0, err
    assert len(out.splitlines()) == 5
    assert set(completed(server.calls).values()) == {1}
    assert len(server.calls) == CALLS


def test_a_changed_program_is_stopped_at_the_difference_or_goes_on_live(
    holdfast: Command, server: ModelServer, tmp_path: Path
) -> None:
    server.script.add(Rule(nth=2, fault=Fault("status", status=400)))
    code, _, err = holdfast.run(*holdfast.agent("wire", "stays"))
    run = run_of(err)
    assert code == 9
    (tmp_path / "question").write_text("another one")
    before = len(server.calls)
    code, out, err = holdfast.run("exec", "--resume", run)
    assert (code, out) == (9, ""), "it is stopped, although it would go on"
    assert "[0].content: it was 'one', and is now 'another one'" in err
    assert len(server.calls) == before

    code, out, err = holdfast.run("exec", "--resume", run, "--on-change", "live")
    assert code == 0, err
    assert out.startswith("I have read: another one\n")
    assert holdfast.shown(run)["status"] == "completed"


def test_a_reply_that_its_program_did_not_wait_for_answers_the_next_same_request(
    holdfast: Command, server: ModelServer
) -> None:
    code, out, err = holdfast.run(*holdfast.agent("wire", "leaves"))
    assert code == 0, err
    assert len(out.splitlines()) == 5
    assert len(server.calls) == CALLS


@pytest.mark.parametrize("agent", ["wire", *(pytest.param(each, marks=pytest.mark.long) for each in ("anthropic", "openai"))])
def test_an_agent_that_hides_its_limit_does_not_pass_for_one_that_succeeded(agent: str, holdfast: Command) -> None:
    code, _, err = holdfast.run(*holdfast.agent(agent, "hides", limit="0.0000001"))
    assert code == 7
    assert "Stopped at the cost limit" in err
