"""`holdfast gates`: what a person sees, and what becomes of an answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast import Engine
from tests.cli.conftest import Shell
from tests.cli.flows import reminded


@pytest.fixture
def run(shell: Shell) -> str:
    """A run that asks whether its letter may be sent."""
    found: str = shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--json").data["run_id"]
    return found


def test_a_gate_shows_who_is_asked_about_what_and_how_to_answer(shell: Shell, run: str) -> None:
    said = shell("gates", "show", run)
    gate = f"{run}:approval#1:0"
    for told in ("ann, bob", "here \\x1b[31myou are.", '{"level": "low"}', "edited_body", "(in 3 d)"):
        assert told in said.out
    for decision in ("approve", "edit", "reject", "retry"):
        assert f"holdfast gates {decision} '{gate}'" in said.out
    assert "\x1b" not in said.out


def test_a_listed_gate_names_its_run(shell: Shell, run: str) -> None:
    (gate,) = shell("gates", "list", "--json").data
    assert (gate["run_id"], gate["state"], gate["reviewers"]) == (run, "open", ["ann", "bob"])
    assert gate["gate_id"] in shell("gates", "list").out


def test_approving_keeps_what_the_form_is_filled_with(shell: Shell, run: str) -> None:
    shown = shell("gates", "show", run, "--json").data
    said = shell("gates", "approve", shown["gate_id"], "--shown", shown["shown_hash"], "--as", "ann")
    assert said.code == 0
    assert said.out == ""
    shell("worker", "flow:letter", "--until-idle")
    assert shell("runs", "show", run, "--json").data["output"] == {"sent": shown["filled"]["edited_body"]}


def test_an_edit_is_what_is_sent(shell: Shell, run: str) -> None:
    said = shell("gates", "edit", run, "--data", '{"edited_body": "Hi"}', "--json")
    assert (said.data["state"], said.data["decision"], said.data["by"]) == ("decided", "edit", "ida")
    shell("worker", "flow:letter", "--until-idle")
    assert shell("runs", "show", run, "--json").data["output"] == {"sent": "Hi"}


def test_the_second_decision_is_told_who_was_first(shell: Shell, run: str) -> None:
    shell("gates", "reject", run, "--as", "ann", "--reason", "too curt")
    for words in (run, f"{run}:approval#1:0"):
        said = shell("gates", "approve", words, "--as", "bob")
        assert said.code == 4
        assert "reject by ann" in said.err
    assert "reject by ann: too curt" in shell("gates", "show", run).out


def test_going_back_opens_the_gate_of_the_next_visit(shell: Shell, run: str) -> None:
    shell("gates", "retry", run)
    shell("worker", "flow:letter", "--until-idle")
    (gate,) = shell("gates", "list", "--run", run, "--json").data
    assert gate["gate_id"] == f"{run}:approval#2:0"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--shown", "0" * 64], 4, "something else"),
        (["--data", '{"edited_body": }'], 2, "--data is not JSON"),
        (["--data", '"text"'], 2, "object"),
    ],
)
def test_an_answer_that_does_not_count_leaves_the_gate_open(
    shell: Shell, run: str, words: list[str], code: int, told: str
) -> None:
    said = shell("gates", "edit", run, *words)
    assert said.code == code
    assert told in said.err
    assert len(shell("gates", "list", "--json").data) == 1


def test_what_is_not_there_exits_3(shell: Shell, run: str) -> None:
    for words in (["gates", "approve", "nothing"], ["gates", "show", f"{run}:approval#9:0"], ["runs", "pause", "none"]):
        assert shell(*words).code == 3
    error = json.loads(shell("gates", "approve", "nothing", "--json").err)["error"]
    assert (error["class"], error["exit_code"]) == ("NotFound", 3)


def test_a_run_with_two_questions_must_be_asked_about_one(shell: Shell) -> None:
    run = shell("run", "flow:two_questions", "--json").data["run_id"]
    said = shell("gates", "approve", run)
    assert said.code == 2
    assert f"{run}:ask#1:0.0.0" in said.err
    for gate in shell("gates", "list", "--json").data:
        assert shell("gates", "approve", gate["gate_id"]).code == 0
    shell("worker", "flow:two_questions", "--until-idle")
    assert shell("runs", "show", run, "--json").data["output"] == ["approve", "approve"]


def test_reminders_and_escalations_are_listed(shell: Shell) -> None:
    async def wait_too_long() -> None:
        async with Engine.open("holdfast.db", workflows=[reminded]) as engine:
            run = await engine.start(reminded)
            await run.until(
                lambda state: any(gate.escalated_at_ms and gate.reminders > 1 for gate in state.gates.values())
            )

    asyncio.run(wait_too_long())
    (gate,) = shell("gates", "list", "--json").data
    assert gate["state"] == "escalated"
    assert gate["reminders"] >= 2
    told = shell("gates", "show", gate["run_id"], "--json").data
    assert told["reminders"] >= 2
    assert told["escalated_at"] is not None
