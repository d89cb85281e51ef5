"""The tree of an expression: what it says, without its brackets and blanks; and back into text.

Never here: reading a text, or working out a value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.actions.expressions.value import EXACT_INTEGERS

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
STRENGTH = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "!": 5}
"""How tightly the operators bind."""
_OPERAND = 6


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number, boolean or null."""

    value: bool | int | float | str | None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Context:
    """A name by itself: `github`, `env`."""

    name: str
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Access:
    """One step into a value: `.key`, `[key]`, or `.*`, where `key` is None."""

    value: Node
    key: Node | None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    value: Node
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values and one of `== != < <= > >=`."""

    sign: str
    left: Node
    right: Node
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Logic:
    """At least two values joined by `&&`, or by `||`; none of them is joined by the same sign itself."""

    sign: str
    values: tuple[Node, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function` is the name as the catalogue has it, whatever its case in the file."""

    function: str
    arguments: tuple[Node, ...]
    offset: int = field(default=0, compare=False)


Node: TypeAlias = Literal | Context | Access | Not | Comparison | Logic | Call


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case Literal() | Context():
            return ()
        case Access():
            return (node.value,) if node.key is None else (node.value, node.key)
        case Not():
            return (node.value,)
        case Comparison():
            return (node.left, node.right)
        case Logic():
            return node.values
        case Call():
            return node.arguments


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    yield node
    for child in children(node):
        yield from walk(child)


def written(node: Node) -> str:
    """Text that is read back as the same tree."""
    match node:
        case Literal():
            return _literal(node.value)
        case Context():
            return node.name
        case Access():
            return _within(node.value, _OPERAND) + _step(node.key)
        case Not():
            return "!" + _within(node.value, STRENGTH["!"])
        case Comparison():
            strength = STRENGTH[node.sign]
            return f"{_within(node.left, strength)} {node.sign} {_within(node.right, strength + 1)}"
        case Logic():
            return f" {node.sign} ".join(_within(value, STRENGTH[node.sign] + 1) for value in node.values)
        case Call():
            return f"{node.function}({', '.join(map(written, node.arguments))})"


def _within(node: Node, strength: int) -> str:
    """Bracketed unless it binds at least as tightly; a literal takes no step without brackets."""
    text = written(node)
    loose = isinstance(node, Literal) and strength == _OPERAND
    return f"({text})" if loose or _strength(node) < strength else text


def _strength(node: Node) -> int:
    match node:
        case Not():
            return STRENGTH["!"]
        case Comparison() | Logic():
            return STRENGTH[node.sign]
        case _:
            return _OPERAND


def _step(key: Node | None) -> str:
    if key is None:
        return ".*"
    if isinstance(key, Literal) and isinstance(key.value, str) and _PLAIN_KEY.fullmatch(key.value):
        return f".{key.value}"
    return f"[{written(key)}]"


def _literal(value: bool | int | float | str | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # All digits, not the fifteen that a number shows as text: the tree must come back as it was.
    return str(int(value)) if value == int(value) and abs(value) < EXACT_INTEGERS else repr(float(value))
