"""A request to a model as a history keeps it: in full, or as what it adds to the request of an earlier call of its run.

An agent sends the whole conversation with each call. Each part of it is kept once: a later request names the call before it,
how many of that call's turns it begins with, and what is new. Never here: what a request means, whether it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.values.ids import CallId

AFTER, SAME = "after", "same_turns"


def shared_turns(request: Mapping[str, Any], before: Mapping[str, Any]) -> int:
    """Return how many turns two requests begin with in common."""
    pairs = enumerate(zip(request["turns"], before["turns"], strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(request["turns"]), len(before["turns"])))


def shortened(request: Mapping[str, Any], call: CallId, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request adds to that of an earlier `call`, which had the fields `before`."""
    same = shared_turns(request, before)
    changed = {name: value for name, value in request.items() if name not in before or before[name] != value}
    return {AFTER: call, SAME: same, **changed, "turns": list(request["turns"][same:])}


def restored(stored: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the whole request from what is kept of it; `before` is the whole request of the call that it names. Where that is
    not known, the new part is returned as it is."""
    if AFTER not in stored or before is None:
        return dict(stored)
    new = {name: value for name, value in stored.items() if name not in (AFTER, SAME)}
    return {**before, **new, "turns": [*before["turns"][: stored[SAME]], *stored["turns"]]}
