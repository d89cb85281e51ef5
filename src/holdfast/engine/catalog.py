"""The workflows whose code this process has, and which runs of them are its to take up.

What is loaded is told to the store, by name and version; what a worker learned from the store is not, because it is not newer.

Never here: running them, the session that says what this process can run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec

from holdfast.authoring.flow import FlowDefinition
from holdfast.authoring.tool import Tool
from holdfast.authoring.workflow import Workflow
from holdfast.core.commands import Loaded
from holdfast.core.graph import Definition, Graph
from holdfast.core.lanes import DEFAULT, Lanes
from holdfast.core.projection import RunRow
from holdfast.ports import ANY_YAML, DueRun, Graphs, Unplaced, WorkflowRecord
from holdfast.scheduling.lane_workers import scripts_of

_EVERYTHING: Final = Lanes()


class Catalog:
    """Those of one process, by the hash of their graphs."""

    def __init__(
        self, graphs: Graphs, *, labels: Collection[str] = (), lanes: Lanes = _EVERYTHING, lane: str = DEFAULT,
        runs_scripts: bool = True, adopts: bool = False,
    ) -> None:  # fmt: skip
        """`labels` are what this process has, for workflows and steps that ask for it; `lane` is the one of `lanes` that it
        leads or works in. `runs_scripts` and `adopts` say whether it runs scripts of workflow files, and learns workflows in
        YAML from the store."""
        self._stored = graphs
        self.labels = tuple(sorted(set(labels)))
        self.lanes = lanes
        self.lane = lane
        self.adopts = adopts
        self._runs_scripts = runs_scripts
        self.workflows: dict[str, Workflow] = {}
        self.able: tuple[str, ...] = ()
        """What this process can be given, as those are called who are able to run it."""
        self._graphs: dict[str, Graph] = {}
        self._told: dict[tuple[str, int], str] = {}
        """The definition that this process has last told the store of, by name and version."""
        self.on_change: Callable[[], Awaitable[None]] | None = None
        """Called when there is a workflow more or less."""

    def __contains__(self, graph_hash: str) -> bool:
        return graph_hash in self.workflows

    async def add(self, workflow: Workflow) -> None:
        """Be able to run `workflow`, whose code was loaded, unless it asks for labels that this process lacks. The store is
        told of it, so that other processes can decide about its runs, and start some by its name. What it asks for as children
        comes with it: they go on where it does."""
        graph, place = workflow.graph, (workflow.name, workflow.version)
        if self._told.get(place) != graph.hash:
            await self._stored.put_workflow(_record(workflow), graph.encoded)
            self._told[place] = graph.hash
        is_new = workflow.hash not in self.workflows
        await self.adopt(workflow)
        if is_new and workflow.hash in self.workflows:
            for child in workflow.children:
                await self.add(child)
            for earlier in workflow.earlier:
                await self.adopt(earlier)

    async def adopt(self, workflow: Workflow) -> None:
        """The same of one that was learned from the store: that some run follows this definition makes it no newer than the one
        that was loaded last under its name."""
        if workflow.hash not in self.workflows and not self.lacking(workflow):
            self.workflows[workflow.hash] = workflow
            await self._changed()

    async def forget(self, graph_hash: str) -> None:
        """Be no longer able to run a workflow. No run of it may be in memory."""
        self.workflows.pop(graph_hash, None)
        self._told = {place: told for place, told in self._told.items() if told != graph_hash}
        self._graphs.pop(graph_hash, None)
        await self._changed()

    async def _changed(self) -> None:
        self.able = (*self.workflows, *(self.scripts if self._runs_scripts else ()))
        if self.on_change is not None:
            await self.on_change()

    @property
    def scripts(self) -> list[str]:
        """What a process that runs the scripts of these workflows is able to, as that is called."""
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

    def undoing(self, graph_hash: str, tool: str, compensation: str) -> Tool | None:
        """The tool that undoes what a step of a flow has done, which the flow need not list."""
        nodes = self.workflows[graph_hash].nodes.values()
        found = (node.undoing(tool, compensation) for node in nodes if isinstance(node, FlowDefinition))
        return next((tool for tool in found if tool is not None), None)

    @property
    def hashes(self) -> list[str]:
        """The workflows whose runs may be of this process's lane."""
        return [hash_ for hash_, each in self.workflows.items() if self.lanes.may_have(self.lane, each.name)]

    @property
    def runnable(self) -> list[str]:
        """What a session of this process says that it can run."""
        return [*self.workflows, *[ANY_YAML] * self.adopts]

    @property
    def loaded(self) -> tuple[Loaded, ...]:
        """The workflows that this process can run, for a decision about runs that nobody can."""
        definitions = [(hash_, workflow.graph.definition) for hash_, workflow in self.workflows.items()]
        return tuple(Loaded(definition.name, definition.version, hash_) for hash_, definition in definitions)

    def is_here(self, found: DueRun | Unplaced | RunRow) -> bool:
        """Whether a run is of a workflow that this process has, and of its lane."""
        workflow = self.workflows.get(found.graph_hash)
        return workflow is not None and self.lanes.of(workflow.name, found.tenant, found.started_by) == self.lane


def _record(workflow: Workflow) -> WorkflowRecord:
    schema = workflow.input_schema
    encoded = None if schema is None else msgspec.json.encode(schema)
    return WorkflowRecord(workflow.name, workflow.version, workflow.hash, encoded)
