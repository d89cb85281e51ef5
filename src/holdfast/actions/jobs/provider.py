"""The variables that lead the model calls of a script to the gateway, except to providers that its file sets up by itself.

Never here: which variables these are (the gateway).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ACCESS: Final = ("_KEY", "_TOKEN", "_URL", "_BASE")
"""The ends of names that say where a provider is, or with which key."""
_JOINED: Final = frozenset({"NO_PROXY", "no_proxy"})
"""Lists, to which one more is added."""
_SAME: Final = {"GEMINI": "GOOGLE"}


def environment_of(own: Mapping[str, str], ours: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables `own` of a script with those of the gateway, `ours`. What is its own stays as it is, and a provider
    whose address or key it has stays its own: a key of a person is never sent to the gateway, nor its token elsewhere."""
    kept = {_provider(name) for name in own if name in ours and name.endswith(_ACCESS)}
    together = dict(own)
    for name, value in ours.items():
        if value is None:
            continue  # what would lead past the gateway is not inherited: here it is the file's own
        if name in _JOINED and own.get(name):
            together[name] = f"{own[name]},{value}"
        elif name not in own and not (_provider(name) in kept and name.endswith(_ACCESS)):
            together[name] = value
    return together


def _provider(name: str) -> str:
    first = name.partition("_")[0]
    return _SAME.get(first, first)
