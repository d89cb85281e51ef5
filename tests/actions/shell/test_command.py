"""Which program runs a script, and what it sees of the world."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.actions.shell.command import command_of, filled, find
from holdfast.actions.shell.environment import DEFAULT_PATH, MAX_VARIABLE_BYTES, environment_of
from holdfast.errors import InvalidInput, ToolFailed


def program(folder: Path, name: str) -> None:
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("shell", "flags"),
    [
        (None, ["-e", "FILE"]),
        ("bash", ["--noprofile", "--norc", "-e", "-o", "pipefail", "FILE"]),
        ("sh", ["-e", "FILE"]),
        ("python", ["FILE"]),
        ("bash -x {0} 'a b' --log={0}", ["-x", "FILE", "a b", "--log=FILE"]),
    ],
)
def test_each_shell_has_the_flags_that_github_documents(shell: str | None, flags: list[str], tmp_path: Path) -> None:
    for name in ("bash", "sh", "python"):
        program(tmp_path, name)
    command = filled(find(shell, str(tmp_path), "/"), "FILE")
    assert command == [str(tmp_path / (shell.split()[0] if shell else "bash")), *flags]


def test_without_a_shell_it_is_sh_where_there_is_no_bash(tmp_path: Path) -> None:
    program(tmp_path, "sh")
    assert find(None, str(tmp_path), "/") == [str(tmp_path / "sh"), "-e", "{0}"]


def test_a_program_with_a_slash_is_looked_for_where_the_script_starts(tmp_path: Path) -> None:
    program(tmp_path, "mine")
    assert find("./mine {0}", "", str(tmp_path)) == [str(tmp_path / "mine"), "{0}"]


@pytest.mark.parametrize("shell", ["pwsh", "zsh", "", "bash -e", "BASH", "{0}", "{0} x", "bash '{0}"])
def test_an_unknown_shell_is_refused_with_what_there_is(shell: str) -> None:
    with pytest.raises(InvalidInput, match="Nothing was run"):
        command_of(shell)


@pytest.mark.parametrize("shell", [None, "bash", "fish {0}", "./fish {0}"])
def test_a_shell_that_is_not_there_is_named(shell: str | None, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match=r"(bash or sh|bash|fish) is not there.*Nothing was run"):
        find(shell, str(tmp_path), str(tmp_path))


def test_a_script_gets_few_worker_variables_then_its_own_then_those_of_the_runner() -> None:
    worker = {"PATH": "/bin", "HOME": "/root", "ANTHROPIC_API_KEY": "sk-1", "HOLDFAST_STORE": "x", "LD_PRELOAD": "y"}
    given = {"HOME": "/home", "HOLDFAST_RUN": "forged", "MINE": "1"}
    assert environment_of(worker, given, {"HOLDFAST_RUN": "r"}) == {
        "PATH": "/bin",
        "HOME": "/home",
        "MINE": "1",
        "HOLDFAST_RUN": "r",
    }
    assert environment_of({}, {}, {}) == {"PATH": DEFAULT_PATH}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"": "x"}, "cannot name"),
        ({"a=b": "x"}, "cannot name"),
        ({"a\0": "x"}, "cannot name"),
        ({"a": "x\0"}, "contains NUL"),
        ({"a": "\ud800"}, "no Unicode text"),
        ({"a": "x" * MAX_VARIABLE_BYTES}, "the system passes at most 131071 in one variable"),
        ({f"a{n}": "x" * 100_000 for n in range(11)}, "a script is given at most 1048576"),
    ],
)
def test_what_no_program_can_be_given_is_refused_before_anything_starts(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        environment_of({}, given, {})
