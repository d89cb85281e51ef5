"""Which words of a shell command are run as code by what they are given to: the one place where quoting does not help.

A quoted reference keeps a value one word. That is enough for a command that takes words as data; it is not for `eval`,
for the program text of an interpreter, or where a shell computes. Never here: how a script is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

HOLE: Final = "\0"
"""Stands for an expression in a word; a YAML file holds no NUL."""

_INTERPRETER: Final = re.compile(
    r"(ba|da|z|k|a|fi|pw|power|tcl|)sh(ell)?|busybox|(i?python|pypy)[\d.]*|perl|ruby|node(js)?|deno|bun|php|lua[\d.]*"
    r"|Rscript|osascript|[gmn]?awk|g?sed"
)
_FILTERS: Final = re.compile(r"[gmn]?awk|g?sed")
"""Interpreters whose input is data even when no script is named."""
_EVALUATORS: Final = {
    "eval", "ssh", "su", "trap", "alias", "watch", "parallel", "let", "source", ".", "compgen", "complete", "at", "batch",
    "bind",
}  # fmt: skip
"""Whatever they are given they may run, or look up and run."""
_PROGRAMS: Final = {"eval", "ssh", "su", "watch", "parallel", "at", "batch"}
"""Those of them that another command can run."""
_STDIN_EVALUATORS: Final = {"ssh", "su", "at", "batch", "parallel"}
_WRAPPERS: Final = {
    "exec", "command", "builtin", "sudo", "doas", "env", "nohup", "nice", "ionice", "xargs", "timeout", "setsid", "flock",
    "stdbuf", "docker", "podman", "kubectl", "find", "npx", "coproc", "strace", "chroot", "unshare", "nsenter", "runuser",
}  # fmt: skip
"""They run another command, which one of their words names."""
_DECLARATIONS: Final = {"declare", "typeset", "local", "readonly", "export"}
_NAMERS: Final = {"unset", "read", "mapfile", "readarray", "getopts", "wait"}
"""They take names of variables, and a shell computes what stands in the brackets of a name."""
_CODE_OPTION: Final = re.compile(r"-[A-Za-z]*[ceEpr]\Z|--(eval|print|command|execute|expression)(=|\Z)")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[[^\]]*\Z")
COMPUTING: Final = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"}
"""Between [[ and ]] they have the shell compute what stands beside them."""


def of_word(words: Sequence[str], word: str) -> str | None:
    """Why a value may not stand next in `word` (what there is of it) of the command `words`; None where it may."""
    if _SUBSCRIPT.match(word):
        return "in the brackets of a variable, which the shell computes"
    if not words:
        return None if _ASSIGNMENT.match(word) else "as the command itself, which a value from outside must not choose"
    place = _program(words)
    name = _base(words[place])
    if name in _EVALUATORS:
        return f"behind {name!r}, which runs what it is given"
    if place == len(words) - 1 and words[-1] and _base(words[-1]) in _WRAPPERS:
        return f"behind {name!r}, where it would choose the command"
    if _INTERPRETER.fullmatch(name):
        return _of_interpreter(name, words[place + 1 :], word)
    return _of_builtin(name, words, word)


def _of_interpreter(name: str, given: Sequence[str], word: str) -> str | None:
    before = given[-1] if given else ""
    if _FILTERS.fullmatch(name) and before in ("-v", "--assign"):
        return None
    if _operand(given) is None or _CODE_OPTION.match(before) or _CODE_OPTION.match(word):
        return f"in the program that {name!r} runs"
    return None


def _of_builtin(name: str, words: Sequence[str], word: str) -> str | None:
    if name in _NAMERS or (name in _DECLARATIONS and not _ASSIGNMENT.match(word)):
        return f"as the name of a variable behind {name!r}, which the shell computes"
    if name == "printf" and (words[-1] == "-v" or len(words) == 1):
        return "as the format of 'printf'; write printf '%s' first, and the value behind it"
    if name in ("[", "test") and (
        words[-1] in COMPUTING - {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"} or HOLE in words[-1]
    ):
        return f"where '{name}' would take it for an operator or a variable; compare it with '='"
    return None


def runs_its_input(words: Sequence[str]) -> str | None:
    """The program of the command that runs what it reads from its standard input, if there is one."""
    if not words:
        return None
    place = _program(words)
    name = _base(words[place])
    if name in _STDIN_EVALUATORS:
        return name
    if not _INTERPRETER.fullmatch(name) or _FILTERS.fullmatch(name):
        return None
    if "xargs" in map(_base, words[:place]):
        return name
    given = words[place + 1 :]
    return name if _operand(given) in (None, "-", "/dev/stdin") or "-s" in given else None


def declares_integers(words: Sequence[str]) -> bool:
    """Whether the command makes variables whose values the shell computes whenever they are assigned."""
    return (
        len(words) > 1
        and _base(words[0]) in _DECLARATIONS
        and any(re.match(r"-[A-Za-z]*i", word) for word in words[1:])
    )


def assigns(word: str) -> bool:
    return _ASSIGNMENT.match(word) is not None


def _program(words: Sequence[str]) -> int:
    """Where the name of the program stands that a command ends up running, as far as its wrappers let it be seen."""
    if _base(words[0]) not in _WRAPPERS:
        return 0
    known = (n for n, word in enumerate(words) if _INTERPRETER.fullmatch(_base(word)) or _base(word) in _PROGRAMS)
    inner = (n for n, word in enumerate(words) if _base(word) not in _WRAPPERS and n and word[:1] not in ("-", ""))
    return next(known, None) or next((n for n in inner if not _ASSIGNMENT.match(words[n])), len(words) - 1)


def _operand(given: Sequence[str]) -> str | None:
    """The first word that is no option: an interpreter's program, or the file that holds it."""
    return next((word for word in given if word == "-" or word[:1] not in ("-", "+")), None)


def _base(word: str) -> str:
    return word.rpartition("/")[2] if word != "." else word
