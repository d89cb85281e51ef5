"""The routes of the HTTP API, as commands and queries declare them. The paths are a contract. Never here: reading a request,
answering one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from holdfast.service.declarations import command, query
from holdfast.service.declarations.declaration import Declaration, declaration_of, declared

BASE: Final = "/api/v1"
ROOMS: Final = (command, query)
"""Where commands and queries are declared."""
_FIELD: Final = re.compile(r"{(\w+)}")


class Route(NamedTuple):
    """The HTTP method and path of a command or query. Fields outside the path are in the query string or the body, under their
    own names."""

    method: str
    path: str
    what: type[msgspec.Struct]

    @property
    def takes(self) -> Declaration:
        """Return what it takes to ask here."""
        return declaration_of(self.what)

    @property
    def in_path(self) -> tuple[str, ...]:
        """Return the fields that stand in the path."""
        return tuple(_FIELD.findall(self.path))

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Return the fields that stand in the query string or the body."""
        return tuple(each for each in self.what.__struct_fields__ if each not in self.in_path)


@cache
def several_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the fields of a command or query that take several values."""
    hints = get_type_hints(kind)  # without what describes them
    return frozenset(name for name in kind.__struct_fields__ if get_origin(hints[name]) is tuple)


def words_of(kind: type[msgspec.Struct], name: str) -> tuple[str, ...]:
    """Return the words that a field of a command or query takes; none where it takes any."""
    hint = get_type_hints(kind).get(name)
    kinds = [each for each in (hint, *get_args(hint)) if get_origin(each) is Literal]
    return tuple(str(each) for literal in kinds for each in get_args(literal))


def _routes() -> tuple[Route, ...]:
    """Return all of them. Raises TypeError for a path with a field that there is not."""
    places = [(at.split(" "), what) for what, takes in declared().items() for at in takes.at]
    found = [Route(method, path, what) for (method, path), what in places]
    for route in found:
        if unknown := {*route.in_path} - {*route.what.__struct_fields__}:
            raise TypeError(f"{route.what.__name__} has no field {unknown.pop()!r} that could stand in {route.path}.")
    return tuple(sorted(found, key=_place))


def _place(route: Route) -> tuple[list[tuple[bool, str]], str]:
    return [(part.startswith("{"), part) for part in route.path.split("/")], route.method


ROUTES: Final = _routes()
"""Of two that fit a path the first is meant: `/runs/bulk` stands before `/runs/{run}`. Ids may hold `/`, and are
percent-encoded in a path: paths are compared as they are sent, and decoded then."""


def methods_for(method: str) -> tuple[str, ...]:
    """The methods that a route takes: whatever may be read with GET may be asked about with HEAD (RFC 9110, section 9.1)."""
    return (method, "HEAD") if method == "GET" else (method,)


def methods_of(path: str) -> list[str]:
    """With which methods something is asked at a path, without the base, as it is sent."""
    exact = [route for route in ROUTES if route.path == path]
    found = [route.method for route in exact or ROUTES if exact or _SHAPES[route.path].fullmatch(path)]
    return sorted({each for method in found for each in methods_for(method)})


_SHAPES: Final = {route.path: re.compile(_FIELD.sub("[^/]+", route.path)) for route in ROUTES}
