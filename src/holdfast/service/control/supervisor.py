"""Supervisors: declared, given tasks, asked what became of them, looked at.

Never here: who takes a task (core.nouns.supervision), having it done (engine.background.supervising).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.authoring.values.plain import encode, refusal
from holdfast.authoring.values.sensitive import sealed_by
from holdfast.authoring.workflow import Workflow
from holdfast.core.nouns import supervision as rule
from holdfast.core.nouns.supervision import Accepted, Change, Dashboard, Fate, Rejected
from holdfast.core.values.actor import Actor
from holdfast.core.values.payload import INLINE_BYTES
from holdfast.engine.background.supervising import no_supervisor
from holdfast.engine.runs.starting import agents_of, shared_scopes
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.platform.own_loop import OfLoop
from holdfast.ports import MAX_LISTED
from holdfast.service.control.base import named_budget, word
from holdfast.service.control.change import changed
from holdfast.service.control.command import Commands
from holdfast.service.control.handle import output
from holdfast.service.control.naming import DEFAULT_TENANT

_LOOK_AGAIN_S: Final = 0.05
_LOOK_AGAIN_AT_MOST_S: Final = 0.5
"""Longest pause between two looks for a waiting task: no commit of a run of its own announces its turn."""

Status: TypeAlias = Literal["queued", "active"] | Fate


class WorkerAgent(NamedTuple):
    """A worker of a supervisor: an agent that does tasks of some types as runs of a workflow."""

    name: str
    """Name of the worker."""
    workflow: Workflow | StoredWorkflow | str
    """The workflow, or its name: then the highest version at each task."""
    task_types: Sequence[str]
    """Types of tasks that it takes."""
    max_concurrent: int = rule.DEFAULT_MAX_CONCURRENT
    """Maximum number of tasks at once."""
    timeout_s: float = rule.TIMEOUT_S
    """Time limit of a task in seconds; a task that takes longer is cancelled and counts as failed."""


class TaskResult(NamedTuple):
    """A task of a supervisor as it is now."""

    task_id: str
    """Id of the task."""
    status: Status
    """Status of the task."""
    worker: str | None = None
    """Name of the worker, once it has one."""
    result: Any = None
    """Result, if `status` is `completed`."""
    error: str | None = None
    """Reason, if `status` is `failed`, `timed_out` or `cancelled`."""
    duration_ms: int | None = None
    """Duration in milliseconds, once it has ended."""
    run_id: str | None = None
    """Id of its run, once it has begun."""

    @property
    def success(self) -> bool:
        """True if the task has completed."""
        return self.status == "completed"


class Supervisors(Commands):
    """The supervisors of the store, whichever process declared them."""

    async def set_supervisor(
        self,
        name: str,
        workers: Sequence[WorkerAgent],
        *,
        max_queue: int = rule.DEFAULT_MAX_QUEUE,
        threshold: float | None = rule.THRESHOLD,
        cool_down_s: float = rule.COOL_DOWN_S,
        tenant: str = DEFAULT_TENANT,
        team: str | None = None,
        team_budget: str | None = None,
    ) -> Supervisor:
        """Declare a supervisor, or replace its declaration. Tasks that it has taken stay, and so does what is known of its
        remaining workers.

        Spending of its runs counts for `team`. In the `team_budget` it counts as that of the agent with the worker's name,
        except in nodes with an agent of their own.

        Args:
            name: Name of the supervisor.
            workers: Agents that do the tasks.
            max_queue: Maximum number of waiting tasks.
            threshold: Load from which a task without a free worker is refused; None for only when the queue is full.
            cool_down_s: Seconds for which a worker with too many failures gets no task; doubled after each failed trial.
            team: Team of the tenant; costs also count in the team's budgets.
            team_budget: Name of a team budget in which costs also count.

        Raises:
            InvalidInput: An option cannot be used.
            NotFound: The store does not know a workflow.
            Conflict: Tasks that it has taken would have no worker.
        """
        tenant, name = word("tenant", tenant), _bounded("name of the supervisor", name)
        meant = [await self._resolve_workflow(each.workflow, None, tenant) for each in workers]
        agents = {each.name for each in workers}.union(*(agents_of(each.graph) for each in meant))
        shared = await shared_scopes(self.store, tenant, named_budget(team_budget), agents)
        kept = [await self._worker(each, workflow) for each, workflow in zip(workers, meant, strict=True)]
        declared = rule.Supervisor(
            tenant=tenant,
            name=name,
            workers=tuple(kept),
            max_queue=max_queue,
            threshold=threshold,
            cool_down_s=cool_down_s,
            team=None if team is None else word("team", team),
            shared=shared,
        )
        if problems := list(rule.problems(declared)):
            raise InvalidInput(f"Supervisor {name!r} cannot be declared: {'; '.join(problems)}. Nothing was changed.")

        async def attempt() -> Supervisor | None:
            there = await self.store.supervisors.find(tenant, name)
            now = declared if there is None else rule.declared_anew(there, declared)
            return Supervisor(self, tenant, name) if await self.store.supervisors.put(Change(now)) else None

        return await changed(f"Supervisor {name!r}", attempt)

    async def _worker(self, worker: WorkerAgent, workflow: Workflow | StoredWorkflow) -> rule.Worker:
        if isinstance(workflow, Workflow):
            await self.runtime.catalog.add(workflow)
        types = [worker.task_types] if isinstance(worker.task_types, str) else worker.task_types
        return rule.Worker(
            name=_bounded("name of the worker", worker.name),
            workflow=workflow.name,
            timeout_s=worker.timeout_s,
            task_types=tuple(_bounded("task type", each) for each in types),
            max_concurrent=worker.max_concurrent,
        )

    def supervisor(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Supervisor:
        """Return a handle on a supervisor. Its methods raise NotFound if it does not exist."""
        return Supervisor(self, word("tenant", tenant), word("name of the supervisor", name))

    async def supervisors(
        self, tenant: str | None = None, *, after: tuple[str, str] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[rule.Supervisor]:
        """Return supervisors, by tenant and name.

        Args:
            after: Tenant and name of the last row of the page before.
        """
        return await self.store.supervisors.page(tenant, after, limit)

    async def remove_supervisor(self, name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Remove a supervisor without tasks; the runs of its tasks stay.

        Args:
            name: Name of the supervisor.

        Raises:
            NotFound: The supervisor does not exist.
            Conflict: It has tasks.
        """
        found = await self.store.supervisors.find(word("tenant", tenant), word("name of the supervisor", name))
        if found is None:
            raise no_supervisor(name)
        if found.active or found.queue or not await self.store.supervisors.remove(found):
            raise Conflict(f"Supervisor {name!r} has tasks to do. Nothing was removed: let them be done first.")


class Supervisor(OfLoop):
    """A handle on a supervisor: it takes or refuses tasks and returns their results, from any process."""

    name: str
    """Name of the supervisor."""

    def __init__(self, control: Supervisors, tenant: str, name: str) -> None:
        self._control = control
        self._loop = control.runtime.loop
        self._supervisors = control.store.supervisors
        self._supervising = control.executor.services.supervising
        self._tenant = tenant
        self.name = name

    def __repr__(self) -> str:
        return f"<supervisor {self.name}>"

    async def submit(
        self,
        task_type: str,
        payload: Any = None,
        *,
        priority: int = 0,
        task_id: str | None = None,
        timeout_s: float | None = None,
        by: str | Actor | None = None,
    ) -> Accepted | Rejected:
        """Submit a task, durably. An accepted task is done once. A rejected task was not kept: try again after `retry_after_s`.

        Args:
            task_type: Type of the task, by which a worker is found.
            payload: Input of the worker's workflow.
            priority: Priority; of the waiting tasks the one with the lowest is next.
            task_id: Id of the task. Repeated, it returns the same task.
            timeout_s: Time limit in seconds, instead of the worker's.
            by: Name of the caller, recorded in the run's history.

        Raises:
            NotFound: The supervisor does not exist.
            InvalidInput: No worker takes this type, or the payload does not fit.
            Conflict: Another task has this id.
        """
        control, now_ms = self._control, self._control.now_ms()
        task_id = control.runtime.runs.new_id() if task_id is None else _bounded("id of the task", task_id)
        if not -rule.MAX_PRIORITY <= priority <= rule.MAX_PRIORITY:
            raise InvalidInput(
                f"priority={priority}: it is -{rule.MAX_PRIORITY} to {rule.MAX_PRIORITY}, the lowest first. Nothing was"
                " submitted."
            )
        if timeout_s is not None and not 0 < timeout_s <= rule.LONGEST_TIMEOUT_S:
            raise InvalidInput(f"timeout_s={timeout_s}: it is above 0, to {rule.LONGEST_TIMEOUT_S}. Nothing was submitted.")
        task = rule.Task(
            id=task_id,
            task_type=task_type,
            payload=msgspec.Raw(await self._payload(task_type, payload)),
            at_ms=now_ms,
            priority=priority,
            timeout_s=timeout_s,
            by=control._claim(by),
        )
        return await self._supervising.submit(self._tenant, self.name, task)

    async def _payload(self, task_type: str, value: Any) -> bytes:
        """Return a payload as it is kept, as JSON: it has to fit every worker that may take the task."""
        control = self._control
        schemas: list[dict[str, Any]] = []
        for worker in rule.takers(await self.declaration(), task_type):
            meant = await control._resolve_workflow(worker.workflow, None, self._tenant)
            await control._valid_input(meant, value)
            schemas.append(meant.input_schema or {})
        try:
            with control.sensitive(self._tenant):
                plain = control.payloads.plain(value)
                for schema in schemas:
                    plain = sealed_by(schema, plain)
            encoded = encode(plain)
        except InvalidInput as problem:
            raise InvalidInput(refusal("The payload", problem.message) + " Nothing was submitted.") from None
        if len(encoded) > INLINE_BYTES:
            raise InvalidInput(
                f"The payload has {len(encoded)} bytes; {INLINE_BYTES} are kept at most. Put what is large where the run can"
                " read it. Nothing was submitted."
            )
        return encoded

    async def declaration(self) -> rule.Supervisor:
        """Return the supervisor as it was declared, with its tasks.

        Raises:
            NotFound: The supervisor does not exist.
        """
        found = await self._supervisors.find(self._tenant, self.name)
        if found is None:
            raise no_supervisor(self.name)
        return found

    async def result(self, task_id: str) -> TaskResult:
        """Return a task as it is now.

        Args:
            task_id: Id of the task.

        Raises:
            NotFound: The task was not taken, or ended more than a week ago.
        """
        supervisor, task = await self.declaration(), await self._supervisors.task(self._tenant, self.name, task_id)
        if task is None:
            raise NotFound(
                f"Supervisor {self.name!r} knows of no task {task_id!r:.150}: it was not accepted, or ended more than a week"
                " ago; `holdfast runs list` shows the runs."
            )
        if task.fate is None:
            worker = rule.accepted(supervisor, task_id).worker
            return TaskResult(task_id, "queued" if worker is None else "active", worker, run_id=task.run)
        result = None
        if task.fate == "completed" and task.run is not None:
            result = await output(self._control.payloads, await self._control.runtime.runs.state(task.run))
        return TaskResult(task_id, task.fate, task.worker, result, task.error, task.duration_ms, task.run)

    async def wait(self, task_id: str) -> TaskResult:
        """Wait until a task has ended, and return it.

        Args:
            task_id: Id of the task.

        Raises:
            NotFound: The task was not taken, or ended more than a week ago.
        """
        pause_s = _LOOK_AGAIN_S
        while True:
            found = await self.result(task_id)
            if found.status not in ("queued", "active"):
                return found
            if found.run_id is not None:
                await self._control.run(found.run_id).until(lambda state: bool(state.ended))
                await self._supervising.carry_on(self._tenant, self.name)
            else:
                await self._control.runtime.clock.sleep(pause_s)
                pause_s = min(2 * pause_s, _LOOK_AGAIN_AT_MOST_S)

    async def dashboard(self) -> Dashboard:
        """Return the supervisor's load and the health of its workers.

        Raises:
            NotFound: The supervisor does not exist.
        """
        return rule.dashboard(await self.declaration(), self._control.now_ms())


def _bounded(name: str, text: str) -> str:
    if not text.strip() or len(text.encode()) > rule.MAX_NAME_BYTES:
        raise InvalidInput(f"The {name} has 1 to {rule.MAX_NAME_BYTES} bytes. Nothing was changed.")
    return word(name, text)
