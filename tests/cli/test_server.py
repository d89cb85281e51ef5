"""The command line at a server: HOLDFAST_URL in the place of a store."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli.page.exit_code import NOT_FOUND
from holdfast.http.problem import neutral
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from holdfast.testing.server_process import free_port
from tests.cli.conftest import FLOWS, Shell
from tests.cli.test_chat import AGENT, Typist
from tests.forks import Fork
from tests.wire.kit import ended, holdfast

NAMES = ("slow", "spoken", "letter", "patient", "payment", "scales", "broken", "two_questions", "payday")
JOBS = """
jobs:
  say: {runs-on: any, strategy: {max-parallel: 1, matrix: {n: [1, 2]}}, steps: [{run: 'echo "hello ${{ matrix.n }}, é"'}]}
  then: {runs-on: any, needs: say, steps: [{run: 'printf "\\033[31mred"'}]}
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TOKEN = "a-token-of-some-length"
UNDER_WAY = "~"
"""Begins a line of which only the exit code counts: its run goes on meanwhile."""

SCRIPT = (
    "workflows list",
    "workflows show letter",
    'run letter -i {"customer":"Ada"} --key k1 --cost-limit 0.50 --run-tag urgent',
    "run letter -i {} --json",
    "run nothing",
    "runs tail",
    "runs tail --json",
    "runs tail --from now",
    "runs tail --from yesterday",
    "runs tail --from 999999 --json",
    "runs list",
    "runs list --json",
    "runs show RUN",
    "runs show RUN --json",
    "runs show RUN --tree",
    "runs list --tag urgent --json",
    "runs list --tag none",
    "runs list --text K1 --min-cost 0 --max-cost 5 --json",
    "runs list --min-cost much",
    "runs cancel --all --tag none --yes",
    "runs show RUN --trace",
    "gates list",
    "gates list --json",
    "gates show RUN",
    "gates show RUN --json",
    "runs pause RUN",
    "runs show RUN",
    "~ runs resume RUN --json",
    "runs extend RUN --steps 500",
    "budget raise RUN --by 0.25",
    "budget show RUN",
    "budget show RUN --json",
    "runs cancel RUN --dry-run",
    "runs cancel RUN --dry-run --json",
    "gates reject RUN --as nobody",
    "~ gates approve RUN --as ann --reason good",
    'run letter -i {"customer":"Ada"} --key k1',
    "gates approve RUN --as ann",
    "gates show RUN",
    'run letter -i {"customer":"Bo"} --key k9',
    "gates delegate RUN --to eve --as ann",
    "runs migrate RUN letter --json",
    "runs migrate RUN greet",
    "runs migrate RUN letter --version 9",
    "gates delegate RUN --to eve --as mallory",
    "gates reassign RUN --to eve --as boss --json",
    "gates decide RUN approve --as ann",
    "~ gates decide RUN approve --as eve",
    "run patient --key k2 --json",
    "~ runs signal RUN go --data 1",
    "run patient --key k2",
    "run payment --key k3",
    "effects list",
    "effects list --run RUN",
    "gates list --run RUN",
    "gates show RUN",
    "effects resolve RUN:none --again",
    'run scales -i ["air","lead"] --key k4',
    "runs show RUN",
    "runs items RUN flow/0",
    "runs events RUN",
    "run broken --key k5",
    "runs show RUN",
    "~ runs retry --all --status failed --yes",
    "run broken --key k5",
    "dead-letters list",
    "dead-letters summary",
    "runs diff RUN RUN",
    "runs diff RUN OTHER",
    "runs diff RUN OTHER --json",
    "runs diff RUN 0199",
    "runs score RUN helpful 1 --comment fine",
    "scores",
    "scores --json",
    "runs show RUN",
    "evals list --json",
    "evals show none",
    "runs cancel 0199",
    "runs show",
    "runs list --status none",
    "runs list --limit 1",
    "gates show nothing",
    "budget set --tenant default --day-usd 5",
    "budget show --tenant default",
    "budget doubts",
    "admission set --fleet --runs 50",
    "admission show --fleet --json",
    "pools set GPU --slots 2",
    "pools list",
    "pools show GPU",
    "pools remove GPU",
    "pools show GPU",
    "schedules set nightly payment --cron '0 3 * * *'",
    "schedules list --json",
    "schedules pause nightly",
    "schedules remove nightly",
    "shared write notes a --value 1",
    "shared list",
    "shared show notes a",
    "conversations list",
    "queue list",
    "queue why RUN",
    "costs show",
    "costs summary --by day --by team",
    "costs runs",
    "costs labels --json",
    "costs extra --by model",
    "costs forecast",
    "costs rollup",
    "costs rollup --json",
    "runs events RUN",
    "runs events RUN --json",
    "run payment --key k8",
    "~ effects resolve RUN:pay#1:0:1 --did-not --as ida",
    "run broken --key k7",
    "dead-letters show RUN:work#1",
    "dead-letters edit RUN:work#1 --input {}",
    "dead-letters retry --all --dry-run --json",
    "runs fork RUN --from work#1 --dry-run",
    "~ runs fork RUN --from work#1 --yes",
    "dead-letters resolve RUN:work#1 --fail --as ida",
    "dead-letters list --state resolved",
    "dead-letters resolve RUN:work#1 --fail",
    "schedules show nightly",
    "budget reconcile --all --unspent",
    "budget doubts --json",
    "conversations show nothing",
    "runs list --since 1h --workflow letter --status completed,waiting",
    "runs list --children-of RUN",
    "run spoken -i 3 --key k6",
    "runs stream RUN",
    "runs stream RUN --json",
    "runs stream RUN --name progress --from 2",
    "logs RUN",
    "run talk --key k10",
    "logs RUN --follow",
    "logs RUN",
    "logs RUN then --json",
    "logs RUN nobody",
    "logs 0199",
    "schedules set daily spoken --cron '0 3 * * *' --input 1",
    "schedules backfill daily --since 2d",
    "schedules backfill daily --since 2d --until 26h --json",
    "schedules backfill daily --since soon",
    "schedules backfill daily --since 2d --until 3030-01-01",
    "schedules backfill weekly --since 2d",
    "team-budgets set papers --total-usd 0.02 --total-tokens 1000 --agent writer=1.5:25% --agent critic",
    "team-budgets list",
    "team-budgets list --json --tenant default",
    "team-budgets show papers",
    "team-budgets show papers --json",
    "team-budgets set papers --agent writer",
    "team-budgets remove papers",
    "team-budgets show papers",
    "team-budgets remove papers",
    "supervisors list",
    "supervisors list --json --tenant acme",
    "supervisors list --after nonsense",
    "supervisors show nobody",
    "approvals grant wages --for 8h --max-calls 9 --when amount<=10 --when to~a* --as ann",
    "approvals list",
    "approvals revoke none",
    "approvals grant wages --for 8h --max-calls 0",
    "approvals grant wages --for 8h --run 0199",
    "approvals list --tenant acme --json",
    'run payday -i {"ada":10,"bob":2000,"cid":3} --key k11',
    "approvals list",
    "gates show RUN",
    "gates together RUN approve --shown x",
    'gates together RUN --each {"3":"approve"}',
    "gates together RUN edit",
    "gates together 0199 approve",
    '~ gates together RUN --each {"1":{"decision":"edit","data":{"amount":5}}} --as ann',
    "~ gates together RUN approve --as ann",
    '~ run payday -i {"ada":10,"bob":2000,"cid":3} --key k11',
    "gates together RUN approve",
)


@contextmanager
def served(
    folder: Path, *words: str, at: str = "127.0.0.1:0", targets: Sequence[str] = (), **environment: str
) -> Iterator[str]:
    """The address of a server that answers in a process of its own, beside a worker."""
    folder.mkdir(exist_ok=True)
    (folder / "talk.yaml").write_text(JOBS)
    targets = targets or ["talk.yaml", *[f"{FLOWS}:{name}" for name in NAMES]]
    store = ("--store", str(folder / "runs.db"))
    worker = holdfast("worker", *targets, *store, folder=folder, **environment)
    with ended(worker):
        worker.says("Worker on")
        server = holdfast("serve", *words, "--http", at, "--port", "0", *store, folder=folder)
        with ended(server):
            yield server.says(r"HTTP on (http://\S+)/api/v1\.")[1]


def played(shell: Shell) -> list[tuple[str, int, str, str]]:
    """What each command of the script leaves behind, but for ids and times. RUN is the last that was started, at first by the
    beginning of its id, OTHER the one before."""
    said, run, other = [], "", ""
    for line in SCRIPT:
        words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line.removeprefix(UNDER_WAY))]
        found = shell(*[word.replace("RUN", run).replace("OTHER", other) for word in words])
        if words[0] == "run" and (made := re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", found.out + found.err)):
            other, run = (run if run != made[0] else other), made[0][:-1] if "k1" in words else made[0]
        shown = ("", "") if line.startswith(UNDER_WAY) else (plain(found.out), anywhere(plain(found.err)))
        said.append((line, found.code, *shown))
    return said


def anywhere(error: str) -> str:
    """Without the options and commands that an error on a store names: a server knows none."""
    return re.sub(r" \([^()]*--[a-z][^()]*\)", "", neutral(error))


def plain(text: str) -> str:
    """Without what two equal stores differ in: ids, hashes, times, how long things took, and who typed on which machine."""
    ids: dict[str, str] = {}
    for pattern, mark in (
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r' traceparent="[^"]*"', ""),  # a request to a server has a trace of its own
        (r'"traceparent": ("[^"]*"|null)', "TRACEPARENT"),
        (r"\b\d+(\.\d)? (s|min|h|d)\b", "SPAN"),
        (r"Its page: \S+\n", ""),  # a store has no address
        (r" already exists \(started SPAN ago\); showing it\.", ""),  # at a server only after the time that clocks may differ
        (r"[0-9a-f]{64}", "HASH"),
        (r"(?<![\w-])[0-9a-f]{12}(?![\w-])", "APPROVAL"),
        (r"\b[\w.-]+:\d{2,7}\b", "PROCESS"),
        (r", by OS user \w+", ""),
        (r'("\w*os_user": |os_user=)("\w*"|null)', "OS"),
        (r'\w+_ms"?:? +(\d+|\[[^]]+\])|in ms +\d+ → \d+', "MS"),
        (r'"trace_id": ("\w+"|null)', "TRACE"),
        (r'"session": "\w+"', "SESSION"),
    ):
        text = re.sub(pattern, mark, text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{20,21}", lambda id_: ids.setdefault(id_[0], f"ID{len(ids)}"), text)
    return re.sub(r" +", " ", text)


@pytest.mark.long
def test_a_server_is_worked_on_as_a_store_is(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same script of commands, once on a store and once at a server on an equal one."""
    with served(tmp_path / "here"):
        monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "here" / "runs.db"))
        here = played(shell)
    monkeypatch.delenv("HOLDFAST_STORE")
    with served(tmp_path / "there") as address:
        monkeypatch.setenv("HOLDFAST_URL", address)
        there = played(shell)
    for one, other in zip(here, there, strict=True):
        assert other == one


def test_a_run_is_followed_over_a_server_that_is_restarted(
    tmp_path: Path, shell: Shell, process: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed with its worker while a person follows a run; what happened is told once."""
    at = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("HOLDFAST_URL", f"http://{at}")
    monkeypatch.setenv("TRACEPARENT", f"00-{TRACE}-00f067aa0ba902b7-01")
    with served(tmp_path / "there", at=at, STEP_S="60", HOLDFAST_LEASE_S="1"):
        tailing = process("runs", "tail", "--follow", "--json")
        following = process("run", "slow", "--json", HOLDFAST_LOGS='{"format": "json"}')
        assert following.stderr is not None
        assert next(line for line in following.stderr if "first started" in line)
        assert tailing.stdout is not None
        first = json.loads(tailing.stdout.readline())["seq"]
    with served(tmp_path / "there", at=at):
        (run,) = shell("runs", "list", "--json").data
        out, err = following.communicate(timeout=60)
        assert (following.returncode, json.loads(out)["status"]) == (0, "completed"), err
        lines = [json.loads(line) for line in err.splitlines()]
        assert {(each["run_id"], each["tenant"], each["trace_id"]) for each in lines} == {(run["run_id"], "default", TRACE)}
        told = shell("runs", "events", run["run_id"], "--follow", "--json")
        events = [json.loads(line) for line in told.out.splitlines()]
        assert told.code == 0, told
        assert [each["seq"] for each in events] == list(range(1, len(events) + 1))
        assert [first, *[json.loads(tailing.stdout.readline())["seq"] for _ in events[1:]]] == [each["seq"] for each in events]
        tailing.send_signal(signal.SIGINT)
        out, err = tailing.communicate(timeout=20)
    assert {each["trace_id"] for each in events} == {TRACE}
    assert (tailing.returncode, out) == (130, "")
    assert "Continue with: holdfast runs tail --from" in err


def test_an_agent_is_talked_with_at_a_server_as_at_a_store(
    shell: Shell, home: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are heard as it speaks, and those of the agent to which it hands the conversation over."""
    (home / "agents.py").write_text(AGENT)
    agents = [f"{home / 'agents.py'}:{name}" for name in ("parrot", "helper", "host")]
    server.script.add(Rule(system="greet", tool_calls=(ToolCall("transfer_to_helper", {}),)), Rule(text="I can help."))
    heard: list[str] = []
    monkeypatch.setattr("holdfast.cli.page.terminal.show_part", heard.append)

    def talked() -> list[tuple[int, str, str]]:
        said = []
        for line, typed in (
            ("chat parrot --conversation c --json --token-limit 5000 --tenant default", "one\n\n/attach none\ntwo\n"),
            ("chat parrot --conversation c", "break\nthree\n"),
            ("chat helper --conversation c", "one\n"),
            ("chat nobody", "one\n"),
            ("chat parrot --conversation d", " x" * 600_000),
            ("conversations list", ""),
            ("conversations show c --json", ""),
        ):
            monkeypatch.setattr("sys.stdin", io.StringIO(typed))
            found = shell(*line.split())
            said.append((found.code, plain(found.out), anywhere(plain(found.err))))
        with monkeypatch.context() as screen:
            screen.setattr("holdfast.cli.page.terminal.is_live", lambda: True)
            screen.setattr("sys.stdin", io.StringIO("hello\n"))
            assert shell("chat", "host", "--conversation", "other").code == 0
        return said

    with served(home / "here", targets=agents):
        monkeypatch.setenv("HOLDFAST_STORE", str(home / "here" / "runs.db"))
        here = talked()
    monkeypatch.delenv("HOLDFAST_STORE")
    with served(home / "there", targets=agents) as address:
        monkeypatch.setenv("HOLDFAST_URL", address)
        assert talked() == here
        assert shell("chat", "agents.py:parrot").code == 2
    assert "".join(heard) == "I can help.\n" * 2
    assert [json.loads(line)["reply"] for line in here[0][1].splitlines()] == ["one", "one two"]
    assert [code for code, *_ in here] == [0, 0, 4, 3, 2, 0, 0]


def test_a_reply_at_a_server_is_stopped_by_who_is_at_a_terminal(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "agents.py").write_text(AGENT)
    with served(home / "there", targets=[f"{home / 'agents.py'}:waiter"]) as address:
        monkeypatch.setenv("HOLDFAST_URL", address)
        person = Typist("chat", "waiter", "--conversation", "c", "--on-busy", "reject")
        person.sees("> ")
        person.types("ask\n")
        person.sees("holdfast gates show")
        person.types("hello?\n")
        person.sees("Nothing was sent: wait for its reply")
        assert shell("gates", "approve", shell("gates", "list", "--json").data[0]["gate_id"]).code == 0
        person.sees("approve")
        person.sees("> ")
        person.types("wait\n")
        while not shell("conversations", "list", "--json").data[0]["active"]:
            pass
        person.types("\x03")
        person.sees("Stopping the reply")
        person.sees("cancelled")
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0


def test_a_reply_is_waited_for_over_a_server_that_is_restarted(
    tmp_path: Path, shell: Shell, process: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents.py").write_text(AGENT)
    at, agents = f"127.0.0.1:{free_port()}", [f"{tmp_path / 'agents.py'}:waiter"]
    monkeypatch.setenv("HOLDFAST_URL", f"http://{at}")
    with served(tmp_path / "there", at=at, targets=agents):
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert shell("chat", "waiter", "--conversation", "c").code == 0
        assert shell("conversations", "say", "c", "ask").code == 0
        talking = process("chat", "waiter", "--conversation", "c", "--json")
        assert talking.stderr is not None
        assert next(line for line in talking.stderr if "holdfast gates show" in line)
    with served(tmp_path / "there", at=at, targets=agents):
        assert shell("gates", "approve", shell("gates", "list", "--json").data[0]["gate_id"]).code == 0
        out, err = talking.communicate(timeout=60)
    assert (talking.returncode, json.loads(out)["reply"]) == (0, "approve"), err


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A server that knows one token; the file that has it."""
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    with served(tmp_path / "there", "--token-file", str(token)) as address:
        monkeypatch.setenv("HOLDFAST_URL", address)
        yield token


def test_who_works_at_a_server_shows_a_token(shell: Shell, guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = shell("runs", "list", "--json")
    error = json.loads(refused.err)["error"]
    assert (refused.code, error["class"], error["exit_code"]) == (5, "Unauthorized", 5)
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(guarded))
    assert shell("runs", "list", "--json").data == []
    monkeypatch.setenv("HOLDFAST_TOKEN", "another-token-than-that")
    refused = shell("runs", "list")
    assert (refused.code, "another-token" in refused.err) == (5, False)


def test_a_tenant_s_token_starts_what_is_offered_and_sees_its_own(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.touch(0o600)
    shop, every = (f'[clients.{name}]\nmay = "admin"\ntoken = ' for name in ("shop", "all"))
    tokens.write_text(f'{shop}"{TOKEN}"\ntenant = "acme"\n{every}"{TOKEN * 2}"\n')
    with served(tmp_path / "there", f"{FLOWS}:spoken", "--tokens", str(tokens)) as address:
        monkeypatch.setenv("HOLDFAST_URL", address)
        monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN * 2)
        assert shell("run", "spoken", "-i", "1", "--json").data["status"] == "completed"
        monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
        said = shell("run", "spoken", "-i", "2")
        assert (said.code, said.out) == (0, "2\n"), said
        assert [row["tenant"] for row in shell("runs", "list", "--json").data] == ["acme"]
        assert shell("run", "spoken", "--tenant", "globex").code == 1
        for line in (
            "schedules set daily spoken --cron '0 3 * * *' --input 1",
            "schedules show daily",
            "schedules pause daily",
            "schedules resume daily",
            "schedules remove daily",
            "shared write board plan --value 1",
            "shared show board plan",
        ):
            found = shell(*shlex.split(line))
            assert found.code == 0, (line, found.err)
        for line in ("conversations say c hello", "conversations show c", "conversations delete c"):
            assert shell(*line.split()).code == NOT_FOUND, "there is none, and nobody else's was asked for"
        assert shell("queue", "list", "--json").data == []
        assert shell("pools", "remove", "GPU").code == 1
        detached = shell("run", "spoken", "-i", "3", "--detach")
        assert (detached.code, "holdfast worker" in detached.err) == (0, False), detached


def test_what_needs_a_store_itself_says_so(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of the server, which is not there."""
    monkeypatch.setenv("HOLDFAST_URL", f"http://127.0.0.1:{free_port()}")
    for words in (
        "run flow:letter",
        "chat flow:letter",
        "runs migrate 01 flow:letter",
        "worker flow:letter",
        "serve --grpc 127.0.0.1:0",
        "store status",
    ):
        said = shell(*words.split())
        assert said.code == 2, (words, said)
        assert "HOLDFAST_URL" in said.err, (words, said)


def test_records_of_a_server_s_runs_leave_as_its_settings_permit(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(home / "there") as address:
        monkeypatch.setenv("HOLDFAST_URL", address)
        monkeypatch.setenv("HOLDFAST_EXPORTS", "none")
        for number in (1, 2):
            assert shell("run", "spoken", "-i", str(number)).code == 0
        said = shell("runs", "export", "--all", "--workflow", "spoken", "--to", "records.jsonl", "--json")
        assert (said.code, said.data["written"]) == (0, 2), said
        assert shell("replay", "records.jsonl", "flow:spoken").out == "2 of 2 runs took the same path\n"
        refused = shell("runs", "export", "--all", "--workflow", "spoken", "--to", "whole.jsonl", "--whole")
        assert (refused.code, "let only redacted records" in refused.err) == (1, True)
        assert not Path("whole.jsonl").exists()


def test_the_page_of_a_run_is_named_and_opened(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = shell("runs", "open", "0199")
    assert (said.code, "no `holdfast dev` answers for this store" in said.err) == (2, True), said
    with served(tmp_path / "there") as address:
        monkeypatch.setenv("HOLDFAST_URL", f"{address}/api/v1")
        started = shell("run", "spoken", "-i", "1", "--json")
        page = f"{address}/runs/{started.data['run_id']}"
        assert f"Its page: {page}" in started.err
        assert shell("runs", "open", started.data["run_id"][:30]).out.strip() == page
        assert shell("runs", "open", started.data["run_id"], "--json").data == {"address": page}


def test_a_store_that_is_named_is_meant(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", f"http://127.0.0.1:{free_port()}")
    assert shell("runs", "list").code == 6
    assert shell("runs", "list", "--store", str(home / "none.db")).code == 3
    monkeypatch.setenv("HOLDFAST_STORE", str(home / "none.db"))
    said = shell("runs", "list")
    assert (said.code, "unset HOLDFAST_STORE" in said.err) == (2, True)
    monkeypatch.setenv("HOLDFAST_URL", "http://runs.example:80")
    monkeypatch.delenv("HOLDFAST_STORE")
    said = shell("gates", "list")
    assert (said.code, "another machine" in said.err) == (2, True)
