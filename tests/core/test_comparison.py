"""Two paths beside each other."""

from __future__ import annotations

import msgspec

from holdfast.core.views.comparison import Part, beside
from holdfast.core.views.operations import operations
from holdfast.core.views.trajectory import Approval, ToolUse, Visit, trajectory
from holdfast.evaluation import compare
from tests.golden.record import HERE, read

PATHS = [trajectory(read(file.stem).events) for file in sorted(HERE.glob("*.jsonl"))]


def test_a_path_is_no_different_from_itself() -> None:
    for path in PATHS:
        found = compare(path, path)
        assert (found.same_way, found.totals, [part.node for part in found.nodes]) == (True, {}, [*path.nodes])


def test_each_path_can_be_read_from_a_comparison_with_any_other() -> None:
    for first in PATHS:
        for second in PATHS:
            found = compare(first, second)
            assert tuple(part.node for part in found.nodes if part.of != "second") == first.nodes
            assert tuple(part.node for part in found.nodes if part.of != "first") == second.nodes


def test_what_is_different_is_shown_of_both() -> None:
    first = msgspec.structs.replace(
        PATHS[0],
        status="completed",
        visits=(Visit("draft", 2), Visit("send", 5)),
        tools=(ToolUse("send", "post", "a", 6),),
        approvals=(Approval("g", "approval", "approval", 3, "approve", 4), Approval("h", "approval", "approval", 7)),
        tokens=7,
        cost_nanousd=1,
    )
    second = msgspec.structs.replace(
        first,
        status="failed",
        visits=(Visit("draft", 2), Visit("validate", 5)),
        tools=(),
        cost_nanousd=3,
        approvals=(Approval("g", "approval", "approval", 3, "reject", 4),),
    )
    found = compare(first, second)
    assert found.nodes == (Part("draft", "both"), Part("send", "first"), Part("validate", "second"))
    assert found.status == ("completed", "failed")
    assert found.decisions == {"approval": (("approve",), ("reject",))}
    assert (found.tools, found.totals, found.same_way) == ({"post": -1}, {"cost_nanousd": (1, 3)}, False)


def test_operations_stand_beside_those_of_the_same_place() -> None:
    for file in sorted(HERE.glob("*.jsonl"))[:8]:
        rows = operations(read(file.stem).events)
        assert [(pair.first, pair.second) for pair in beside(rows, rows)] == [(row, row) for row in rows]
        without = rows[1:]
        pairs = beside(rows, without)
        assert [pair.first for pair in pairs if pair.first is not None] == rows
        assert [pair.second for pair in pairs if pair.second is not None] == without
        assert len(pairs) == len(rows)
