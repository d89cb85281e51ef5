"""Everything that a project's own code defines and a workflow's code may come to: other workflows, and tools.

A later process loads the same files, so it has the same. What is found is what stands in modules: in their variables, in the
lists, dicts, classes and objects there, in closures, and in the modules of the project which these come from. Never here: code
of installed packages, importing anything, running anything.
"""

from __future__ import annotations

import sys
from collections import ChainMap, deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
)
from typing import Any, Final, TypeAlias

from holdfast.authoring import trace
from holdfast.authoring.agents.offer import Handoff
from holdfast.authoring.flow import FlowMethod
from holdfast.authoring.node import CODE, OFFERED, NodeDefinition
from holdfast.authoring.step import Step
from holdfast.authoring.tool import Tool, find
from holdfast.authoring.workflow import Workflow

_MOST: Final = 200_000
"""Values that are looked at: more than any project has, and a second's work."""
_LARGE: Final = 1000
"""Entries of a list or dict: a larger one holds data."""
_HOLDING: Final = (list, tuple, set, frozenset, deque, dict, ChainMap, MappingProxyType, SimpleNamespace)
"""Containers of any values, whose reading runs no user code."""
_DEEP: Final = 4
"""Lists, dicts and objects inside one another."""
_Values: TypeAlias = tuple[Sequence[Any], int]
"""Some, and how many containers they are in."""
_PAIRS: Final = (dict, ChainMap, MappingProxyType)
_PLAIN_HOLDING: Final = frozenset({list, tuple, set, frozenset, dict})
"""Types of most containers, which are known without asking what else they may be."""
_PLAIN: Final = frozenset({str, bytes, int, float, bool, NoneType, BuiltinFunctionType, GetSetDescriptorType})
"""Types of what leads nowhere, which most of what stands in modules is."""


def workflows(workflow: Workflow, *, but: Container[str] = ()) -> tuple[list[Workflow], set[str]]:
    """Return the workflows that the modules of `workflow` define or import from the same project, and the names of these
    modules. Modules in `but` are left out."""
    walk = _Walk(but)
    found = [each for each in walk.from_(workflow) if isinstance(each, Workflow) and each is not workflow]
    return list(dict.fromkeys(found)), walk.modules


def undoing(tool: str, compensation: str, near: Callable[..., Any]) -> Tool | None:
    """Return the tool that undoes what one of that name did, which code of the project of `near` has called."""
    done = _tool(tool, near)
    if done is None:
        return None
    if isinstance(done.compensation, Tool):
        return done.compensation
    return find(compensation, done.function) or _tool(compensation, near)


def _tool(name: str, near: Callable[..., Any]) -> Tool | None:
    """The one tool of that name that the project of a function has; None where it has none or several."""
    found = {id(each): each for each in _Walk().from_(near) if isinstance(each, Tool) and each.name == name}
    return next(iter(found.values())) if len(found) == 1 else None


def functions(workflow: Workflow) -> list[FunctionType]:
    """Return the functions of a workflow's project."""
    return [each for each in _Walk().from_(workflow) if isinstance(each, FunctionType)]


def is_same_place(one: Workflow, other: Workflow) -> bool:
    """True if both are what the same lines define: a notebook's cell that was run again, or a file that was loaded twice.

    Methods of two objects of one class are not, unless the class is Holdfast's: the nodes of a file say all that these hold.
    """
    handlers = [(mine.handler, theirs.handler) for mine, theirs in zip(one.nodes.values(), other.nodes.values(), strict=False)]
    return len(one.nodes) == len(other.nodes) and all(_is_same(*each) for each in handlers)


def place_of(workflow: Workflow) -> str:
    """Name the module of a workflow and the line of its first function."""
    for made in workflow.nodes.values():
        code = getattr(made.handler, "__code__", None)
        if code is not None:
            return f"{made.handler.__module__} ({Path(code.co_filename).name}:{code.co_firstlineno})"
    return "a module without functions"


def _is_same(one: Any, other: Any) -> bool:
    mine, theirs = _origin(one), _origin(other)
    if mine[2] != theirs[2] or not (mine[0] == theirs[0] or "" != mine[1] == theirs[1]):
        return False
    object_, another = getattr(one, "__self__", None), getattr(other, "__self__", None)
    return object_ is another or type(object_) is not type(another) or _is_of_holdfast(mine[0])


def _origin(function: Any) -> tuple[str, str, str]:
    """Return the module, the file and the name of a function."""
    code = getattr(function, "__code__", None)
    named = function if hasattr(function, "__qualname__") else type(function)
    file = "" if code is None or code.co_filename.startswith("<") else code.co_filename
    return str(named.__module__), file, named.__qualname__


class _Walk:
    """One look at everything that can be come to from something."""

    def __init__(self, but: Container[str] = ()) -> None:
        self._but = but
        self._seen: set[int] = set()
        self._left: deque[_Values] = deque()
        self._closed: set[type] = set()
        """Types of objects that are not searched: those of installed packages."""
        self._is_of_project = cache(_is_of_project)
        self.modules: set[str] = set()

    def from_(self, start: Any) -> Iterator[Any]:
        self._left.append(([start], 0))
        while self._left:
            values, depth = self._left.popleft()
            for value in values:
                kind = type(value)
                if kind in _PLAIN or id(value) in self._seen:
                    continue
                if len(self._seen) >= _MOST:
                    return
                self._seen.add(id(value))
                try:
                    if kind in _PLAIN_HOLDING:
                        self._left.extend(_within(value, depth))
                    elif kind not in self._closed or value.__class__ is not kind:  # isinstance asks for it
                        self._left.extend([*self._beyond(value, depth)])
                except BaseException:  # noqa: BLE001 - an object of the user's that answers no question
                    continue
                yield value

    def _beyond(self, value: Any, depth: int) -> Iterator[_Values]:
        """Yield the values inside `value`, with how many containers they are in."""
        match value:
            case ModuleType():
                yield from self._module(value.__name__)
            case FunctionType():
                yield from self._module(value.__module__)
                yield [*_held(value)], 0
            case type():
                if self._is_of_project(value.__module__):
                    yield from self._module(value.__module__)
                    yield [*vars(value).values()], depth
            case MethodType() | partial() | Workflow() | NodeDefinition() | Step() | Tool() | Handoff():
                yield _inside(value), 0
            case (
                list() | tuple() | set() | frozenset() | deque() | dict() | ChainMap() | MappingProxyType() | SimpleNamespace()
            ):
                yield from _within(vars(value) if isinstance(value, SimpleNamespace) else value, depth)
            case _:
                kind = type(value)
                if not self._is_of_project(kind.__module__):
                    self._closed.add(kind)
                elif depth < _DEEP:
                    yield [kind], depth
                    yield [getattr(value, name) for name, each in vars(kind).items() if isinstance(each, FlowMethod)], 0
                    yield [*getattr(value, "__dict__", {}).values(), *_slots(value)], depth + 1

    def _module(self, name: Any) -> Iterator[_Values]:
        if name not in self.modules and name not in self._but and self._is_of_project(name):
            self.modules.add(name)
            yield [*vars(sys.modules[name]).values()], 0


def _within(container: Any, depth: int) -> list[_Values]:
    """Return the values of a container of any values, which lies in so many others."""
    if not container or depth >= _DEEP or len(container) > _LARGE:
        return []
    return [([*(chain(container, container.values()) if isinstance(container, _PAIRS) else container)], depth + 1)]


def _inside(value: Any) -> tuple[Any, ...]:
    """Return the parts of a method, a partial function or an object of Holdfast's."""
    match value:
        case MethodType():
            return value.__func__, value.__self__
        case partial():
            return value.func, *value.args, *value.keywords.values()
        case Workflow():
            return *value.nodes.values(), *value.children
        case NodeDefinition():
            return value.handler, value.settings.get(CODE), *value.settings.get(OFFERED, ())
        case Handoff():
            return (value.workflow,)
        case _:
            return (value.function,)


def _held(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from [*vars(function).values()]


def _slots(value: Any) -> Iterator[Any]:
    """Yield the values of an object's slots."""
    for kind in type(value).__mro__:
        for each in [*vars(kind).values()] if _is_of_project(kind.__module__) else ():
            if isinstance(each, MemberDescriptorType):
                with suppress(AttributeError):  # not assigned yet
                    yield each.__get__(value)


def _is_of_project(name: Any) -> bool:
    """True for a module of the user's own, and for what is typed at a prompt."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    if not isinstance(module, ModuleType) or _is_of_holdfast(name):
        return False
    file = getattr(module, "__file__", None)
    return name == "__main__" if file is None else trace.is_theirs(file)


def _is_of_holdfast(module: str) -> bool:
    return module.partition(".")[0] == "holdfast"
