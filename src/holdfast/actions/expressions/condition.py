"""An `if`: with or without `${{ }}`, and with the success() that GitHub puts before it.

Never here: what success means; that comes in as a function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.actions.expressions.evaluation import StatusFunctions
from holdfast.actions.expressions.expression import Expression, Names, parse
from holdfast.actions.expressions.function import STATUS
from holdfast.actions.expressions.template import OPENING, Template
from holdfast.actions.expressions.value import WHITESPACE, Value, is_true

_STATUS_NAMES = frozenset(function.name for function in STATUS)
_SUCCESS = parse("success()")


@dataclass(frozen=True, slots=True)
class Condition:
    """`asked` is what the file says; None if it says nothing."""

    asked: Expression | Template | None

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Raises ExpressionError with an offset in `text`."""
        if not text.strip(WHITESPACE):
            return cls(None)
        if OPENING not in text:
            return cls(parse(text))
        template = Template.parse(text)
        return cls(template.expressions[0] if template.is_single else template)

    @property
    def is_text(self) -> bool:
        """True if other text stands beside an expression. The condition is then a text, and true whatever its expressions
        give."""
        return isinstance(self.asked, Template)

    @property
    def names(self) -> Names:
        """Without the success() that is not written."""
        return self.asked.names if self.asked else Names()

    @property
    def implies_success(self) -> bool:
        """No status function is called in it, so everything before must have succeeded as well."""
        return not self.names.functions & _STATUS_NAMES

    def evaluate(self, contexts: Mapping[str, Value], functions: StatusFunctions) -> bool:
        """Raises ExpressionError. What is asked is not worked out if success() says no already."""
        if self.implies_success and not is_true(_SUCCESS.evaluate({}, functions)):
            return False
        return self.asked is None or is_true(self.asked.evaluate(contexts, functions))
