"""The workflows that processes have loaded, for those that have not their code.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.ports.view import MAX_LISTED


class WorkflowRecord(msgspec.Struct, frozen=True):
    """The data of a workflow that are known without its code: the latest definition loaded under this name and version."""

    name: str
    version: int
    graph_hash: str
    input_schema: bytes | None = None
    """The JSON Schema of what a start must fit, as JSON; None where anything fits, or where nothing was said of it."""
    loaded_at_ms: int | None = None
    """Since when it is this one, by the store's time; None where that was before stores kept it."""
    tenant: str | None = None
    """Who has submitted its file; None for code, which every tenant has in common."""


class Graphs(Protocol):
    """The workflows by name and version, and their graphs by hash, beside the runs that follow them: to decide about
    a run needs its graph, to start one needs to know what fits, and neither may have the workflow's code."""

    async def put_workflow(self, loaded: WorkflowRecord, graph: bytes) -> None:
        """Keep a workflow that was loaded, and its graph: from now on it is the one of its name and version. What is there
        already is not written again. The store says when it was loaded, whatever `loaded` says."""
        ...

    async def submit_workflow(self, submitted: WorkflowRecord, graph: bytes) -> bool:
        """Keep a workflow whose file its tenant has submitted, and its graph: from now on it is the tenant's of that name and
        version. False where other code has the name, and nothing is kept then: a file never stands for code."""
        ...

    async def workflow(self, name: str, version: int | None = None, *, tenant: str) -> WorkflowRecord:
        """Return the workflow of a name for a tenant, in this version or the highest. Code of that name goes before a file that
        the tenant has submitted under it. Raises NotFound, also for a file that another tenant has submitted."""
        ...

    async def workflows(
        self, *, tenant: str, after: tuple[str, int] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[WorkflowRecord]:
        """All that names mean for a tenant, by name, the highest version first; with `after` those that come after this name
        and version."""
        ...

    async def graph(self, graph_hash: str) -> bytes:
        """Raises NotFound."""
        ...
