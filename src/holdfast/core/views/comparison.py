"""The differences between two paths: the nodes, calls and amounts of one run that another lacks. Never here: which of them is
better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

import msgspec

from holdfast.core.views.operations import OperationRow
from holdfast.core.views.trajectory import Trajectory

TOTALS: Final = ("retries", "holds", "model_calls", "tool_calls", "tokens", "cost_nanousd", "duration_ms")


class Part(msgspec.Struct, frozen=True):
    """A node that `both` runs came to there, or only the `first` or the `second`."""

    node: str
    of: Literal["both", "first", "second"]


class Pair(msgspec.Struct, frozen=True):
    """Operations of two runs that stand beside one another; None where only one of the runs has it."""

    first: OperationRow | None
    second: OperationRow | None


class Comparison(msgspec.Struct, frozen=True):
    """The differences between two runs.

    Args:
        first: Id of the first run.
        second: Id of the second run.
        nodes: The visited nodes, each with the runs that visited it: `both`, `first` or `second`.
        status: The two statuses if they differ, else None.
        decisions: Different decisions by gate: those of the first and of the second run.
        tools: By tool, the number of calls that the second run made more.
        totals: Totals that differ, such as tokens: of the first and of the second run.
    """

    first: str
    second: str
    nodes: tuple[Part, ...]
    status: tuple[str, str] | None
    decisions: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    tools: dict[str, int]
    totals: dict[str, tuple[int, int]]

    @property
    def same_way(self) -> bool:
        """True if both visited the same nodes in the same order, with the same decisions, tool calls and end."""
        return not (self.status or self.decisions or self.tools) and all(part.of == "both" for part in self.nodes)


def compare(first: Trajectory, second: Trajectory) -> Comparison:
    """Compare two paths, for example of a run and its fork.

    Args:
        first: The path of a run, from `engine.trajectory`.
        second: The other path.
    """
    said, other = _decisions(first), _decisions(second)
    more = _tools(second)
    more.subtract(_tools(first))
    return Comparison(
        first.run,
        second.run,
        tuple(_nodes(first, second)),
        (first.status, second.status) if first.status != second.status else None,
        {gate: (said.get(gate, ()), other.get(gate, ())) for gate in {**said, **other} if said.get(gate) != other.get(gate)},
        {tool: count for tool, count in more.items() if count},
        {
            name: (getattr(first, name), getattr(second, name))
            for name in TOTALS
            if getattr(first, name) != getattr(second, name)
        },
    )


def beside(first: Sequence[OperationRow], second: Sequence[OperationRow]) -> list[Pair]:
    """Return the operations of two runs beside one another: those of the same kind and name at the same place of their steps,
    in their order.

    Args:
        first: The operations of a run.
        second: Those of the other.
    """
    one, two = [[(each.step, each.path, each.kind, each.name) for each in rows] for rows in (first, second)]
    pairs: list[Pair] = []
    for how, begin, end, other_begin, other_end in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if how == "equal":
            pairs += [Pair(*each) for each in zip(first[begin:end], second[other_begin:other_end], strict=True)]
            continue
        pairs += [Pair(each, None) for each in first[begin:end]]
        pairs += [Pair(None, each) for each in second[other_begin:other_end]]
    return pairs


def _nodes(first: Trajectory, second: Trajectory) -> list[Part]:
    parts: list[Part] = []
    matcher = SequenceMatcher(None, first.nodes, second.nodes, autojunk=False)
    for how, begin, end, other_begin, other_end in matcher.get_opcodes():
        if how == "equal":
            parts += [Part(node, "both") for node in first.nodes[begin:end]]
            continue
        parts += [Part(node, "first") for node in first.nodes[begin:end]]
        parts += [Part(node, "second") for node in second.nodes[other_begin:other_end]]
    return parts


def _decisions(path: Trajectory) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in path.approvals:
        if each.decision is not None:
            found[each.node] = (*found.get(each.node, ()), each.decision)
    return found


def _tools(path: Trajectory) -> Counter[str]:
    return Counter(use.tool for use in path.tools if use.how == "called")
