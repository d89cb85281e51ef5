"""Two runs beside one another. Never here: where they part (core.views.comparison)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from holdfast.core.values.money import usd
from holdfast.service.doc import doc
from holdfast.service.view.operation import OperationRow, of_operation
from holdfast.service.view.plain import Dollars

if TYPE_CHECKING:
    from holdfast.core.views.comparison import Comparison, Pair


class ComparedNodeRow(TypedDict):
    """A node that one of two runs visited, or both."""

    node: Annotated[str, doc("Name of the node.")]
    of: Annotated[Literal["both", "first", "second"], doc("The runs that visited it there.")]


class ComparedOperationRow(TypedDict):
    """Operations of two runs at the same place."""

    first: Annotated[OperationRow | None, doc("Operation of the first run; null if it has none there.")]
    second: Annotated[OperationRow | None, doc("Operation of the second run; null if it has none there.")]


class ComparedDecisionRow(TypedDict):
    """A gate that was decided differently."""

    node: Annotated[str, doc("Node that asked.")]
    first: Annotated[list[str], doc("Decisions in the first run.")]
    second: Annotated[list[str], doc("Decisions in the second run.")]


class ComparedTotalRow(TypedDict):
    """A total that differs."""

    total: Annotated[str, doc("Total, like `tokens`, `model_calls` or `duration_ms`.")]
    first: Annotated[int, doc("Value of the first run.")]
    second: Annotated[int, doc("Value of the second run.")]


class ComparisonRow(TypedDict):
    """The differences between two runs."""

    run_id: Annotated[str, doc("The first run.")]
    other_id: Annotated[str, doc("The second run.")]
    same_way: Annotated[bool, doc("True if both took the same path, with the same decisions, tool calls and end.")]
    statuses: Annotated[list[str], doc("Status of the first and of the second run.")]
    costs_usd: Annotated[list[Dollars], doc("Cost of the first and of the second run, in dollars.")]
    nodes: Annotated[list[ComparedNodeRow], doc("Visited nodes in their order.")]
    operations: Annotated[list[ComparedOperationRow], doc("Operations in their order, beside one another.")]
    decisions: Annotated[list[ComparedDecisionRow], doc("Gates that were decided differently.")]
    totals: Annotated[list[ComparedTotalRow], doc("Totals that differ, without the cost.")]


def of_comparison(
    comparison: Comparison, statuses: Sequence[str], costs: Sequence[int], operations: Sequence[Pair]
) -> ComparisonRow:
    """Return the row of two runs, with their statuses and what they have cost in nano-dollars."""
    return {
        "run_id": comparison.first,
        "other_id": comparison.second,
        "same_way": comparison.same_way,
        "statuses": [*statuses],
        "costs_usd": [usd(each) for each in costs],
        "nodes": [{"node": part.node, "of": part.of} for part in comparison.nodes],
        "operations": [
            {
                "first": None if each.first is None else of_operation(each.first),
                "second": None if each.second is None else of_operation(each.second),
            }
            for each in operations
        ],
        "decisions": [
            {"node": node, "first": [*one], "second": [*other]} for node, (one, other) in comparison.decisions.items()
        ],
        "totals": [
            {"total": name, "first": one, "second": other}
            for name, (one, other) in comparison.totals.items()
            if name != "cost_nanousd"
        ],
    }
