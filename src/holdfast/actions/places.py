"""The places in a script's commands where a value may stand as data, by the rules of POSIX shells and of bash.

Never here: finding the words of a script (binding.py does that); what the values are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from holdfast.actions.steering import obeyed_by

HOLE: Final = "\0"
"""Stands for an expression in the text; a YAML file holds no NUL."""

OPENS: Final = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"}
"""Behind these a command begins."""
_SHELLS_OWN: Final = {
    ".",
    ":",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "done",
    "enable",
    "esac",
    "eval",
    "exec",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    "[[",
    "]]",
    "}",
    "((",
}
"""The builtins of a shell, without those that take any word as data (`exit` and `return` take digits and no more)."""
_TAKES_WORDS: Final = {
    ":",
    "]]",
    "}",
    "done",
    "esac",
    "export",
    "false",
    "fi",
    "for",
    "kill",
    "local",
    "pushd",
    "readonly",
    "set",
    "true",
    "type",
    "wait",
}
"""Of these, those to which a variable of the script's may safely be given in its place."""
_RUNS_ITS_WORDS: Final = re.compile(
    r"(?:.*/)?((ba|da|a|k|z|c|tc|fi)?sh|su|ssh|eval|trap|alias|parallel|watch|[mgn]?awk|sed|jq|perl|ruby"
    r"|python[\d.]*|node|php|lua|Rscript|psql|mysql|sqlite3)"
)
"""Programs that read a word of theirs as code: one is not to be put together from values."""
_TEXT_TESTS: Final = {"=", "==", "!=", "-nt", "-ot", "-ef"}
"""Between two words in `[[ ]]` that stay what they are."""
_WORD_TESTS: Final = {f"-{letter}" for letter in "bcdefghkprsuwxznLGNOS"}
"""Before one."""
_NUMBER_TESTS: Final = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
DEFAULTED: Final = re.compile(r"[A-Za-z_]\w*(:?[-=+?]|##?|%%?)[^\[\]]*")
"""As much of `${NAME:-…}` as comes before a text."""
_LITERAL: Final = re.compile(r"[\w./+~:][\w./+~:@,-]*|\[\[?|\]\]|\}|\(\(")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=")
COMPUTED: Final = re.compile(
    r"\b(?:declare|typeset|local|readonly|export)(?:(?:\s|\\\n)+[-+][A-Za-z]+)*(?:\s|\\\n)+-[A-Za-z]*[in]"
    r"|\b(?:declare|typeset|local)(?:(?:\s|\\\n)+[-+][A-Za-z]+)*(?:\s|\\\n)+['\"\\]*[-$`]"
)
"""It makes variables whose values are computed, or are the names of others, wherever they are assigned."""
_FORMAT: Final = re.compile(r"'[^'-]|\"[^\"$`-]|[%\w]")
"""A format of printf that is no option, whatever follows."""
_BEHIND_A_VALUE: Final = {"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o", "]"}
_BEFORE_A_VALUE: Final = _BEHIND_A_VALUE | {"[", "test", "!", *(f"-{letter}" for letter in "bcdefghknprstuwxzGLNOS")}
Care = Literal["none", "number", "split"]
"""A caution for a variable that replaces an expression: it must be a number, or it is split at blanks."""


class Objection(msgspec.Struct, frozen=True):
    """Why no value may stand at a place, and what the script may say there instead."""

    where: str
    """`inside single quotes`"""
    is_mendable: bool = False
    """A variable that the script reads may stand there."""
    computes: bool = False
    """And must be a number."""
    is_command: bool = False
    """It would choose the command."""


class Command:
    """A simple command in the making, in a place where values may not be (`why`), or may."""

    def __init__(self, first: int, reason: Objection | None) -> None:
        self.first = first
        """The number of the expression that comes first in it or behind."""
        self.why = reason
        self.words: list[str] = []
        """As they are written; between `[[` and `]]` also the signs that part them."""
        self.start: int | None = None
        """The place at which the current word begins."""
        self.redirect = ""
        self.is_preceded = False
        """An assignment or a redirection stands before its first word, which is no keyword then."""
        self.runs_its_words = False
        """A program in it reads words as code."""
        self._runs_others = False
        """Behind its name stands another command."""

    @property
    def in_test(self) -> bool:
        return self.words[:1] == ["[["]

    def add(self, word: str) -> None:
        """A word of it has been read."""
        runs = _RUNS_ITS_WORDS.fullmatch(word) is not None
        self.runs_its_words |= runs
        self._runs_others |= bool(self.words) and (runs or word == "-c" or word in _SHELLS_OWN)
        self.words.append(word)

    def is_parted_by(self, sign: str) -> bool:
        """True if the sign stands between two words of `[[ ]]`; a bracket in a word begins a pattern."""
        return sign in ";&|<>)\n" or (sign == "(" and self.start is None)

    def take_sign(self, sign: str) -> bool:
        """Keep the sign among the words of `[[ ]]`. False behind `]]`, where the same sign ends the command."""
        if self.in_test:
            self.words.append(sign)
        return self.in_test

    def objection(self, word: str, *, computes: bool) -> Objection | None:
        """Why no value may stand next in `word`, of which this much is read; None where it may, for all that is known yet."""
        if self.why is not None:
            return self.why
        if not self.words:
            return self._objection_first(word, computes=computes)
        name = self.words[0]
        if self.redirect.endswith("&"):
            return Objection(f"behind {self.redirect!r}, where it would choose a descriptor")
        if not _LITERAL.fullmatch(name):
            named = name.strip('"').startswith(("$", HOLE)) and "(" not in name and not self._runs_others
            return Objection(f"behind {name.replace(HOLE, '…')!r}, which is not the plain name of a command", is_mendable=named)
        if self.in_test or (name == "case" and len(self.words) == 1):
            return None
        if name in _SHELLS_OWN:
            return Objection(
                f"behind {name!r}, which the shell carries out itself; of these only echo, printf, test, cd, exit and return"
                " take values",
                is_mendable=name in _TAKES_WORDS,
                computes=name in ("let", "(("),
            )
        if name == "printf" and not self._has_format():
            return Objection("as the format of 'printf'; write printf '%s' first, and the value behind it")
        return None

    def _objection_first(self, word: str, *, computes: bool) -> Objection | None:
        assigned = None if self.redirect else ASSIGNMENT.match(word)
        if assigned is None:
            is_whole = word in ("", '"')
            return Objection(
                "as the command itself, or before it; a value from outside must not choose it", is_command=is_whole
            )
        if (who := obeyed_by(assigned[1])) is not None:
            return Objection(f"in an assignment to {assigned[1]}, which steers what is run: {who}")
        return Objection("in an assignment of a script that declares integers or references") if computes else None

    def _has_format(self) -> bool:
        return len(self.words) > 1 and _FORMAT.match(self.words[1]) is not None and HOLE not in self.words[1]

    def misleads_test(self) -> bool:
        """Return True if `test` may take a value for an operator, or for the name of a variable."""
        words = [*self.words, "]"]
        beside = zip(words, words[1:], words[2:], strict=False)
        return words[0] in ("[", "test") and any(
            HOLE in word and not (before in _BEFORE_A_VALUE and behind in _BEHIND_A_VALUE) for before, word, behind in beside
        )

    def objection_in_test(self, *, is_closed: bool, is_bash: bool) -> Objection | None:
        """Why a value may not stand where one does between `[[` and `]]`: bash computes there, or sh begins a command."""
        words = self.words[1:]
        if not any(HOLE in word for word in words):
            return None
        depths = itertools.accumulate((word == "(") - (word == ")") for word in words)
        if not is_closed or min(depths) < 0:
            return Objection("behind '[[', which is not closed with ']]'")
        for at, word in enumerate(words):
            if HOLE not in word:
                continue
            if not is_bash and any(before in _PARTS_OF_TESTS for before in words[:at]):
                sign = next(each for each in words[:at] if each in _PARTS_OF_TESTS)
                return Objection(
                    f"behind '[[' and {sign!r}, where sh would begin another command; write '[[ … ]] && [[ … ]]', or"
                    " 'shell: bash' for the step"
                )
            term = _term_around(words, at)
            if not _compares_text(term):
                computes = any(each in _NUMBER_TESTS for each in term)
                return Objection(
                    "behind '[[', where it may be computed or taken for a name; there a value may be compared with '==' or"
                    " '!=', or tested with '-n' or '-z'",
                    is_mendable=computes,
                    computes=computes,
                )
        return None


_PARTS_OF_TESTS: Final = frozenset("&|();<>\n")


def _term_around(words: Sequence[str], offset: int) -> Sequence[str]:
    """The words of the comparison between `[[` and `]]` in which the one at `offset` stands."""
    parting = {"&", "|", "(", ")", "!"}
    begin = next((n + 1 for n in range(offset - 1, -1, -1) if words[n] in parting), 0)
    end = next((n for n in range(offset, len(words)) if words[n] in parting), len(words))
    while words[begin] == "\n":
        begin += 1
    while words[end - 1] == "\n":
        end -= 1
    if "=~" in words[:begin]:  # a pattern may have such signs in it
        return ("=~", *words[begin:end])
    return words[begin:end]


def _compares_text(term: Sequence[str]) -> bool:
    """True if bash takes each word of it that has a value in it as a text and no more."""
    match term:
        case [_]:
            return True
        case [test, _]:
            return test in _WORD_TESTS
        case [_, "=~", pattern]:
            return HOLE not in pattern
        case [_, test, _]:
            return test in _TEXT_TESTS
        case _:
            return False
