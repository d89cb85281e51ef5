"""Which path means which command or query, and how it is answered. The paths are a contract.

Fields of a command or query that the path does not name stand in the query string or the body, as they are called. Never here:
reading a request, answering one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.service import command as cmd
from holdfast.service import query as ask
from holdfast.service.declaration import Declaration, declaration_of

BASE: Final = "/api/v1"


class Answer(Enum):
    """What comes back, as the description of the API says it."""

    PAGE = "A page of a list, and where it goes on."
    ROW = "The row."
    MADE = "The run that was made, as it stands."
    RUN = "The run, as it stands afterwards."
    SAID = "The message, as it stands."
    OUTCOMES = "A page of what became of each, and where it goes on."
    KEY = "The key as it stands; where it is new, with what it is shown once."
    TOLD = "What came of it."
    RECORD = "The record; it is not kept for who sends the same request again."
    NOTHING = "Done."


class Route(NamedTuple):
    """`what` is told or asked at `path`; `given` are fields that the path says by being that path."""

    method: str
    path: str
    what: type[msgspec.Struct]
    answer: Answer
    given: Mapping[str, Any] = {}
    tag: str = ""
    """The row that a precondition (`If-Match`) is about, as the path at which it is read."""

    @property
    def takes(self) -> Declaration:
        """What it takes to ask here. Raises TypeError where that is not declared."""
        return declaration_of(self.what)

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields that stand in the path."""
        return tuple(_FIELD.findall(self.path))

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The fields that stand in the query string or the body."""
        others = [each for each in self.what.__struct_fields__ if each not in {*self.in_path, *self.given}]
        one = self.method == "GET" and self.answer is Answer.ROW
        return tuple(each for each in others if not one or each in _OF_ROWS)


_OF_ROWS: Final = {"tenant", "team", "version"}
"""Of one row nothing else is asked."""
_FIELD: Final = re.compile(r"{(\w+)}")


_PAGE, _ROW, _RUN, _NOTHING = Answer.PAGE, Answer.ROW, Answer.RUN, Answer.NOTHING
_MADE, _SAID, _OUTCOMES, _KEY, _TOLD = Answer.MADE, Answer.SAID, Answer.OUTCOMES, Answer.KEY, Answer.TOLD

ROUTES: Final = (
    Route("GET", "/workflows", ask.Workflows, _PAGE, {"name": None}),
    Route("GET", "/workflows/{name}", ask.Workflows, _ROW),
    Route("POST", "/runs", cmd.Start, _MADE),
    Route("GET", "/runs", ask.Runs, _PAGE),
    Route("POST", "/runs/bulk", cmd.Bulk, _OUTCOMES),
    Route("GET", "/runs/{run}", ask.Run, _ROW),
    Route("GET", "/runs/{run}/events", ask.Events, _PAGE),
    Route("GET", "/runs/{run}/steps", ask.Steps, _PAGE),
    Route("GET", "/runs/{run}/graph", ask.Drawing, _ROW),
    Route("GET", "/runs/{run}/costs", ask.RunCosts, _PAGE),
    Route("GET", "/runs/{run}/trace", ask.Trace, _PAGE),
    Route("GET", "/runs/{run}/logs", ask.Logs, _PAGE),
    Route("GET", "/runs/{run}/tree", ask.Tree, _ROW),
    Route("GET", "/runs/{run}/stream", ask.Streams, _PAGE),
    Route("GET", "/runs/{run}/items", ask.Items, _PAGE),
    Route("GET", "/runs/{run}/scores", ask.Scores, _PAGE),
    Route("GET", "/runs/{parent}/children", ask.Runs, _PAGE),
    Route("POST", "/runs/{run}/scores", cmd.GiveScore, _RUN),
    Route("POST", "/runs/{run}/pause", cmd.Pause, _RUN),
    Route("POST", "/runs/{run}/resume", cmd.Resume, _RUN),
    Route("POST", "/runs/{run}/cancel", cmd.Cancel, _RUN),
    Route("POST", "/runs/{run}/retry", cmd.Retry, _RUN),
    Route("POST", "/runs/{run}/migrate", cmd.Migrate, _RUN),
    Route("POST", "/runs/{run}/record", cmd.ExportRun, Answer.RECORD),
    Route("POST", "/runs/{run}/extend", cmd.Extend, _RUN),
    Route("GET", "/runs/{run}/cancel/quote", ask.CancelQuote, _ROW),
    Route("GET", "/runs/{run}/budget", ask.RunBudget, _ROW),
    Route("POST", "/runs/{run}/budget", cmd.RaiseBudget, _RUN),
    Route("POST", "/runs/{run}/fork", cmd.Fork, _MADE),
    Route("POST", "/runs/{run}/fork/quote", ask.ForkQuote, _ROW),
    Route("POST", "/runs/{run}/signals/{name}", cmd.Signal, _RUN),
    Route("POST", "/runs/{run}/signals/{name}/link", cmd.MakeLink, _KEY),
    Route("GET", "/scores", ask.ScoreMeans, _PAGE),
    Route("GET", "/evals", ask.Evaluations, _PAGE),
    Route("GET", "/evals/{evaluation}", ask.Evaluation, _ROW),
    Route("GET", "/gates", ask.Gates, _PAGE),
    Route("GET", "/gates/{gate}", ask.Gate, _ROW),
    Route("POST", "/gates/{gate}/decision", cmd.Decide, _RUN, tag="/gates/{gate}"),
    Route("POST", "/gates/{gate}/together", cmd.DecideTogether, _RUN, tag="/gates/{gate}"),
    Route("POST", "/gates/{gate}/delegate", cmd.Delegate, _RUN, tag="/gates/{gate}"),
    Route("POST", "/gates/{gate}/reassign", cmd.Reassign, _RUN, tag="/gates/{gate}"),
    Route("POST", "/gates/{gate}/link", cmd.MakeGateLink, _KEY, tag="/gates/{gate}"),
    Route("GET", "/approvals", ask.Approvals, _PAGE, {"approval": None}),
    Route("POST", "/approvals", cmd.GrantApproval, _TOLD),
    Route("GET", "/approvals/{approval}", ask.Approvals, _ROW),
    Route("POST", "/approvals/{approval}/revoke", cmd.RevokeApproval, _NOTHING),
    Route("GET", "/effects", ask.Effects, _PAGE),
    Route("POST", "/effects/{call}/resolution", cmd.Resolve, _RUN),
    Route("GET", "/doubts", ask.Doubts, _PAGE),
    Route("POST", "/doubts/{call}/reconcile", cmd.Reconcile, _RUN),
    Route("GET", "/dead-letters", ask.DeadLetters, _PAGE, {"letter": None}),
    Route("GET", "/dead-letters/summary", ask.DeadLetterSummary, _PAGE),
    Route("POST", "/dead-letters/bulk", cmd.BulkDeadLetters, _OUTCOMES),
    Route("GET", "/dead-letters/{letter}", ask.DeadLetters, _ROW),
    Route("POST", "/dead-letters/{letter}/edit", cmd.EditDeadLetter, _RUN, tag="/dead-letters/{letter}"),
    Route("POST", "/dead-letters/{letter}/replay", cmd.ReplayDeadLetter, _RUN, tag="/dead-letters/{letter}"),
    Route("POST", "/dead-letters/{letter}/resolve", cmd.ResolveDeadLetter, _RUN, tag="/dead-letters/{letter}"),
    Route("GET", "/conversations", ask.Conversations, _PAGE, {"name": None}),
    Route("POST", "/conversations", cmd.OpenConversation, _NOTHING),
    Route("GET", "/conversations/{name}", ask.Conversations, _ROW),
    Route("DELETE", "/conversations/{name}", cmd.DeleteConversation, _NOTHING),
    Route("POST", "/conversations/{conversation}/messages", cmd.Say, _SAID),
    Route("GET", "/schedules", ask.Schedules, _PAGE, {"name": None}),
    Route("POST", "/schedules", cmd.SetSchedule, _NOTHING),
    Route("GET", "/schedules/{name}", ask.Schedules, _ROW),
    Route("DELETE", "/schedules/{name}", cmd.RemoveSchedule, _NOTHING),
    Route("POST", "/schedules/{name}/pause", cmd.PauseSchedule, _NOTHING),
    Route("POST", "/schedules/{name}/resume", cmd.ResumeSchedule, _NOTHING),
    Route("POST", "/schedules/{name}/backfill", cmd.Backfill, _OUTCOMES),
    Route("GET", "/state", ask.SharedValues, _PAGE, {"key": None}),
    Route("POST", "/state", cmd.WriteSharedValue, _NOTHING),
    Route("POST", "/state/forget", cmd.ForgetCachedAnswer, _NOTHING),
    Route("GET", "/state/{space}/{key}", ask.SharedValues, _PAGE),
    Route("GET", "/costs", ask.Costs, _PAGE),
    Route("POST", "/costs/rollup", cmd.RollUpCosts, _TOLD),
    Route("GET", "/budgets", ask.Budget, _ROW),
    Route("POST", "/budgets", cmd.SetBudget, _NOTHING, tag="/budgets"),
    Route("GET", "/team-budgets", ask.TeamBudgets, _PAGE, {"name": None}),
    Route("POST", "/team-budgets", cmd.SetTeamBudget, _NOTHING, tag="/team-budgets/{name}"),
    Route("GET", "/team-budgets/{name}", ask.TeamBudgets, _ROW),
    Route("DELETE", "/team-budgets/{name}", cmd.RemoveTeamBudget, _NOTHING),
    Route("GET", "/admission", ask.Admission, _ROW),
    Route("POST", "/admission", cmd.SetAdmission, _NOTHING),
    Route("GET", "/supervisors", ask.Supervisors, _PAGE, {"name": None}),
    Route("GET", "/supervisors/{name}", ask.Supervisors, _ROW),
    Route("GET", "/memory", ask.Memories, _PAGE),
    Route("GET", "/pools", ask.Pools, _PAGE, {"name": None}),
    Route("POST", "/pools", cmd.SetPool, _NOTHING),
    Route("GET", "/pools/{name}", ask.Pools, _ROW),
    Route("DELETE", "/pools/{name}", cmd.RemovePool, _NOTHING),
    Route("GET", "/queue", ask.Queue, _PAGE),
    Route("GET", "/workers", ask.Workers, _PAGE),
    Route("GET", "/events", ask.Tail, _PAGE),
    Route("GET", "/keys", ask.Keys, _PAGE),
    Route("POST", "/keys", cmd.MakeKey, _KEY),
    Route("POST", "/keys/{name}/rotate", cmd.RotateKey, _KEY),
    Route("POST", "/keys/{name}/revoke", cmd.RevokeKey, _KEY),
    Route("GET", "/audit", ask.Audit, _PAGE),
    Route("GET", "/audit/head", ask.AuditHead, _PAGE),
)
"""Of two that fit a path the first is meant. Ids may hold `/`, and are percent-encoded in a path: paths are compared as they
are sent, and decoded then."""

ONCE: Final = (Answer.KEY, Answer.RECORD)
"""What is not kept to be answered alike: a secret, and what is large."""

MAKES: Final = (cmd.MakeKey, cmd.MakeLink, cmd.MakeGateLink, cmd.GrantApproval)
"""What makes something that is no run: 201."""


def methods_for(method: str) -> tuple[str, ...]:
    """The methods that a route takes: whatever may be read with GET may be asked about with HEAD (RFC 9110, section 9.1)."""
    return (method, "HEAD") if method == "GET" else (method,)


def methods_of(path: str) -> list[str]:
    """With which methods something is asked at a path, without the base, as it is sent."""
    exact = [route for route in ROUTES if route.path == path]
    found = [route.method for route in exact or ROUTES if exact or _SHAPES[route.path].fullmatch(path)]
    return sorted({each for method in found for each in methods_for(method)})


_SHAPES: Final = {route.path: re.compile(_FIELD.sub("[^/]+", route.path)) for route in ROUTES}

TAKES: Final = {(route.method, route.path): route.takes for route in ROUTES}
"""What each route takes. Without that it is none: this module does not import."""
