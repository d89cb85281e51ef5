"""`holdfast chat` and `holdfast conversations`: talking with an agent at the terminal."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import media
from tests.cli.conftest import Shell

AGENT = """
from holdfast import Chat, Context, flow

@flow
async def parrot(ctx: Context, chat: Chat) -> str:
    if chat.text == "break":
        raise ValueError("broken")
    return " ".join(each.text for each in chat.messages if each.role == "user") + "".join(each.media_type for each in chat.parts)

@flow
async def helper(ctx: Context, chat: Chat) -> str:
    return await ctx.model("claude-haiku-4-5", chat, max_tokens=100, stream=True)
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
    assert typed()[0]["reply"] == "one instead"  # whoever has the agent answers what was said meanwhile
    assert "5 (completed, after 1) ida: instead" in shell("conversations", "show", "c").out


def test_a_conversation_may_have_a_limit_on_tokens(
    shell: Shell, typed: Callable[..., list[dict[str, object]]]
) -> None:  # fmt: skip
    typed("one", more=("--token-limit", "5000"))
    shown = shell("conversations", "show", "c", "--json").data
    assert (shown["max_tokens"], shown["spent_tokens"], shown["held_tokens"]) == (5000, 0, 0)
    assert "0 of 5000" in shell("conversations", "show", "c").out
    assert "--token-limit" in shell("chat", "agents.py:parrot", "--token-limit", "-1").err


def test_what_cannot_be_is_refused_in_words(shell: Shell, typed: Callable[..., list[dict[str, object]]]) -> None:
    typed("one")
    assert "is one with 'parrot'" in shell("chat", "agents.py:helper", "--conversation", "c").err
    assert "`holdfast conversations list`" in shell("conversations", "show", "nobody").err
    assert "has no message 7" in shell("conversations", "say", "c", "x", "--after", "7").err
    assert "not empty" in shell("conversations", "say", "c", " ").err


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
