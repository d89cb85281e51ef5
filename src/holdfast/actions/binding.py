"""A script with expressions in it, made safe: each is bound to an environment variable and read by a quoted reference.

GitHub pastes the value into the script before the shell reads it, so that a value can become code. Here the script's
text never changes: `echo ${{ inputs.name }}` becomes `echo "$HOLDFAST_EXPR_1"`, and the value travels beside it.

The rule says what is allowed, because a list of dangers would never be whole: a value is a quoted argument of a command
that is named literally and is a program, `echo`, `printf`, `test` or `cd`, or is assigned to a variable that steers
nothing. Everything else is refused, and so is what comes behind a place where this reader of scripts is lost. What a
program does with its arguments is the script's affair. Never here: what the values are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

PREFIX: Final = "HOLDFAST_EXPR_"
_HOLE: Final = "\0"
"""Stands for an expression in the text; a YAML file holds no NUL."""
_DEEPEST: Final = 40
"""Quotes and substitutions inside one another; far more than anybody can read."""

_LONGEST_NAME: Final = 256
"""Of a variable that a value is assigned to: more of a word is not looked at."""

_STEERING: Final = re.compile(
    r"PATH|CDPATH|FPATH|IFS|ENV|HOME|SHELL|PS\d|EDITOR|VISUAL|PAGER|BROWSER|CLASSPATH|LESSOPEN|LESSCLOSE"
    r"|(MAKE|GNUMAKE|GO|RUST)FLAGS|(LD|DYLD|BASH|GIT|NODE|LUA|OPENSSL|GLIBC|GCONV|XDG)_.*"
    r"|(BASHOPTS|SHELLOPTS|LOCPATH|NLSPATH|PYTHON|PERL5|PERLLIB|RUBY|npm_config_).*"
    r"|.*_(OPTIONS|OPTS|COMMAND|PRELOAD|ASKPASS|WRAPPER|EDITOR|PAGER)"
)
_OPENS: Final = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"}
"""Behind these a command begins."""
_SHELLS_OWN: Final = {
    ".", ":", "alias", "bg", "bind", "break", "builtin", "caller", "case", "command", "compgen", "complete",
    "compopt", "continue", "coproc", "declare", "dirs", "disown", "done", "enable", "esac", "eval", "exec", "exit",
    "export", "false", "fc", "fg", "fi", "for", "function", "getopts", "hash", "help", "history", "in", "jobs",
    "kill", "let", "local", "logout", "mapfile", "popd", "pushd", "pwd", "read", "readarray", "readonly", "return",
    "select", "set", "shift", "shopt", "source", "suspend", "times", "trap", "true", "type", "typeset", "ulimit",
    "umask", "unalias", "unset", "wait", "[[", "]]", "}", "((",
}  # fmt: skip
"""What a shell carries out itself, without those that take any word as data."""
_LITERAL: Final = re.compile(r"[\w./+~:][\w./+~:@,-]*|\[\[?|\]\]|\}|\(\(")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=")
_COMPUTED: Final = re.compile(r"\b(declare|typeset|local|readonly|export)(\s+-[A-Za-z]+)*\s+-[A-Za-z]*[in]")
"""It makes variables whose values are computed, or are the names of others, wherever they are assigned."""
_FORMAT: Final = re.compile(r"'[^'-]|\"[^\"$`-]|[%\w]")
"""A format of printf that is no option, whatever follows."""
_BEHIND_A_VALUE: Final = {
    "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef", "-a", "-o", "]",
}  # fmt: skip
_BEFORE_A_VALUE: Final = _BEHIND_A_VALUE | {"[", "test", "!", *(f"-{letter}" for letter in "bcdefghknprstuwxzGLNOS")}
_REDIRECT: Final = re.compile(r"<<<|<<-?|[<>]&|<>|>>|>\||[<>]")
_END_MARK: Final = re.compile(r"[ \t]*(?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+")
_PLAIN: Final = re.compile(r"[\w./:,=+%@^*?!~\[\]{}-]+|.", re.DOTALL)
"""Characters of a word that mean nothing here; or one, whatever it is."""


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
    text = "".join(_HOLE if piece is None else piece.replace(_HOLE, "") for piece in pieces)
    reader = _Reader(text)
    try:
        reader.commands("", None)
    except _LostError as lost:
        for number in range(lost.first, text.count(_HOLE)):
            reader.refused.setdefault(number, str(lost))
    first, *rest = text.split(_HOLE)
    references = [*reader.references, *[""] * (len(rest) - len(reader.references))]
    bound = first + "".join(reference + part for reference, part in zip(references, rest, strict=True))
    return Bound(bound, tuple(Refusal(*each) for each in sorted(reader.refused.items())))


def steers(name: str) -> bool:
    """Whether shells, loaders or interpreters obey the variable of that name."""
    return _STEERING.fullmatch(name) is not None


class _LostError(Exception):
    """Nobody can tell what the rest of the script means, from the expression with the number `first`."""

    def __init__(self, first: int, why: str) -> None:
        super().__init__(why)
        self.first = first


class _Command:
    """A simple command in the making, in a place where values may not be (`why`), or may."""

    def __init__(self, first: int, why: str | None) -> None:
        self.first = first
        """The number of the expression that comes first in it or behind."""
        self.why = why
        self.words: list[str] = []
        """As they are written."""
        self.start: int | None = None
        """Where the word begins that is being read."""
        self.redirect = ""

    def objection(self, word: str, *, computes: bool) -> str | None:
        """Why no value may stand next in `word`, of which this much is read; None where it may."""
        if self.why is not None:
            return self.why
        if not self.words:
            assigned = None if self.redirect else _ASSIGNMENT.match(word)
            if assigned is None:
                return "as the command itself, or before it; a value from outside must not choose it"
            if steers(assigned[1]):
                return f"in an assignment to {assigned[1]}, which steers what is run"
            return "in an assignment of a script that declares integers or references" if computes else None
        name = self.words[0]
        if self.redirect.endswith("&"):
            return f"behind {self.redirect!r}, where it would choose a descriptor"
        if not _LITERAL.fullmatch(name):
            return f"behind {name.replace(_HOLE, '…')!r}, which is not the plain name of a command"
        if name in _SHELLS_OWN:
            return f"behind {name!r}, which the shell carries out itself; of these only echo, printf, test and cd take values"
        if name == "printf" and not self._has_format():
            return "as the format of 'printf'; write printf '%s' first, and the value behind it"
        return None

    def _has_format(self) -> bool:
        return len(self.words) > 1 and _FORMAT.match(self.words[1]) is not None and _HOLE not in self.words[1]

    def misleads_test(self) -> bool:
        """Whether `test` may take a value for an operator, or for the name of a variable."""
        words = [*self.words, "]"]
        beside = zip(words, words[1:], words[2:], strict=False)
        return words[0] in ("[", "test") and any(
            _HOLE in word and not (before in _BEFORE_A_VALUE and behind in _BEHIND_A_VALUE)
            for before, word, behind in beside
        )


class _Heredoc(msgspec.Struct):
    command: _Command
    end: str
    is_quoted: bool
    is_indented: bool


class _Reader:
    """Reads as much of the grammar of POSIX and bash as it takes to know in which command, and in what, a place stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._end = len(text)
        self._depth = 0
        self._computes = _COMPUTED.search(text) is not None
        self._heredocs: list[_Heredoc] = []
        self.references: list[str] = []
        self.refused: dict[int, str] = {}

    def _ahead(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at, self._end)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Go behind what matches here; what that was."""
        found = pattern.match(self._text, self._at, self._end)
        self._at += len(found[0]) if found else 0
        return found[0] if found else ""

    def _hole(self, why: str | None, reference: str = "") -> None:
        """A reference to the next expression, or why there can be none."""
        if why is not None:
            self.refused.setdefault(len(self.references), why)
        self.references.append(reference.format(f"{PREFIX}{len(self.references) + 1}"))
        self._at += 1

    def _enter(self) -> int:
        """Go into something that has an end. The number of the next expression."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _LostError(len(self.references), f"inside more than {_DEEPEST} quotes and brackets")
        return len(self.references)

    def _leave(self, closer: str, begun: int) -> None:
        if closer and self._at >= self._end:
            raise _LostError(begun, f"behind a bracket or quote that is not closed with {closer}")
        self._at += len(closer)
        self._depth -= 1

    # --- Commands -------------------------------------------------------------------------------------------------

    def commands(self, closer: str, why: str | None) -> None:
        """Up to the closing sign, or to the end of the text where there is none."""
        begun = self._enter()
        command = _Command(begun, why)
        while self._at < self._end:
            sign = self._text[self._at]
            in_test = command.words[:1] == ["[["]
            if sign == closer and not in_test:
                break
            if sign in " \t" or (in_test and sign in ";&|<>()\n"):
                self._end_word(command, closer)
                self._at += not (in_test and command.words == ["]]"])  # behind that, the same sign ends the command
            elif sign in "\n;&|" and not self._ahead("&>"):
                command = self._end_command(command, closer)
                self._at += 1
                if sign == "\n":
                    self._heredoc_bodies()
            elif sign in "()" and (command.start is None or sign == ")"):
                command = self._parenthesis(command, closer)
            elif self._ahead("()") and self._text.find("=", command.start, self._at) < 0:  # a function
                self._at += 2
                command = _Command(len(self.references), why)
            elif sign in "<>&" and not self._ahead("<(") and not self._ahead(">("):
                self._redirect(command, closer)
            elif command.start is None and sign == "#":
                self._comment()
            elif command.start is None and self._ahead("\\\n"):
                self._at += 2
            else:
                self._part(command)
        self._end_command(command, closer)
        self._leave(closer, begun)

    def _parenthesis(self, command: _Command, closer: str) -> _Command:
        if self._ahead("(("):
            self._at += 1
            self._region(")", "between (( and )), where the shell computes")
            command.words.append("((")
            return command
        if self._ahead("("):
            self._at += 1
            self.commands(")", command.why)
        else:  # behind the pattern of a case; any other was met where its bracket was opened
            self._end_word(command, closer)
            self._at += 1
        return _Command(len(self.references), command.why)

    def _end_command(self, command: _Command, closer: str) -> _Command:
        """The one behind it."""
        self._end_word(command, closer)
        if command.misleads_test():
            why = f"where {command.words[0]!r} may take it for an operator or a variable; compare it with '='"
            for number in range(command.first, len(self.references)):
                self.refused.setdefault(number, why)
        return _Command(len(self.references), command.why)

    def _end_word(self, command: _Command, closer: str) -> None:
        if command.start is None:
            return
        word = self._text[command.start : self._at]
        command.start = None
        if command.redirect:
            command.redirect = ""
        elif command.words[:1] == ["[["] and word == "]]":
            command.words = [word]
        elif command.words or not (word in _OPENS or _ASSIGNMENT.match(word)):
            command.words.append(word)
        if command.words == ["case"] and closer:
            raise _LostError(len(self.references), "behind a 'case' in brackets, whose own brackets have no partners")

    def _redirect(self, command: _Command, closer: str) -> None:
        if command.start is not None and self._text[command.start : self._at].isdigit():
            command.start = None  # the number of a descriptor
        self._end_word(command, closer)
        if self._ahead("&"):  # `&>`, which ends a command in sh, and does not in bash
            command.words.insert(0, "&>")
            self._at += 1
        sign = self._take(_REDIRECT)
        if sign in ("<<", "<<-"):
            self._announce_heredoc(command, is_indented=sign == "<<-")
        else:
            command.redirect = sign

    def _comment(self) -> None:
        while self._at < self._end and not self._ahead("\n"):
            if self._ahead(_HOLE):
                self._hole(None, "{}")  # the name alone: a comment stays one, whatever the value is
            else:
                self._at += 1

    # --- Words ----------------------------------------------------------------------------------------------------

    def _part(self, command: _Command) -> None:
        """The next part of a word: a quote, a substitution, or some plain characters."""
        if command.start is None:
            command.start = self._at
        begun = self._text[command.start : min(self._at, command.start + _LONGEST_NAME)]
        why = command.objection(begun, computes=self._computes)
        if self._ahead(_HOLE):
            self._hole(why, '"${}"')
        elif self._ahead("'"):
            self._single_quoted()
        elif self._ahead('"'):
            self._at += 1
            self._quoted('"', why)
        elif self._ahead("<(") or self._ahead(">("):
            self._at += 2
            self.commands(")", why)
        elif self._ahead("("):
            self._at += 1
            self._region(")", "in the brackets of an array or a pattern")
        elif not self._substitution(why):
            self._take(_PLAIN)

    def _substitution(self, why: str | None, *, in_quotes: bool = False) -> bool:
        """Read what begins with a backslash, a backquote or a dollar. False where there is none of them."""
        if self._ahead("\\"):
            self._at += 1
            self._hole("right behind a backslash") if self._ahead(_HOLE) else self._skip()
        elif self._ahead("`"):
            self._at += 1
            self._region("`", "inside backquotes; use $( )")
        elif self._ahead("$(("):
            self._at += 2
            self._region(")", "inside $(( )), where the shell computes")
        elif self._ahead("$("):
            self._at += 2
            self.commands(")", why)
        elif self._ahead("${"):
            self._at += 2
            self._region("}", "inside ${ }", in_quotes=in_quotes)
        elif self._ahead("$["):
            self._at += 2
            self._region("]", "inside $[ ], where the shell computes")
        elif self._ahead("$'") and not in_quotes:
            self._at += 1
            self._single_quoted(escapes=True)
        elif self._ahead("$"):
            self._at += 1
            if self._ahead(_HOLE):
                self._hole("right behind a '$'")
        else:
            return False
        return True

    def _skip(self) -> None:
        self._at = min(self._at + 1, self._end)

    def _single_quoted(self, *, escapes: bool = False) -> None:
        begun = self._enter()
        self._at += 1
        while self._at < self._end and not self._ahead("'"):
            if self._ahead(_HOLE):
                self._hole("inside single quotes")
            else:
                self._at += 2 if escapes and self._ahead("\\") and not self._ahead("\\" + _HOLE) else 1
        self._leave("'", begun)

    def _quoted(self, closer: str, why: str | None) -> None:
        """What the shell reads as in double quotes, up to the closing one or the end of a heredoc."""
        begun = self._enter()
        while self._at < self._end and not (closer and self._ahead(closer)):
            if self._ahead(_HOLE):
                self._hole(why, "${{{}}}")
            elif not self._substitution(why, in_quotes=True):
                self._at += 1
        self._leave(closer, begun)

    def _region(self, closer: str, why: str, *, in_quotes: bool = False) -> None:
        """Up to the closing bracket or backquote, with nothing in it where a value may stand."""
        begun = self._enter()
        while self._at < self._end and not self._ahead(closer):
            if self._ahead(_HOLE):
                self._hole(why)
            elif self._ahead('"'):
                self._at += 1
                self._quoted('"', why)
            elif self._ahead("'") and not in_quotes:
                self._single_quoted()
            elif self._ahead("("):
                self._at += 1
                self._region(")", why, in_quotes=in_quotes)
            elif not self._substitution(why, in_quotes=in_quotes):
                self._at += 1
        self._leave(closer, begun)

    # --- Heredocs -------------------------------------------------------------------------------------------------

    def _announce_heredoc(self, command: _Command, *, is_indented: bool) -> None:
        mark = self._take(_END_MARK).lstrip(" \t")
        if not mark or _HOLE in mark:
            raise _LostError(len(self.references), "behind a '<<' without an end mark of its own")
        end = re.sub(r"\\(.)|['\"]", r"\1", mark)
        self._heredocs.append(_Heredoc(command, end, any(sign in mark for sign in "\\'\""), is_indented))

    def _heredoc_bodies(self) -> None:
        """The lines behind the one that announced them."""
        pending, self._heredocs = self._heredocs, []
        for heredoc in pending:
            self._heredoc_body(heredoc)

    def _heredoc_body(self, heredoc: _Heredoc) -> None:
        indent = "\t*" if heredoc.is_indented else ""
        found = re.compile(rf"^{indent}{re.escape(heredoc.end)}$", re.MULTILINE).search(self._text, self._at, self._end)
        if found is None:
            raise _LostError(len(self.references), f"in a heredoc of which the end mark {heredoc.end!r} is missing")
        outer, self._end = self._end, found.start()
        if heredoc.is_quoted:
            for _ in range(self._text.count(_HOLE, self._at, self._end)):
                self._hole("in a heredoc whose end mark is quoted")
        else:
            self._quoted("", heredoc.command.objection("", computes=False))
        self._at, self._end = found.end(), outer
