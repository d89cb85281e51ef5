"""A tree and the values of its contexts into one value, within the bounds of a meter.

Never here: text of the expression; what the functions do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from holdfast.actions.expressions import function
from holdfast.actions.expressions.lexer import quote_excerpt
from holdfast.actions.expressions.meter import Meter, Refusal
from holdfast.actions.expressions.syntax import Access, Call, Comparison, Context, Literal, Logic, Node, Not, walk
from holdfast.actions.expressions.value import Value, are_equal, fold, is_less, is_true, kind_of, to_number, to_text
from holdfast.errors import ExpressionError

CASE_SENSITIVE_CONTEXT = "env"
"""Its keys are the names of environment variables."""

INDEX_LIMIT = 2**31 - 1
"""No array has an item beyond it."""

StatusFunctions = Mapping[str, Callable[[], Value]]


class _Filtered(list[Any]):
    """The result of `.*`. A step into it is a step into each of its items, and leaves out items without the key."""


def value_of(node: Node, contexts: Mapping[str, Value], functions: StatusFunctions, meter: Meter) -> Value:
    """Raises ExpressionError with the offset of the node that has no value."""
    found = _Evaluation(node, contexts, functions, meter).value(node)
    return list(found) if isinstance(found, _Filtered) else found


class _Evaluation:
    """One evaluation of one tree."""

    def __init__(self, root: Node, contexts: Mapping[str, Value], functions: StatusFunctions, meter: Meter) -> None:
        self._contexts = {fold(name): value for name, value in contexts.items()}
        self._functions = functions
        self._environment = self._contexts.get(fold(CASE_SENSITIVE_CONTEXT))
        self._meter = meter
        # Also where the evaluation would never come by: a name that is not there is a mistake in the file.
        for node in walk(root):
            self._check_names(node, contexts)

    def value(self, node: Node) -> Value:
        try:
            return self._value(node)
        except Refusal as refusal:
            raise ExpressionError(str(refusal), node.offset) from None

    def _check_names(self, node: Node, contexts: Mapping[str, Value]) -> None:
        if isinstance(node, Context) and fold(node.name) not in self._contexts:
            raise ExpressionError(
                f"There is no context {quote_excerpt(node.name)} here. {function.nearest(node.name, contexts)}", node.offset
            )
        if isinstance(node, Call) and not (function.is_built_in(node.function) or node.function in self._functions):
            raise ExpressionError(
                f"{node.function}() cannot be called here: it tells how earlier steps or jobs went, which only an `if` "
                "may ask.",
                node.offset,
            )

    def _value(self, node: Node) -> Value:
        match node:
            case Literal():
                return node.value
            case Context():
                return self._contexts[fold(node.name)]
            case Access():
                return self._access(node)
            case Not():
                return not is_true(self.value(node.value))
            case Comparison():
                return self._comparison(node)
            case Logic():
                return self._logic(node)
            case Call():
                return self._call(node)

    def _comparison(self, node: Comparison) -> bool:
        left, right = self.value(node.left), self.value(node.right)
        self._meter.looked_at(sum(len(each) for each in (left, right) if isinstance(each, str)))
        match node.sign:
            case "==":
                return are_equal(left, right)
            case "!=":
                return not are_equal(left, right)
            case "<":
                return is_less(left, right)
            case ">":
                return is_less(right, left)
            case "<=":
                return are_equal(left, right) or is_less(left, right)
            case _:
                return are_equal(left, right) or is_less(right, left)

    def _logic(self, node: Logic) -> Value:
        """The first operand that decides, or the last."""
        found: Value = None
        for each in node.values:
            found = self.value(each)
            if is_true(found) == (node.sign == "||"):
                break
        return found

    def _call(self, node: Call) -> Value:
        if not function.is_built_in(node.function):
            return self._functions[node.function]()
        return function.call(node.function, [partial(self.value, each) for each in node.arguments], self._meter)

    # --- Steps into values --------------------------------------------------------------------------------------------

    def _access(self, node: Access) -> Value:
        whole = self.value(node.value)
        if node.key is None:
            return self._items(whole)
        key = self.value(node.key)
        if not isinstance(whole, _Filtered):
            found = self._lookup(whole, key)
            return found[0] if found else None
        filtered = _Filtered()
        for item in whole:
            filtered += self._lookup(item, key)
        self._meter.collected(len(filtered))
        return filtered

    def _items(self, object_: Value) -> _Filtered:
        """Return the result of `.*`. Of a filtered array it takes the items of each item. Of a value that is no collection it
        takes nothing."""
        filtered = _Filtered()
        for each in object_ if isinstance(object_, _Filtered) else [object_]:
            if isinstance(each, list | dict):
                self._meter.collected(len(each))
                filtered += each.values() if isinstance(each, dict) else each
        return filtered

    def _lookup(self, object_: Value, key: Value) -> list[Any]:
        """The one item under the key, or none."""
        self._meter.looked_at(len(key) if isinstance(key, str) else 0, items=1)
        if isinstance(object_, dict):
            return self._property(object_, key)
        if isinstance(object_, list):
            index = to_number(key)
            # NaN is not less than anything.
            return [object_[int(index)]] if 0 <= index <= INDEX_LIMIT and int(index) < len(object_) else []
        return []

    def _property(self, object_: dict[str, Any], key: Value) -> list[Any]:
        if not kind_of(key).is_primitive:
            return []
        name = to_text(key)
        if object_ is self._environment:
            return [object_[name]] if name in object_ else []
        self._meter.looked_at(sum(map(len, object_)), items=len(object_))
        folded = fold(name)
        return next(([value] for each, value in object_.items() if fold(each) == folded), [])
