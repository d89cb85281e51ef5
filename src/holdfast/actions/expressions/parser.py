"""Tokens into a tree, by operator precedence with two stacks.

No function here calls itself, so brackets may stand as deep as the length allows, as in GitHub's runner; what is
bounded is the depth of the tree.

Never here: a value of anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

from holdfast.actions.expressions.function import Function, find_function
from holdfast.actions.expressions.lexer import Sort, Token, tokens_of
from holdfast.actions.expressions.syntax import STRENGTH, Access, Call, Comparison, Context, Literal, Logic, Node, Not
from holdfast.actions.expressions.value import whole
from holdfast.errors import ExpressionError

DEPTH_LIMIT = 50
"""Of the tree, as GitHub counts it: each step, sign and call is one; brackets and chains of one && or || are none."""

_KEYWORDS: dict[str, bool | float | None] = {"null": None, "true": True, "false": False, "NaN": math.nan, "Infinity": math.inf}
_FOREIGN_WORDS = {
    "and": "&&",
    "or": "||",
    "is": "==",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "in": "contains(where, what)",
}
_BINARY = STRENGTH.keys() - {"!"}
_VALUE = "a value: a literal, a context such as env, a call, `(` or `!`"


def tree_of(text: str) -> Node:
    """Return the tree of the text; null if it is blank. Raises ExpressionError."""
    return _Parser(tokens_of(text)).tree()


@dataclass(frozen=True, slots=True)
class _Sign:
    """An operator whose right side has not been read to its end."""

    token: Token

    @property
    def strength(self) -> int:
        return STRENGTH[self.token.text]


@dataclass(frozen=True, slots=True)
class _Open:
    """A bracket that is still open, and how many operands there were before it."""

    sort: OneOf["group", "index", "call"]
    token: Token
    operands: int
    function: Function | None = None

    @property
    def closing(self) -> str:
        return "]" if self.sort == "index" else ")"


@dataclass(slots=True)
class _Parser:
    """One reading of one text."""

    _tokens: Sequence[Token]
    _at: int = 0
    _operands: list[tuple[Node, int]] = field(default_factory=list)
    """With the depth of each."""
    _pending: list[_Sign | _Open] = field(default_factory=list)

    def tree(self) -> Node:
        if self._next.sort is Sort.END:
            return Literal(None)
        ended = False
        while not ended:
            ended = self._continuation(self._operand())
        return self._operands[-1][0]

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, text: str) -> bool:
        """Takes the next token if it is this sign."""
        found = self._next.sort is Sort.SIGN and self._next.text == text
        self._at += found
        return found

    # --- What begins a value ------------------------------------------------------------------------------------------

    def _operand(self) -> bool:
        """Up to the end of one operand; whether `.` and `[` may follow it."""
        while True:
            token = self._take()
            if token.sort is Sort.WORD:
                if self._takes("("):
                    if self._call(token):
                        return True
                    continue
                keyword = token.text in _KEYWORDS
                self._push(_keyword_value(token))
                return not keyword
            if token.sort in (Sort.NUMBER, Sort.STRING):
                value = token.value if isinstance(token.value, str) else whole(token.value)
                self._push(Literal(value, token.offset))
                return False
            if token.text == "!":
                self._pending.append(_Sign(token))
            elif token.text == "(":
                self._pending.append(_Open("group", token, len(self._operands)))
            else:
                raise self._no_value(token)

    def _call(self, name: Token) -> bool:
        """After `name(`: whether the call is over because it has no arguments."""
        found = find_function(name.text)
        if isinstance(found, str):
            raise ExpressionError(found, name.offset)
        if self._takes(")"):
            self._finish_call(found, name, ())
            return True
        self._pending.append(_Open("call", name, len(self._operands), found))
        return False

    # --- What follows a value -----------------------------------------------------------------------------------------

    def _continuation(self, takes_steps: bool) -> bool:
        """Until another operand must come, or the end; whether it is the end."""
        while True:
            token = self._take()
            if token.sort is Sort.END:
                self._finish()
                return True
            if token.sort is not Sort.SIGN:
                raise self._no_continuation(token, takes_steps)
            if token.text in _BINARY:
                self._binary(token)
                return False
            if token.text == "." and takes_steps:
                self._property()
            elif token.text == "[" and takes_steps:
                if self._index(token):
                    return False
            elif self._close(token, takes_steps):
                return False
            else:
                takes_steps = True

    def _binary(self, token: Token) -> None:
        sign = _Sign(token)
        while self._pending and isinstance(top := self._pending[-1], _Sign) and top.strength >= sign.strength:
            self._reduce(top)
        self._pending.append(sign)

    def _property(self) -> None:
        """After `.`."""
        name = self._take()
        if name.sort is Sort.WORD:
            self._access(Literal(name.text, name.offset), token=name)
        elif name.text == "*":
            self._access(None, token=name)
        else:
            raise ExpressionError(
                f"Unexpected {name} after `.`; expected a name or `*`. Another key is written in brackets: ['a key'] or [0].",
                name.offset,
            )

    def _index(self, token: Token) -> bool:
        """After `[`: whether an operand follows, because it is not `[*]`."""
        if not self._takes("*"):
            self._pending.append(_Open("index", token, len(self._operands)))
            return True
        if not self._takes("]"):
            raise ExpressionError(f"Unexpected {self._next} after `[*`; expected `]`.", self._next.offset)
        self._access(None, token=token)
        return False

    def _close(self, token: Token, takes_steps: bool) -> bool:
        """`)`, `]` or `,`; whether an operand follows."""
        bracket = self._innermost()
        separates = bracket is not None and bracket.sort == "call" and token.text == ","
        if bracket is None or not (separates or token.text == bracket.closing):
            raise self._no_continuation(token, takes_steps)
        while isinstance(top := self._pending[-1], _Sign):
            self._reduce(top)
        if separates:
            return True
        self._pending.pop()
        if bracket.sort == "index":
            self._access(*self._operands.pop(), token=bracket.token)
        elif bracket.function is not None:
            arguments = self._operands[bracket.operands :]
            del self._operands[bracket.operands :]
            self._finish_call(bracket.function, bracket.token, arguments)
        return False

    def _finish(self) -> None:
        bracket = self._innermost()
        if bracket is not None:
            opened = f"{bracket.token.text}(" if bracket.sort == "call" else bracket.token.text
            raise ExpressionError(f"Unexpected end: `{opened}` has no closing `{bracket.closing}`.", bracket.token.offset)
        while self._pending and isinstance(top := self._pending[-1], _Sign):
            self._reduce(top)

    def _innermost(self) -> _Open | None:
        """The last bracket that is still open."""
        return next((each for each in reversed(self._pending) if isinstance(each, _Open)), None)

    # --- Making nodes -------------------------------------------------------------------------------------------------

    def _reduce(self, top: _Sign) -> None:
        """Makes a node of the topmost sign and its operands."""
        self._pending.pop()
        token = top.token
        right, right_depth = self._operands.pop()
        if token.text == "!":
            self._push(Not(right, token.offset), right_depth)
            return
        left, left_depth = self._operands.pop()
        if token.text in ("&&", "||"):
            self._logic(token, (left, left_depth), (right, right_depth))
        else:
            self._push(Comparison(token.text, left, right, token.offset), left_depth, right_depth)

    def _logic(self, token: Token, *sides: tuple[Node, int]) -> None:
        """A chain of one sign is one node, however it is bracketed."""
        values: list[Node] = []
        depths: list[int] = []
        for node, depth in sides:
            if isinstance(node, Logic) and node.sign == token.text:
                values += node.values
                depths.append(depth - 1)
            else:
                values.append(node)
                depths.append(depth)
        self._push(Logic(token.text, tuple(values), token.offset), *depths)

    def _access(self, key: Node | None, depth: int = 1, *, token: Token) -> None:
        value, value_depth = self._operands.pop()
        self._push(Access(value, key, token.offset), value_depth, depth)

    def _finish_call(self, function: Function, name: Token, arguments: Sequence[tuple[Node, int]]) -> None:
        wrong = function.refuses(len(arguments))
        if wrong:
            raise ExpressionError(wrong, name.offset)
        node = Call(function.name, tuple(node for node, _ in arguments), name.offset)
        self._push(node, *(depth for _, depth in arguments))

    def _push(self, node: Node, *below: int) -> None:
        """`below`: how deep its operands are."""
        depth = 1 + max(below, default=0)
        if depth > DEPTH_LIMIT:
            raise ExpressionError(
                f"An expression may be {DEPTH_LIMIT} deep; this one is deeper. Compute a part of it in a step or in an "
                "environment variable.",
                node.offset,
            )
        self._operands.append((node, depth))

    # --- What is wrong ------------------------------------------------------------------------------------------------

    def _no_value(self, token: Token) -> ExpressionError:
        before = self._tokens[self._at - 2] if self._at > 1 else None
        after = f" after {before}" if before else ""
        advice = ""
        if token.text == ")" and before is not None and before.text == ",":
            advice = " A call has no comma after its last argument."
        elif token.text == "*":
            advice = " There is no arithmetic; `*` only follows `.` or `[`."
        return ExpressionError(f"Unexpected {token}{after}; expected {_VALUE}.{advice}", token.offset)

    def _no_continuation(self, token: Token, takes_steps: bool) -> ExpressionError:
        bracket = self._innermost()
        before = self._tokens[self._at - 2]
        expected = ["an operator (== != < <= > >= && ||)"]
        if takes_steps:
            expected += ["`.`", "`[`"]
        if bracket is not None:
            expected += ["`,`"] * (bracket.sort == "call") + [f"`{bracket.closing}`"]
        else:
            expected.append("the end")
        places = f"{', '.join(expected[:-1])} or {expected[-1]}"
        return ExpressionError(f"Unexpected {token} after {before}; expected {places}.{_advice(token, before)}", token.offset)


def _keyword_value(token: Token) -> Node:
    if token.text in _KEYWORDS:
        return Literal(_KEYWORDS[token.text], token.offset)
    return Context(token.text, token.offset)


def _advice(token: Token, before: Token) -> str:
    """Return a guess at what the author meant."""
    if token.sort is Sort.WORD and token.text.lower() in _FOREIGN_WORDS:
        return f" Did you mean `{_FOREIGN_WORDS[token.text.lower()]}`?"
    if before.text.lower() == "not":
        return " Did you mean `!`?"
    if token.text == "*" or (token.sort is Sort.NUMBER and token.text[0] in "+-"):
        return " There is no arithmetic."
    if token.text in (".", "["):
        return " Only a context, a call or something in round brackets has properties."
    if token.text == "(":
        return " Only a name by itself can be called."
    return ""
