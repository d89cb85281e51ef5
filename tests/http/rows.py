"""What each route answers with, and how one looks whether it does. Nothing here decides what is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, get_args, is_typeddict

import msgspec

from holdfast.core.facts.events import AnyEvent
from holdfast.service import view

_RUN: Final = view.RunStatusRow

ROWS: Final[dict[str, type | tuple[type, ...]]] = {
    "GET /workflows": view.WorkflowRow,
    "GET /workflows/{name}": view.WorkflowWhole,
    "POST /runs": _RUN,
    "GET /runs": view.RunRow,
    "POST /runs/bulk": view.OutcomeRow,
    "GET /runs/{run}": view.RunWhole,
    "GET /runs/{run}/events": view.EventRow,
    "GET /runs/{run}/steps": view.StepRow,
    "GET /runs/{run}/graph": view.DrawingRow,
    "GET /runs/{run}/costs": view.NodeCostRow,
    "GET /runs/{run}/trace": view.TraceRow,
    "GET /runs/{run}/logs": view.LogRow,
    "GET /runs/{run}/tree": view.TreeRow,
    "GET /runs/{run}/stream": view.StreamRow,
    "GET /runs/{run}/items": view.ItemRow,
    "GET /runs/{run}/scores": view.ScoreRow,
    "GET /runs/{parent}/children": view.RunRow,
    "POST /runs/{run}/scores": _RUN,
    "POST /runs/{run}/pause": _RUN,
    "POST /runs/{run}/resume": _RUN,
    "POST /runs/{run}/cancel": _RUN,
    "POST /runs/{run}/retry": _RUN,
    "POST /runs/{run}/migrate": _RUN,
    "POST /runs/{run}/record": view.RecordRow,
    "POST /runs/{run}/extend": _RUN,
    "GET /runs/{run}/cancel/quote": view.CancelQuoteRow,
    "GET /runs/{run}/budget": view.RunBudgetRow,
    "POST /runs/{run}/budget": _RUN,
    "POST /runs/{run}/fork": _RUN,
    "POST /runs/{run}/fork/quote": view.ForkQuoteRow,
    "POST /runs/{run}/signals/{name}": _RUN,
    "POST /runs/{run}/signals/{name}/link": view.NewLinkRow,
    "GET /scores": view.ScoreMeanRow,
    "GET /evals": view.EvaluationRow,
    "GET /evals/{evaluation}": view.EvaluationWhole,
    "GET /gates": view.GateRow,
    "GET /gates/{gate}": view.GateWhole,
    "POST /gates/{gate}/decision": _RUN,
    "POST /gates/{gate}/together": _RUN,
    "POST /gates/{gate}/delegate": _RUN,
    "POST /gates/{gate}/reassign": _RUN,
    "POST /gates/{gate}/link": view.NewLinkRow,
    "GET /approvals": view.ApprovalRow,
    "POST /approvals": view.ApprovalRow,
    "GET /approvals/{approval}": view.ApprovalRow,
    "GET /effects": view.EffectRow,
    "POST /effects/{call}/resolution": _RUN,
    "GET /doubts": view.DoubtRow,
    "POST /doubts/{call}/reconcile": _RUN,
    "GET /dead-letters": view.DeadLetterRow,
    "GET /dead-letters/summary": view.DeadLetterCountRow,
    "POST /dead-letters/bulk": view.OutcomeRow,
    "GET /dead-letters/{letter}": view.DeadLetterWhole,
    "POST /dead-letters/{letter}/edit": _RUN,
    "POST /dead-letters/{letter}/replay": _RUN,
    "POST /dead-letters/{letter}/resolve": _RUN,
    "GET /conversations": view.ConversationRow,
    "GET /conversations/{name}": view.ConversationWhole,
    "POST /conversations/{conversation}/messages": view.ExchangeRow,
    "GET /schedules": view.ScheduleRow,
    "GET /schedules/{name}": view.ScheduleRow,
    "POST /schedules/{name}/backfill": view.BackfilledRow,
    "GET /state": view.SharedValueRow,
    "GET /state/{space}/{key}": view.SharedValueRow,
    "GET /costs": view.CostRow,
    "POST /costs/rollup": view.CostsCountedRow,
    "GET /budgets": view.BudgetRow,
    "GET /team-budgets": view.TeamBudgetRow,
    "GET /team-budgets/{name}": view.TeamBudgetWhole,
    "GET /admission": view.AdmissionRow,
    "GET /supervisors": view.SupervisorRow,
    "GET /supervisors/{name}": view.SupervisorWhole,
    "GET /memory": view.MemoryRow,
    "GET /pools": view.PoolRow,
    "GET /pools/{name}": view.PoolWhole,
    "GET /queue": (view.QueueRow, view.QueueReasonRow),
    "GET /workers": (view.WorkerRow, view.WorkerCountRow),
    "GET /events": view.TailRow,
    "GET /keys": view.KeyRow,
    "POST /keys": view.NewKeyRow,
    "POST /keys/{name}/rotate": view.NewKeyRow,
    "POST /keys/{name}/revoke": view.KeyRow,
    "GET /audit": view.AuditRow,
    "GET /audit/head": view.AuditHeadRow,
    "POST /links/{token}": view.LinkUsedRow,
}
"""By the method and the path of the route; of a list, what each of its rows is."""

_SHAPES: Final = {each: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each))) for each in ROWS}
_OPEN: Final = (view.EventRow, view.TailRow)
"""Rows that have the fields of their events besides their own keys."""
_EVENTS: Final = {kind.__name__: kind for kind in get_args(AnyEvent)}


def row_types() -> Iterator[Any]:
    """Yield each type of a row that the room of views exports."""
    yield from (each for name in view.__all__ if is_typeddict(each := getattr(view, name)))


def kinds_of(method: str, path: str) -> tuple[type, ...]:
    """Return what a route may answer with, by its path as it was sent, without the base; nothing where it answers no row."""
    found = next((ROWS[each] for each in ROWS if _SHAPES[each].fullmatch(f"{method} {path}")), ())
    return found if isinstance(found, tuple) else (found,)


def check(method: str, path: str, answer: Any, *, is_end: bool = False) -> None:
    """Check the rows that a route has answered with, or with what its stream ends. Raise AssertionError for one that its type
    does not describe."""
    if kinds := (_RUN,) if is_end else kinds_of(method, path):
        for row in answer["rows"] if isinstance(answer, dict) and answer.keys() == {"rows", "cursor"} else [answer]:
            problems = [problem for kind in kinds if (problem := problem_of(row, kind))]
            assert len(problems) < len(kinds), f"{method} {path} answers with {row}: {problems}"


def problem_of(row: Any, kind: Any) -> str:
    """Return why a row is not of a type: a key is missing, is too much, or has a value of another type. Empty if it is."""
    try:
        known = msgspec.convert(row, kind, strict=True)
    except msgspec.ValidationError as problem:
        return f"{kind.__name__}: {problem}"
    if kind in _OPEN:
        row = {name: value for name, value in row.items() if name not in fields_of(row["type"])}
        known = {name: value for name, value in known.items() if name in row}
    return "" if known == row else f"{kind.__name__} has no more than {known}"


def fields_of(event: str) -> set[str]:
    """Return under which names a row of an event shows its fields."""
    fields = _EVENTS[event].__struct_fields__
    return {view.SHOWN_AS.get(event, {}).get(each, each) for each in fields} | {*fields}
