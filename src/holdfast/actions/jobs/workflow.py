"""From a document to a Workflow: a node for each job, an edge for each need, and a last node that says how it ended. Before
a job that may have to wait for its place, a node that decides whether it runs at all. Of a job with a matrix each combination
is a step of its own, which its node hands out, because how many there are is often known only then.

A job's node always completes, with `success`, `failure`, `cancelled` or `skipped` in its output: conditions look at all jobs
before, so its handler decides of their outputs, and not joins and guards.

Never here: what a job does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from holdfast.actions.jobs.decision import RUN, SKIP, Decision, decider, output_of
from holdfast.actions.jobs.identity import plain
from holdfast.actions.jobs.job import JobNode
from holdfast.actions.jobs.matrix_job import JobSettings
from holdfast.actions.jobs.placement import demand_of, is_asked_late, is_spread, spread_demand
from holdfast.actions.jobs.runner import Shell
from holdfast.actions.jobs.spread_job import COMBINATION, SpreadJob
from holdfast.actions.shell import run
from holdfast.actions.syntax import dependency
from holdfast.actions.syntax.document import Document, Job, Retry
from holdfast.actions.syntax.keys import MAX_JOBS
from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.values.view import StateView
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.graph import Kind
from holdfast.core.values.demand import NOTHING, SHELL
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.views.step_result import END
from holdfast.errors import StepError


def workflow_of(
    document: Document,
    shell: Shell = run,
    variables: Mapping[str, str] = MappingProxyType({}),
    shared: Collection[str] | None = None,
) -> Workflow:
    """The workflow that a checked document describes. Its scripts are part of its identity, their places are not; what
    `vars` has (`variables`) is, so that a run sees the same from its first job to its last.

    `shell` stands in for the machine's, where scripts are not to be run. `shared` are the jobs whose combinations run in one
    step, as once they did: runs that began so go on so (`Workflow.earlier`).
    """
    spread = {job.id for job in document.jobs if is_spread(job) and job.id not in (shared or ())}
    given = JobSettings(document.env, shell)
    made = Workflow(document.name, max_steps=2 * MAX_JOBS + 1)
    spelled = {job.id.lower(): job.id for job in document.jobs}
    needs = {job.id.lower(): [need.lower() for need in job.needs] for job in document.jobs}
    before = dependency.ancestors(needs)
    after: dict[str, list[str]] = {job.id: [] for job in document.jobs}
    first = {job.id: job.id if job.id in spread else _first(job) for job in document.jobs}
    for job in document.jobs:
        for need in needs[job.id.lower()]:
            after[spelled[need]].append(first[job.id])
    for job in document.jobs:
        named = [spelled[id_] for id_ in needs[job.id.lower()]]
        decision = Decision(job, named, sorted(spelled[id_] for id_ in before[job.id.lower()]), variables)
        if first[job.id] != job.id:
            made.node(first[job.id])(_node(decision.way, _policy(Retry()), "branch", model=None))
        if job.id in spread:
            handler = SpreadJob(job, decision, given, _policy(job.retry))
            work = _node(handler.run, _policy(Retry()), job=plain(job), spreads=spread_demand(job))
            work.item_functions = {COMBINATION: handler.combination}
            made.node(job.id)(work)
        else:
            work = _node(JobNode(job, decision, given).run, _policy(job.retry), job=plain(job), task=SHELL)
            made.node(job.id, demand=demand_of(job))(work)
    said = {"env": plain(document.env)} | ({"vars": dict(sorted(variables.items()))} if variables else {})
    made.node(END)(_node(_End(document.jobs).run, _policy(Retry()), **said))
    for job in document.jobs:
        for follower in (*after[job.id], END):
            made.edge(job.id, follower)
            if first[job.id] != job.id:
                made.edge(first[job.id], follower, when=SKIP)
        if first[job.id] != job.id:
            made.edge(first[job.id], job.id, when=RUN)
    once_shared = {job.id for job in document.jobs if job.strategy is not None and not is_asked_late(job)}
    if shared is None and once_shared:
        made.earlier = (workflow_of(document, shell, variables, once_shared),)
    return made


def _first(job: Job) -> str:
    """The node with which it begins that is done in one step."""
    is_sure = not job.needs and job.condition.asked is None
    return job.id if is_sure or demand_of(job) == NOTHING else decider(job.id)


class _End:
    """The handler of the last node."""

    def __init__(self, jobs: tuple[Job, ...]) -> None:
        self._jobs = jobs

    async def run(self, state: StateView) -> dict[str, Any]:
        """Return the result of each job. Raises StepError, which fails the run, if one of them has failed."""
        found = {job.id: output_of(state, job.id) for job in self._jobs}
        failed = [f"{id_} ({each.get('error', each['result'])})" for id_, each in found.items() if _has_failed(each)]
        if failed:
            raise StepError(f"{len(failed)} of {len(found)} jobs failed: {', '.join(failed)}")
        return {"jobs": {id_: {"result": each["result"], "outputs": each["outputs"]} for id_, each in found.items()}}


def _has_failed(output: dict[str, Any]) -> bool:
    return output["result"] not in ("success", "skipped")


def _policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(max_attempts=1 + retry.times, backoff=retry.backoff, initial_s=retry.delay_s, max_s=retry.max_delay_s)


def _node(handler: Any, retry: RetryPolicy, kind: Kind = "task", **settings: Any) -> NodeDefinition:
    return NodeDefinition(
        handler, kind, retry=retry, timeout_s=None, join=None, guard=None, continue_on_error=False, settings=settings
    )
