"""One expression: the text between `${{` and `}}`, what it reads, and its value.

Never here: the text around it, and what it means for a job or a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from holdfast.actions.expressions.evaluation import StatusFunctions, value_of
from holdfast.actions.expressions.meter import Meter
from holdfast.actions.expressions.parser import tree_of
from holdfast.actions.expressions.syntax import Access, Call, Context, Literal, Node, children, walk, written
from holdfast.actions.expressions.value import Value, to_text
from holdfast.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class ContextRead:
    """A context that is read, and the keys that lead on from it.

    A key is None where it is known only at evaluation, and for `*`.
    """

    context: str
    keys: tuple[str | None, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """A function that is called, as the catalogue spells it."""

    function: str
    offset: int


@dataclass(frozen=True, slots=True)
class Names:
    """Everything that an expression reads and calls, in the order of its text."""

    readings: tuple[ContextRead, ...] = ()
    calls: tuple[FunctionUse, ...] = ()

    def __add__(self, other: Names) -> Names:
        return Names(self.readings + other.readings, self.calls + other.calls)

    @property
    def contexts(self) -> frozenset[str]:
        """In lower case."""
        return frozenset(each.context.lower() for each in self.readings)

    @property
    def functions(self) -> frozenset[str]:
        return frozenset(each.function for each in self.calls)


@dataclass(frozen=True)
class Expression:
    """Parsed once, evaluated as often as wanted. All offsets count from the text that the expression stands in."""

    text: str
    tree: Node
    offset: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """The same in plain form: no bracket too many."""
        return written(self.tree)

    @cached_property
    def names(self) -> Names:
        readings: list[ContextRead] = []
        _read(self.tree, self.offset, readings)
        calls = [FunctionUse(node.function, self.offset + node.offset) for node in walk(self.tree) if isinstance(node, Call)]
        readings.sort(key=lambda each: each.offset)
        return Names(tuple(readings), tuple(sorted(calls, key=lambda each: each.offset)))

    def evaluate(
        self, contexts: Mapping[str, Value], functions: StatusFunctions | None = None, *, meter: Meter | None = None
    ) -> Value:
        """`contexts` are plain JSON data by name; `functions` the status functions that may be called here.

        Expressions that share a `meter` share its bounds. Raises ExpressionError where there is no value.
        """
        try:
            return value_of(self.tree, contexts, functions or {}, meter or Meter())
        except ExpressionError as problem:
            raise ExpressionError(problem.message, self.offset + problem.offset) from None


def parse(text: str, offset: int = 0) -> Expression:
    """The text inside `${{ }}`; blank text is null. `offset` is where it stands. Raises ExpressionError."""
    try:
        return Expression(text, tree_of(text), offset)
    except ExpressionError as problem:
        raise ExpressionError(problem.message, offset + problem.offset) from None


def _read(node: Node, offset: int, readings: list[ContextRead]) -> None:
    """Collects the longest chains of steps that begin at a context."""
    keys: list[str | None] = []
    first = node
    while isinstance(first, Access):
        keys.append(to_text(first.key.value) if isinstance(first.key, Literal) else None)
        if first.key is not None:
            _read(first.key, offset, readings)
        first = first.value
    if isinstance(first, Context):
        readings.append(ContextRead(first.name, tuple(reversed(keys)), offset + first.offset))
    for child in children(first):
        _read(child, offset, readings)
