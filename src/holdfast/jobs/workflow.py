"""From a document to a Workflow: a node for each job, an edge for each need, and a last node that says how it ended.

Never here: what a job does.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.view import StateView
from holdfast.authoring.workflow import Workflow
from holdfast.authoring.yaml import dependency
from holdfast.authoring.yaml.document import Document, Job, Retry
from holdfast.authoring.yaml.keys import MOST_JOBS
from holdfast.core.policies import RetryPolicy
from holdfast.errors import StepError
from holdfast.jobs.identity import plain
from holdfast.jobs.job import JobNode
from holdfast.jobs.leg import Given
from holdfast.jobs.placement import demand_of
from holdfast.jobs.step import Shell
from holdfast.tools.shell import run

END: Final = "run.end"
"""The last node. No job can have this id, because of its dot."""


def workflow_of(document: Document, shell: Shell = run) -> Workflow:
    """The workflow that a checked document describes. Its scripts are part of its identity, their places are not.

    `shell` stands in for the machine's, where scripts are not to be run.
    """
    given = Given(document.env, shell)
    made = Workflow(document.name, max_steps=MOST_JOBS + 1)
    spelled = {job.id.lower(): job.id for job in document.jobs}
    needs = {job.id.lower(): [need.lower() for need in job.needs] for job in document.jobs}
    before = dependency.ancestors(needs)
    for job in document.jobs:
        named = [spelled[id_] for id_ in needs[job.id.lower()]]
        ancestors = sorted(spelled[id_] for id_ in before[job.id.lower()])
        handler = JobNode(job, named, ancestors, given).run
        made.node(job.id, demand=demand_of(job))(_node(handler, _policy(job.retry), job=plain(job)))
        for need in named:
            made.edge(need, job.id)
    made.node(END)(_node(_End(document.jobs).run, _policy(Retry()), env=plain(document.env)))
    for job in document.jobs:
        made.edge(job.id, END)
    return made


class _End:
    """The handler of the last node."""

    def __init__(self, jobs: tuple[Job, ...]) -> None:
        self._jobs = jobs

    async def run(self, state: StateView) -> dict[str, Any]:
        """What has become of each job. Raises StepError, which fails the run, if one of them has failed."""
        found = {job.id: state.events[job.id].output for job in self._jobs}
        failed = [f"{id_} ({each.get('error', each['result'])})" for id_, each in found.items() if _has_failed(each)]
        if failed:
            raise StepError(f"{len(failed)} of {len(found)} jobs failed: {', '.join(failed)}")
        return {"jobs": {id_: {"result": each["result"], "outputs": each["outputs"]} for id_, each in found.items()}}


def _has_failed(output: dict[str, Any]) -> bool:
    return output["result"] not in ("success", "skipped")


def _policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=1 + retry.times, backoff=retry.backoff, initial_s=retry.delay_s, max_s=retry.max_delay_s
    )


def _node(handler: Any, retry: RetryPolicy, **settings: Any) -> NodeDefinition:
    return NodeDefinition(
        handler, "task", retry=retry, timeout_s=None, join=None, guard=None, continue_on_error=False, settings=settings
    )
