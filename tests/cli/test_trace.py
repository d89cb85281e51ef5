"""`holdfast runs show --trace`: what happened at the nodes of a run, and nothing of what its data says."""

from __future__ import annotations

import json

from tests.cli.conftest import Shell
from tests.cli.test_runs import started


def test_a_trace_has_a_line_for_each_thing_that_happened_at_a_node(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}')
    lines = [json.loads(line) for line in shell("runs", "show", run, "--trace", "--json").out.splitlines()]
    assert [(line["node_name"], line["event_type"]) for line in lines] == [
        ("draft", "node_started"),
        ("draft", "node_completed"),
        ("approval", "transition"),
        ("approval", "node_started"),
        ("approval", "approval_requested"),
        ("approval", "interrupt"),
    ]
    assert {
        "trace_id",
        "run_id",
        "step_number",
        "state_summary",
        "input_summary",
        "output_summary",
        "latency_ms",
        "token_usage",
        "cost_estimate",
    } <= lines[0].keys()
    assert "Ada" not in shell("runs", "show", run, "--trace", "--json").out
    told = shell("runs", "show", run, "--trace").out
    assert told.splitlines()[0].split() == ["STEP", "TYPE", "EVENT", "TOOK", "TOKENS", "COST"]
    assert len(told.splitlines()) == 7


def test_a_trace_of_many_runs_is_refused_in_words(shell: Shell) -> None:
    said = shell("runs", "show", "0", "--trace", "--tree")
    assert said.code == 2
    assert "Pass only one of" in said.err


def test_two_runs_are_compared_by_their_paths(shell: Shell) -> None:
    done, open_ = (started(shell, "letter", "-i", f'{{"customer": "{name}"}}') for name in ("Ada", "Bob"))
    gate = shell("gates", "list", "--run", done, "--json").data[0]["gate_id"]
    assert shell("gates", "retry", gate, "--as", "ann", "--role", "ann").code == 0
    shell("worker", "flow:letter", "--until-idle")
    said = shell("runs", "diff", open_, done).out
    assert said.startswith("  draft\n  approval\n+ draft\n+ approval\n\napproval")
    assert "no answer → retry" in said
    found = shell("runs", "diff", done, open_, "--json").data
    assert [part["of"] for part in found["nodes"]].count("first") == 2
    assert found["same_way"] is False
    assert shell("runs", "diff", done, "none").code == 3
