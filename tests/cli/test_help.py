"""`--help`: commands by what they are for, in plain words, and an example of each that works as it is pasted."""

from __future__ import annotations

import ast
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from holdfast import cli
from holdfast.cli.app import app
from tests.cli.conftest import Shell
from tests.face import face

RIDDLES: Final = re.compile(
    r"\b(told|tell|said|say|whoever|nobody|somebody|anew|came to|comes to|stands|becomes of|go(es)? on)\b", re.IGNORECASE
)
GROUPS: Final = ("Run", "Decide", "Operate", "Limits", "Develop", "Administer")
ROOM: Final = 78
"""What a line of help has at a terminal of 80 columns."""
RUN: Final = "019aa8b2"
"""The beginning of a run's id in the examples."""


def examples() -> dict[str, str]:
    """The example of each command, by its words."""
    return dict(_examples("holdfast", typer.main.get_command(app)))


def _examples(words: str, command: Any) -> Iterator[tuple[str, str]]:
    if not hasattr(command, "commands"):
        yield words, command.epilog.removeprefix("Example:\n\n")
    for name, each in getattr(command, "commands", {}).items():
        yield from _examples(f"{words} {name}", each)


def test_commands_are_grouped_by_what_they_are_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = shell("--help").out
    assert re.findall(r"^╭─ (\w+) ", shown, re.MULTILINE) == ["Options", *GROUPS]
    lists = shown[shown.index("╭─ Run ") :]
    assert re.findall(r"^│ +(?! )([^│]*)│$", lists, re.MULTILINE) == re.findall(r"^│ ([a-z][^│]*)│$", lists, re.MULTILINE)


@pytest.mark.parametrize("words", ["", "run", "runs", "runs list", "gates approve"])
def test_help_shows_no_type_beside_a_flag(shell: Shell, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "bool" not in shell(*words.split(), "--help").out


def test_a_paragraph_of_help_has_no_line_breaks_of_its_source(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "--connect, the worker needs no store: it executes the tasks that a `holdfast" in shell("worker", "--help").out


@pytest.mark.parametrize("words", examples())
def test_every_command_has_an_example_that_it_takes(words: str) -> None:
    example = examples()[words]
    typed = shlex.split(example.partition(" > ")[0])
    assert len(example) <= ROOM
    assert example.startswith(words)
    command: Any = typer.main.get_command(app)
    for name in words.split()[1:]:
        command = command.commands[name]
    command.make_context(words, typed[len(words.split()) :])  # raises for what the command does not take


REFUND: Final = """
from holdfast import Context, flow, step

@step
def pay_back(order: dict | str) -> float:
    return 50.0

@flow
async def refund(ctx: Context, order: dict | str) -> float:
    await ctx.ask(order, reviewers=["support"], decisions=["approve"])
    return await pay_back(order)
"""
SAFE: Final = """
    run; runs list; runs show; runs items; runs score; scores; runs signal; runs extend; runs migrate; runs pause
    runs resume; runs diff
    gates list; gates show; gates approve; worker; runs events; runs stream; logs; runs export; replay; runs fork
    schedules set; schedules list; schedules show; schedules backfill; schedules pause; schedules resume; schedules remove
    approvals grant; approvals list; effects list; dead-letters list; dead-letters summary; dead-letters retry; runs retry
    conversations list; supervisors list; workflows list; workflows show; queue list; queue why; evals list; validate; graph
    shared write; shared list; shared show; pools set; pools list; pools show; pools remove
    budget set; budget show; budget doubts; budget reconcile; costs rollup; costs show
    costs summary; costs labels; costs runs; costs extra; costs forecast; admission set; admission show
    team-budgets set; team-budgets list; team-budgets show; team-budgets remove
    keys create; keys list; keys rotate; keys revoke; audit list; audit verify; audit export
    store status; store check; store migrate; store backup; store archive; store prune
"""
"""Those whose example works on a store with one run of it, in this order."""


def test_examples_work_as_they_are_pasted(shell: Shell, home: Path) -> None:
    (home / "refund.py").write_text(REFUND)
    (home / "in.json").write_text('{"customer": "ada", "price": 50}')
    assert shell("run", "refund.py:refund", "-i", "@in.json", "--cost-limit", "1").code == 8
    other, run = (shell("run", "refund.py:refund", "-i", "@in.json", "--detach").out.strip() for _ in range(2))
    given = examples()
    for words in re.split(r"[;\n]", SAFE.strip()):
        if words.strip() == "gates list":  # who began it may have ended before it asked: a worker takes it up
            assert shell(*shlex.split(given["holdfast worker"])[1:]).code == 0
            until_it_asks(shell, run)
        pasted = given[f"holdfast {words.strip()}"].partition(" > ")[0]
        pasted = re.sub(rf"{RUN}(?=[ :]|$)", run, pasted).replace("019aa9c3", other)
        done = shell(*shlex.split(pasted)[1:])
        assert done.code == (8 if words == "run" else 0), (pasted, done)


def until_it_asks(shell: Shell, run: str) -> None:
    """Wait until a run that another command executes waits for a person."""
    ends_s = time.monotonic() + 30
    while run not in shell("gates", "list", "--json").out:
        assert time.monotonic() < ends_s, "the run asks nothing"


def printed() -> Iterator[str]:
    """Each text of the command line that is more than a word, but for docstrings."""
    for file in sorted(Path(cli.__file__).parent.rglob("*.py")):
        tree = ast.parse(file.read_text())
        documents = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in documents
                and " " in node.value
            ):
                yield f"{file.name}:{node.lineno}: {node.value}"


def test_what_is_printed_is_in_plain_words() -> None:
    assert [text for text in printed() if RIDDLES.search(text)] == []


def test_help_is_read_once() -> None:
    texts = [line for line in face.commands() if "Example: " not in line]
    assert [line for line in texts if RIDDLES.search(line.partition("): ")[2] or line.partition(": ")[2])] == []
    assert [line for line in texts if re.search(r": (What|Who|Whose|Whether|How|Where|That) ", line)] == []


NOUNS = [name for name, command in typer.main.get_command(app).commands.items() if hasattr(command, "commands")]


@pytest.mark.parametrize("name", NOUNS)
def test_the_page_of_a_group_has_an_example_and_begins_with_list_and_show(shell: Shell, name: str) -> None:
    said = shell(name, "--help").out
    assert f"holdfast {name} " in said.partition("Example:")[2], said
    names = list(typer.main.get_command(app).commands[name].commands)
    usual = [each for each in ("list", "show") if each in names]
    assert names[: len(usual)] == usual
