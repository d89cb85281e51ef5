"""Asks for a child, a run of its own, and waits for what becomes of it: one operation of a step.

The request is recorded with all that it takes to start the child. Never here: starting it, hearing of its end (children).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.authoring import reach
from holdfast.authoring.agents.offer import Handoff
from holdfast.authoring.child import ChildOutcome
from holdfast.authoring.values.adapter import PLAIN, Adapter
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import AWAITED, BACKGROUND, CHILD, UNDONE
from holdfast.core.rules.limits import whole_tokens
from holdfast.core.values.ids import Path, RunId
from holdfast.core.values.money import nanousd
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import CANCELLED
from holdfast.engine.attempts.cursor import Suspension, cursor, note_calls
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import InvalidInput, NotFound, OperationFailed, UsageError
from holdfast.ports import Recall

OnFailure = Literal["raise", "return"]


class Request(NamedTuple):
    """A step's request for a child."""

    workflow: Workflow | str
    input: Any
    version: int | None
    key: str | None
    limit: float | str | Decimal | None
    handoff: Handoff | None = None
    """Where the conversation `input` is handed over: only its outcome is filtered, once."""
    max_tokens: int | None = None
    is_typed: bool = False
    """True if its result is read by the hint of its workflow, where that code is given."""

    @property
    def returns(self) -> Adapter:
        return self.workflow.returns if self.is_typed and isinstance(self.workflow, Workflow) else PLAIN

    @property
    def name(self) -> str:
        return self.workflow if isinstance(self.workflow, str) else self.workflow.name

    def identity(self, journal: StepJournal) -> dict[str, Any]:
        """Return the parts that decide whether a request is the same. The version of the code at hand is none: a child goes on
        with what it was started with."""
        if self.handoff is not None:
            return {"workflow": self.name, "handoff": True}
        plain = msgspec.json.decode(self._encoded(journal))
        return {"workflow": self.name, "input": plain, "version": self.version, "key": self.key}

    def _encoded(self, journal: StepJournal) -> bytes:
        payloads = journal.attempt.services.payloads
        try:
            return payloads.clean(self.input, is_kept=False)
        except InvalidInput:
            if isinstance(self.workflow, str):
                raise
            return payloads.clean(self.workflow.validated_input(self.input))


class Child:
    """A child in the background. Keeps authoring.child.ChildHandle."""

    def __init__(self, journal: StepJournal, run: RunId, request: Request) -> None:
        self._journal = journal
        self._request = request
        self.run_id: str = run

    def __repr__(self) -> str:
        return f"<child {self.run_id}>"

    async def result(self, *, on_failure: OnFailure = "raise") -> Any:
        check(on_failure)
        run = RunId(self.run_id)
        with cursor().place() as path:
            return await awaited(self._journal, path, run, self._request, on_failure)


note_calls(Child, "child", "result")


def check(on_failure: str) -> None:
    """Raises ValueError for what is no policy."""
    if on_failure not in ("raise", "return"):
        raise ValueError(f"on_failure={on_failure!r}: a child's failure is to 'raise' here, or to be 'return'ed.")


async def request(journal: StepJournal, path: Path, request: Request, *, background: bool, on_failure: OnFailure) -> Any:
    """Return the child's result, or with `background` a handle on it. Leaves the step while it goes on; raises
    OperationFailed."""
    check(on_failure)
    asked = request.identity(journal)
    args_hash = digest(asked)
    kind = BACKGROUND if background else CHILD
    known = await journal.recall(path, kind, request.name, args_hash, asked)
    if known is None:
        await journal.send(await _command(journal, path, request, args_hash, background))
        known = await journal.recall(path, kind, request.name, args_hash)
        if known is None:
            raise Suspension
    if background:
        return Child(journal, RunId(known.value), request)
    return _outcome(path, known, on_failure, request.returns)


async def awaited(journal: StepJournal, path: Path, run: RunId, request: Request, on_failure: OnFailure) -> Any:
    """Return the result of a child that was asked for before."""
    workflow = request.name
    args_hash = digest(["awaited", run])
    known = await journal.recall(path, AWAITED, workflow, args_hash, {"child": run})
    if known is None:
        await journal.send(cmd.AwaitChild(journal.step, journal.number, path, run, args_hash, values=journal.take()))
        known = await journal.recall(path, AWAITED, workflow, args_hash)
        if known is None:
            raise Suspension
    return _outcome(path, known, on_failure, request.returns)


async def undone(journal: StepJournal, path: Path, run: RunId, workflow: str) -> None:
    """Have a child that has completed undo what it did. Leaves the step meanwhile; raises OperationFailed."""
    args_hash = digest(["undone", run])
    known = await journal.recall(path, UNDONE, workflow, args_hash)
    if known is None:
        await journal.send(cmd.UndoChild(journal.step, journal.number, path, run, workflow, args_hash))
        known = await journal.recall(path, UNDONE, workflow, args_hash)
        if known is None:
            raise Suspension
    if known.error is not None:
        raise OperationFailed(known.error.message, error=known.error, path=path)


def _outcome(path: Path, recall: Recall, on_failure: OnFailure, returns: Adapter) -> Any:
    if on_failure == "raise":
        if recall.error is not None:
            raise OperationFailed(recall.error.message, error=recall.error, path=path)
        return returns.load_if_fits(recall.value)
    if recall.error is None:
        how: Literal["completed", "failed", "cancelled"] = "completed"
    else:
        how = "cancelled" if recall.error.error_class == CANCELLED else "failed"
    return ChildOutcome(
        recall.child or "",
        how,
        returns.load_if_fits(recall.value) if recall.error is None else None,
        None if recall.error is None else recall.error.message,
    )


async def _command(journal: StepJournal, path: Path, request: Request, args_hash: str, background: bool) -> cmd.RequestChild:
    workflow = await _resolve_workflow(journal, request)
    given = request.input if request.handoff is None else request.handoff.input_for(request.input)
    if isinstance(workflow, StoredWorkflow):
        valid = await journal.attempt.services.threads.run(workflow.validated_input, {"raw": given})
    else:
        valid = workflow.validated_input(given)
    try:
        limit = None if request.limit is None else nanousd(request.limit)
    except ValueError as problem:
        raise InvalidInput(f"The cost limit of a child cannot be used: {problem}. No child was started.") from None
    try:
        max_tokens = None if request.max_tokens is None else whole_tokens(request.max_tokens)
    except ValueError as problem:
        raise InvalidInput(f"The limit on tokens of a child cannot be used: {problem}. No child was started.") from None
    payload = await journal.attempt.store_value(valid)
    # Named after what it starts with is kept: large values stay for the month of their run's start.
    runs = journal.attempt.services.runtime.runs
    return cmd.RequestChild(
        journal.step,
        journal.number,
        path,
        runs.new_id(),
        workflow.name,
        workflow.version,
        workflow.graph.hash,
        args_hash,
        payload,
        limit,
        request.key,
        background,
        values=journal.take(),
        handoff=request.handoff is not None,
        max_tokens=max_tokens,
    )


async def _resolve_workflow(journal: StepJournal, request: Request) -> Workflow | StoredWorkflow:
    """Return the workflow to start: its code, if that is here, else what the store knows of it. Raises InvalidInput."""
    catalog = journal.attempt.services.runtime.catalog
    if isinstance(request.workflow, Workflow):
        meant = request.workflow
        try:
            if not await catalog.knows(meant, journal.attempt.graph.hash):
                raise _not_found_again(meant)
            await journal.attempt.patiently(lambda: catalog.add(meant))
        except UsageError as problem:
            raise InvalidInput(f"{problem.message} No child was started.") from None
        return meant
    graphs = journal.attempt.services.runtime.store.graphs
    try:
        record = await journal.attempt.patiently(lambda: graphs.workflow(request.name, request.version, tenant=journal.tenant))
    except NotFound as problem:
        raise InvalidInput(f"{problem.message} No child was started.") from None
    known = catalog.workflows.get(record.graph_hash)
    if known is not None:
        return known
    graph = await journal.attempt.patiently(lambda: catalog.graph_of(record.graph_hash))
    return StoredWorkflow.of(record, graph)


def _not_found_again(workflow: Workflow) -> UsageError:
    return UsageError(
        f"Define {workflow.name!r} at the top of a module that is imported at the top of another, or list it in"
        f" `@flow(children=[...])`: it comes from {reach.place_of(workflow)}, where a process that takes the child up"
        " later would not find it before this code has run."
    )
