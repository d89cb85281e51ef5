"""Requests to models as this process keeps them: by the policy of their workflow, each turn once.

Never here: the form in which they are kept (core.values.model_request), sending them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from holdfast.core.values.ids import CallId
from holdfast.core.values.model_request import shared_turns, shortened
from holdfast.platform.redaction import PersonalData

RequestPolicy: TypeAlias = Literal["hash", "redacted", "full"]
"""`hash`: only the hash by which a replay compares requests; `redacted`: without e-mail addresses and long numbers; `full`: as
it was sent. Known secrets are in none of them."""
_MAX_BASES: Final = 8
"""So many requests of an attempt are remembered, so that a later one is kept as what it adds to one of them."""


class RequestKeeping:
    """The policies of a process, by workflow."""

    def __init__(self, policy: RequestPolicy, of: Mapping[str, RequestPolicy]) -> None:
        self._policy = policy
        self._of = of
        self._personal = PersonalData()

    def form(self, workflow: str, request: Mapping[str, Any], earlier: EarlierRequests) -> Any:
        """Return what is to be kept of a request; None where only its hash is."""
        policy = self._of.get(workflow, self._policy)
        if policy == "hash":
            return None
        new = earlier.new_part(request)
        return new if policy == "full" else self._personal.data(new)

    def comparable(self, workflow: str, request: Mapping[str, Any]) -> Any:
        """Return a whole request in the form in which one is kept; None where only its hash is."""
        return self.form(workflow, request, EarlierRequests())


class EarlierRequests:
    """The latest requests of an attempt that its run keeps."""

    def __init__(self) -> None:
        self._asked: OrderedDict[CallId, Mapping[str, Any]] = OrderedDict()

    def add(self, call: CallId, request: Mapping[str, Any]) -> None:
        self._asked[call] = request
        self._asked.move_to_end(call)
        if len(self._asked) > _MAX_BASES:
            self._asked.popitem(last=False)

    def new_part(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a request adds to the one that it has the most turns in common with; the whole of it if it has none."""
        best = max(self._asked, key=lambda call: shared_turns(request, self._asked[call]), default=None)
        if best is None or shared_turns(request, self._asked[best]) == 0:
            return request
        return shortened(request, best, self._asked[best])
