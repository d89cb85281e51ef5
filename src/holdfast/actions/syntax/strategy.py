"""A job's strategy: the matrix as the file says it, and its combinations where the file alone decides them.

Never here: GitHub's rules about combinations (matrix.py has them).
"""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.actions.expressions import Template
from holdfast.actions.syntax import matrix
from holdfast.actions.syntax.document import Strategy
from holdfast.actions.syntax.mistake import Position, quoted
from holdfast.actions.syntax.reading import EntryReader, Path, Section
from holdfast.actions.syntax.source import Mapping, Node, Scalar, Sequence

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ONE: Final = "matrix: ${{ fromJSON(needs.JOB.outputs.NAME) }}"


def strategy_of(reading: EntryReader, section: Section) -> Strategy | None:
    """None without a matrix: then there is one combination, and nothing to say of it."""
    tree = section.get("matrix")
    node = section.node.get("matrix")
    combinations = None
    if node is None:
        return None
    if tree is not None:
        path = (*section.path, "matrix")
        _check(reading, node, tree, path)
        combinations = _combinations(reading, node, tree, path)
    return Strategy(section.node.at, tree, combinations, section.get("fail-fast", True), section.get("max-parallel"))


def _combinations(reading: EntryReader, node: Node, tree: Any, path: Path) -> tuple[matrix.Combination, ...] | None:
    """Return the combinations that the file alone determines; None if an expression is involved, or if they are wrong."""
    is_known = matrix.is_known(tree)
    try:
        if not is_known:
            matrix.check_storable(tree)
            return None
        found = matrix.expand(tree)
    except matrix.MatrixError as problem:
        parts = _parts(problem.path)
        reading.wrong(_position_of(node, parts), (*path, *parts), problem.message)
        return None
    if not found:
        reading.wrong(node.at, path, "'exclude' leaves no combination, so the job would never run.")
    return found


def _check(reading: EntryReader, node: Node, tree: Any, path: Path) -> None:
    """The keys, and that an expression in the place of a list gives the list itself."""
    if isinstance(tree, Template) and not tree.is_single:
        reading.wrong(node.at, path, "a matrix is a mapping, or one expression and nothing beside it.", _ONE)
    _check_keys(reading, node, path)
    if not isinstance(node, Mapping):
        return
    for entry in node.entries:
        if "${{" not in entry.key and not _KEY.fullmatch(entry.key):
            reading.wrong(
                entry.at,
                (*path, entry.key),
                f"{quoted(entry.key)} cannot be a key of a matrix; it begins with a letter or '_', followed by letters,"
                " digits, '-' and '_'.",
            )
        value = tree.get(entry.key)
        if isinstance(value, Template) and not value.is_single:
            reading.wrong(
                entry.value.at, (*path, entry.key), "a text is no list; write a list, or one expression and nothing beside it."
            )
        elif isinstance(entry.value, Scalar) and not isinstance(value, Template) and not matrix.is_known(tree):
            reading.wrong(entry.value.at, (*path, entry.key), f"found {quoted(entry.value.text)}; allowed is a list.")


def _check_keys(reading: EntryReader, node: Node, path: Path) -> None:
    """Tell every key that is an expression, at any depth: none is evaluated, so it would be taken as it is written."""
    if isinstance(node, Sequence):
        for number, item in enumerate(node.items):
            _check_keys(reading, item, (*path, number))
    elif isinstance(node, Mapping):
        for entry in node.entries:
            if "${{" in entry.key:
                reading.wrong(
                    entry.at,
                    (*path, entry.key),
                    "write the key itself, or give the mapping that holds it by one expression;"
                    " no expression in a key is evaluated, not even '${{ insert }}'.",
                )
            _check_keys(reading, entry.value, (*path, entry.key))


def _position_of(node: Node, parts: list[str | int]) -> Position:
    """Return the position of a path like `exclude[0].os` below a node: the last key, or the last entry of a list."""
    at = node.at
    for part in parts:
        if isinstance(part, int) and isinstance(node, Sequence):
            node = node.items[part]
            at = node.at
        elif isinstance(node, Mapping):
            entry = next((each for each in node.entries if each.key == part), None)
            if entry is None:
                break
            node, at = entry.value, entry.at
    return at


def _parts(path: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", path)]
