"""The expectations of a path, and the evaluation of a path against them. Never here: running anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal

import msgspec

from holdfast.core.nouns.evaluations import ScenarioResult
from holdfast.core.values.money import nanousd, usd
from holdfast.core.views.trajectory import APPROVED, Trajectory
from holdfast.errors import InvalidInput

_ARROW: Final = "->"


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The requirements for a path. A field that is not set is not checked, except `final_state` and unnecessary calls.

    Args:
        nodes: Nodes that the run must visit.
        match: `in_order`: other nodes may come between; `exact`: these nodes only; `any_order`: the order is free.
        final_state: Status of the run at the end.
        unsafe: Forbidden transitions, like `draft -> send`.
        approvals: For a node or tool, the gate that must approve it. Each visit needs its own approval.
        tools: Permitted tools. Any other call, and a repeated call, is unnecessary.
        supported_by: The check whose latest visit must have passed the answer.
        max_unnecessary_tool_calls: Maximum number of unnecessary tool calls.
        max_retries: Maximum number of retries.
        max_model_calls: Maximum number of model calls.
        max_tool_calls: Maximum number of tool calls.
        max_tokens: Maximum number of tokens.
        max_cost_usd: Maximum cost in dollars.
        max_holds: Maximum number of holds; a hold reserves money for a call.
        max_duration_s: Maximum time from the start to the end, in seconds.
    """

    nodes: tuple[str, ...] = ()
    match: Literal["exact", "in_order", "any_order"] = "in_order"
    final_state: str = "completed"
    unsafe: tuple[str, ...] = ()
    approvals: dict[str, str] = {}
    tools: tuple[str, ...] | None = None
    supported_by: str | None = None
    max_unnecessary_tool_calls: int = 0
    max_retries: int | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd: str | int | float | None = None
    max_holds: int | None = None
    max_duration_s: float | None = None

    def __post_init__(self) -> None:
        """Raises InvalidInput."""
        for way in self.unsafe:
            if not all(_ends(way)) or way.count(_ARROW) != 1:
                raise InvalidInput(f"{way!r} is not a way from one node to another; write it like 'draft -> send'.")
        if self.max_cost_usd is not None:
            try:
                nanousd(self.max_cost_usd)
            except ValueError as problem:
                raise InvalidInput(f"max_cost_usd: {problem}") from None


class WorkflowTrajectoryEval(msgspec.Struct, frozen=True, kw_only=True):
    """The result of evaluating a path.

    Args:
        run_id: Id of the run.
        scenario_id: Id of the scenario, or the name of the workflow.
        reached_expected_final_state: True if the run has the expected status.
        expected_nodes_visited: The expected nodes.
        actual_nodes_visited: The nodes that the run visited, in order.
        unsafe_transition_count: Number of forbidden transitions.
        missing_approval: True if a required approval is missing.
        unnecessary_tool_calls: Number of calls of other tools, and of repeated calls.
        retry_count: Number of retries.
        final_answer_supported: True if the check passed the answer; None if no check was expected.
        misses: A sentence for each requirement that the path misses.
        replayed: True if the run was replayed.
    """

    run_id: str
    scenario_id: str
    reached_expected_final_state: bool
    expected_nodes_visited: tuple[str, ...]
    actual_nodes_visited: tuple[str, ...]
    unsafe_transition_count: int
    missing_approval: bool
    unnecessary_tool_calls: int
    retry_count: int
    final_answer_supported: bool | None
    misses: tuple[str, ...] = ()
    cost_nanousd: int = 0
    """Cost of its calls; of a `replayed` run, the recorded cost."""
    replayed: bool = False

    @property
    def judged(self) -> ScenarioResult:
        """The part that is stored (`engine.keep_evaluation`)."""
        return ScenarioResult(self.scenario_id, self.run_id, self.misses, self.cost_nanousd, self.replayed)

    @property
    def passed(self) -> bool:
        """True if the path misses nothing."""
        return not self.misses

    @property
    def notes(self) -> str | None:
        """All misses as one text; None if there are none."""
        return " ".join(self.misses) or None

    def require(self) -> None:
        """Raise AssertionError, with a line for each miss."""
        if self.misses:
            raise AssertionError("\n".join((f"{self.scenario_id} (run {self.run_id}):", *self.misses)))


def evaluate(path: Trajectory, expectation: Expectation, scenario_id: str = "") -> WorkflowTrajectoryEval:
    """Compare a path with the requirements for it.

    Args:
        path: The path of a run, from `engine.trajectory`.
        expectation: The requirements.
        scenario_id: Id of the scenario in the result; by default the name of the workflow.
    """
    unsafe, unapproved = list(_unsafe(path, expectation)), list(_unapproved(path, expectation))
    needless, supported = list(_needless(path, expectation)), _supported(path, expectation)
    misses = [*_misplaced(path, expectation), *unsafe, *unapproved, *_exceeded(path, expectation)]
    if path.status != expectation.final_state:
        misses.insert(0, f"The run is {path.status}; expected was {expectation.final_state}.")
    if len(needless) > expectation.max_unnecessary_tool_calls:
        misses += needless
    if supported is False:
        misses.append(f"The check {expectation.supported_by!r} did not let the answer pass.")
    return WorkflowTrajectoryEval(
        run_id=path.run,
        scenario_id=scenario_id or path.workflow,
        reached_expected_final_state=path.status == expectation.final_state,
        expected_nodes_visited=expectation.nodes,
        actual_nodes_visited=path.nodes,
        unsafe_transition_count=len(unsafe),
        missing_approval=bool(unapproved),
        unnecessary_tool_calls=len(needless),
        retry_count=path.retries,
        final_answer_supported=supported,
        misses=tuple(misses),
        cost_nanousd=path.cost_nanousd,
    )


def assert_trajectory(path: Trajectory, expectation: Expectation, scenario_id: str = "") -> None:
    """Raise AssertionError, with a line for each requirement that a path misses.

    Args:
        path: The path of a run, from `engine.trajectory`.
        expectation: The requirements.
        scenario_id: Id of the scenario in the message; by default the name of the workflow.
    """
    evaluate(path, expectation, scenario_id).require()


def _misplaced(path: Trajectory, expectation: Expectation) -> Iterator[str]:
    if not expectation.nodes and expectation.match != "exact":
        return
    ahead = iter(path.nodes)
    met = {
        "exact": path.nodes == expectation.nodes,
        "in_order": all(node in ahead for node in expectation.nodes),
        "any_order": Counter(expectation.nodes) <= Counter(path.nodes),
    }[expectation.match]
    if not met:
        yield f"It went {_way(path.nodes)}; expected was {_way(expectation.nodes)} ({expectation.match})."


def _unsafe(path: Trajectory, expectation: Expectation) -> Iterator[str]:
    never = {_ends(way) for way in expectation.unsafe}
    for each in path.transitions:
        if (each.source, each.target) in never:
            yield f"It went from {each.source!r} to {each.target!r}, which is unsafe (event {each.seq})."


def _unapproved(path: Trajectory, expectation: Expectation) -> Iterator[str]:
    """Each visit of a node that needs an approval, and each call of a tool that does, without one."""
    for name, gate in expectation.approvals.items():
        decided = [(each.decided_seq, each.decision) for each in path.approvals if each.node == gate and each.decided_seq]
        visits = [visit.seq for visit in path.visits if visit.node == name]
        since = [*pairwise([0, *visits]), *((0, use.seq) for use in path.tools if use.tool == name and use.how == "called")]
        for after, seq in since:
            latest = max((each for each in decided if after < each[0] < seq), default=(0, None))
            if latest[1] not in APPROVED:
                yield f"{name!r} went on without an approval at {gate!r} (event {seq})."


def _needless(path: Trajectory, expectation: Expectation) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for use in path.tools:
        if use.how == "reused":
            continue
        if expectation.tools is not None and use.tool not in expectation.tools:
            yield f"{use.node!r} asked for the tool {use.tool!r}, which was not needed (event {use.seq})."
        elif (use.tool, use.args_hash) in seen:
            yield f"{use.node!r} called {use.tool!r} again with the same arguments (event {use.seq})."
        seen.add((use.tool, use.args_hash))


def _supported(path: Trajectory, expectation: Expectation) -> bool | None:
    if expectation.supported_by is None:
        return None
    asked = [visit for visit in path.visits if visit.node == expectation.supported_by]
    return bool(asked) and asked[-1].became == "completed" and not {"fail", "retry"} & set(asked[-1].decisions)


def _exceeded(path: Trajectory, expectation: Expectation) -> Iterator[str]:
    most_cost = None if expectation.max_cost_usd is None else nanousd(expectation.max_cost_usd)
    for what, used, most in (
        ("retries", path.retries, expectation.max_retries),
        ("calls of models", path.model_calls, expectation.max_model_calls),
        ("calls of tools", path.tool_calls, expectation.max_tool_calls),
        ("tokens", path.tokens, expectation.max_tokens),
        ("holds", path.holds, expectation.max_holds),
        ("milliseconds", path.duration_ms, None if expectation.max_duration_s is None else expectation.max_duration_s * 1000),
    ):
        if most is not None and used > most:
            yield f"It took {used} {what}; at most {most:g} were expected."
    if most_cost is not None and path.cost_nanousd > most_cost:
        yield f"It cost ${usd(path.cost_nanousd)}; at most ${usd(most_cost)} was expected."


def _ends(way: str) -> tuple[str, str]:
    source, _, target = way.partition(_ARROW)
    return source.strip(), target.strip()


def _way(nodes: tuple[str, ...]) -> str:
    return " → ".join(nodes) or "nowhere"
