"""The workflows whose code this process has, and which runs of them are its to take up.

What is loaded is recorded in the store, by name and version; what a worker learned from the store is not, because it is not
newer.

Never here: running them, the session that says what this process can run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec

from holdfast.authoring import reach
from holdfast.authoring.flow import FlowDefinition
from holdfast.authoring.mapping import find_mapped
from holdfast.authoring.tool import Tool
from holdfast.authoring.workflow import Workflow
from holdfast.core.capacity.lanes import DEFAULT, Lanes
from holdfast.core.facts.commands import LoadedWorkflow
from holdfast.core.facts.graph import Definition, Graph
from holdfast.core.views.projection import RunRow
from holdfast.errors import HoldfastError, UsageError
from holdfast.ports import ANY_YAML, DueRun, Graphs, UnplacedRun, WorkflowRecord
from holdfast.scheduling.lane_workers import scripts_of

_EVERYTHING: Final = Lanes()


class Catalog:
    """The workflows of one process, by the hash of their graphs."""

    def __init__(
        self,
        graphs: Graphs,
        *,
        labels: Collection[str] = (),
        lanes: Lanes = _EVERYTHING,
        lane: str = DEFAULT,
        runs_scripts: bool = True,
        adopts: bool = False,
        restore: Callable[[Definition], Workflow | None] | None = None,
    ) -> None:
        """`labels` are what this process has, for workflows and steps that ask for it; `lane` is the one of `lanes` that it
        leads or works in. `runs_scripts` and `adopts` say whether it runs scripts of workflow files, and learns workflows in
        YAML from the store. `restore` returns the workflow that a stored definition says all about."""
        self._restore = restore
        self._stored = graphs
        self.labels = tuple(sorted(set(labels)))
        self.lanes = lanes
        self.lane = lane
        self.adopts = adopts
        self._runs_scripts = runs_scripts
        self.workflows: dict[str, Workflow] = {}
        self._named: dict[str, Workflow] = {}
        """The workflows that were loaded by name, with the labels that each asks for."""
        self._beside: dict[str, Workflow | None] = {}
        """What the modules of these define besides: it can be executed, and is not offered. None stands for several that
        cannot be told apart."""
        self._walked: set[str] = set()
        """The modules that were looked through."""
        self.able: tuple[str, ...] = ()
        """What this process can be given, as those are called who are able to run it."""
        self._learned: set[str] = set()
        """Workflows of the store or of a submitted file: they are not written to the store."""
        self._graphs: dict[str, Graph] = {}
        self._told: dict[tuple[str, int], str] = {}
        """The definition that this process has last written to the store, by name and version."""
        self.on_change: Callable[[], Awaitable[None]] | None = None
        """Called when there is a workflow more or less."""

    def __contains__(self, graph_hash: str) -> bool:
        return graph_hash in self.workflows

    async def add(self, workflow: Workflow) -> None:
        """Be able to run `workflow`, whose code was loaded, unless it asks for labels that this process lacks. The store is
        told of it, so that other processes can decide about its runs, and start some by its name. What it asks for as children
        comes with it: they go on where it does. So does what its modules define besides, of which the store is not told.

        Code that replaces what the same lines defined before takes over. Raises UsageError where other code is known here
        under the same name and version.
        """
        graph, place = workflow.graph, (workflow.name, workflow.version)
        self._expect_same_place(workflow)
        if graph.hash in self._learned and self.workflows.get(graph.hash) is workflow:
            return
        if self._told.get(place) != graph.hash:
            await self._stored.put_workflow(record_of(workflow), graph.encoded)
            self._told[place] = graph.hash
        if self._named.get(graph.hash) is workflow:
            return
        self._named[workflow.hash] = workflow
        for hash_, each in [*self._beside.items()]:
            if hash_ == workflow.hash or (each is not None and (each.name, each.version) == place):
                del self._beside[hash_]
                self.workflows.pop(hash_, None)
        if self.lacking(workflow):
            return
        self.workflows[workflow.hash] = workflow
        self._learned.discard(workflow.hash)
        await self._changed()
        for child in workflow.children:
            await self.add(child)
        for earlier in workflow.earlier:
            await self.adopt(earlier)
        await self._look_around(workflow, but=self._walked)

    async def knows(self, workflow: Workflow, near: str) -> bool:
        """True if a process that loads what this one has loaded finds `workflow` in it, or in modules of the one `near`. Raises
        UsageError where other code is known here under the same name and version."""
        self._expect_same_place(workflow)
        if not self._has(workflow) and (asking := self.workflows.get(near)) is not None:
            await self._look_around(asking)  # what stands in its modules now
        return self._has(workflow) or self._is_in_the_store(workflow)

    def _is_in_the_store(self, workflow: Workflow) -> bool:
        """True if its stored definition says all about it, as that of a workflow in YAML does: every process can restore it."""
        restored = None if self._restore is None else self._restore(workflow.graph.definition)
        return restored is not None and restored.hash == workflow.hash

    def _has(self, workflow: Workflow) -> bool:
        known = self._named.get(workflow.hash) or self._beside.get(workflow.hash) or self.workflows.get(workflow.hash)
        return known is not None and (known is workflow or reach.is_same_place(known, workflow))

    async def _look_around(self, workflow: Workflow, *, but: Collection[str] = ()) -> None:
        """Be able to run what the modules of `workflow` define besides."""
        found, modules = reach.workflows(workflow, but=but)
        self._walked |= modules
        for each in found:
            self._put_beside(each)
        before = set(self.workflows)
        for hash_, beside in self._beside.items():
            if beside is None or self.lacking(beside):
                self.workflows.pop(hash_, None)
            else:
                self.workflows[hash_] = beside
        if self.workflows.keys() != before:
            await self._changed()

    def _put_beside(self, workflow: Workflow) -> None:
        try:
            hash_ = workflow.hash
        except HoldfastError:  # it is not whole, and a start of it is refused
            return
        place = workflow.name, workflow.version
        if hash_ in self._named or any((each.name, each.version) == place for each in self._named.values()):
            return
        known = self._beside.setdefault(hash_, workflow)
        if known is not None and known is not workflow and not reach.is_same_place(known, workflow):
            self._beside[hash_] = None
        for other, each in self._beside.items():
            if other != hash_ and each is not None and (each.name, each.version) == place:
                self._beside[other] = self._beside[hash_] = None

    def _expect_same_place(self, workflow: Workflow) -> None:
        known = self._named.get(workflow.hash)
        if known is None or known is workflow or reach.is_same_place(known, workflow):
            return
        raise UsageError(
            f"Give one of two workflows another name: {workflow.name!r} version {workflow.version} is defined in"
            f" {reach.place_of(workflow)} and in {reach.place_of(known)}, which is loaded here. They have the same"
            " limits and the same nodes, so no run could say whose code it follows."
        )

    async def adopt(self, workflow: Workflow, *, is_learned: bool = False) -> None:
        """Add a workflow that was learned from the store: that some run follows this definition makes it no newer than the one
        that was loaded last under its name. With `is_learned` it never counts as code that was loaded here."""
        if workflow.hash not in self.workflows and not self.lacking(workflow):
            self.workflows[workflow.hash] = workflow
            if is_learned:
                self._learned.add(workflow.hash)
            await self._changed()

    async def forget(self, graph_hash: str) -> None:
        """Be no longer able to run a workflow. No run of it may be in memory."""
        self.workflows.pop(graph_hash, None)
        self._named.pop(graph_hash, None)
        self._beside.pop(graph_hash, None)
        self._learned.discard(graph_hash)
        self._told = {place: told for place, told in self._told.items() if told != graph_hash}
        self._graphs.pop(graph_hash, None)
        await self._changed()

    async def _changed(self) -> None:
        self.able = (*self.workflows, *(self.scripts if self._runs_scripts else ()))
        if self.on_change is not None:
            await self.on_change()

    @property
    def scripts(self) -> list[str]:
        """Return the abilities of a process that runs the scripts of these workflows, by their names."""
        return [scripts_of(hash_) for hash_, workflow in self.workflows.items() if workflow.graph.has_scripts]

    def lacking(self, workflow: Workflow) -> list[str]:
        """The labels that `workflow` asks for and this process has not."""
        return [label for label in workflow.graph.definition.runs_on if label not in self.labels]

    async def graph_of(self, graph_hash: str) -> Graph:
        """The graph of that hash: loaded here, or as a process that had it loaded stored it."""
        if graph_hash in self.workflows:
            return self.workflows[graph_hash].graph
        if graph_hash not in self._graphs:
            encoded = await self._stored.graph(graph_hash)
            self._graphs[graph_hash] = Graph(msgspec.json.decode(encoded, type=Definition), is_accepted=True)
        return self._graphs[graph_hash]

    def tools_of(self, graph_hash: str) -> dict[str, Tool]:
        """Every tool of a workflow, those that only compensate included."""
        found: dict[str, Tool] = {}
        for node in self.workflows[graph_hash].nodes.values():
            found |= node.tools
            found |= node.compensations
        return found

    def tool_of(self, graph_hash: str, name: str) -> Tool | None:
        """The tool of a workflow that is called so, also a step of a flow; None where the code is not here."""
        if graph_hash not in self.workflows:
            return None
        found = self.tools_of(graph_hash).get(name)
        if found is not None:
            return found
        flows = [each for each in self.workflows[graph_hash].nodes.values() if isinstance(each, FlowDefinition)]
        near = (find_mapped(name, each.handler) for each in flows)
        return next((each for each in near if isinstance(each, Tool)), None)

    def undoing(self, graph_hash: str, tool: str, compensation: str) -> Tool | None:
        """The tool that undoes what a step of a flow has done, which the flow need not list."""
        flows = [each for each in self.workflows[graph_hash].nodes.values() if isinstance(each, FlowDefinition)]
        near = (each.undoing(tool, compensation) for each in flows)
        beyond = (reach.undoing(tool, compensation, each.handler) for each in flows)
        return next((found for found in (*near, *beyond) if found is not None), None)

    @property
    def hashes(self) -> list[str]:
        """The workflows whose runs may be of this process's lane."""
        return [hash_ for hash_, each in self.workflows.items() if self.lanes.may_have(self.lane, each.name)]

    @property
    def runnable(self) -> list[str]:
        """Return the workflows that a session of this process reports as runnable."""
        return [*self.workflows, *[ANY_YAML] * self.adopts]

    @property
    def loaded(self) -> tuple[LoadedWorkflow, ...]:
        """Return the workflows that this process can run, for a decision about runs that no process can."""
        definitions = [(hash_, workflow.graph.definition) for hash_, workflow in self.workflows.items()]
        return tuple(LoadedWorkflow(definition.name, definition.version, hash_) for hash_, definition in definitions)

    def is_here(self, run: DueRun | UnplacedRun | RunRow) -> bool:
        """True if a run is of a workflow that this process has, and of its lane."""
        workflow = self.workflows.get(run.graph_hash)
        return workflow is not None and self.lanes.of(workflow.name, run.tenant, run.started_by) == self.lane


def record_of(workflow: Workflow, tenant: str | None = None) -> WorkflowRecord:
    """Return what stores keep of a workflow: of code, or of a file that a tenant has submitted."""
    schema = workflow.input_schema
    encoded = None if schema is None else msgspec.json.encode(schema)
    return WorkflowRecord(workflow.name, workflow.version, workflow.hash, encoded, tenant=tenant)
