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
    r"|Rscript|osascript|expect|[gmn]?awk|g?sed"
)
_FILTERS: Final = re.compile(r"[gmn]?awk|g?sed")
"""Interpreters whose input is data even when no script is named."""
_EVALUATORS: Final = {
    "eval", "ssh", "su", "trap", "alias", "watch", "parallel", "let", "source", ".", "compgen", "complete", "at", "batch",
    "bind", "enable", "hash", "script",
}  # fmt: skip
"""Whatever they are given they may run, or look up and run."""
_PROGRAMS: Final = {"eval", "ssh", "su", "watch", "parallel", "at", "batch", "script"}
"""Those of them that another command can run."""
_STDIN_EVALUATORS: Final = {"ssh", "su", "at", "batch", "parallel"}
_WRAPPERS: Final = {
    "exec", "command", "builtin", "sudo", "doas", "env", "nohup", "nice", "ionice", "xargs", "timeout", "setsid", "flock",
    "stdbuf", "npx", "coproc", "strace", "chroot", "unshare", "nsenter", "runuser",
}  # fmt: skip
"""They run another command, which one of their words names."""
_OF_BUILTINS: Final = ("command", "builtin", "coproc")
"""Wrappers that the shell itself is, so that they reach its own commands too."""
_CARRIERS: Final = {"find", "docker", "podman", "kubectl"}
"""They may run another command, and have other words too."""
_RUNNING_OPTIONS: Final = {"-exec", "-execdir", "-ok", "-okdir"}
"""Those of `find` behind which a command stands."""
_DECLARATIONS: Final = {"declare", "typeset", "local", "readonly", "export"}
RUN_BY_SHELLS: Final = {
    "BASH_ENV",
    "ENV",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "PROMPT_COMMAND",
    "LD_PRELOAD",
    "SHELLOPTS",
    "BASHOPTS",
}
"""Variables whose values shells, or the loader of programs, run or obey."""
_NAMERS: Final = {"unset", "read", "mapfile", "readarray", "getopts", "wait"}
"""They take names of variables, and a shell computes what stands in the brackets of a name."""
_CODE_OPTION: Final = re.compile(r"-[A-Za-z]*[ceEpr]\Z|--(eval|print|command|execute|expression)(=|\Z)")
_TAKES_A_WORD: Final = {"-o", "+o", "-O", "+O", "-W", "-X", "-v", "-F", "--assign", "--rcfile", "--init-file"}
"""Options of interpreters that are followed by a word which is neither code nor a file of it."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[[^\]]*\Z")
COMPUTING: Final = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"}
"""Between [[ and ]] they have the shell compute what stands beside them."""


def of_word(words: Sequence[str], word: str) -> str | None:
    """Why a value may not stand next in `word` (what there is of it) of the command `words`; None where it may."""
    if _SUBSCRIPT.match(word):
        return "in the brackets of a variable, which the shell computes"
    assigned = _ASSIGNMENT.match(word)
    if assigned is not None and assigned[0].rstrip("+=") in RUN_BY_SHELLS:
        return "in a variable whose value shells run"
    if not words:
        return None if assigned else "as the command itself, which a value from outside must not choose"
    words = _visible(words)
    place = _program(words)
    name = _base(words[place or 0])
    if name in (_PROGRAMS if place and words[0] not in _OF_BUILTINS else _EVALUATORS):
        return f"behind {name!r}, which runs what it is given"
    if (place is None and not _ASSIGNMENT.match(word)) or words[-1] in _RUNNING_OPTIONS:
        return f"behind {words[-1]!r}, where it would choose the command"
    if place is None:
        return None
    if _INTERPRETER.fullmatch(name):
        return _of_interpreter(name, words[place + 1 :], word)
    return _of_builtin(name, words, word)


def _of_interpreter(name: str, given: Sequence[str], word: str) -> str | None:
    before = given[-1] if given else ""
    if _FILTERS.fullmatch(name) and before in ("-v", "--assign"):
        return None
    operand, has_code = _operand(name, given)
    is_code = _CODE_OPTION.match(before) or _CODE_OPTION.match(word)
    if operand is not None or (has_code and not is_code):
        return None
    return f"in the program that {name!r} runs"


def _of_builtin(name: str, words: Sequence[str], word: str) -> str | None:
    refers = name in _DECLARATIONS and any(re.match(r"[-+][A-Za-z]*n", each) for each in words[1:])
    if name in _NAMERS or refers or (name in _DECLARATIONS and not _ASSIGNMENT.match(word)):
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
    words = _visible(words)
    place = _program(words) or 0
    name = _base(words[place])
    if name in _STDIN_EVALUATORS:
        return name
    if not _INTERPRETER.fullmatch(name) or _FILTERS.fullmatch(name):
        return None
    if "xargs" in map(_base, words[:place]):
        return name
    given = words[place + 1 :]
    operand, has_code = _operand(name, given)
    reads = operand in ("-", "/dev/stdin") or (operand is None and not has_code) or "-s" in given
    return name if reads else None


def declares_integers(words: Sequence[str]) -> bool:
    """Whether the command makes variables whose values the shell computes whenever they are assigned."""
    return (
        len(words) > 1
        and _base(words[0]) in _DECLARATIONS
        and any(re.match(r"-[A-Za-z]*i", word) for word in words[1:])
    )


def assigns(word: str) -> bool:
    return _ASSIGNMENT.match(word) is not None


def _visible(words: Sequence[str]) -> Sequence[str]:
    """Without the variables at the front: where one is empty, the word behind it is the command."""
    front = next((number for number, word in enumerate(words) if not word.startswith("$")), len(words) - 1)
    return words[front:]


def _program(words: Sequence[str]) -> int | None:
    """Where the name of the program stands that a command ends up running; None where only its wrappers are there yet."""
    if _base(words[0]) not in _WRAPPERS | _CARRIERS or (words[0] == "command" and words[1:2] in (["-v"], ["-V"])):
        return 0
    for number, word in enumerate(words):
        known = _EVALUATORS if words[0] in _OF_BUILTINS else _PROGRAMS
        if _INTERPRETER.fullmatch(_base(word)) or _base(word) in known:
            return number
    if _base(words[0]) in _CARRIERS:
        return 0
    return next((number for number, word in enumerate(words) if not _belongs_to_wrapper(word)), None)


def _belongs_to_wrapper(word: str) -> bool:
    """Its name, an option, a variable, a number or a time: what stands before the command that it runs."""
    before = _base(word) in _WRAPPERS or word[:1] in ("-", "") or _ASSIGNMENT.match(word) is not None
    return before or re.fullmatch(r"\d[\d.]*[smhd]?", word) is not None


def _operand(name: str, given: Sequence[str]) -> tuple[str | None, bool]:
    """The first word that belongs to no option: an interpreter's program, or the file that holds it. And whether an
    option has brought it its program already."""
    words = iter(given)
    has_code = False
    for word in words:
        if word == "-" or word[:1] not in ("-", "+"):
            return word, has_code
        if _CODE_OPTION.match(word) and not name.endswith("sh"):  # behind a shell's -c more options may come
            has_code = "=" in word or next(words, None) is not None or has_code
        elif word in _TAKES_A_WORD:
            next(words, None)
    return None, has_code


def _base(word: str) -> str:
    return word.rpartition("/")[2] if word != "." else word
