"""Runs, gates, effects and money as plain data: what --json prints and what clients are answered, part of the public surface.

Never here: printing, who may see it.
"""

from holdfast.service.view.approval import of_approval
from holdfast.service.view.caller import audit_head_of, link_of, of_audit_head, of_key, of_link
from holdfast.service.view.capacity import (
    demanded,
    of_admission,
    of_placed,
    of_pool,
    of_pool_for_one,
    of_pool_in_use,
    of_wait,
    of_worker,
    of_workers,
)
from holdfast.service.view.conversation import of_conversation, of_exchange, of_talk
from holdfast.service.view.effect import MOST_EFFECTS, of_effect
from holdfast.service.view.evaluation import of_evaluation
from holdfast.service.view.gate import of_gate
from holdfast.service.view.history import SHOWN_AS, facts, is_verified, news, of_event, of_log, of_told, recorded_of
from holdfast.service.view.money import of_budget, of_cost, of_doubt, of_owner, of_team_budget
from holdfast.service.view.plain import iso, maybe_usd, without_traces
from holdfast.service.view.repair import of_cancel, of_fork, of_letter, of_letter_whole, of_letters, of_outcome
from holdfast.service.view.run import of_drawing, of_item, of_map, of_node_costs, of_row, of_run, of_run_whole, of_step, of_tree
from holdfast.service.view.schedule import of_backfilled, of_schedule
from holdfast.service.view.score import of_mean, of_score
from holdfast.service.view.shared_value import of_memory, of_shared_value
from holdfast.service.view.supervisor import of_dashboard, of_supervisor
from holdfast.service.view.trajectory import of_trace, of_trajectory
from holdfast.service.view.workflow import of_workflow, of_workflow_whole

__all__ = [
    "MOST_EFFECTS",
    "SHOWN_AS",
    "audit_head_of",
    "demanded",
    "facts",
    "is_verified",
    "iso",
    "link_of",
    "maybe_usd",
    "news",
    "of_admission",
    "of_approval",
    "of_audit_head",
    "of_backfilled",
    "of_budget",
    "of_cancel",
    "of_conversation",
    "of_cost",
    "of_dashboard",
    "of_doubt",
    "of_drawing",
    "of_effect",
    "of_evaluation",
    "of_event",
    "of_exchange",
    "of_fork",
    "of_gate",
    "of_item",
    "of_key",
    "of_letter",
    "of_letter_whole",
    "of_letters",
    "of_link",
    "of_log",
    "of_map",
    "of_mean",
    "of_memory",
    "of_node_costs",
    "of_outcome",
    "of_owner",
    "of_placed",
    "of_pool",
    "of_pool_for_one",
    "of_pool_in_use",
    "of_row",
    "of_run",
    "of_run_whole",
    "of_schedule",
    "of_score",
    "of_shared_value",
    "of_step",
    "of_supervisor",
    "of_talk",
    "of_team_budget",
    "of_told",
    "of_trace",
    "of_trajectory",
    "of_tree",
    "of_wait",
    "of_worker",
    "of_workers",
    "of_workflow",
    "of_workflow_whole",
    "recorded_of",
    "without_traces",
]
