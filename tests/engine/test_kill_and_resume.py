"""kill -9 at every point of a call, and what the world saw: a real process, a real store, a real journal outside."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.forks import Fork


def victim(store: str, journal: Path, workflow: str, point: str = "", **environment: str) -> dict | None:
    """What the victim said at its end; None if it was killed. One that is to be killed has a short lease, for whoever
    comes after it."""
    if point:
        environment.setdefault("HOLDFAST_LEASE_S", "3")
    done = Fork("tests.engine.victim", store, journal, workflow, point, environment=os.environ | environment)
    said, problem = done.communicate(timeout=60)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, problem
    return json.loads(said)


def world(journal: Path) -> list[str]:
    return [json.loads(line)["what"] for line in journal.read_text().splitlines()] if journal.exists() else []


@pytest.mark.parametrize("effect", ["read", "idempotent", "verify"])
def test_a_call_that_may_have_left_is_repeated_only_as_its_policy_allows(store: str, tmp_path: Path, effect: str) -> None:
    journal = tmp_path / "world.jsonl"
    assert victim(store, journal, f"pay-{effect}", "between send and outcome") is None
    after = victim(store, journal, f"pay-{effect}")
    assert after is not None
    assert (after["status"], after["output"]) == ("completed", 5)
    keys = {json.loads(line)["key"] for line in journal.read_text().splitlines() if "paid" in line}
    assert len(keys) == 1  # a repeat keeps its key
    assert world(journal).count("paid") == (1 if effect == "verify" else 2)
    assert world(journal).count("before") == 1


def test_verify_calls_again_when_its_lookup_finds_nothing(store: str, tmp_path: Path) -> None:
    journal = tmp_path / "world.jsonl"
    assert victim(store, journal, "pay-verify", "between intent and send") is None
    after = victim(store, journal, "pay-verify")
    assert after is not None
    assert after["status"] == "completed"
    assert world(journal).count("paid") == 1


@pytest.mark.parametrize("point", ["between intent and send", "between send and outcome"])
def test_a_once_effect_of_unknown_outcome_is_never_repeated_but_asked_about(store: str, tmp_path: Path, point: str) -> None:
    journal = tmp_path / "world.jsonl"
    assert victim(store, journal, "pay-once", point) is None
    after = victim(store, journal, "pay-once")
    assert after is not None
    assert after["status"] == "requires_attention"
    assert world(journal).count("paid") == (1 if point == "between send and outcome" else 0)


def test_a_completed_effect_is_not_repeated_when_the_next_step_dies(store: str, tmp_path: Path) -> None:
    journal = tmp_path / "world.jsonl"
    assert victim(store, journal, "pay-once", "in the next step") is None
    after = victim(store, journal, "pay-once")
    assert after is not None
    assert (after["status"], after["output"]) == ("completed", 5)
    assert world(journal) == ["before", "paid", "after", "after"]


def test_an_agent_loop_that_is_killed_after_its_third_turn_goes_on_with_the_fourth(store: str, tmp_path: Path) -> None:
    turns = [Rule(turn=n, tool_calls=(ToolCall("look", {"turn": n}),)) for n in range(1, 6)]
    with ModelServer(journal=tmp_path / "calls.jsonl", rules=(*turns, Rule(turn=6, text="done"))) as server:
        journal = tmp_path / "world.jsonl"
        assert victim(store, journal, "loop", "in turn 3", **server.environment) is None
        assert [call.turn for call in server.calls] == [1, 2, 3]
        after = victim(store, journal, "loop", **server.environment)
        assert after is not None
        assert (after["status"], after["output"]) == ("completed", "done")
        assert [call.turn for call in server.calls] == [1, 2, 3, 4, 5, 6]
        assert len({call.request_sha256 for call in server.calls}) == 6
        assert world(journal) == ["looked 1", "looked 2", "looked 3", "looked 3", "looked 4", "looked 5"]
