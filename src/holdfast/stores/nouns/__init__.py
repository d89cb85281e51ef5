"""The nouns of a store that are the same on every database: each written once, on statements that have the same names there.

    tables       what they stand on: a statement, or several that hold together
    records      schedules, conversations, supervisors, notification rules, evaluations
    figures      scores, costs, estimates of models
    census       counts of rows
    callers      keys, sign-ins, the audit log, replies
    beside_runs  children, dead letters, job logs
    lists        runs, gates, tool calls, and the labels of runs: what both databases list alike
    workflows, blobs, followers, outbox

Never here: histories, leases, lending, the books of money; those are by hand, for each database.
"""

from __future__ import annotations

from typing import TypedDict

from holdfast.stores.nouns.beside_runs import Children, DeadLetters, JobLogs
from holdfast.stores.nouns.blobs import Blobs
from holdfast.stores.nouns.callers import Audit, Keys, Replies, SignIns
from holdfast.stores.nouns.census import Census
from holdfast.stores.nouns.figures import Costs, ModelEstimates, Scores
from holdfast.stores.nouns.followers import Followers
from holdfast.stores.nouns.outbox import Outbox
from holdfast.stores.nouns.records import Conversations, Evaluations, NotificationRules, Schedules, Supervisors
from holdfast.stores.nouns.tables import StoreParts
from holdfast.stores.nouns.workflows import Graphs


class OfTenant(TypedDict):
    """Nouns that tenants read too, each in its turn."""

    children: Children
    dead_letters: DeadLetters
    job_logs: JobLogs
    blobs: Blobs
    keys: Keys
    audit: Audit
    costs: Costs
    scores: Scores
    conversations: Conversations
    evaluations: Evaluations
    notification_rules: NotificationRules
    outbox: Outbox
    schedules: Schedules
    supervisors: Supervisors


class Nouns(OfTenant):
    """All of them."""

    replies: Replies
    sign_ins: SignIns
    model_estimates: ModelEstimates
    census: Census
    graphs: Graphs
    followers: Followers


def of_tenant(ground: StoreParts) -> OfTenant:
    """Return those on the tables as a tenant has them."""
    return {
        "children": Children(ground),
        "dead_letters": DeadLetters(ground),
        "job_logs": JobLogs(ground),
        "blobs": Blobs(ground),
        "keys": Keys(ground),
        "audit": Audit(ground),
        "costs": Costs(ground),
        "scores": Scores(ground),
        "conversations": Conversations(ground),
        "evaluations": Evaluations(ground),
        "notification_rules": NotificationRules(ground),
        "outbox": Outbox(ground),
        "schedules": Schedules(ground),
        "supervisors": Supervisors(ground),
    }


def nouns(ground: StoreParts) -> Nouns:
    """Return all of them, on the tables of a store."""
    return {
        **of_tenant(ground),
        "replies": Replies(ground),
        "sign_ins": SignIns(ground),
        "model_estimates": ModelEstimates(ground),
        "census": Census(ground),
        "graphs": Graphs(ground),
        "followers": Followers(ground),
    }
