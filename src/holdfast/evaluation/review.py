"""A workflow before it is shipped: the sixteen questions of the checklist and the nine parts of the design report, of "Agent
Workflow Orchestration" (sections 30 and 31), answered from its code and from the paths of its runs.

Never here: reading runs from a store, printing, an opinion that the code does not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from holdfast.authoring.tool import Tool
from holdfast.authoring.workflow import Workflow
from holdfast.core.nouns.evaluations import Evaluation, newest_of_suites
from holdfast.core.values.money import usd
from holdfast.core.views.trajectory import TraceType, Trajectory
from holdfast.evaluation.suite import Suite
from holdfast.service.view import TraceRow
from holdfast.service.view.plain import iso

Holds: TypeAlias = Literal["yes", "no", "always"]
"""Whether the code says so; `always` where Holdfast sees to it, whatever the code says."""
_MAX_WAYS: Final = 5
"""That runs went, of which the report tells."""
_MAX_SUITES: Final = 5
"""With kept results, of which the report tells."""
_EXHAUSTED: Final = {"dead_letter": "it parks as a dead letter", "fail": "the run fails"}
_AT_LIMIT: Final = {"ask": "a person is asked", "fail": "the run fails", "record": "it is only recorded"}
_CHANGING: Final = ("idempotent", "verify", "once")
"""Effects of tools that change something outside."""


class Finding(msgspec.Struct, frozen=True):
    """A question of the checklist, whether it holds of the workflow, and what shows it."""

    question: str
    holds: Holds
    because: str


class Review(msgspec.Struct, frozen=True):
    """The answers in the checklist's order, and the report: nine titles with lines of text."""

    workflow: str
    version: int
    findings: tuple[Finding, ...]
    report: dict[str, tuple[str, ...]]


def review(
    workflow: Workflow, paths: Sequence[Trajectory] = (), suite: Suite | None = None, reports: Sequence[Evaluation] = ()
) -> Review:
    """Look at a valid workflow, at the paths of its runs, at its scenarios, and at the saved `reports` of suites, the
    newest first. Raises InvalidWorkflow."""
    workflow.graph  # noqa: B018 - raises if it cannot be run
    return Review(workflow.name, workflow.version, tuple(_findings(workflow, suite)), _report(workflow, paths, suite, reports))


# --- The sixteen questions ----------------------------------------------------------------------------------------------


def _findings(workflow: Workflow, suite: Suite | None) -> Iterator[Finding]:
    graph, limits, tools = workflow.graph, workflow.limits, list(_tools(workflow))
    asking = _asking(workflow)

    def finding(question: str, is_so: bool, because: str) -> Finding:
        return Finding(question, "yes" if is_so else "no", because)

    models = [each for each in (workflow.input_model, workflow.state_model) if each is not None]
    yield finding(
        "Is state explicit and typed?",
        bool(models),
        f"typed by {', '.join(each.__name__ for each in models)}" if models else "give Workflow(input=..., state=...) models",
    )
    yield Finding(
        "Are nodes named and separately testable?", "always", f"{len(graph.nodes)} named nodes; run_node calls one alone"
    )
    yield Finding("Are transitions explicit?", "always", f"{len(graph.definition.edges)} declared edges, and no other way")
    free = [
        name for name, made in workflow.definitions.items() if made.kind == "llm_node" and made.settings.get("output") is None
    ]
    yield finding(
        "Are model decisions schema-validated?",
        not free,
        "every model answers in a shape" if not free else f"text without a shape comes from {_join_names(free)}: give output=",
    )
    dangerous = [words for words in workflow.warnings() if "cannot be taken back" in words]
    yield finding(
        "Are high-risk actions approval-gated?",
        not dangerous,
        "no tool acts for good without an approval" if not dangerous else "; ".join(dangerous),
    )
    unbounded = asking and limits.cost_nanousd is None
    yield finding(
        "Are max steps and budgets enforced?",
        not unbounded,
        f"max_steps={limits.max_steps}"
        + (
            "; models are asked without a limit on money: set cost_limit_usd"
            if unbounded
            else f", ${usd(limits.cost_nanousd)}"
            if limits.cost_nanousd is not None
            else ", and no model is asked"
        ),
    )
    yield Finding(
        "Are tool calls idempotent?",
        "always",
        "each call has a key, and an effect that is done is never done again" + (f": {_policies(tools)}" if tools else ""),
    )
    most = max((node.retry.max_attempts for node in graph.nodes.values()), default=1)
    yield Finding("Are retries bounded?", "always", f"{most} attempts of a node at most, loops by their max_visits")
    yield Finding("Are interrupts represented as state?", "always", "a step that waits is an event, and holds nothing")
    yield Finding("Can a run resume after crash?", "always", "each outcome is recorded before the next step goes on")
    yield Finding("Is every node traced?", "always", "holdfast runs show RUN --trace")
    secrets = sorted({name for each in tools for name in each.secrets})
    yield Finding(
        "Are sensitive fields redacted?",
        "always",
        f"secrets are replaced wherever they would be stored{f': {_join_names(secrets)}' if secrets else ''}; other data stands"
        " in histories as it is given",
    )
    yield finding(
        "Are trajectory evals defined?",
        suite is not None,
        "write scenarios for `holdfast eval`, and name the file with --evals"
        if suite is None
        else f"{len(suite.scenarios)} scenarios, of which {suite.min_passed:.0%} must pass",
    )
    yield Finding(
        "Is failure state user-visible or operator-visible?",
        "always",
        "holdfast runs show, gates list" + (", dead-letters list" if workflow.on_exhausted == "dead_letter" else ""),
    )
    lasting = [each.name for each in tools if each.policy in _CHANGING and each.compensation is None]
    yield finding(
        "Can the workflow be cancelled safely?",
        not lasting,
        "what was done is undone, in the other order"
        if not lasting
        else f"nothing undoes what {_join_names(lasting)} did: give compensation=, or know that it stays",
    )
    yield Finding("Can external side effects be audited?", "always", "holdfast effects list, with who approved each")


# --- The nine parts -----------------------------------------------------------------------------------------------------


def _report(
    workflow: Workflow, paths: Sequence[Trajectory], suite: Suite | None, reports: Sequence[Evaluation]
) -> dict[str, tuple[str, ...]]:
    definition = workflow.graph.definition
    parts: dict[str, Iterable[str]] = {
        "State schema": _state(workflow),
        "Node list": (_node(workflow, name) for name in workflow.graph.order),
        "Transition table": (_transition(edge) for edge in definition.edges),
        "Approval policy": _approvals(workflow),
        "Retry policy": (
            f"{node.name}: {node.retry.max_attempts} attempts, {node.retry.initial_s:g} s before the second"
            for node in definition.nodes
        ),
        "Checkpoint strategy": (
            "after each operation of a step, in the commit of its outcome",
            f"a snapshot every {definition.snapshot_every} events, which only spares reading",
        ),
        "Trace schema": (", ".join(get_args(TraceType)), f"fields: {', '.join(TraceRow.__annotations__)}"),
        "Failure scenarios": _failures(workflow, paths),
        "Trajectory eval results": (*_results(workflow, reports), *_seen(paths, suite)),
    }
    return {title: tuple(lines) or ("none",) for title, lines in parts.items()}


def _state(workflow: Workflow) -> Iterator[str]:
    for what, model in (("input", workflow.input_model), ("state", workflow.state_model)):
        if model is not None:
            for name, field in model.model_fields.items():
                strategy = workflow.state_strategies.get(name, "") if what == "state" else ""
                kind = getattr(field.annotation, "__name__", str(field.annotation))
                yield f"{what}.{name}: {kind}" + (f", patches meet by {strategy}" if strategy else "")


def _node(workflow: Workflow, name: str) -> str:
    made = workflow.nodes[name]
    model = workflow.definitions[name].settings.get("model")
    asked = f", asks {getattr(model, 'name', model)}" if model else ""
    return f"{name}: {made.kind}{asked}" + (f", calls {_join_names(made.tools)}" if made.tools else "")


def _transition(edge: Any) -> str:
    when = [
        f"when {edge.when}" if edge.when else "",
        f"if {edge.guard}" if edge.guard else "",
        "on failure" if edge.on == "error" else "",
        "not waited for" if edge.optional else "",
        f"{edge.max_visits} visits at most" if edge.max_visits is not None else "",
    ]
    return f"{edge.source} -> {edge.target}" + (f" ({', '.join(filter(None, when))})" if any(when) else "")


def _approvals(workflow: Workflow) -> Iterator[str]:
    for name, node in workflow.graph.nodes.items():
        if node.kind == "human_gate":
            reviewers = node.options.get("reviewers") or ()
            yield f"{name} asks {_join_names(reviewers) if reviewers else 'the persons its function names, or any'}" + (
                (", with four eyes" if node.options.get("four_eyes") else "")
                + (f", {quorum} persons" if (quorum := node.options.get("quorum", 1)) > 1 else "")
            )
    for each in _tools(workflow):
        if each.approval:
            yield f"{each.name} is asked about before it is called" + (", irreversible" if each.irreversible else "")
    for rule in workflow.tool_rules:
        when = ", ".join(f"{each.argument} {each.operator} {each.value}" for each in rule.when)
        asks = [*rule.reviewers, *(["with four eyes"] if rule.four_eyes else [])]
        asks += [f"{rule.quorum} persons"] if rule.quorum > 1 else []
        asks += [f"{rule.risk_level} risk"] if rule.risk_level is not None else []
        yield (
            f"rule: {rule.action} {rule.tool}" + (f" where {when}" if when else "") + (f" ({', '.join(asks)})" if asks else "")
        )


def _failures(workflow: Workflow, paths: Sequence[Trajectory]) -> Iterator[str]:
    definition = workflow.graph.definition
    for edge in definition.edges:
        if edge.on == "error":
            yield f"{edge.source} fails: {edge.target} goes on"
    yield f"a step has failed for good: {_EXHAUSTED[definition.on_exhausted]}"
    yield f"a limit is reached: {_AT_LIMIT[definition.on_limit]}"
    yield "the process dies: another goes on, and asks a person about an effect that cannot be looked up"
    ends = Counter(path.status for path in paths if path.status != "completed")
    yield from (f"seen in {number} of {len(paths)} runs: {status}" for status, number in ends.most_common())


def _results(workflow: Workflow, reports: Sequence[Evaluation]) -> Iterator[str]:
    """Yield the newest result of each suite that was kept."""
    for each in newest_of_suites(reports)[:_MAX_SUITES]:
        code = "" if each.graph_hash == workflow.graph.hash else ", other code than this"
        yield (
            f"{each.suite}: {each.passed} of {each.scenarios} passed, {'enough' if each.met else 'too few'} for"
            f" {each.min_passed:.0%} (version {each.version}{code}, saved {iso(each.at_ms)} as {each.id})"
        )


def _seen(paths: Sequence[Trajectory], suite: Suite | None) -> Iterator[str]:
    if suite is not None:
        yield f"{len(suite.scenarios)} scenarios; `holdfast eval` plays them"
    if not paths:
        return
    done = sum(path.status == "completed" for path in paths)
    yield f"{done} of the latest {len(paths)} runs completed, after {sum(path.retries for path in paths)} retries in all"
    middle = {
        "model calls": median(path.model_calls for path in paths),
        "tool calls": median(path.tool_calls for path in paths),
        "tokens": median(path.tokens for path in paths),
    }
    cost_nanousd = int(median(path.cost_nanousd for path in paths))
    yield f"median of a run: {', '.join(f'{number:g} {what}' for what, number in middle.items())}, ${usd(cost_nanousd)}"
    for way, number in Counter(path.nodes for path in paths).most_common(_MAX_WAYS):
        yield f"{number} went {' -> '.join(way)}"


def _tools(workflow: Workflow) -> Iterator[Tool]:
    seen = {each.name: each for made in workflow.nodes.values() for each in made.tools.values()}
    yield from seen.values()


def _asking(workflow: Workflow) -> bool:
    """Return True if a node declares that it asks a model. Calls that code makes by itself are not seen."""
    return any(made.settings.get("model") for made in workflow.definitions.values())


def _policies(tools: Iterable[Tool]) -> str:
    return ", ".join(f"{each.name} is {each.policy}" for each in tools)


def _join_names(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))
