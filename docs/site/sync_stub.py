"""The types of `holdfast.sync`, written from the classes whose methods it has: `src/holdfast/sync/__init__.pyi`.

`make reference` writes it down; a test holds it current. Never here: a type; those are where the methods are defined.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import holdfast
from holdfast.compose.engine import Engine
from holdfast.service.control.control import Control
from holdfast.service.control.handle import Run
from holdfast.service.control.supervisor import Supervisor
from holdfast.sync.facade import public

PLACE: Final = Path(holdfast.__file__).parent / "sync" / "__init__.pyi"
_CLASSES: Final = (Run, Supervisor, Control, Engine)
_OWN: Final = {each.__name__ for each in _CLASSES}
_CLOSES: Final = """
def close(self) -> None: ...
def __enter__(self) -> Self: ...
def __exit__(
    self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
) -> None: ...
"""


def text() -> str:
    """The whole file."""
    names = _Names()
    classes = [_class(kind, names) for kind in _CLASSES]
    opening = names.signature(Engine, _functions(Engine, "open")[0], returns=ast.Name("Engine"))
    opening.args.args.pop(0)
    lines = [
        '"""Written by `make reference` from the classes that await; a test holds it current."""',
        "from types import TracebackType",
        "from typing import Self",
        *names.imports(),
        "from holdfast.platform.own_loop import timeout",
        f"__all__ = {sorted([*_OWN, 'open', 'timeout'])}",
        *map(ast.unparse, [*classes, opening]),
    ]
    return formatted("\n".join(lines), PLACE)


def formatted(text: str, place: Path) -> str:
    """Return the text of a file, as `make format` would write it there."""
    checks = [["check", "--fix-only", "--select=I,F401"]] if place.suffix != ".md" else []  # of a page it returns nothing
    for command in (*checks, ["format"]):
        words = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(place), "-"]
        text = subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _class(kind: type[Any], names: _Names) -> ast.stmt:
    body: list[ast.stmt] = []
    inherited = public(Control) if kind is Engine else {}
    for name, member in public(kind).items():
        if member is None:
            body.append(names.attribute(kind, name))
        elif inherited.get(name) is not member:
            owner = next(each for each in kind.__mro__ if name in vars(each))
            body += [names.signature(owner, each) for each in _functions(owner, name)]
    if kind is Engine:
        body += ast.parse(_CLOSES).body
    bases = [names.resolved(kind, each) for each in _node(kind).bases if ast.unparse(each).startswith("Generic[")]
    return ast.ClassDef(kind.__name__, [ast.Name("Control")] if kind is Engine else bases, [], body, [])


def _functions(owner: type[Any], name: str) -> list[Any]:
    """The definitions of a method: one, or all its overloads."""
    found = [each for each in _node(owner).body if getattr(each, "name", None) == name]
    overloads = [each for each in found if any(ast.unparse(one).endswith("overload") for one in each.decorator_list)]
    return overloads or found[-1:]


@cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


def _node(kind: type[Any]) -> ast.ClassDef:
    return next(each for each in _module(kind.__module__).body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)


class _Names:
    """The names that the signatures need, each imported once."""

    def __init__(self) -> None:
        self._local: dict[tuple[str, str], str] = {}

    def imports(self) -> Iterator[str]:
        for (module, name), local in sorted(self._local.items()):
            yield f"from {module} import {name} as {local}" if local != name else f"from {module} import {name}"

    def attribute(self, owner: type[Any], name: str) -> ast.stmt:
        declared = next(
            each for each in _node(owner).body if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name
        )
        returns = ast.unparse(self.resolved(owner, declared.annotation))
        return ast.parse(f"@property\ndef {name}(self) -> {returns}: ...").body[0]

    def signature(self, owner: Any, function: Any, *, returns: ast.expr | None = None) -> Any:
        """The function, without its body and without `async`."""
        args = ast.parse(f"def f({ast.unparse(function.args)}): ...").body[0].args  # type: ignore[attr-defined]
        for each in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
            if each is not None and each.annotation is not None:
                each.annotation = self.resolved(owner, each.annotation)
        args.defaults = [_default(each) for each in args.defaults]
        args.kw_defaults = [each and _default(each) for each in args.kw_defaults]
        kept = [each for each in function.decorator_list if ast.unparse(each).rpartition(".")[2] in ("overload", "property")]
        made = ast.FunctionDef(
            function.name,
            args,
            [ast.Expr(ast.Constant(...))],
            [self.resolved(owner, each) for each in kept],
            returns or self._blocking(owner, function.returns),
        )
        return ast.fix_missing_locations(made)

    def _blocking(self, owner: Any, returns: Any) -> Any:
        """What a call that blocks returns."""
        if ast.unparse(returns).startswith("AsyncGenerator["):
            iterator = ast.Name(self._taken("collections.abc", "Iterator"))
            return ast.Subscript(iterator, self.resolved(owner, returns.slice.elts[0]))
        return self.resolved(owner, returns)

    def resolved(self, owner: Any, annotation: ast.expr) -> Any:
        """The same with names that stand in the file."""
        names, module = self, _module(owner.__module__)

        class Renamed(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.expr:
                return ast.Name(names._named(owner.__module__, module, node.id))

            def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
                place, original = _home(owner.__module__, module, ast.unparse(node.value))
                return ast.Name(names._taken(f"{place}.{original}" if original else place, node.attr))

        return Renamed().visit(ast.parse(ast.unparse(annotation), mode="eval").body)

    def _named(self, place: str, module: ast.Module, name: str) -> str:
        if hasattr(builtins, name) or (name in _OWN and getattr(sys.modules[place], name, None) in (*_CLASSES, None)):
            return name
        return self._taken(*_home(place, module, name))

    def _taken(self, place: str, name: str) -> str:
        used = {*self._local.values(), *_OWN, "open", "Self", "TracebackType"}
        known = self._local.get((place, name))
        local = known or (name if name not in used else f"{place.rpartition('.')[2]}_{name}")
        self._local[place, name] = local
        return local


def _home(place: str, module: ast.Module, name: str) -> tuple[str, str]:
    """Where a name of a module comes from."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return alias.name, ""
    return place, name


def _default(node: ast.expr) -> ast.expr:
    is_plain = not any(isinstance(each, ast.Name | ast.Attribute | ast.Call) for each in ast.walk(node))
    return node if is_plain else ast.Constant(...)


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
