"""The workflows that callers may start: those that the server offers, those that the store knows, and files that they submit.

Never here: whether a caller may (permission).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from holdfast.authoring.workflow import Workflow
from holdfast.engine.runs.catalog import record_of
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import Conflict, NotFound, NotPermitted, UsageError
from holdfast.service.control.control import Control
from holdfast.service.principal import Principal


class Startable:
    """The workflows that a name or a file stands for, for a caller and a tenant."""

    def __init__(
        self,
        control: Control,
        offered: Sequence[Workflow],
        from_yaml: Callable[[str], Workflow] | None,
        has_shells_of: Callable[[str], bool],
    ) -> None:
        """See Service."""
        self._control = control
        self._offered = {(each.name, each.version): each for each in offered}
        self._from_yaml = from_yaml
        self._has_shells_of = has_shells_of
        self._reading = asyncio.Lock()
        """One file at a time is read, in a thread: a large one takes a second."""

    async def named(self, principal: Principal, name: str, version: int, tenant: str) -> Workflow | StoredWorkflow:
        """Return what a name means for a tenant: what is offered here, or else what the store knows. Raises NotFound."""
        versions = [known for known_name, known in self._offered if known_name == name]
        found = self._offered.get((name, version or max(versions, default=0)))
        if found is not None:
            return found
        if versions and principal.tenant is not None and not principal.access.names(name):
            raise NotFound(f"This server has no version {version} of workflow {name!r}. Nothing was started.")
        return await self._control.workflow(name, version or None, tenant=tenant)

    async def read(self, principal: Principal, text: str) -> Workflow:
        """Return the workflow of a file. Raises UsageError, NotPermitted where none are taken, and for a file that is none."""
        if self._from_yaml is None:
            raise UsageError(
                "This server does not accept workflow files, because submitting one runs commands on this machine. Nothing was"
                " started. Start the server with --yaml to allow them."
            )
        if principal.tenant is not None and not self._has_shells_of(principal.tenant):
            raise NotPermitted(
                f"This server takes no workflow files of the tenant {principal.tenant!r}: their commands would run where those"
                " of others do. Nothing was started: start it with --no-shell, and workers with a shell for that tenant alone."
            )
        async with self._reading:
            return await asyncio.to_thread(self._from_yaml, text)

    async def submit(self, workflow: Workflow, tenant: str) -> StoredWorkflow:
        """Keep a workflow whose file a tenant submits as theirs. Raises Conflict for the name of code."""
        code = [each.hash for (name, _), each in self._offered.items() if name == workflow.name]
        record = record_of(workflow, tenant)
        is_other = code and workflow.hash not in code
        if is_other or not await self._control.store.graphs.submit_workflow(record, workflow.graph.encoded):
            raise Conflict(
                f"{workflow.name!r:.200} is the name of a workflow of this fleet, and a file never stands for that. Nothing was"
                " started: give the file another name."
            )
        await self._control.runtime.catalog.adopt(workflow, is_learned=True)
        return StoredWorkflow.of(record, workflow.graph)
