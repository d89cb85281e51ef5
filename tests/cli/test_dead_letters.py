"""Dead letters of calls that nobody knows the end of, as somebody types the commands that are named."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

FLOWS = """
from pathlib import Path
from holdfast import Context, RetryPolicy, flow, step

@step(effect="idempotent", retry=RetryPolicy(max_attempts=2, initial_s=0.001))
def call(url: str):
    if not Path("back").exists():
        raise ConnectionError("cannot reach " + url)
    return "reached " + url

@flow
async def plain(ctx: Context, url: str):
    return await call(url)

@flow
async def wrapped(ctx: Context, url: str):
    try:
        return await call(url)
    except Exception as problem:
        raise RuntimeError("in words of its own") from problem
"""


@pytest.fixture(autouse=True)
def flows(home: Path) -> None:
    (home / "outage.py").write_text(FLOWS)


@pytest.mark.parametrize("flow", ["plain", "wrapped"])
def test_after_an_outage_all_letters_are_replayed_by_one_command(shell: Shell, home: Path, flow: str) -> None:
    for number in range(3):
        assert shell("run", f"outage.py:{flow}", "-i", f'"{number}"', "--key", f"k{number}").code == 8
    (home / "back").touch()
    said = shell("dead-letters", "retry", "--all", "--yes")
    assert (said.code, said.err.splitlines()[-1]) == (0, "retry: 3 done, 0 refused.")
    assert shell("worker", f"outage.py:{flow}", "--until-idle").code == 0
    assert [row["status"] for row in shell("runs", "list", "--json").data] == ["completed"] * 3
    assert shell("dead-letters", "list", "--json").data == []
    for row in shell("runs", "list", "--json").data:
        shown = shell("runs", "show", row["run_id"]).out
        assert "completed" in shown
        assert "cannot reach" not in shown, "its steps have completed since"


@pytest.mark.parametrize(
    ("flow", "ways"), [("plain", ["--happened", "--did-not", "--again"]), ("wrapped", ["--happened", "--did-not"])]
)
def test_the_commands_that_are_named_for_a_call_in_doubt_are_taken(
    shell: Shell, home: Path, flow: str, ways: list[str]
) -> None:
    for number, way in enumerate(ways):
        said = shell("run", f"outage.py:{flow}", "-i", '"u"', "--key", f"k{number}")
        named = [shlex.split(line) for line in said.err.splitlines() if "effects resolve" in line]
        assert [words[4] for words in named] == ways
        words = [json.dumps("by hand") if word == "<RESPONSE>" else word for word in named[ways.index(way)][1:]]
        assert shell(*words).code == 0
