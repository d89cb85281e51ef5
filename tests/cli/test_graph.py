"""`holdfast graph` and `holdfast validate`."""

from __future__ import annotations

from tests.cli.conftest import Shell

DRAWN = """\
flowchart TD
    n1["start"]
    n2(["think"])
    n3[["act"]]
    n4{{"ask"}}
    n5{"choose"}
    n6[/"verify"/]
    n7["sorry"]
    n1 --> n2
    n2 -->|"if in_stock"| n3
    n3 --> n4
    n3 -.->|"error"| n7
    n4 -->|"approve"| n5
    n5 -->|"left"| n6
    n5 -.->|"right, optional"| n7
    n6 ==>|"retry, loop ×3"| n2
"""


def test_a_workflow_is_drawn_with_a_shape_for_each_kind(shell: Shell) -> None:
    assert shell("graph", "flow:every_kind").out == DRAWN


def test_a_graph_is_data_too(shell: Shell) -> None:
    found = shell("graph", "flow:every_kind", "--json").data
    assert [node["kind"] for node in found["nodes"]][:3] == ["task", "llm_node", "tool_node"]
    assert len(found["hash"]) == 64


def test_every_problem_of_a_workflow_is_told_at_once(shell: Shell) -> None:
    said = shell("validate", "flow:invalid")
    assert said.code == 2
    assert "no node 'nowhere'" in said.out
    assert "no node 'elsewhere'" in said.out
    found = shell("validate", "flow:invalid", "--json")
    assert found.code == 2
    assert not found.data["valid"]
    assert len(found.data["problems"]) == 2


def test_a_valid_workflow_may_have_warnings(shell: Shell) -> None:
    said = shell("validate", "flow:payment")
    assert said.code == 0
    assert said.out.startswith("warning: node 'pay': tool 'pay'")
    assert shell("validate", "flow:greet", "--json").data == {
        "workflow": "greet", "version": 3, "valid": True, "problems": [], "warnings": [],
    }  # fmt: skip


def test_a_broken_workflow_is_refused_before_anything_is_opened(shell: Shell) -> None:
    assert shell("run", "flow:invalid").code == 2
    assert shell("runs", "list").code == 3
