"""`holdfast runs show --trace`: what happened at the nodes of a run, and nothing of what its data says."""

from __future__ import annotations

import json

from tests.cli.conftest import Shell
from tests.cli.test_runs import started


def test_a_trace_has_a_line_for_each_thing_that_happened_at_a_node(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}')
    lines = [json.loads(line) for line in shell("runs", "show", run, "--trace", "--json").out.splitlines()]
    assert [(line["node_name"], line["event_type"]) for line in lines] == [
        ("draft", "node_started"), ("draft", "node_completed"), ("approval", "transition"), ("approval", "node_started"),
        ("approval", "approval_requested"), ("approval", "interrupt"),
    ]  # fmt: skip
    assert {"trace_id", "run_id", "step_number", "state_summary", "input_summary", "output_summary", "latency_ms",
            "token_usage", "cost_estimate"} <= lines[0].keys()  # fmt: skip
    assert "Ada" not in shell("runs", "show", run, "--trace", "--json").out
    told = shell("runs", "show", run, "--trace").out
    assert told.splitlines()[0].split() == ["NODE", "TYPE", "EVENT", "TOOK", "TOKENS", "COST"]
    assert len(told.splitlines()) == 7


def test_a_trace_of_many_runs_is_refused_in_words(shell: Shell) -> None:
    said = shell("runs", "show", "0", "--trace", "--tree")
    assert said.code == 2
    assert "say one of them" in said.err
