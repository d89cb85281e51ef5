"""The example of a conversation does what it says, also where it is killed in mid-sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.model_rule import ToolCall
from holdfast.testing.model_server import ModelServer, Rule

AGENT = Path(__file__).parents[2] / "examples" / "chat.py"
STORY = "It stands on shelf 12, between two lighter books, and it is wet. " * 3


def chat(folder: Path, server: ModelServer, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "holdfast", "chat", f"{AGENT}:librarian", "--conversation", "evening", "--json", *more]
    return subprocess.Popen(
        words, cwd=folder, env=os.environ | server.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.long
def test_a_conversation_that_is_killed_in_mid_sentence_is_gone_on_with(tmp_path: Path) -> None:
    rules = [
        Rule(user="Moby", turn=1, tool_calls=(ToolCall("find_book", {"title": "moby"}),)),
        Rule(user="Moby", text=STORY, pause_s=0.02),
        Rule(text="Yes."),
    ]
    with ModelServer(journal=tmp_path / "calls.jsonl", rules=rules) as server:
        first = chat(tmp_path, server, "--cost-limit", "0.50")
        assert first.stdin is not None
        first.stdin.write("Where is Moby-Dick?\n")
        first.stdin.flush()
        while len(server.calls) < 2:  # the tool was asked; now it speaks
            assert first.poll() is None
        first.kill()
        first.wait()
        again = chat(tmp_path, server)
        out, _ = again.communicate("Is it wet?\n", timeout=60)
        assert again.returncode == 0
        told = [json.loads(line) for line in out.splitlines()]
        assert [each["reply"] for each in told] == [STORY, "Yes."]
        assert told[1]["after"] == told[0]["number"] == 1
        assert [call.called for call in server.calls].count(("find_book",)) == 1
