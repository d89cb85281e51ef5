"""All commands and queries of an engine, as one object: what a transport or a service stands on.

Never here: a method of its own that belongs to a subject (command, repair, schedule, conversation, supervisor, allowance,
team_budget, standing_approval, pool, notification, shared_value, score, evaluation, stream, inquiry).
"""

from __future__ import annotations

from holdfast.core.values.trace import trace_context_of
from holdfast.service.control.bulk import Bulks
from holdfast.service.control.conversation import Conversations
from holdfast.service.control.evaluation import Evaluations
from holdfast.service.control.notification import Notifications
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
    Notifications,
    SharedValues,
    Scores,
    Evaluations,
    Streams,
):
    """The control of an engine: its commands and queries."""

    def traced(self, traceparent: str | None) -> Control:
        """Return this engine in a trace (W3C Trace Context). Commands sent through it, and what follows in the run, have its
        `trace_id` in the history. Spans of runs that they start are below the span that the header names, or below
        OpenTelemetry's current span.

        Args:
            traceparent: Header `traceparent`; a malformed one is ignored, as the recommendation says.
        """
        return Control(self.executor, trace_context_of(traceparent), self.store)


def limited_to(control: Control, tenant: str | None) -> Control:
    """Return a control whose queries read the rows of one tenant, or of all (None). Its commands are those of `control`."""
    return Control(control.executor, control.trace_context, control.store.of_tenant(tenant))
