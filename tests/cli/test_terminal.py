"""Nothing that others wrote reaches a terminal as a command, and no line of theirs passes for one of ours."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import holdfast.cli
from holdfast.cli.page import terminal
from tests.cli.conftest import Shell

ODD = "\x1b[31m \r \x07 \x7f \x9b2J \u202e \u2066 \u200b \ufeff \u2028 \u2029 \x85 \xad \U000e0041"
HOSTILE = f"a{ODD}\nFORGED"

HOSTILE_FLOW = """
from holdfast import Workflow, human_gate, task
HOSTILE = {hostile!r}

asks = Workflow("asks")

@asks.node("ask")
@human_gate(reviewers=["ida"])
def ask(state):
    return {{"body": HOSTILE, HOSTILE: 1, "deep": {{HOSTILE: [HOSTILE]}}}}

fails = Workflow("fails")

@fails.node("work")
@task
def work(state):
    raise ValueError(HOSTILE)

answers = Workflow("answers")
answers.node("work")(task(lambda state: state.input))
"""


def is_clean(text: str) -> bool:
    return not any(c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")) for c in text)


def commands_about(run: str) -> list[tuple[str, ...]]:
    return [
        ("runs", "list"),
        ("runs", "show", run),
        ("runs", "events", run),
        ("runs", "tail"),
        ("gates", "list", "--all"),
        ("gates", "show", run),
        ("effects", "list", run),
        ("budget", "show", run),
        ("costs", "show"),
        ("costs", "runs"),
        ("queue", "show"),
    ]


@pytest.mark.parametrize("name", ["asks", "fails", "answers"])
def test_no_text_of_a_run_controls_the_terminal_or_forges_a_line_of_ours(shell: Shell, home: Path, name: str) -> None:
    (home / "hostile.py").write_text(HOSTILE_FLOW.format(hostile=HOSTILE))
    given = json.dumps({"text": HOSTILE, HOSTILE: [HOSTILE]})
    said = [shell("run", f"hostile.py:{name}", "-i", given, "--key", "k")]
    run = shell("runs", "list", "--json").data[0]["run_id"]
    shown = [shell(*words) for words in commands_about(run) if name == "asks" or words[:2] != ("gates", "show")]
    data = [shell(*words, "--json") for words in commands_about(run) if words[1] not in ("events", "tail")]
    said += [*shown, *data, shell("runs", "events", run, "--json"), shell("runs", "tail", "--json")]
    said += [shell("runs", "cancel", run, "--reason", HOSTILE), shell("runs", "show", run), shell("runs", "show", HOSTILE)]
    for each in said:
        assert "report it" not in each.err
        assert is_clean(each.out)
        assert is_clean(each.err)
        assert not [line for line in (each.out + each.err).splitlines() if line.startswith("FORGED")]
    if name == "answers":
        assert shell("runs", "show", run, "--json").data["output"] == json.loads(given)  # escaped, and the same


def test_a_text_that_is_a_run_s_output_keeps_its_lines(shell: Shell, home: Path) -> None:
    (home / "hostile.py").write_text(HOSTILE_FLOW.format(hostile=HOSTILE))
    said = shell("run", "hostile.py:answers", "-i", json.dumps("one\n two\n\x9b2Jthree\n"))
    assert said.out == "one\n two\n\\x9b2Jthree\n\n"


@pytest.mark.parametrize(
    "text", ["Zoë", "naïve\ttab", "日本　語", "می\u200cخواهم", "👨\u200d👩\u200d👧", "क\u094d\u200dष", "💥️"]
)
def test_what_people_write_is_left_as_it_is(text: str) -> None:
    assert terminal.plain(text) == text
    assert json.loads(terminal.as_json(text)) == text


def test_what_joins_letters_hides_in_no_latin_word() -> None:
    assert terminal.plain("pay\u200dpal, \u200c") == "pay\\u200dpal, \\u200c"
    assert terminal.line("a\nb\tc") == "a\\nb\\tc"


def test_json_reads_the_same_whatever_is_in_it() -> None:
    value: Any = {chr(n): chr(n) for n in (*range(0x300), *range(0x2000, 0x2070), 0xFEFF, 0xE0041, 0x1F4A5)}
    assert is_clean(terminal.as_json(value))
    assert json.loads(terminal.as_json(value)) == value


def test_only_one_module_of_the_command_line_touches_a_stream() -> None:
    """A command that forgot would be found here, not at somebody's terminal."""
    root = Path(holdfast.cli.__file__).parent
    found = []
    for file in sorted(root.rglob("*.py")):
        if file.name in ("terminal.py", "line_writer.py"):  # the latter only for the former
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            words = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            if words in {
                "print",
                "sys.stdout",
                "sys.stderr",
                "sys.__stdout__",
                "sys.__stderr__",
                "os.write",
                "typer.echo",
                "typer.secho",
                "click.echo",
                "click.secho",
                "Console",
                "rich.print",
                "typer.prompt",
                "typer.confirm",
            }:
                found.append(f"{file.name}:{node.lineno} {words}")
    assert found == []
