"""All that an engine is told and asked, as one object: what a transport or a service stands on.

Never here: a method of its own that belongs to a subject (command, repair, schedule, conversation, supervisor, allowance,
team_budget, standing_approval, pool, shared_value, score, evaluation, stream, inquiry).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from holdfast.authoring.workflow import Workflow
from holdfast.core.values.trace import trace_id_of
from holdfast.service.control.bulk import Bulks
from holdfast.service.control.conversation import Conversations
from holdfast.service.control.evaluation import Evaluations
from holdfast.service.control.pool import DeclaredPools
from holdfast.service.control.routing import Routing
from holdfast.service.control.schedule import Schedules
from holdfast.service.control.score import Scores
from holdfast.service.control.shared_value import SharedValues
from holdfast.service.control.standing_approval import StandingApprovals
from holdfast.service.control.stream import Streams
from holdfast.service.control.supervisor import Supervisors
from holdfast.service.control.team_budget import TeamBudgets


class Control(
    Bulks,
    Schedules,
    Conversations,
    Supervisors,
    TeamBudgets,
    StandingApprovals,
    Routing,
    DeclaredPools,
    SharedValues,
    Scores,
    Evaluations,
    Streams,
):
    """An engine, to those who tell it something."""

    def traced(self, traceparent: str | None) -> Control:
        """The same engine in the trace that this header names (W3C Trace Context): what is told through it, and what follows in
        the run, has its `trace_id` in the history. A header that is malformed is ignored, as that recommendation has it."""
        return Control(self.executor, trace_id_of(traceparent), self.store)

    def of_tenant(self, tenant: str | None) -> Control:
        """The same engine, asked for one tenant: what it reads of the store to answer are that tenant's rows, as
        `Store.of_tenant` says. What it does is done as ever. None: for all."""
        return Control(self.executor, self._trace_id, self.store.of_tenant(tenant))

    def lent(self, workflow: Workflow) -> AbstractAsyncContextManager[None]:
        """Have this process keep a `workflow` in YAML, of which a block starts runs, only for as long as it keeps those that it
        learns from the store: the store gives it back when a run of it has something to do. An engine that learns none from
        the store keeps it."""
        return nullcontext()
