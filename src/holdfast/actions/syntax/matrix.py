"""The combinations of a matrix, by GitHub's rules: the cross product, less what is excluded, then what is included.

Never here: where the values come from; what a combination is used for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.actions.expressions import Template
from holdfast.actions.expressions.value import are_equal, is_text

MAX_COMBINATIONS: Final = 256
"""GitHub's own limit."""
MAX_PRODUCTS: Final = 4096
"""Before anything is excluded. What is excluded has been built and compared first."""
MAX_FILTERED: Final = 1000
"""Values in all of include and exclude: each is compared with each combination."""

Combination = dict[str, Any]


class MatrixError(Exception):
    """The matrix has no meaning; `path` is the part that is wrong, below `matrix`: `exclude[0].os`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def expand(matrix: Any) -> tuple[Combination, ...]:
    """The combinations in GitHub's order: the first key changes slowest. Raises MatrixError."""
    if not isinstance(matrix, Mapping):
        raise MatrixError("", f"a matrix is a mapping of names to lists, not {_kind(matrix)}.")
    parts = {key.lower(): value for key, value in matrix.items()}
    include = _filters(parts, "include")
    exclude = _filters(parts, "exclude")
    vectors = {key: value for key, value in matrix.items() if key.lower() not in ("include", "exclude")}
    _check(vectors, include, exclude)
    check_storable(matrix)
    return tuple(_bounded(_combinations(vectors, include, exclude)))


def _check(vectors: Mapping[str, Any], include: Sequence[Combination], exclude: Sequence[Combination]) -> None:
    product = 1
    for key, vector in vectors.items():
        if not isinstance(vector, Sequence) or isinstance(vector, str):
            raise MatrixError(key, f"the values of {key!r} are a list, not {_kind(vector)}.")
        if not vector:
            raise MatrixError(key, f"the list of {key!r} is empty; it needs a value at least.")
        product *= len(vector)
        if product > MAX_PRODUCTS:
            raise MatrixError("", f"the lists make more than {MAX_PRODUCTS:,} combinations; {MAX_COMBINATIONS} are allowed.")
    if not vectors and not include:
        raise MatrixError("", "the matrix is empty; it needs a list of values, or 'include'.")
    known = {key.lower() for key in vectors}
    for number, entry in enumerate(exclude):
        for key in entry:
            if key.lower() not in known:
                raise MatrixError(
                    f"exclude[{number}].{key}",
                    f"{key!r} is no key of the matrix, so it excludes nothing; its keys are {', '.join(vectors) or 'none'}.",
                )
    if sum(1 for entry in (*include, *exclude) for _ in _leaves(entry)) > MAX_FILTERED:
        raise MatrixError("", f"'include' and 'exclude' have more than {MAX_FILTERED:,} values in all; use fewer.")


def check_storable(matrix: Any) -> None:
    """A combination is recorded, as JSON. Where an expression has a say only what is sure is looked at. Raises MatrixError."""
    for path, value in _leaves(matrix):
        if isinstance(value, Template):
            value = value.literal  # noqa: PLW2901
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        if isinstance(value, float) and not math.isfinite(value):
            raise MatrixError(place, f"{value} is no number that JSON has, as which combinations are kept; put it in quotes.")
        if not all(is_text(part) for part in (*path, value) if isinstance(part, str)):
            raise MatrixError(
                "", "a text in it contains half of a surrogate pair, which is not a character and cannot be stored."
            )


def _filters(parts: Mapping[str, Any], name: str) -> tuple[Combination, ...]:
    found = parts.get(name)
    if found is None:
        return ()
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise MatrixError(name, f"{name!r} is a list of mappings, not {_kind(found)}.")
    for number, entry in enumerate(found):
        if not isinstance(entry, Mapping) or not entry:
            raise MatrixError(f"{name}[{number}]", f"an entry of {name!r} is a mapping that is not empty, not {_kind(entry)}.")
    return tuple(dict(entry) for entry in found)


def _combinations(
    vectors: Mapping[str, Sequence[Any]], include: Sequence[Combination], exclude: Sequence[Combination]
) -> Iterator[Combination]:
    known = {key.lower() for key in vectors}
    filters = [{key: value for key, value in entry.items() if key.lower() in known} for entry in include]
    extras = [{key: value for key, value in entry.items() if key.lower() not in known} for entry in include]
    matched: set[int] = set()
    for original in _product(vectors):
        if any(_matches(entry, original) for entry in exclude):
            continue
        fitting = [number for number, entry in enumerate(filters) if _matches(entry, original)]
        matched.update(fitting)
        yield _with_extras(original, [extras[number] for number in fitting])
    for number, entry in enumerate(filters):
        if number not in matched:
            yield {**entry, **extras[number]}


def _with_extras(original: Combination, extras: Sequence[Combination]) -> Combination:
    """Later extras overwrite earlier ones; keys that differ in case only are the same."""
    found = dict(original)
    spelled = {key.lower(): key for key in found}
    for extra in extras:
        for key, value in extra.items():
            found[spelled.setdefault(key.lower(), key)] = value
    return found


def _product(vectors: Mapping[str, Sequence[Any]]) -> Iterator[Combination]:
    size = 1
    for vector in vectors.values():
        size *= len(vector)
    for number in range(size if vectors else 0):
        block, found = size, {}
        for key, vector in vectors.items():
            block //= len(vector)
            found[key] = vector[number // block % len(vector)]
        yield found


def _matches(entry: Combination, original: Combination) -> bool:
    """Return True if each value at the ends of `entry` is loosely equal to the value there in the combination.

    An end that the combination lacks is null there; an empty mapping or list says nothing.
    """
    return all(are_equal(_item_at(original, path), value) for path, value in _leaves(entry))


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, number))
    else:
        yield path, value


def _item_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        if isinstance(step, int):
            inside = isinstance(value, Sequence) and not isinstance(value, str) and step < len(value)
            value = value[step] if inside else None
        else:
            entries = value.items() if isinstance(value, Mapping) else ()
            value = next((inner for key, inner in entries if key.lower() == step.lower()), None)
    return value


def _bounded(combinations: Iterator[Combination]) -> Iterator[Combination]:
    for number, combination in enumerate(combinations):
        if number >= MAX_COMBINATIONS:
            raise MatrixError("", f"the matrix makes more than {MAX_COMBINATIONS} combinations; use fewer values.")
        yield combination


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    return "null" if value is None else f"the {type(value).__name__.replace('str', 'text')} {value!r:.40}"


def resolve(tree: Any, contexts: Mapping[str, Any]) -> Any:
    """Return a matrix with its expressions evaluated. Raises ExpressionError.

    An entry of a list that is one expression, and gives a list itself, stands for the entries of that, as on GitHub.
    """
    if isinstance(tree, Template):
        return tree.evaluate(contexts)
    if isinstance(tree, Mapping):
        return {key: resolve(value, contexts) for key, value in tree.items()}
    if not isinstance(tree, list):
        return tree
    found: list[Any] = []
    for entry in tree:
        value = resolve(entry, contexts)
        if isinstance(entry, Template) and isinstance(value, list):
            found += value
        else:
            found.append(value)
    return found


def is_known(tree: Any) -> bool:
    """Return True if it contains no expression, so that the file alone determines it."""
    if isinstance(tree, Mapping):
        return all(map(is_known, tree.values()))
    return all(map(is_known, tree)) if isinstance(tree, list) else not isinstance(tree, Template)


def keys_of(tree: Any) -> frozenset[str] | None:
    """Return the names that may follow `matrix.`, in lower case; None if that depends on an expression."""
    if not isinstance(tree, Mapping):
        return None
    found = {key.lower() for key in tree if key.lower() not in ("include", "exclude")}
    include: Any = next((value for key, value in tree.items() if key.lower() == "include"), [])
    if not isinstance(include, list) or not all(isinstance(entry, Mapping) for entry in include):
        return None
    return frozenset(found.union(*({key.lower() for key in entry} for entry in include)))
