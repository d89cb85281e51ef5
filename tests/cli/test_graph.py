"""`holdfast graph` and `holdfast validate`."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_every_problem_of_a_workflow_is_reported_at_once(shell: Shell) -> None:
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
        "workflow": "greet",
        "version": 3,
        "valid": True,
        "problems": [],
        "warnings": [],
    }


def test_a_broken_workflow_is_refused_before_anything_is_opened(shell: Shell) -> None:
    assert shell("run", "flow:invalid").code == 2
    assert shell("runs", "list").code == 3


def test_what_should_be_thought_about_is_said_and_strict_refuses_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (home / "mine.py").write_text(
        "from holdfast import Workflow, llm_node, task, tool\n"
        "wf = Workflow('mine')\n"
        "wf.node('ask')(llm_node(model='claude-of-tomorrow')(lambda state: 'hi'))\n"
        "wf.node('end')(task(lambda state: 1))\n"
        "wf.edge('ask', 'end')\n"
        "@tool(effect='read')\n"
        "async def look(x: int) -> int:\n"
        "    return x\n"
    )
    said = shell("validate", "mine.py")
    assert said.code == 0
    for words in (
        "model 'claude-of-tomorrow' of 'ask': its price is unknown",
        "ANTHROPIC_API_KEY is not set here",
        "tool 'look': no node lists it",
    ):
        assert words in said.out, said.out
    assert shell("validate", "mine.py", "--strict").code == 2
    found = shell("validate", "mine.py", "--strict", "--json")
    assert (found.code, found.data["valid"], len(found.data["warnings"])) == (2, True, 3)
    assert shell("validate", "flow:greet", "--strict").code in (0, 2)


def test_the_graph_of_a_run_shows_its_nodes_and_of_a_flow_its_operations(shell: Shell) -> None:
    run = shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--json").data["run_id"]
    row = shell("runs", "graph", run, "--json").data
    assert row["operations"] == []
    told = shell("runs", "graph", run).out
    for node in row["nodes"]:
        assert node["node"] in told
    flow = shell("run", "flow:scales", "-i", '["a", "b"]', "--json").data["run_id"]
    (weighed,) = shell("runs", "graph", flow, "--json").data["operations"]
    assert (weighed["kind"], weighed["after"]) == ("map", [])
    assert weighed["id"] in shell("runs", "graph", flow).out
