"""The five example checks of "Agent Workflow Orchestration", section 29, as assertions. Never here: bounds (expectation)."""

from __future__ import annotations

from holdfast.core.views.trajectory import Trajectory, Visit


def assert_went_to_approval(path: Trajectory, gate: str) -> None:
    """Raise AssertionError unless a person was asked at a gate.

    Args:
        path: The path of a run, from `engine.trajectory`.
        gate: Name of the gate's node.
    """
    if not any(each.node == gate for each in path.approvals):
        raise AssertionError(f"No person was asked at {gate!r}. {_went(path)}")


def assert_stopped_before(path: Trajectory, node: str) -> None:
    """Raise AssertionError if the run came to a node.

    Args:
        path: The path of a run, from `engine.trajectory`.
        node: Name of the node.
    """
    if node in path.nodes:
        raise AssertionError(f"The run came to {node!r}. {_went(path)}")


def assert_failed_at(path: Trajectory, node: str) -> None:
    """Raise AssertionError unless a node failed and no later node succeeded. Nodes at the end of an error edge may follow, if
    they fail as well.

    Args:
        path: The path of a run, from `engine.trajectory`.
        node: Name of the node.
    """
    nodes = [each.node for each in path.visits]
    after = path.visits[nodes.index(node) :] if node in nodes else ()
    if not after or not all(_is_refused(each) for each in after):
        raise AssertionError(f"The run did not fail at {node!r}. {_went(path)}")


def assert_came_back_to(path: Trajectory, node: str) -> None:
    """Raise AssertionError unless the run came to a node again.

    Args:
        path: The path of a run, from `engine.trajectory`.
        node: Name of the node.
    """
    if path.nodes.count(node) < 2:
        raise AssertionError(f"The run never came back to {node!r}. {_went(path)}")


def assert_caught_by(path: Trajectory, check: str) -> None:
    """Raise AssertionError unless a check rejected something.

    Args:
        path: The path of a run, from `engine.trajectory`.
        check: Name of the check's node.
    """
    if not any(each.node == check and _is_refused(each) for each in path.visits):
        raise AssertionError(f"{check!r} caught nothing. {_went(path)}")


def _is_refused(visit: Visit) -> bool:
    return visit.became == "failed" or bool({"fail", "retry"} & set(visit.decisions))


def _went(path: Trajectory) -> str:
    return f"Run {path.run} went: {' → '.join(path.nodes) or 'nowhere'}; it is {path.status}."
