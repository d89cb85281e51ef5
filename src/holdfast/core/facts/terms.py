"""The terms of a start: what a run carries unchanged from the request that starts it to its first event and its state.

Each is declared here once, with its description; request, command, event and state have them all, under one name. Never
here: what a term means to a rule, how a caller's value is read (service.control.command).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.core.values.policies import OnLimit


class Terms(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The options with which a run was started. A limit that a start leaves out is its workflow's."""

    max_tokens: Annotated[
        int | None,
        Meta(
            description="Maximum number of tokens, input and output together, for the run and all its children; by default the"
            " workflow's."
        ),
    ] = None
    max_model_calls: Annotated[
        int | None, Meta(description="Maximum number of model calls of the run, at least 1; by default the workflow's.")
    ] = None
    max_tool_calls: Annotated[
        int | None, Meta(description="Maximum number of tool calls of the run, at least 1; by default the workflow's.")
    ] = None
    max_wall_s: Annotated[
        float | None,
        Meta(
            description="Wall-clock limit of the run in seconds, above 0, including time spent waiting; by default the"
            " workflow's."
        ),
    ] = None
    on_limit: Annotated[
        OnLimit | None,
        Meta(
            description="Action at a limit: ask a person, fail, or record it and continue (dry run); by default the workflow's."
        ),
    ] = None
    agent: str | None = None
    """Agent to charge in the team budget when a node does not name one."""
    tags: Annotated[
        tuple[str, ...], Meta(description="Tags by which the run is found in lists: at most 20, each of 1 to 100 characters.")
    ] = ()
    labels: Annotated[
        dict[str, str],
        Meta(description="Labels by which the run is found and counted, by key: at most 32 texts of 1 to 256 bytes each."),
    ] = {}
    on_end: Annotated[
        str | None,
        Meta(
            description="Channel, or address at a host that a channel names, that is notified when the run ends; by default"
            " none."
        ),
    ] = None

    def terms(self) -> dict[str, Any]:
        """Return all of them by name."""
        return {name: getattr(self, name) for name in Terms.__struct_fields__}
