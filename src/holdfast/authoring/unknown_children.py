"""Children in a project's source that no later process would know: `validate` warns of them before a run is refused one.

It reads what stands in the source, so it finds the plain cases only. Never here: what is refused (engine.operations.child).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

from holdfast.authoring import reach
from holdfast.authoring.workflow import Workflow


def warnings(workflow: Workflow) -> list[str]:
    """Return a sentence for each; none about the functions of a workflow that says what children it has."""
    known = [each for each in (workflow, *reach.workflows(workflow)[0]) if each.extra_children]
    named = {id(made.handler) for each in known for made in each.nodes.values()}
    asking = [each for each in reach.functions(workflow) if id(each) not in named]
    return [
        f"{Path(function.__code__.co_filename).name}:{line}: define the child at the top of a module that is imported at the"
        f" top, or list it in @flow(children=[...]): {function.__qualname__} makes or imports it while it runs, where no later"
        " process would find it, so its start is refused"
        for function in asking
        for line in _lines(function)
    ]


def _lines(function: FunctionType) -> Iterator[int]:
    """The lines in which it asks for a child that is made or imported in it."""
    if "child" not in function.__code__.co_names:
        return
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return
    inside = {*_bound(tree.body[0])}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    for call in calls:
        if _name(call) == "child" and call.args and _is_hidden(call.args[0], inside, function.__globals__):
            yield first + call.lineno - 1


def _bound(function: ast.AST) -> Iterator[str]:
    """Return the names that a function imports, and the flows that it defines."""
    for node in ast.walk(function):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
        elif isinstance(node, ast.AsyncFunctionDef) and node is not function and "flow" in map(_name, node.decorator_list):
            yield node.name


def _is_hidden(expression: ast.expr, inside: set[str], scope: Mapping[str, Any]) -> bool:
    if isinstance(expression, ast.Call):
        made = scope.get(_name(expression))
        code = getattr(made, "__code__", None)
        return code is not None and bool({"flow", "Workflow"} & {*code.co_names})
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name) and expression.id in inside


def _name(called: ast.expr) -> str:
    """`flow` of `@flow`, `@flow(...)` and `@holdfast.flow`."""
    if isinstance(called, ast.Call):
        called = called.func
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
