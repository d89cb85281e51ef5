"""The URL of an HTTP tool: fixed in scheme, host and port, with `{placeholders}` in its path and query.

A value fills its place and nothing more: it can neither leave its path segment nor begin another parameter.
Never here: a connection, a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast.core.values.policies import VALIDATION
from holdfast.errors import ToolFailed, UsageError
from holdfast.platform.address import parse_url

_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*(?:\.\w+)*)\}")
_SEPARATOR: Final = re.compile(r"[/\\]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class UrlTemplate:
    """`https://api.example.com/customers/{customer}/notes?since={since}`. `{response.body.id}` looks inside a value."""

    def __init__(self, text: str) -> None:
        """Raises UsageError for a URL that no request can be made of."""
        self._text = text
        url = parse_url(text)
        self.origin = url.origin
        self.path, self.query = url.path, url.query
        for name in _PLACEHOLDER.findall(url.authority):
            raise UsageError(f"the URL {text!r} cannot be used: {{{name}}} would choose the host")
        if re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
            raise UsageError(f"the URL {text!r} cannot be used: a brace belongs to no {{placeholder}}")
        self.places = tuple(dict.fromkeys(_PLACEHOLDER.findall(self.path + "?" + self.query)))

    def __str__(self) -> str:
        return self._text

    @property
    def names(self) -> frozenset[str]:
        """The arguments that its placeholders stand for."""
        return frozenset(place.partition(".")[0] for place in self.places)

    def target(self, values: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
        """Path and query, with `extra` as further parameters. Raises ToolFailed for a value that has no place there."""
        path = "/".join(_segment(segment, values) for segment in self.path.split("/"))
        query = _PLACEHOLDER.sub(lambda found: quote(_text(found[1], values), safe=""), self.query)
        further = urlencode(_pairs(extra), quote_via=quote, safe="")
        return path + ("?" if query or further else "") + "&".join(part for part in (query, further) if part)


def form(values: Mapping[str, Any]) -> str:
    """`values` as `application/x-www-form-urlencoded`. Raises ToolFailed for one that is no scalar or list of them."""
    return urlencode(_pairs(values))


def _segment(template: str, values: Mapping[str, Any]) -> str:
    """One segment of the path. An encoded / or \\ is decoded by some servers, so no part between them may be a step."""
    if not _PLACEHOLDER.search(template):
        return template
    raw = _PLACEHOLDER.sub(lambda found: _text(found[1], values), template)
    if not raw or any(part in (".", "..") for part in _SEPARATOR.split(raw)) or _CONTROL.search(raw):
        raise _misplaced(f"{raw!r} cannot stand for {template!r} in a path: it would name another one")
    return _PLACEHOLDER.sub(lambda found: quote(_text(found[1], values), safe=""), template)


def _text(place: str, values: Mapping[str, Any]) -> str:
    """The value that a placeholder stands for."""
    found: Any = values
    for name in place.split("."):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise _misplaced(f"{place!r}, which the URL needs, is missing")
    return _scalar(place, found)


def _scalar(place: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        found = "null" if value is None else f"of the type {type(value).__name__}"
        raise _misplaced(f"{place!r} is {found}, not a text or a number")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise _misplaced(f"{place!r} is not valid Unicode text") from None
    return str(value)


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Parameters of a query or a form: a list repeats its name, None is left out."""
    return [
        (name, _scalar(name, each))
        for name, value in values.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    ]


def _misplaced(name: str) -> ToolFailed:
    return ToolFailed(f"{name[0].upper()}{name[1:]}. Nothing was sent.", error_class=VALIDATION)
