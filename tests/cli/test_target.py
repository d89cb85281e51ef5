"""FILE.py:WORKFLOW: what is found, and what is said when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Shell

FLOW = """
from holdfast import Workflow, task
{name} = Workflow("{name}")
{name}.node("a")(task(lambda state: {value}))
"""


def write(path: Path, *texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(texts))


def test_a_file_with_one_workflow_needs_no_name(shell: Shell, home: Path) -> None:
    write(home / "one.py", FLOW.format(name="wf", value=1))
    assert shell("run", "one.py").out == "1\n"


def test_a_file_imports_what_lies_beside_it(shell: Shell, home: Path) -> None:
    write(home / "there" / "beside.py", "VALUE = 7")
    write(home / "there" / "uses.py", "from beside import VALUE", FLOW.format(name="wf", value="VALUE"))
    assert shell("run", "there/uses.py:wf").out == "7\n"


def test_a_file_of_a_package_imports_relatively_and_by_its_full_name(shell: Shell, home: Path) -> None:
    write(home / "firm" / "__init__.py")
    write(home / "firm" / "desk" / "__init__.py")
    write(home / "firm" / "desk" / "tools.py", "VALUE = 8")
    write(
        home / "firm" / "desk" / "flow.py",
        "from .tools import VALUE",
        "import firm.desk.tools",
        FLOW.format(name="wf", value="VALUE"),
    )
    assert shell("run", "firm/desk/flow.py:wf").out == "8\n"
    assert shell("run", "firm.desk.flow:wf").out == "8\n"


def test_a_file_may_be_named_like_a_module_of_python(shell: Shell, home: Path) -> None:
    write(home / "json.py", FLOW.format(name="wf", value=9))
    assert shell("run", "json.py:wf").out == "9\n"


def test_a_wrong_name_lists_the_workflows(shell: Shell, home: Path) -> None:
    write(home / "two.py", FLOW.format(name="one", value=1), FLOW.format(name="two", value=2))
    for words in ("two.py", "two.py:three", "two.py:Workflow"):
        said = shell("run", words)
        assert said.code == 2
        assert "two.py:one, two.py:two" in said.err


@pytest.mark.parametrize("words", ["none.py:wf", "none:wf", "none", "empty.py"])
def test_what_is_not_there_exits_2(shell: Shell, home: Path, words: str) -> None:
    write(home / "empty.py", "")
    assert shell("run", words).code == 2


def test_a_file_that_does_not_import_shows_its_own_traceback(shell: Shell, home: Path) -> None:
    write(home / "broken.py", "def inner():", "    return 1 / 0", "inner()")
    said = shell("run", "broken.py:wf")
    assert said.code == 2
    assert 'broken.py", line 2, in inner' in said.err
    assert "holdfast/cli" not in said.err
    assert "importlib" not in said.err
    write(home / "halting.py", "raise SystemExit('enough')")
    assert "SystemExit: enough" in shell("run", "halting.py").err
