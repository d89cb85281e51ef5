"""Numbers with their nouns, and what a worker says that it has done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast.cli
from holdfast.cli.page.count import counted
from tests.cli.conftest import Shell

FLOW = """
from holdfast import Context, flow, step


@step
def draft(title: str) -> str:
    return title.title()


@step(effect="once")
def send(text: str) -> str:
    return text


@flow
async def letter(ctx: Context, title: str) -> str:
    text = await draft(title)
    await ctx.ask({"text": text})
    return await send(text)
"""
NOUNS = "runs|steps|nodes|edges|tokens|calls|events|histories|migrations|entries|scenarios|letters|slots|times|processes|items"


def test_a_number_stands_with_its_noun_in_singular_or_plural() -> None:
    assert [counted(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


def test_no_command_writes_the_plural_of_a_number_itself() -> None:
    sources = Path(holdfast.cli.__file__).parent.rglob("*.py")
    found = [
        (path.name, line.strip())
        for path in sources
        for line in path.read_text().splitlines()
        if re.search(rf"\{{len\([^{{}}]*\)\}} (?:\w+ )?(?:{NOUNS})\b|\(s\)|'s' \*|else 's'", line)
    ]
    assert not found


def test_a_worker_counts_the_steps_and_calls_of_a_flow(shell: Shell, home: Path) -> None:
    (home / "letters.py").write_text(FLOW)
    run = shell("run", "letters.py:letter", "-i", '"dear"', "--detach").out.strip()
    first = shell("worker", "letters.py:letter", "--until-idle").err.splitlines()[-1]
    assert re.fullmatch(r"Worked for [\d.]+ s: 1 step, 1 question asked\.", first), first
    shell("gates", "approve", run)
    second = shell("worker", "letters.py:letter", "--until-idle", "--json")
    assert re.fullmatch(r"Worked for [\d.]+ s: 1 tool call, 1 run completed\.", second.err.splitlines()[-1]), second.err
    assert {name: n for name, n in second.data.items() if n and name != "seconds"} == {"tool_calls": 1, "completed": 1}
    assert shell("worker", "letters.py:letter", "--until-idle").err.splitlines()[-1].endswith(" s: nothing.")


@pytest.mark.parametrize("words", ["1 step"])
def test_a_run_of_one_step_has_one_step(shell: Shell, words: str) -> None:
    run = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--json").data["run_id"]
    assert f" tokens, {words}\n" in shell("runs", "show", run).out
