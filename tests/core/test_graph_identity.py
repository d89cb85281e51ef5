"""What a workflow is called does not change with Holdfast: what nobody says is not part of its name."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from holdfast import RetryPolicy, Workflow, task
from holdfast.actions.jobs.identity import plain
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.document import Job
from holdfast.actions.syntax.load import load
from holdfast.authoring import node as authoring
from holdfast.authoring.node import NodeDefinition
from holdfast.core.facts.graph import Definition, Edge, Join, Limits, Node
from holdfast.core.values.demand import Demand

DEFAULTS: dict[type[msgspec.Struct], dict[str, Any]] = {
    Definition: {"limits": Limits(), "on_limit": "ask", "on_exhausted": "fail", "snapshot_every": 25, "runs_on": ()},
    Limits: {"cost_nanousd": None, "max_steps": 1000, "max_tokens": None, "max_active_s": None, "max_lifespan_s": None},
    Node: {
        "join": Join(),
        "guard": None,
        "retry": RetryPolicy(only_transient=True),
        "timeout_s": None,
        "continue_on_error": False,
        "demand": Demand(),
    },
    Edge: {"when": None, "guard": None, "on": "success", "optional": False, "max_visits": None},
    Join: {"mode": "all", "count": 0, "timeout_s": None},
    Demand: {"labels": (), "tags": (), "cpu_m": 0, "memory_mb": 0, "gpus": 0, "priority": 0, "task": None},
    RetryPolicy: {
        "max_attempts": 3,
        "backoff": "exponential",
        "initial_s": 0.2,
        "max_s": 30.0,
        "jitter": 0.1,
        "rate_limit_attempts": 10,
        "only_transient": False,
    },
}
"""What is not written means this, in every store since 0.1.0: another default would change what stored graphs mean."""

FILE = """
jobs:
  one:
    runs-on: any
    strategy: {matrix: {n: [1, 2]}}
    steps:
      - run: echo "${{ matrix.n }}"
"""


@pytest.mark.parametrize("kind", DEFAULTS)
def test_what_a_graph_leaves_out_means_what_it_always_meant(kind: type[msgspec.Struct]) -> None:
    known = {field.name: field.default for field in msgspec.structs.fields(kind)}
    assert {name: known[name] for name in DEFAULTS[kind]} == DEFAULTS[kind]
    assert kind.__struct_config__.omit_defaults


def test_a_later_option_keeps_the_hash_of_workflows_that_do_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def patient_task(*, patience_s: float = 5.0, keen: bool = False, mode: Literal["a", "b"] = "a") -> Any: ...

    def name_of(**settings: Any) -> str:
        made = NodeDefinition(
            lambda state: None,
            "task",
            retry=None,
            timeout_s=None,
            join=None,
            guard=None,
            continue_on_error=False,
            settings=settings,
        )
        workflow = Workflow("same")
        workflow.node("one")(made)
        return workflow.hash

    before = name_of(tools=())
    monkeypatch.setitem(authoring.DECORATORS, "task", patient_task)
    assert name_of(tools=(), patience_s=5.0, keen=False, mode="a") == before
    assert name_of(tools=(), patience_s=5.0, keen=True, mode="a") != before


def test_a_key_that_a_later_version_adds_changes_no_file_that_does_not_use_it() -> None:
    class LaterJob(Job, frozen=True):
        spread: bool = False
        most_legs: int = 7

    (job,) = load(FILE, "file").jobs
    same = {name: getattr(job, name) for name in Job.__struct_fields__}
    assert plain(LaterJob(**same)) == plain(job)
    assert plain(LaterJob(**same, most_legs=8)) == plain(job) | {"most_legs": 8}


def test_names_that_0_1_0_gave_are_given_still() -> None:
    """Those of tests/fixtures/stores are compared too; these are here for their defaults."""
    plainest = Workflow("plain")
    plainest.node("one")(task(lambda state: None))
    assert plainest.hash[:16] == "fa1c5050fe044797"
    (before,) = workflow_of(load(FILE, "file")).earlier  # its combinations shared a step
    assert before.hash[:16] == "4233947f03f8629c"
