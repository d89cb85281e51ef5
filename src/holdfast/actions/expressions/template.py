"""A text of a workflow file with expressions in it.

Never here: what the text is for. In particular nothing here makes a value safe for a shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from holdfast.actions.expressions.evaluation import StatusFunctions
from holdfast.actions.expressions.expression import Expression, Names, parse
from holdfast.actions.expressions.function import ARGUMENTS_LIMIT
from holdfast.actions.expressions.lexer import LENGTH_LIMIT, end_of_string
from holdfast.actions.expressions.meter import Meter, Refusal
from holdfast.actions.expressions.syntax import Literal
from holdfast.actions.expressions.value import WHITESPACE, Value, is_text, to_text
from holdfast.errors import ExpressionError

OPENING, CLOSING = "${{", "}}"

EXPRESSIONS_LIMIT = ARGUMENTS_LIMIT - 1
"""In one text: GitHub makes a call of format() of it."""


@dataclass(frozen=True, slots=True)
class Template:
    """Plain pieces and expressions in turn. An expression's offset is that of the text right after its `${{`."""

    parts: tuple[str | Expression, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Raises ExpressionError with an offset in `text`."""
        parts: list[str | Expression] = []
        at = 0
        while (start := text.find(OPENING, at)) >= 0:
            inside = start + len(OPENING)
            end = _end(text, start)
            if not text[inside:end].strip(WHITESPACE):
                raise ExpressionError("There is nothing between `${{` and `}}`; an expression was expected.", start)
            parts += [text[at:start], parse(text[inside:end], inside)]
            at = end + len(CLOSING)
        parts.append(text[at:])
        template = cls(tuple(part for part in parts if part))
        template._check_size(text)
        return template

    @property
    def is_single(self) -> bool:
        """True if it is one expression and nothing else, not even a blank, so that its value keeps its type."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Expression)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(part for part in self.parts if isinstance(part, Expression))

    @property
    def names(self) -> Names:
        return reduce(Names.__add__, (each.names for each in self.expressions), Names())

    @property
    def literal(self) -> Value:
        """The value of a single expression that is a literal, as of `.inf`; None of any other."""
        tree = self.expressions[0].tree if self.is_single else None
        return tree.value if isinstance(tree, Literal) else None

    def evaluate(self, contexts: Mapping[str, Value], functions: StatusFunctions | None = None) -> Value:
        """The value of a single expression as it is, or the text. Raises ExpressionError."""
        if self.is_single:
            return self.expressions[0].evaluate(contexts, functions)
        return self.render(contexts, functions)

    def render(self, contexts: Mapping[str, Value], functions: StatusFunctions | None = None) -> str:
        """The text with each expression replaced by its value, once: what is put in is never read again.

        Raises ExpressionError; the bounds are those of one expression.
        """
        if self.is_single:
            return whole_text(to_text(self.expressions[0].evaluate(contexts, functions)))
        meter = Meter()
        pieces = []
        for part in self.parts:
            piece = part if isinstance(part, str) else to_text(part.evaluate(contexts, functions, meter=meter))
            try:
                meter.charge_text(piece)
            except Refusal as refusal:
                at = part.offset if isinstance(part, Expression) else 0
                raise ExpressionError(str(refusal), at) from None
            pieces.append(piece)
        return whole_text("".join(pieces))

    def _check_size(self, text: str) -> None:
        if self.is_single or not self.expressions:
            return
        if len(text) > LENGTH_LIMIT:
            raise ExpressionError(
                f"A text with expressions in it may have {LENGTH_LIMIT:,} characters; this one has {len(text):,}. "
                "Put the values into `env` and let the text read them from the environment.",
                self.expressions[0].offset - len(OPENING),
            )
        if len(self.expressions) > EXPRESSIONS_LIMIT:
            raise ExpressionError(
                f"A text may have {EXPRESSIONS_LIMIT} expressions in it; this one has {len(self.expressions)}.",
                self.expressions[EXPRESSIONS_LIMIT].offset - len(OPENING),
            )


def whole_text(text: str) -> str:
    """`text`, as it is recorded and given to programs. Raises ExpressionError where it cannot be."""
    if not is_text(text):
        raise ExpressionError(
            "Its value has half a surrogate pair, which is no character: it can be neither kept nor given to a program.", 0
        )
    return text


def _end(text: str, start: int) -> int:
    """Return the place of the `}}` that closes the expression opened at `start`: the first that is in no string."""
    at = start + len(OPENING)
    while at < len(text):
        if text[at] == "'":
            at = end_of_string(text, at)
        elif text.startswith(CLOSING, at):
            return at
        else:
            at += 1
    raise ExpressionError("`${{` is not closed by `}}`.", start)
