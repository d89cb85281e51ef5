"""A script with expressions in it, made safe: each is bound to an environment variable and read by a quoted reference.

GitHub pastes the value into the script before the shell reads it, so that a value can become code. Here the script's
text never changes: `echo ${{ inputs.name }}` becomes `echo "$HOLDFAST_EXPR_1"`, and the value travels beside it.

The rule says what is allowed, because a list of dangers would never be whole: a value is a quoted argument of a command
that is named literally and is a program, `echo`, `printf`, `test`, `cd`, `exit` or `return`; or is compared as a text by
`case` or between `[[` and `]]`; or is assigned to a variable that steers nothing. Everything else is refused, and so is what
comes behind a place where this reader of scripts is lost. What a program does with its arguments is the script's affair.
Never here: what the values are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.actions.places import ASSIGNMENT, COMPUTED, DEFAULTED, HOLE, OPENS, Care, Command, Objection

PREFIX: Final = "HOLDFAST_EXPR_"
_DEEPEST: Final = 40
"""Maximum depth of quotes and substitutions; far more than is readable."""

_LONGEST_NAME: Final = 256
"""Of a variable that a value is assigned to: more of a word is not looked at."""

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
    instead: str | None = None
    """The replacement, with {} for the name of a variable that carries the value; None where only words help."""
    care: Care = "none"
    is_command: bool = False
    """It is the command itself, for which `instead` is right only if the value is the script's own."""


class Bound(msgspec.Struct, frozen=True):
    """The script with its references, and what could not be bound."""

    text: str
    refusals: tuple[Refusal, ...]


def bind(pieces: Sequence[str | None], *, is_bash: bool = False) -> Bound:
    """Put references where the expressions stand: each None in `pieces`. `is_bash` if nothing else will read the script."""
    text = "".join(HOLE if piece is None else piece.replace(HOLE, "") for piece in pieces)
    reader = _Reader(text, is_bash=is_bash)
    try:
        reader.commands("", None)
    except _LostError as lost:
        for number in range(lost.first, text.count(HOLE)):
            reader.refused.setdefault(number, Refusal(number, str(lost)))
    first, *rest = text.split(HOLE)
    references = [*reader.references, *[""] * (len(rest) - len(reader.references))]
    bound = first + "".join(reference + part for reference, part in zip(references, rest, strict=True))
    return Bound(bound, tuple(refusal for _, refusal in sorted(reader.refused.items())))


class _LostError(Exception):
    """The meaning of the rest of the script is unknown, from the expression with the number `first`."""

    def __init__(self, first: int, reason: str) -> None:
        super().__init__(reason)
        self.first = first


class _Heredoc(msgspec.Struct):
    command: Command
    end: str
    is_quoted: bool
    is_indented: bool


class _Reader:
    """Reads as much of the grammar of POSIX and bash as it takes to know in which command, and in what, a place stands."""

    def __init__(self, text: str, *, is_bash: bool) -> None:
        self._text = text
        self._is_bash = is_bash
        self._at = 0
        self._end = len(text)
        self._depth = 0
        self._computes = COMPUTED.search(text) is not None
        self._heredocs: list[_Heredoc] = []
        self.references: list[str] = []
        self.instead: list[tuple[str | None, Care]] = []
        """The replacements of the expressions, in their order."""
        self.refused: dict[int, Refusal] = {}

    def _ahead(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at, self._end)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Go behind what matches here; what that was."""
        found = pattern.match(self._text, self._at, self._end)
        self._at += len(found[0]) if found else 0
        return found[0] if found else ""

    def _hole(self, reason: Objection | None, reference: str = "", instead: str | None = None, care: Care = "none") -> None:
        """A reference to the next expression, or why there can be none, and what may stand there instead if that is mended."""
        number = len(self.references)
        self.instead.append((instead, care))
        self.references.append(reference.format(f"{PREFIX}{number + 1}"))
        if reason is not None:
            self._refuse(number, reason)
        self._at += 1

    def _refuse(self, number: int, reason: Objection) -> None:
        instead, care = self.instead[number]
        mendable = reason.is_mendable or reason.computes or reason.is_command
        self.refused.setdefault(
            number,
            Refusal(
                number, reason.where, instead if mendable else None, "number" if reason.computes else care, reason.is_command
            ),
        )

    def _enter(self) -> int:
        """Go into something that has an end. The number of the next expression."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _LostError(len(self.references), f"inside more than {_DEEPEST} quotes and brackets")
        return len(self.references)

    def _leave(self, closer: str, depth: int) -> None:
        if closer and self._at >= self._end:
            raise _LostError(depth, f"behind a bracket or quote that is not closed with {closer}")
        self._at += len(closer)
        self._depth -= 1

    # --- Commands -------------------------------------------------------------------------------------------------

    def commands(self, closer: str, reason: Objection | None) -> None:
        """Up to the closing sign, or to the end of the text where there is none."""
        begun = self._enter()
        command = Command(begun, reason)
        while self._at < self._end:
            sign = self._text[self._at]
            in_test = command.in_test
            if sign == closer and not in_test:
                break
            if sign in " \t":
                self._end_word(command, closer)
                self._at += 1
            elif in_test and command.is_parted_by(sign):
                self._end_word(command, closer)
                self._at += command.take_sign(sign)
            elif sign in "\n;&|" and not self._ahead("&>"):
                command = self._end_command(command, closer)
                self._at += 1
                if sign == "\n":
                    self._heredoc_bodies()
            elif sign in "()" and (command.start is None or sign == ")"):
                command = self._parenthesis(command, closer)
            elif self._ahead("()") and not in_test and self._text.find("=", command.start, self._at) < 0:  # a function
                self._at += 2
                command = Command(len(self.references), reason)
            elif sign in "<>&" and not self._ahead("<(") and not self._ahead(">("):
                self._redirect(command, closer)
            elif command.start is not None or not self._between_words():
                self._part(command)
        self._end_command(command, closer)
        self._leave(closer, begun)

    def _between_words(self) -> bool:
        """Read a comment or the joint of two lines. False where there is neither."""
        if self._ahead("#"):
            self._comment()
        elif self._ahead("\\\n"):
            self._at += 2
        else:
            return False
        return True

    def _parenthesis(self, command: Command, closer: str) -> Command:
        if self._ahead("(("):
            self._at += 1
            self._region(")", Objection("between (( and )), where the shell computes", computes=True))
            command.words.append("((")
            return command
        if self._ahead("("):
            self._at += 1
            self.commands(")", command.why)
        else:  # behind the pattern of a case; any other was met where its bracket was opened
            self._end_word(command, closer)
            self._at += 1
        return Command(len(self.references), command.why)

    def _end_command(self, command: Command, closer: str) -> Command:
        """The one behind it."""
        self._end_word(command, closer)
        if command.misleads_test():
            why = Objection(f"where {command.words[0]!r} may take it for an operator or a variable; compare it with '='")
            self._refuse_all(command, why)
        if command.in_test:
            self._refuse_all(command, command.objection_in_test(is_closed=False, is_bash=self._is_bash))
        return Command(len(self.references), command.why)

    def _refuse_all(self, command: Command, reason: Objection | None) -> None:
        """Refuse what stands in a command, as far as it has been read."""
        if reason is not None:
            for number in range(command.first, len(self.references)):
                self._refuse(number, reason)

    def _end_word(self, command: Command, closer: str) -> None:
        if command.start is None:
            return
        word = self._text[command.start : self._at]
        command.start = None
        if command.redirect:
            command.redirect = ""
        elif command.in_test and word == "]]":
            self._refuse_all(command, command.objection_in_test(is_closed=True, is_bash=self._is_bash))
            command.words = [word]
        elif not command.words and ASSIGNMENT.match(word):
            command.is_preceded = True
        elif command.words or word not in OPENS:
            command.add(word)
            if command.in_test and command.is_preceded:
                raise _LostError(len(self.references), "behind a '[[' that is no test, because something stands before it")
        if command.words == ["case"] and closer:
            raise _LostError(len(self.references), "behind a 'case' in brackets, whose own brackets have no partners")

    def _redirect(self, command: Command, closer: str) -> None:
        if command.start is not None and self._text[command.start : self._at].isdigit():
            command.start = None  # the number of a descriptor
        self._end_word(command, closer)
        command.is_preceded |= not command.words
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
            if self._ahead(HOLE):
                self._hole(None, "{}")  # the name alone: a comment stays one, whatever the value is
            else:
                self._at += 1

    # --- Words ----------------------------------------------------------------------------------------------------

    def _part(self, command: Command) -> None:
        """The next part of a word: a quote, a substitution, or some plain characters."""
        if command.start is None:
            command.start = self._at
        begun = self._text[command.start : min(self._at, command.start + _LONGEST_NAME)]
        why = command.objection(begun, computes=self._computes)
        is_assigned = ASSIGNMENT.match(begun) is not None
        quoted = is_assigned or command.in_test  # no shell splits a word there
        is_text = (why is None or why.is_mendable) and not command.runs_its_words
        if self._ahead(HOLE):
            self._hole(why, '"${}"', '"${{{}}}"' if quoted else "${{{}}}", "none" if quoted else "split")
        elif self._ahead("'"):
            self._single_quoted(is_text=is_text)
        elif self._ahead('"'):
            self._at += 1
            self._quoted('"', why)
        elif self._ahead("<(") or self._ahead(">("):
            self._at += 2
            self.commands(")", why)
        elif self._ahead("("):
            self._at += 1
            self._region(
                ")", Objection("in the brackets of an array or a pattern", is_mendable=is_assigned and not command.words)
            )
        elif not self._substitution(why, is_text=is_text):
            self._take(_PLAIN)

    def _substitution(self, reason: Objection | None, *, in_quotes: bool = False, is_text: bool = False) -> bool:
        """Read what begins with a backslash, a backquote or a dollar. False where there is none of them."""
        if self._ahead("\\"):
            self._at += 1
            self._hole(Objection("right behind a backslash")) if self._ahead(HOLE) else self._skip()
        elif self._ahead("`"):
            self._at += 1
            self._region("`", Objection("inside backquotes; use $( )"))
        elif self._ahead("$(("):
            self._at += 2
            self._region(")", Objection("inside $(( )), where the shell computes", computes=True))
        elif self._ahead("$("):
            self._at += 2
            self.commands(")", reason)
        elif self._ahead("${"):
            self._at += 2
            self._region("}", Objection("inside ${ }", is_mendable=reason is None), in_quotes=in_quotes)
        elif self._ahead("$["):
            self._at += 2
            self._region("]", Objection("inside $[ ], where the shell computes", computes=True))
        elif self._ahead("$'") and not in_quotes:
            self._at += 1
            self._single_quoted(escapes=True, is_text=is_text)
        elif self._ahead("$"):
            self._at += 1
            if self._ahead(HOLE):
                self._hole(Objection("right behind a '$'"))
        else:
            return False
        return True

    def _skip(self) -> None:
        self._at = min(self._at + 1, self._end)

    def _single_quoted(self, *, escapes: bool = False, is_text: bool = False) -> None:
        """`is_text`: it is part of a word that stays what it is, so that a reference may be put between two of its like."""
        opener = "$'" if escapes else "'"
        begun = self._enter()
        self._at += 1
        while self._at < self._end and not self._ahead("'"):
            if self._ahead(HOLE):
                self._hole(Objection("inside single quotes", is_mendable=is_text), instead=f'\'"${{{{{{}}}}}}"{opener}')
            else:
                self._at += 2 if escapes and self._ahead("\\") and not self._ahead("\\" + HOLE) else 1
        self._leave("'", begun)

    def _quoted(self, closer: str, reason: Objection | None) -> None:
        """Read text that the shell takes as in double quotes, up to the closing quote or the end of a heredoc."""
        begun = self._enter()
        while self._at < self._end and not (closer and self._ahead(closer)):
            if self._ahead(HOLE):
                self._hole(reason, "${{{}}}", "${{{}}}")
            elif not self._substitution(reason, in_quotes=True):
                self._at += 1
        self._leave(closer, begun)

    def _region(self, closer: str, reason: Objection, *, in_quotes: bool = False) -> None:
        """Up to the closing bracket or backquote, with nothing in it where a value may stand."""
        begun, start = self._enter(), self._at
        while self._at < self._end and not self._ahead(closer):
            if self._ahead(HOLE):
                self._hole(self._in_region(closer, reason, start), instead="${{{}}}")
            elif self._ahead('"'):
                self._at += 1
                self._quoted('"', reason)
            elif self._ahead("'") and not in_quotes:
                self._single_quoted()
            elif self._ahead("("):
                self._at += 1
                self._region(")", reason, in_quotes=in_quotes)
            elif not self._substitution(reason, in_quotes=in_quotes):
                self._at += 1
        self._leave(closer, begun)

    def _in_region(self, closer: str, reason: Objection, start: int) -> Objection:
        """Why no value may stand here, between brackets that open at `start`; in those of a name it would be computed."""
        before = self._text[start : self._at]
        is_text = "[" not in before and (closer == ")" or DEFAULTED.fullmatch(before) is not None)
        return msgspec.structs.replace(reason, is_mendable=reason.is_mendable and is_text)

    # --- Heredocs -------------------------------------------------------------------------------------------------

    def _announce_heredoc(self, command: Command, *, is_indented: bool) -> None:
        mark = self._take(_END_MARK).lstrip(" \t")
        if not mark or HOLE in mark:
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
            for _ in range(self._text.count(HOLE, self._at, self._end)):
                self._hole(Objection("in a heredoc whose end mark is quoted"))
        else:
            self._quoted("", heredoc.command.objection("", computes=False))
        self._at, self._end = found.end(), outer
