"""The terms of a start: what a run carries unchanged from the command that starts it to its first event and its state.

Each is declared here once; the command, the event and the state have them all, under one name. Never here: what a term means to
a rule, how a caller's value is read (service.control.start_options).
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.values.policies import OnLimit


class Terms(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The options with which a run was started. A limit that a start leaves out is its workflow's."""

    max_tokens: int | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_wall_s: float | None = None
    on_limit: OnLimit | None = None
    """The action at a limit, where the start named another than the workflow's."""
    agent: str | None = None
    """The agent in whose allotment its calls count, where a team budget is shared and their node names none."""
    tags: tuple[str, ...] = ()
    """Words by which people find it, in their order."""
    labels: dict[str, str] = {}
    """Texts by key by which people find and count it."""

    def terms(self) -> dict[str, Any]:
        """Return all of them by name."""
        return {name: getattr(self, name) for name in Terms.__struct_fields__}
