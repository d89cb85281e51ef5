"""Docstrings, taken apart: prose, then a meaning for each parameter and each error.

A docstring may end in the sections `Args:`, `Shared args:` (of a class: parameters that many of its methods have) and
`Raises:`, each with an indented line `name: meaning` per entry. Never here: a page.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from reference import texts_below

_SECTION: Final = re.compile(r"^(Args|Shared args|Raises):$\n?", re.MULTILINE)
_ENTRY: Final = re.compile(r"^ {4}(\*{0,2}[A-Za-z_][\w., ]*): ", re.MULTILINE)


class Docstring(NamedTuple):
    """A docstring's prose and the entries of its sections, by name."""

    prose: str
    args: Mapping[str, str] = {}
    shared: Mapping[str, str] = {}
    errors: Mapping[str, str] = {}


def parsed(text: str | None) -> Docstring:
    """Take a docstring apart. Raises ValueError for a section that has anything else than entries."""
    prose, *sections = _SECTION.split(inspect.cleandoc(text or ""))
    found: dict[str, dict[str, str]] = {}
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        loose, *entries = _ENTRY.split(body)
        if loose.strip() or title in found:
            raise ValueError(f"The section {title}: {(loose or body).strip():.80}")
        found[title] = {name: " ".join(meaning.split()) for name, meaning in zip(entries[::2], entries[1::2], strict=True)}
    return Docstring(prose.strip(), found.get("Args", {}), found.get("Shared args", {}), found.get("Raises", {}))


def meanings(declared: Any) -> dict[str, str]:
    """Return the meanings that a declaration gives its parameters or fields: those of `Args:`, of texts below fields, and of
    fields with a description."""
    found: dict[str, str] = {}
    if inspect.isclass(declared):
        for owner in reversed(_bases(declared)):
            found |= {name: " ".join(text.split()) for name, text in texts_below(node_of(owner).body).items()}
            found |= parsed(vars(owner).get("__doc__")).args
        if issubclass(declared, msgspec.Struct):
            found |= dict(_described(declared))
        return found
    return dict(parsed(inspect.getdoc(declared)).args)


def _bases(kind: type[Any]) -> list[type[Any]]:
    """Return a class with its bases in Holdfast. A TypedDict has none at run time, so they come from its source."""
    if is_typeddict(kind):
        names = [each.id for each in node_of(kind).bases if isinstance(each, ast.Name)]
        known = vars(sys.modules[kind.__module__])
        return [kind, *(base for name in names if is_typeddict(known.get(name)) for base in _bases(known[name]))]
    return [each for each in kind.__mro__ if each.__module__.startswith("holdfast")]


def _described(kind: type[Any]) -> Iterator[tuple[str, str]]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for each in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
            if isinstance(each, msgspec.Meta) and each.description:
                yield name, each.description


@cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


@cache
def node_of(kind: type[Any]) -> ast.ClassDef:
    """Return a class as its source has it."""
    return next(
        each for each in ast.walk(_module(kind.__module__)) if isinstance(each, ast.ClassDef) and each.name == kind.__name__
    )
