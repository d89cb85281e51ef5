"""`holdfast chat` and `holdfast conversations`: talking with an agent at the terminal."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import io
import json
import os
import pty
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli.runs.reply import Replies
from holdfast.engine.background.conversation_runner import ConversationRunner
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests import media
from tests.cli.conftest import Shell
from tests.forks import Fork

AGENT = """
from holdfast import Chat, Context, Handoff, flow
from pydantic import BaseModel

class Limit(BaseModel):
    most: int

@flow
async def parrot(ctx: Context, chat: Chat) -> str:
    if chat.text == "break":
        raise ValueError("broken")
    return " ".join(each.text for each in chat.messages if each.role == "user") + "".join(each.media_type for each in chat.parts)

@flow
async def waiter(ctx: Context, chat: Chat) -> str:
    if chat.text == "wait":
        await ctx.wait_signal("never")
    if chat.text == "ask":
        return (await ctx.ask({"question": "May I?"}))["decision"]
    if chat.text in ("two", "eyes"):
        several = {"quorum": 2} if chat.text == "two" else {"four_eyes": True}
        answer = await ctx.ask({"most": 5}, form=Limit, **several)
        return f"{answer.data.most} by {', '.join(answer.approvers)}"
    return ", ".join(each.text for each in chat.messages if each.role == "user")

@flow
async def helper(ctx: Context, chat: Chat) -> str:
    return await ctx.model("claude-haiku-4-5", chat, max_tokens=100, stream=True)

@flow
async def host(ctx: Context, chat: Chat) -> str:
    tools = [Handoff(helper)]
    return await ctx.agent("claude-haiku-4-5", chat, tools=tools, system="You greet.", max_tokens=100, stream=True)
"""


@pytest.fixture
def typed(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, object]]]:
    """What comes of typing lines to an agent."""
    (home / "agents.py").write_text(AGENT)

    def chat(*lines: str, agent: str = "parrot", more: tuple[str, ...] = ()) -> list[dict[str, object]]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        said = shell("chat", f"agents.py:{agent}", "--conversation", "c", "--json", *more)
        assert said.code == 0, said.err
        return [json.loads(line) for line in said.out.splitlines()]

    return chat


def test_each_line_is_a_message_and_a_conversation_goes_on_later(
    shell: Shell, typed: Callable[..., list[dict[str, object]]]
) -> None:
    assert [each["reply"] for each in typed("one", "", "two")] == ["one", "one two"]
    broken, after = typed("break", "three")
    assert (broken["status"], broken["reply"]) == ("failed", None)
    assert "broken" in str(broken["problem"])
    assert after["reply"] == "one two break three"
    (row,) = shell("conversations", "list", "--json").data
    assert (row["name"], row["agent"], row["messages"], row["active"]) == ("c", "parrot", 4, None)
    assert shell("conversations", "list").out.splitlines()[1].split()[:3] == ["c", "parrot", "4"]
    shown = shell("conversations", "show", "c").out
    assert "2 (completed) ida: two\n  one two" in shown
    branch = shell("conversations", "say", "c", "instead", "--after", "1", "--json").data
    assert (branch["number"], branch["after"], branch["status"]) == (5, 1, "active")
    typed()  # who has the agent answers what was said meanwhile, before it looks or after
    assert "5 (completed, after 1) ida: instead\n  one instead" in shell("conversations", "show", "c").out


def test_a_message_that_steers_is_shown_with_the_one_that_it_came_to(
    shell: Shell, typed: Callable[..., list[dict[str, object]]]
) -> None:
    typed("one")
    shell("conversations", "say", "c", "two")  # nobody is there to answer
    steering = shell("conversations", "say", "c", "quick", "--on-busy", "steer", "--json").data
    assert (steering["number"], steering["steers"], steering["status"]) == (3, 2, "active")
    assert "3 (active, while the agent was at 2) ida: quick" in shell("conversations", "show", "c").out
    typed()  # they are answered before it looks or after
    shown = shell("conversations", "show", "c").out
    assert "ida: two\n  one two\n" in shown  # it asks no model, and so the message follows
    assert "3 (completed) ida: quick\n  one two quick" in shown


def test_a_conversation_may_have_a_limit_on_tokens(shell: Shell, typed: Callable[..., list[dict[str, object]]]) -> None:
    typed("one", more=("--token-limit", "5000"))
    shown = shell("conversations", "show", "c", "--json").data
    assert (shown["max_tokens"], shown["spent_tokens"], shown["held_tokens"]) == (5000, 0, 0)
    assert "0 of 5000" in shell("conversations", "show", "c").out
    assert "--token-limit" in shell("chat", "agents.py:parrot", "--token-limit", "-1").err


def test_another_agent_is_heard_as_it_speaks_and_named_in_what_was_said(
    shell: Shell, typed: Callable[..., list[dict[str, object]]], server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script.add(Rule(system="greet", tool_calls=(ToolCall("transfer_to_helper", {}),)), Rule(text="I can help."))
    (said,) = typed("hello", agent="host")
    assert (said["reply"], said["agent"]) == ("I can help.", "helper")
    assert "\n  helper: I can help." in shell("conversations", "show", "c").out
    monkeypatch.setattr("holdfast.cli.page.terminal.is_live", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("hello\n"))
    told: list[str] = []
    monkeypatch.setattr("holdfast.cli.page.terminal.show_part", told.append)
    monkeypatch.setattr("holdfast.cli.page.terminal.show_text", lambda text: told.append(f"all: {text}"))
    assert shell("chat", "agents.py:host", "--conversation", "other").code == 0
    assert "".join(told) == "I can help.\n"


def test_what_cannot_be_is_refused_in_words(shell: Shell, typed: Callable[..., list[dict[str, object]]]) -> None:
    typed("one")
    assert "is one with 'parrot'" in shell("chat", "agents.py:helper", "--conversation", "c").err
    assert "`holdfast conversations list`" in shell("conversations", "show", "nobody").err
    assert "has no message 7" in shell("conversations", "say", "c", "x", "--after", "7").err
    assert "not empty" in shell("conversations", "say", "c", " ").err


def test_a_conversation_is_deleted_once_its_agent_is_done(shell: Shell, typed: Callable[..., list[dict[str, object]]]) -> None:
    typed("one")
    assert shell("conversations", "delete", "c").err == "Deleted conversation c.\n"
    assert shell("conversations", "list", "--json").data == []
    assert "`holdfast conversations list`" in shell("conversations", "delete", "c").err


def test_files_go_with_a_message(shell: Shell, home: Path, typed: Callable[..., list[dict[str, object]]]) -> None:
    (home / "cat.png").write_bytes(media.png(60, 40))
    (home / "notes.md").write_text("# Cats")
    (home / "cat.raw").write_bytes(b"\xff\xff")
    (said,) = typed("/attach cat.png", "/attach cat.raw", "/attach none", "what is it?")
    assert said["reply"] == "what is it?image/png"
    assert [part["sha256"] for part in said["parts"]] == [hashlib.sha256(media.png(60, 40)).hexdigest()]  # type: ignore[attr-defined]
    assert shell("conversations", "say", "c", "read", "--attach", "notes.md", "--attach", "cat.png").code == 0
    shown = shell("conversations", "show", "c").out
    assert "\n  [document text/markdown 6 B sha256:" in shown
    assert "\n  [image image/png " in shown
    refused = shell("conversations", "say", "c", "read", "--attach", "cat.raw").err
    assert "cat.raw cannot be attached: " in refused
    assert "neither a PDF nor a text" in refused
    assert "none cannot be read" in shell("conversations", "say", "c", "read", "--attach", "none").err


def test_what_a_reply_waits_for_is_shown_where_no_person_types(
    shell: Shell, process: Callable[..., Fork], typed: Callable[..., list[dict[str, object]]]
) -> None:
    typed("one", agent="waiter")
    shell("conversations", "say", "c", "ask")
    talk = process("chat", "agents.py:waiter", "--conversation", "c")
    assert talk.stderr is not None
    while "holdfast gates show" not in (line := talk.stderr.readline()):
        assert line, "it has ended"
    assert shell("gates", "approve", shell("gates", "list", "--json").data[0]["gate_id"]).code == 0
    assert talk.communicate(timeout=40)[0] == "approve\n"
    assert talk.returncode == 0


@pytest.mark.parametrize(("said", "reply"), [("two", "5 by ann, bob"), ("eyes", "9 by ann")])
def test_a_reply_waits_for_all_who_are_to_look_at_what_it_asks(
    shell: Shell, process: Callable[..., Fork], typed: Callable[..., list[dict[str, object]]], said: str, reply: str
) -> None:
    typed("one", agent="waiter")
    shell("conversations", "say", "c", said)
    talk = process("chat", "agents.py:waiter", "--conversation", "c")
    assert talk.stderr is not None
    while "holdfast gates show" not in (line := talk.stderr.readline()):
        assert line, "it has ended"
    (gate,) = shell("gates", "list", "--json").data
    if said == "two":
        assert "It is still open. 1 of 2 approved, by ann" in shell("gates", "approve", gate["gate_id"], "--as", "ann").err
        assert shell("gates", "approve", gate["gate_id"], "--as", "bob").code == 0
    else:
        assert shell("gates", "approve", gate["gate_id"]).code == 4, "who said it"
        edit = shell("gates", "edit", gate["gate_id"], "--as", "bob", "--data", '{"most": 9}')
        assert "It is still open. Another person decides" in edit.err
        shown = shell("gates", "show", gate["gate_id"], "--json").data["shown_hash"]
        for name, code in (("bob", 4), ("ann", 0)):
            assert shell("gates", "approve", gate["gate_id"], "--as", name, "--shown", shown).code == code
    assert talk.communicate(timeout=40)[0] == f"{reply}\n"
    assert talk.returncode == 0


class Typist:
    """A person at a real terminal."""

    def __init__(self, *words: str) -> None:
        self._child, self._terminal = pty.fork()
        if not self._child:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, "-m", "holdfast", *words])
        self.seen = ""
        self._read = 0
        self._decode = codecs.getincrementaldecoder("utf-8")().decode

    def types(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def sees(self, words: str) -> str:
        """Wait for words after those that were seen before; what came up to them."""
        while (at := self.seen.find(words, self._read)) < 0:
            assert self._more(), f"no {words!r} in {self.seen!r}"
        before, self._read = self.seen[self._read : at], at + len(words)
        return before

    def leaves(self) -> int:
        """See what comes until it has ended; how it ended."""
        while self._more():
            pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])

    def _more(self) -> bool:
        if not select.select([self._terminal], [], [], 40)[0]:
            return False
        try:
            self.seen += self._decode(os.read(self._terminal, 65536))
        except OSError:
            return False  # the other end is closed
        return True


def test_who_is_at_a_terminal_types_on_while_the_agent_answers_and_stops_it(shell: Shell, home: Path) -> None:
    (home / "agents.py").write_text(AGENT)
    person = Typist("chat", "agents.py:waiter", "--conversation", "c")
    person.sees("> ")
    person.types("wait\n")
    person.sees("wait")
    while not shell("conversations", "list", "--json").data[0]["active"]:
        pass
    person.types("and then\n")
    while shell("conversations", "list", "--json").data[0]["messages"] < 2:
        pass
    person.types("\x03")
    person.sees("Stopping the reply")
    person.sees("cancelled")
    person.sees("wait, and then")
    person.sees("> ")
    person.types("\x04")
    assert person.leaves() == 0
    shown = shell("conversations", "show", "c").out
    assert "1 (cancelled)" in shown
    assert "2 (completed)" in shown


def test_a_reply_is_stopped_also_before_what_answers_has_begun(
    shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes when the message is in the store, and its run is not."""
    (home / "agents.py").write_text(AGENT)
    said: list[str] = []
    pressed: list[bool] = []
    stopped, looked, typed = threading.Event(), asyncio.Event(), iter(["wait\n"])

    def say(text: str) -> None:
        said.append(text)
        if "cancelled" in text:
            stopped.set()

    def readline(_: int) -> str:
        line = next(typed, "")
        if not line:
            stopped.wait(20)
        return line

    start, talk = ConversationRunner._start, Replies.talk

    async def late(self: Any, *given: Any) -> Any:
        if not pressed:  # whoever looks for what is left undone may find the message, too
            pressed.append(True)
            looked.clear()
            signal.raise_signal(signal.SIGINT)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await looked.wait()
        return await start(self, *given)

    async def look(self: Any) -> Any:
        found = await talk(self)
        looked.set()
        return found

    monkeypatch.setattr(ConversationRunner, "_start", late)
    monkeypatch.setattr(Replies, "talk", look)
    monkeypatch.setattr("holdfast.cli.page.terminal.say", say)
    monkeypatch.setattr("holdfast.cli.page.terminal.is_typed", lambda: True)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=readline))
    assert shell("chat", "agents.py:waiter", "--conversation", "c").code == 0
    assert any("Stopping the reply" in each for each in said)
    assert any("cancelled" in each for each in said), said


def test_what_comes_meanwhile_does_what_it_is_to_and_two_interruptions_leave(shell: Shell, home: Path) -> None:
    (home / "agents.py").write_text(AGENT)
    person = Typist("chat", "agents.py:waiter", "--conversation", "c", "--on-busy", "reject")
    person.sees("> ")
    person.types("ask\n")
    person.sees("holdfast gates show")  # as `holdfast run` says it
    person.types("hello?\n")
    person.sees("Nothing was sent: wait for its reply")
    gate = shell("gates", "list", "--json").data[0]["gate_id"]
    assert shell("gates", "approve", gate).code == 0
    person.sees("approve")
    person.sees("> ")
    person.types("wait\n")
    while not shell("conversations", "list", "--json").data[0]["active"]:
        pass
    person.types("\x03")
    person.sees("Stopping the reply")
    person.sees("> ")
    person.types("\x03")
    person.sees("No message is lost")
    assert person.leaves() == 130
