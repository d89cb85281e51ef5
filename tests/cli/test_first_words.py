"""What the command line says at first, where something is wrong, and how to go on: in words that can be pasted."""

from __future__ import annotations

import io
import shlex
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar, Final

import pytest

from holdfast.testing.model_server import ModelServer
from tests.cli.conftest import Shell
from tests.wire.kit import MAX_S, ended, holdfast

ASKING: Final = """
import random

from pydantic import BaseModel

from holdfast import Context, OutcomeUnknown, flow, step


class Limit(BaseModel):
    most: int
    why: str = "as asked"


@step(effect="once", approval=True)
def pay(who: str) -> str:
    return who


@step(effect="once")
def lose(who: str) -> str:
    raise OutcomeUnknown("no answer came")


@step
def boom(n: float) -> float:
    raise ValueError("it is on fire")


@step
def draw(n: float) -> float:
    return n


@flow
async def role(ctx: Context, given: dict) -> str:
    return (await ctx.ask({"most": 3}, form=Limit, reviewers=["support team", "it's ours"])).decision


@flow
async def eyes(ctx: Context, given: dict) -> str:
    return (await ctx.ask({"most": 3}, four_eyes=True)).decision


@flow
async def other(ctx: Context, given: dict) -> str:
    first = await ctx.ask({"most": 3})
    return (await ctx.ask({"most": 3}, not_by=[first.by])).by


@flow
async def called(ctx: Context, given: dict) -> str:
    return await pay("ida")


@flow
async def lost(ctx: Context, given: dict) -> str:
    return await lose("ida")


@flow
async def chance(ctx: Context, given: dict) -> str:
    await draw(random.random())
    return (await ctx.ask({"most": 3})).decision


@flow
async def fails(ctx: Context, given: dict) -> float:
    return await boom(1)


@flow(cost_limit_usd=0.000001)
async def poor(ctx: Context, given: dict) -> str:
    return await ctx.model("claude-haiku-4-5", "Hello", max_tokens=500)
"""


@pytest.fixture(autouse=True)
def asking(home: Path) -> Path:
    file = home / "asking.py"
    file.write_text(ASKING)
    return file


def commands(shell: Shell, name: str, key: str) -> list[str]:
    """The commands with which the question of a new run can be answered, as they are printed."""
    run = shell("run", f"asking.py:{name}", "-i", "{}", "--key", key, "--json").data["run_id"]
    if name in ("chance", "other"):
        shell("gates", "approve", run)
        shell("worker", f"asking.py:{name}", "--until-idle")
    (gate,) = shell("gates", "list", "--run", run, "--json").data
    lines = shell("gates", "show", gate["gate_id"]).out.partition("\nAnswer with\n")[2].splitlines()
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("name", "many"), [("role", 4), ("eyes", 4), ("called", 4), ("lost", 3), ("chance", 4), ("other", 4), ("poor", 2)]
)
def test_each_command_under_answer_with_works_as_pasted(
    shell: Shell, server: ModelServer, home: Path, name: str, many: int
) -> None:
    found = commands(shell, name, "0")
    assert len(found) == many, found
    for number in range(many):
        command = (found if number == 0 else commands(shell, name, str(number)))[number]
        words = shlex.split(command)[1:]
        if any(word in PLACEHOLDERS for word in words):
            assert not starts(command, home), command
        said = shell(*[PLACEHOLDERS.get(word, word) for word in words])
        assert said.code == 0, (command, said.err)


PLACEHOLDERS = {"<NAME>": "eve", "<REASON>": "too much", "<RESPONSE>": "5"}


def starts(command: str, where: Path) -> bool:
    """True if a shell starts `command` as it is printed."""
    done = subprocess.run(
        ["sh", "-c", f"holdfast() {{ echo started; }}\n{command}"], cwd=where, capture_output=True, timeout=30
    )
    assert (done.returncode == 0) == (b"started" in done.stdout), done
    return done.returncode == 0


def test_a_shell_rejects_a_command_whose_placeholder_is_still_there(shell: Shell, home: Path) -> None:
    happened, did_not, again = commands(shell, "lost", "0")
    assert (starts(happened, home), starts(did_not, home), starts(again, home)) == (False, True, True)
    assert not any(starts(each, home) for each in commands(shell, "role", "1"))


def test_an_unknown_outcome_has_one_vocabulary_on_its_screen(shell: Shell) -> None:
    run = shell("run", "asking.py:lost", "-i", "{}", "--json").data["run_id"]
    (gate,) = shell("gates", "list", "--run", run, "--json").data
    screen = shell("gates", "show", gate["gate_id"]).out
    shown, follows = (screen.partition(f"\n{title}\n")[2].partition("\n\n")[0] for title in ("Shown", "What follows"))
    assert "--data" not in shown
    assert [line.split()[0] for line in follows.splitlines()] == ["--happened", "--did-not", "--again"]
    assert "Can still spend" in screen


def test_data_that_still_has_the_dots_of_an_example_is_refused(shell: Shell, home: Path) -> None:
    run = shell("run", "asking.py:role", "-i", "{}", "--json").data["run_id"]
    words = ("gates", "answer", run, "--as", "eve", "--role", "support team", "--data")
    refused = shell(*words, '{"most": "..."}')
    assert refused.code == 2
    assert '--data has the placeholder "...": write your own text in its place.' in refused.err
    assert len(shell("gates", "list", "--run", run, "--json").data) == 1, "nothing was recorded"


def test_the_commands_say_in_which_role_and_hide_nothing_from_a_shell(shell: Shell) -> None:
    approve = commands(shell, "role", "0")[1]
    assert shlex.split(approve)[-4:] == ["--as", "<NAME>", "--role", "support team"], approve
    assert all("--as" not in each for each in commands(shell, "called", "1"))


def test_the_first_words_of_a_start_say_that_a_worker_takes_it_up(shell: Shell) -> None:
    said = shell("run", "asking.py:role", "-i", "{}", "--detach")
    assert said.err.splitlines()[1:] == ["Started. A worker takes it up:", "  holdfast worker asking.py:role"]


def test_a_failure_is_reported_once(shell: Shell) -> None:
    said = shell("run", "asking.py:fails", "-i", "{}")
    assert said.code == 1
    assert said.err.count("ValueError: it is on fire") == 1, said.err
    assert said.err.splitlines()[-1].endswith(": failed, $0.00.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "asking.role"), "write asking.py:role"),
        (("gates", "show", "zzzz"), "There is no gate zzzz, and no run"),
        (("gates", "show", "zzzz:flow#1:0"), "There is no gate zzzz:flow#1:0;"),
        (("effects", "resolve", "zzzz:flow#1:0:1", "--again"), "There is no call zzzz"),
        (("gates", "aprove", "x"), "Did you mean 'approve'? Try 'holdfast gates --help'."),
    ],
)
def test_a_mistake_is_reported_in_the_words_of_what_was_typed(shell: Shell, words: tuple[str, ...], told: str) -> None:
    shell("run", "asking.py:role", "-i", "{}", "--detach")
    said = shell(*words)
    assert said.code != 0
    assert told in said.err
    assert "no run zzzz in" not in said.err


def test_the_command_to_edit_has_what_is_shown_as_its_data(shell: Shell) -> None:
    (edit,) = [each for each in commands(shell, "eyes", "0") if " gates edit " in each]
    assert shlex.split(edit)[-2:] == ["--data", '{"most": 3}']


def test_a_word_that_an_option_does_not_take_is_refused_in_plain_words(shell: Shell) -> None:
    said = shell("run", "asking.py:eyes", "-i", "{}", "--on-limit", "x").err
    assert "Invalid value for '--on-limit': 'x' is not one of 'ask', 'fail', 'record'." in said


def test_a_caller_who_may_not_decide_learns_which_options_say_who_may(shell: Shell) -> None:
    run = shell("run", "asking.py:role", "-i", "{}", "--json").data["run_id"]
    said = shell("gates", "approve", run)
    assert said.code == 4
    assert "in a role that is (--as NAME, --role ROLE)." in said.err


def test_code_that_goes_another_way_by_chance_is_named_as_a_cause(shell: Shell) -> None:
    commands(shell, "chance", "0")
    (gate,) = shell("gates", "list", "--json").data
    assert "the time, chance, the order of a set" in shell("gates", "show", gate["gate_id"]).out


def test_help_in_a_chat_is_no_message(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "agent.py").write_text(
        "from holdfast import Chat, Context, flow\n\n\n@flow\nasync def echo(ctx: Context, chat: Chat) -> str:\n"
        "    return f'heard {chat.text}'\n"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("/help\nhello\n"))
    said = shell("chat", "agent.py:echo")
    assert (said.code, said.out.splitlines()) == (0, ["heard hello"]), said
    assert "/attach FILE" in said.err


def test_dev_says_where_it_answers_only_when_it_does(home: Path) -> None:
    code = home / "asking.py"
    first = holdfast("dev", f"{code}:role", "--port", "0", "--store", str(home / "a.db"), folder=home)
    with ended(first):
        address = first.says(r"Ready: the API is at (http://\S+)/api/v1")[1]
        assert any("HTTP on" in line for line in first.lines), "it answers"
        port = address.rpartition(":")[2]
        second = holdfast("dev", f"{code}:role", "--port", port, "--store", str(home / "b.db"), folder=home)
        with ended(second):
            second.says("in use")
            assert second.process.wait(MAX_S) != 0
        assert not any("the API is at" in line for line in second.lines)
        first.stop()  # its server too


class _Stranger(BaseHTTPRequestHandler):
    """A server that answers everyone, and so would pass for that of anyone."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()


@pytest.mark.parametrize(("target", "why"), [("asking.py:role", "in use"), ("asking.py", "several workflows")])
def test_dev_takes_no_other_server_for_its_own(home: Path, target: str, why: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as stranger:
        Thread(target=stranger.serve_forever, daemon=True).start()
        process = holdfast("dev", target, "--port", str(stranger.server_port), "--store", str(home / "a.db"), folder=home)
        with ended(process):
            process.says(why)
            assert process.process.wait(MAX_S) == 2
        stranger.shutdown()
    assert not any("Ready" in line for line in process.lines)
    assert sum(why in line for line in process.lines) == 1
    assert _Stranger.asked == [], "the token is for its own server alone"


KEYLESS: Final = """
from holdfast import Context, flow


@flow
async def asks(ctx: Context, question: str) -> str:
    return await ctx.model("claude-haiku-4-5", question, max_tokens=50)
"""


def test_a_run_that_lacks_a_key_says_how_to_take_it_up(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (home / "keyless.py").write_text(KEYLESS)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    said = shell("run", "keyless.py:asks", "-i", '"why?"', "--key", "k")
    assert (said.code, "Set it in the process that executes the run" in said.err) == (1, True), said.err
    retry, worker = (shlex.split(line)[1:] for line in said.err.splitlines()[-2:])
    with ModelServer(journal=tmp_path / "calls.jsonl") as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        assert shell(*retry).code == 0
        assert shell(*worker).code == 0
    assert shell("run", "keyless.py:asks", "-i", '"why?"', "--key", "k").code == 0
