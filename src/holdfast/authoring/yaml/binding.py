"""A script with expressions in it, made safe: each is bound to an environment variable and read by a quoted reference.

GitHub pastes the value into the script before the shell reads it, so that a value can become code. Here the script's
text never changes: `echo ${{ inputs.name }}` becomes `echo "$HOLDFAST_EXPR_1"`, and the value travels beside it. Where a
reference would not be read (single quotes, a quoted heredoc), or its value would be run (hazard.py), the file is refused.

The reader follows POSIX and bash as far as it takes to know where a place stands. Where it errs, the script contains
nothing but the name of a variable. Never here: what the values are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.authoring.yaml.hazard import (
    COMPUTING,
    HOLE,
    assigns,
    declares_integers,
    of_word,
    runs_its_input,
)

PREFIX: Final = "HOLDFAST_EXPR_"
_DEEPEST: Final = 40
"""Quotes and substitutions inside one another; far more than anybody can read."""

_BEFORE_A_COMMAND: Final = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"}
_ENDS_A_GROUP: Final = {"fi", "done", "esac", "}"}
_SEPARATORS: Final = (";;&", ";;", ";&", "&&", "||", "|&", ";", "|", "&")
_REDIRECTS: Final = ("<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")


class Refusal(msgspec.Struct, frozen=True):
    """An expression that stands where its value cannot be handed over safely."""

    number: int
    """Which one, counting from 0."""
    where: str
    """`inside single quotes`"""


class Bound(msgspec.Struct, frozen=True):
    """The script with its references, and what could not be bound."""

    text: str
    refusals: tuple[Refusal, ...]


def bind(pieces: Sequence[str | None]) -> Bound:
    """Put references where the expressions stand: each None in `pieces`."""
    reader = _Reader("".join(HOLE if piece is None else piece.replace(HOLE, "") for piece in pieces))
    try:
        reader.script()
    except _LostError as lost:
        for number in range(lost.first_hole, sum(piece is None for piece in pieces)):
            reader.refused.setdefault(number, str(lost))
        reader.leave()
    return Bound("".join(reader.out), tuple(Refusal(*each) for each in sorted(reader.refused.items())))


class _LostError(Exception):
    """Nobody can tell what the rest of the script means."""

    def __init__(self, first_hole: int, why: str) -> None:
        super().__init__(why)
        self.first_hole = first_hole


class _Heredoc(msgspec.Struct):
    end: str
    quoted: bool
    stripped: bool
    run_by: str | None = None
    """The program that takes its text for code."""


class _Command:
    """A simple command in the making."""

    def __init__(self, first_hole: int) -> None:
        self.words: list[str] = []
        self.word: list[str] | None = None
        self.is_quoted = False
        """The word has quotes, so it is no reserved word and no assignment."""
        self.redirect = ""
        self.input_holes: list[int] = []
        self.first_hole = first_hole
        self.heredocs: list[_Heredoc] = []
        self.in_test = False
        self.test_holes: list[int] = []
        self.ends_group = False
        self.is_timed = False
        """The word before was `time`, which has one option."""

    @property
    def text(self) -> str:
        return "".join(self.word or ())


class _Scope:
    """Commands up to a closing sign: the script itself, `$( )`, `( )`, `<( )`, or the list of an array."""

    def __init__(self, first_hole: int, objection: str | None, *, is_array: bool = False) -> None:
        self.first_hole = first_hole
        self.objection = objection
        self.is_array = is_array
        self.cases: list[str] = []
        """For each open `case`: whether a pattern or its commands are being read."""
        self.command = _Command(first_hole)
        self.upstream: list[int] = []
        self.heredocs: list[_Heredoc] = []

    @property
    def in_pattern(self) -> bool:
        return bool(self.cases) and self.cases[-1] == "pattern"


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._end = len(text)
        self._at = 0
        self._holes = 0
        self._depth = 0
        self._pending: list[_Heredoc] = []
        self._assigned: list[int] = []
        self._has_integers = False
        self.out: list[str] = []
        self.refused: dict[int, str] = {}

    # --- The text -------------------------------------------------------------------------------------------------

    def _ahead(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at, self._end)

    def leave(self) -> None:
        """Take the rest as it is."""
        self.out.append(self._text[self._at :])

    def _copy(self, length: int = 1) -> str:
        part = self._text[self._at : min(self._at + length, self._end)]
        self.out.append(part)
        self._at += len(part)
        return part

    def _hole(self, objection: str | None, reference: str) -> int:
        """Put a reference to the next expression, or say why there can be none."""
        number = self._holes
        self._holes += 1
        self._at += 1
        if objection is not None:
            self.refused.setdefault(number, objection)
        self.out.append(reference.format(f"{PREFIX}{number + 1}"))
        return number

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _LostError(self._holes, f"inside more than {_DEEPEST} quotes and brackets")

    # --- Commands -------------------------------------------------------------------------------------------------

    def script(self) -> None:
        self._commands(_Scope(0, None), "")
        if self._has_integers:
            for number in self._assigned:
                self.refused.setdefault(
                    number, "in an assignment of a script that declares integers, which the shell computes"
                )

    def _commands(self, scope: _Scope, closer: str) -> None:
        """Up to the closing sign, or to the end of the text where there is none."""
        self._deeper()
        begun = self._holes
        while self._at < self._end:
            if closer and self._ahead(closer) and not scope.in_pattern:
                break
            self._piece(scope)
        self._end_command(scope, "")
        if closer:
            if self._at >= self._end:
                raise _LostError(begun, f"behind a bracket or quote that is not closed with {closer}")
            self._copy()
        self._depth -= 1

    def _piece(self, scope: _Scope) -> None:
        command = scope.command
        sign = self._text[self._at]
        if sign in " \t":
            self._end_word(scope)
            self._copy()
        elif sign == "\n":
            if scope.is_array:
                self._end_word(scope)
            else:
                self._end_command(scope, "\n")
            self._copy()
            self._heredoc_bodies()
        elif sign == "#" and command.word is None:
            self._comment()
        elif sign in ";&|" and not (command.in_test and sign != ";"):
            self._separator(scope)
        elif sign in "<>" and not command.in_test:
            self._redirect(scope)
        elif sign in "()":
            self._parenthesis(scope)
        else:
            self._word_part(scope)

    def _comment(self) -> None:
        while self._at < self._end and self._text[self._at] != "\n":
            if self._text[self._at] == HOLE:
                self._hole(None, "{}")  # the name alone: a comment stays one, whatever the value is
            else:
                self._copy()

    def _separator(self, scope: _Scope) -> None:
        sign = next(each for each in _SEPARATORS if self._ahead(each))
        if sign == "&" and self._text.startswith("&>", self._at):
            self._end_word(scope)
            self._copy()
            return
        self._end_command(scope, sign)
        self._copy(len(sign))
        if sign.startswith((";;", ";&")) and scope.cases:
            scope.cases[-1] = "pattern"

    def _parenthesis(self, scope: _Scope) -> None:
        command = scope.command
        if self._ahead(")"):  # the end of a pattern; any other was met where its bracket was opened
            self._end_word(scope)
            self._copy()
            if scope.in_pattern:
                scope.cases[-1] = "commands"
            scope.command = _Command(self._holes)
        elif scope.in_pattern and command.word is None:
            self._copy()
        elif command.word is not None and command.text.endswith("=") and assigns(command.text):
            self._copy()
            self._commands(_Scope(self._holes, scope.objection, is_array=True), ")")
        elif command.word is not None:
            self._after_a_name(scope)
        elif command.in_test:
            self._copy()
            self._opaque("(", ")", "in brackets between [[ and ]]")
        elif self._ahead("((") and not command.words:
            self._opaque("(", ")", "between (( and )), where the shell computes")
            command.word = ["(())"]
        elif command.words and command.words[0] in ("for", "select"):
            self._opaque("(", ")", "between (( and )), where the shell computes")
        else:
            self._copy()
            self._commands(_Scope(self._holes, scope.objection), ")")
            command.ends_group = True

    def _after_a_name(self, scope: _Scope) -> None:
        """`name()` begins a function; `?(a|b)` is a pattern."""
        if self._ahead("()"):
            self._copy(2)
            scope.command = _Command(self._holes)
        else:
            self._opaque("(", ")", "in the brackets of a pattern")

    def _end_command(self, scope: _Scope, sign: str) -> None:
        self._end_word(scope)
        command = scope.command
        if command.in_test:
            raise _LostError(command.first_hole, "between [[ and ]], of which the end is missing in its line")
        self._has_integers = self._has_integers or declares_integers(command.words)
        scope.heredocs += command.heredocs
        program = runs_its_input(command.words)
        if program is not None:
            why = f"in the input of {program!r}, which runs it"
            for number in (*scope.upstream, *command.input_holes):
                self.refused.setdefault(number, why)
            for heredoc in scope.heredocs:
                heredoc.run_by = program
        if sign in ("|", "|&"):
            first = scope.first_hole if command.ends_group else command.first_hole
            scope.upstream += range(first, self._holes)
        elif not (sign == "\n" and not command.words):
            scope.upstream, scope.heredocs = [], []
        scope.command = _Command(self._holes)

    # --- Words ----------------------------------------------------------------------------------------------------

    def _end_word(self, scope: _Scope) -> None:
        command = scope.command
        if command.word is None:
            return
        word, quoted = command.text, command.is_quoted
        command.word, command.is_quoted = None, False
        if command.redirect:
            command.redirect = ""
        elif scope.is_array:
            return
        elif scope.in_pattern:
            if word == "esac" and not quoted:
                scope.cases.pop()
                command.ends_group = True
        elif command.in_test:
            self._test_word(command, word, quoted)
        elif not command.words and not quoted and self._is_reserved(scope, word):
            return
        elif command.words or not assigns(word):
            command.words.append(word)
            if command.words[0] == "function" and len(command.words) == 2:
                scope.command = _Command(self._holes)  # what follows the name is a command like any other
            if command.words[0] == "case" and len(command.words) == 3 and word == "in":
                scope.cases.append("pattern")
                scope.command = _Command(self._holes)

    def _is_reserved(self, scope: _Scope, word: str) -> bool:
        command = scope.command
        if word == "[[":
            command.in_test = True
        elif word in _ENDS_A_GROUP:
            command.ends_group = True
            if word == "esac" and scope.cases:
                scope.cases.pop()
        elif word not in _BEFORE_A_COMMAND and not (word == "-p" and command.is_timed):
            return False
        command.is_timed = word == "time"
        return True

    def _test_word(self, command: _Command, word: str, quoted: bool) -> None:
        if word in COMPUTING and not quoted:
            command.words.append(word)
        elif word == "]]" and not quoted:
            if command.words:
                why = f"beside {command.words[0]!r} between [[ and ]], where the shell computes; use [ and ]"
                for number in command.test_holes:
                    self.refused.setdefault(number, why)
            command.in_test, command.words = False, ["]]"]

    def _word_part(self, scope: _Scope) -> None:
        command = scope.command
        if command.word is None:
            command.word = []
        sign = self._text[self._at]
        if sign == "\\":
            self._escaped(command.word)
        elif sign == "'":
            command.is_quoted = True
            self._single_quoted(command.word, "'")
        elif sign == '"':
            command.is_quoted = True
            self._copy()
            self._double_quoted(scope)
        elif sign == "$":
            self._dollar(scope)
        elif sign == "`":
            self._copy()
            self._until("`", "inside backquotes; use $( )")
            command.word.append("``")
        elif sign == HOLE:
            self._place(scope, '"${}"')
        else:
            command.word.append(self._copy())

    def _place(self, scope: _Scope, reference: str) -> None:
        command = scope.command
        number = self._hole(self._objection(scope), reference)
        if command.redirect == "<<<":
            command.input_holes.append(number)
        if command.in_test:
            command.test_holes.append(number)
        if not command.words and not scope.in_pattern and assigns(command.text):
            self._assigned.append(number)
        if command.word is not None:
            command.word.append(HOLE)

    def _objection(self, scope: _Scope) -> str | None:
        """Why no value may stand at this place, if that is so."""
        command = scope.command
        if scope.objection is not None:
            return scope.objection
        if command.in_test or command.redirect or scope.in_pattern or command.words[:1] == ["]]"]:
            return None
        if scope.is_array:
            return "in the brackets of an array, which the shell computes" if command.text.startswith("[") else None
        return of_word(command.words, command.text)

    def _escaped(self, word: list[str]) -> None:
        self._copy()
        if self._ahead(HOLE):
            self._hole("right behind a backslash", "{}")
        elif self._at < self._end:
            sign = self._copy()
            word.append("" if sign == "\n" else sign)

    def _single_quoted(self, word: list[str], opening: str) -> None:
        begun = self._holes
        self._copy(len(opening))
        while self._at < self._end:
            sign = self._text[self._at]
            if sign == HOLE:
                self._hole("inside single quotes", "{}")
            elif sign == "\\" and opening == "$'" and not self._text.startswith(HOLE, self._at + 1):
                self._copy(2)
            else:
                self._copy()
                if sign == "'":
                    return
                word.append(sign)
        raise _LostError(begun, "inside single quotes that are not closed")

    def _double_quoted(self, scope: _Scope) -> None:
        begun = self._holes
        self._quoted(scope, '"')
        if self._at >= self._end:
            raise _LostError(begun, "inside double quotes that are not closed")
        self._copy()

    def _quoted(self, scope: _Scope, closer: str) -> None:
        """What the shell reads as in double quotes, up to the closing one or the end of a heredoc."""
        command = scope.command
        word = command.word if command.word is not None else []
        while self._at < self._end:
            sign = self._text[self._at]
            if sign == closer:
                return
            if sign == "\\":
                self._escaped(word)
            elif sign == "`":
                self._copy()
                self._until("`", "inside backquotes; use $( )")
            elif sign == "$":
                self._dollar(scope, quoted=True)
            elif sign == HOLE:
                self._place(scope, "${{{}}}")
            else:
                word.append(self._copy())

    def _dollar(self, scope: _Scope, *, quoted: bool = False) -> None:
        command = scope.command
        if command.word is None:
            command.word = []
        if self._ahead("$(("):
            self._copy()
            self._opaque("(", ")", "inside $(( )), where the shell computes")
            command.word.append("0")
        elif self._ahead("$("):
            self._copy(2)
            self._commands(_Scope(self._holes, self._objection(scope)), ")")
            command.word.append("$()")
        elif self._ahead("${"):
            self._copy()
            self._opaque("{", "}", "inside ${ }", has_quotes=not quoted)
            command.word.append("${}")
        elif self._ahead("$["):
            self._copy()
            self._opaque("[", "]", "inside $[ ], where the shell computes")
            command.word.append("0")
        elif self._ahead("$'") and not quoted:
            command.is_quoted = True
            self._single_quoted(command.word, "$'")
        else:
            command.word.append(self._copy())
            if self._ahead(HOLE):
                self._hole("right behind a '$'", "{}")

    def _opaque(self, opening: str, closing: str, where: str, *, has_quotes: bool = True) -> None:
        """From an opening bracket to the one that closes it; nothing may be placed in between."""
        begun, open_ = self._holes, 0
        while self._at < self._end:
            sign = self._text[self._at]
            if sign == HOLE:
                self._hole(where, "{}")
                continue
            if sign == "\\":
                self._copy()
                if self._ahead(HOLE):
                    continue
            elif sign == "'" and has_quotes:
                self._copy()
                self._until("'", where)
                continue
            elif sign == '"':
                self._copy()
                self._until('"', where)
                continue
            self._copy()
            open_ += (sign == opening) - (sign == closing)
            if open_ == 0 and sign == closing:
                return
        raise _LostError(begun, f"{where}, of which the end is missing")

    def _until(self, closing: str, where: str) -> None:
        begun = self._holes
        while self._at < self._end:
            sign = self._text[self._at]
            if sign == HOLE:
                self._hole(where, "{}")
                continue
            self._copy()
            if sign == closing:
                return
            if sign == "\\" and closing != "'" and not self._ahead(HOLE):
                self._copy()
        raise _LostError(begun, f"{where}, of which the end is missing")

    # --- Redirections ---------------------------------------------------------------------------------------------

    def _redirect(self, scope: _Scope) -> None:
        command = scope.command
        if command.word is not None and command.text.isdigit():
            command.word = None  # the number of a descriptor
        self._end_word(scope)
        if self._ahead("<(") or self._ahead(">("):
            objection = self._objection(scope)
            command.word = ["<()"]
            self._copy(2)
            self._commands(_Scope(self._holes, objection), ")")
            return
        sign = next(each for each in _REDIRECTS if self._ahead(each))
        self._copy(len(sign))
        if sign in ("<<", "<<-"):
            self._heredoc(command, sign == "<<-")
        else:
            command.redirect = sign

    def _heredoc(self, command: _Command, stripped: bool) -> None:
        while self._ahead(" ") or self._ahead("\t"):
            self._copy()
        found = re.compile(r"(?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+").match(self._text, self._at, self._end)
        if found is None:
            raise _LostError(self._holes, "behind a '<<' without an end mark")
        mark = found[0]
        if HOLE in mark:
            raise _LostError(self._holes, "in the end mark of a heredoc")
        self._copy(len(mark))
        end = re.sub(r"\\(.)|['\"]", r"\1", mark)
        heredoc = _Heredoc(end, any(sign in mark for sign in "\\'\""), stripped)
        self._pending.append(heredoc)
        command.heredocs.append(heredoc)

    def _heredoc_bodies(self) -> None:
        """The lines behind the one that announced them."""
        pending, self._pending = self._pending, []
        for heredoc in pending:
            self._heredoc_body(heredoc)

    def _heredoc_body(self, heredoc: _Heredoc) -> None:
        begun, end = self._holes, self._at
        while end < self._end:
            line_end = self._text.find("\n", end, self._end)
            line_end = self._end if line_end < 0 else line_end
            line = self._text[end:line_end]
            if (line.lstrip("\t") if heredoc.stripped else line) == heredoc.end:
                break
            end = min(line_end + 1, self._end)
        else:
            raise _LostError(begun, f"in a heredoc of which the end mark {heredoc.end!r} is missing")
        outer, self._end = self._end, end
        if heredoc.quoted:
            while self._at < self._end:
                self._hole("in a heredoc whose end mark is quoted", "{}") if self._ahead(HOLE) else self._copy()
        else:
            why = None if heredoc.run_by is None else f"in the input of {heredoc.run_by!r}, which runs it"
            body = _Scope(self._holes, why)
            body.command.words = ["cat"]
            body.command.word = []
            self._quoted(body, "")
        self._end = outer
        line_end = self._text.find("\n", self._at, self._end)
        self._copy((self._end if line_end < 0 else line_end) - self._at)
