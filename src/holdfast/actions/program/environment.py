"""The variables of a program: those of the command that runs it, changed so that its model calls come to the gateway.

Never here: which variables these are (the gateway).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_JOINED: Final = frozenset({"NO_PROXY", "no_proxy"})
"""Lists, to which one more is added."""


def environment_of(own: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return `own` with `changes`; None takes a variable away."""
    together = dict(own)
    for name, value in changes.items():
        if value is None:
            together.pop(name, None)
        elif name in _JOINED and together.get(name):
            together[name] += f",{value}"
        else:
            together[name] = value
    return together
