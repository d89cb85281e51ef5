"""GitHub's expression language: `${{ needs.build.outputs.size > 10 && 'large' || 'small' }}`.

A pure language: `parse` once, `evaluate` over plain JSON data as often as wanted. Where GitHub's TypeScript evaluator
and its C# runner differ, the runner is followed. Whatever a file says ends in a value or in an ExpressionError, within
bounded time and memory.

Never here: what a context holds, which contexts a place may read, what a status function answers, or a shell.
"""

from holdfast.actions.expressions.condition import Condition
from holdfast.actions.expressions.expression import ContextRead, Expression, FunctionUse, Names, parse
from holdfast.actions.expressions.function import nearest
from holdfast.actions.expressions.meter import Account, NotQuick
from holdfast.actions.expressions.template import Template, whole_text
from holdfast.actions.expressions.value import Value, is_true, to_text
from holdfast.errors import ExpressionError

__all__ = [
    "Account",
    "Condition",
    "ContextRead",
    "Expression",
    "ExpressionError",
    "FunctionUse",
    "Names",
    "NotQuick",
    "Template",
    "Value",
    "is_true",
    "nearest",
    "parse",
    "to_text",
    "whole_text",
]
