"""`holdfast gates`: what a person sees, and what becomes of an answer."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shlex
from pathlib import Path

import pytest

from holdfast import Engine
from tests.cli.conftest import Shell
from tests.cli.flows import reminded

OS_USER = pwd.getpwuid(os.getuid()).pw_name


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
    for told in ("What follows", "continues to", "no cost limit"):
        assert told in said.out
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
    assert shown["filled"] == shown["initial_data"], "its name in 0.1.0 stays beside it"
    assert shell("runs", "show", run, "--json").data["output"] == {"sent": shown["initial_data"]["edited_body"]}


def test_an_edit_is_what_is_sent(shell: Shell, run: str) -> None:
    said = shell("gates", "edit", run, "--as", "bob", "--data", '{"edited_body": "Hi"}', "--json")
    assert (said.data["state"], said.data["decision"], said.data["by"]) == ("decided", "edit", "bob")
    shell("worker", "flow:letter", "--until-idle")
    assert shell("runs", "show", run, "--json").data["output"] == {"sent": "Hi"}


def test_the_second_decision_learns_who_was_first(shell: Shell, run: str) -> None:
    shell("gates", "reject", run, "--as", "ann", "--reason", "too curt")
    for words in (run, f"{run}:approval#1:0"):
        said = shell("gates", "approve", words, "--as", "bob")
        assert said.code == 4
        assert "reject by ann" in said.err
    assert f"reject by ann (unverified, by OS user {OS_USER}): too curt" in shell("gates", "show", run).out


def test_going_back_opens_the_gate_of_the_next_visit(shell: Shell, run: str) -> None:
    shell("gates", "retry", run, "--as", "ann")
    shell("worker", "flow:letter", "--until-idle")
    (gate,) = shell("gates", "list", "--run", run, "--json").data
    assert gate["gate_id"] == f"{run}:approval#2:0"


def test_a_runs_id_decides_no_gate_that_may_not_have_been_looked_at(shell: Shell, run: str) -> None:
    """Whoever types the same command twice has looked at the first gate only; the hash of what was shown tells."""
    assert shell("gates", "retry", run, "--as", "ann").code == 0
    shell("worker", "flow:letter", "--until-idle")
    said = shell("gates", "approve", run, "--as", "ann")
    second = f"{run}:approval#2:0"
    assert said.code == 4
    for told in (f"{run}:approval#1:0  retry by ann", f"{second}  open", f"holdfast gates approve '{second}'"):
        assert told in said.err
    assert [gate["gate_id"] for gate in shell("gates", "list", "--json").data] == [second]
    shown = shell("gates", "show", run, "--json").data["shown_hash"]
    assert shell("gates", "approve", run, "--as", "ann", "--shown", "0" * 64).code == 4
    assert shell("gates", "approve", run, "--as", "ann", "--shown", shown).code == 0


def test_an_approval_takes_only_what_is_shown(shell: Shell, run: str) -> None:
    shown = shell("gates", "show", run, "--json").data["shown_hash"]
    other = ("--data", '{"edited_body": "Pay 9999"}', "--shown", shown)
    said = shell("gates", "approve", run, "--as", "ann", *other)
    assert said.code == 4
    assert "Decide `edit`" in said.err
    assert len(shell("gates", "list", "--json").data) == 1


def test_a_decision_is_a_reviewers_and_the_record_says_who_typed_it(shell: Shell, run: str) -> None:
    refused = shell("gates", "approve", run)
    assert refused.code == 4
    assert "asks ann, bob, and 'ida' is not among them" in refused.err
    said = shell("gates", "approve", run, "--as", "Ann", "--role", "lead")
    assert f"approve by Ann (unverified, by OS user {OS_USER})" in said.err
    told = shell("gates", "show", run, "--json").data
    assert (told["by"], told["os_user"], told["roles"], told["verified"]) == ("Ann", OS_USER, ["lead"], False)
    (decided,) = [
        json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines() if '"GateDecided"' in line
    ]
    assert (decided["by"], decided["os_user"], decided["verified"]) == ("Ann", OS_USER, False)
    assert f"Ann (unverified, by OS user {OS_USER})" in shell("runs", "events", run).out
    assert f"by ida (unverified, by OS user {OS_USER})" in shell("runs", "show", run).out


def test_without_a_name_it_is_the_systems_user_whatever_the_environment_says(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_USER")
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    run = shell("run", "flow:patient", "--json").data["run_id"]
    assert shell("runs", "show", run).out.count(f" by {OS_USER}\n") == 1
    assert "somebody-else" not in shell("runs", "events", run, "--json").out


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
    said = shell("gates", "edit", run, "--as", "ann", *words)
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
    said = shell("gates", "approve", run, "--as", "ann")
    assert said.code == 4
    assert f"holdfast gates approve '{run}:ask#1:0.0.0'" in said.err
    for gate in shell("gates", "list", "--json").data:
        assert shell("gates", "approve", gate["gate_id"], "--as", "ann").code == 0
    shell("worker", "flow:two_questions", "--until-idle")
    assert shell("runs", "show", run, "--json").data["output"] == ["approve", "approve"]


def test_reminders_and_escalations_are_listed(shell: Shell) -> None:
    async def wait_too_long() -> None:
        async with Engine.open("holdfast.db", workflows=[reminded]) as engine:
            run = await engine.start(reminded)
            await run.until(lambda state: any(gate.escalated_at_ms and gate.reminders > 1 for gate in state.gates.values()))

    asyncio.run(wait_too_long())
    (gate,) = shell("gates", "list", "--json").data
    assert gate["state"] == "escalated"
    assert gate["reminders"] >= 2
    told = shell("gates", "show", gate["run_id"], "--json").data
    assert told["reminders"] >= 2
    assert told["escalated_at"] is not None


def test_a_changed_handler_says_what_changed_and_what_each_answer_does(shell: Shell) -> None:
    run = shell("run", "flow:changing", "--json").data["run_id"]
    shell("gates", "approve", run, "--as", "ann")
    Path("changed").touch()
    shell("worker", "flow:changing", "--until-idle")
    (gate,) = shell("gates", "list", "--json").data
    assert (gate["reason"], shell("runs", "show", run, "--json").data["status"]) == ("code_changed", "requires_attention")
    told = shell("gates", "show", gate["gate_id"]).out
    words = " ".join(told.split())
    for line in ("send it?", "asks for sleep", "with the old code back the step goes on where it was", "fail the step"):
        assert line in words
    assert f"holdfast gates answer '{gate['gate_id']}' --data '\"restart\"'" in words
    Path("changed").unlink()
    assert shell("gates", "retry", gate["gate_id"], "--as", "ann").code == 0
    shell("worker", "flow:changing", "--until-idle")
    assert shell("runs", "show", run, "--json").data["status"] == "completed"


def test_a_question_is_handed_on_and_given_to_others(shell: Shell, run: str) -> None:
    refused = shell("gates", "delegate", run, "--to", "eve", "--as", "mallory")
    assert refused.code == 4
    assert "not theirs to hand on" in refused.err
    told = shell("gates", "delegate", run, "--to", "eve", "--to", "legal", "--as", "ann", "--reason", "on holiday")
    assert "asks ann, bob, eve, legal now." in told.err
    assert shell("gates", "list", "--json").data[0]["reviewers"] == ["ann", "bob", "eve", "legal"]
    assert "by ann: on holiday; asks ann, bob, eve, legal since" in " ".join(shell("gates", "show", run).out.split())
    given = shell("gates", "reassign", run, "--to", "eve", "--as", "boss", "--json").data
    assert (given["reviewers"], [each["delegated"] for each in given["assigned"]]) == (["eve"], [True, False])
    assert shell("gates", "approve", run, "--as", "ann").code == 4
    assert shell("gates", "approve", run, "--as", "eve").code == 0


def test_a_decision_of_its_own_is_offered_and_taken(shell: Shell) -> None:
    run = shell("run", "flow:claim", "--json").data["run_id"]
    shown = shell("gates", "show", run)
    gate = f"{run}:ask#1:0"
    assert f"holdfast gates decide '{gate}' to_legal" in shown.out
    assert "Expires" in shown.out
    wrong = shell("gates", "decide", run, "to_sales")
    assert (wrong.code, "takes approve, to_legal" in wrong.err) == (2, True)
    assert shell("gates", "decide", run, "to_legal").code == 0
    shell("worker", "flow:claim", "--until-idle")
    assert shell("runs", "show", run, "--json").data["output"] == "legal"


# --- What was shown ---------------------------------------------------------------------------------------------------

WIRE = """
from holdfast import Context, flow
from pydantic import BaseModel


class Wire(BaseModel):
    to: str
    amount: int


@flow
async def wire(ctx: Context, amount: int) -> int:
    answer = await ctx.ask(
        {"to": "bob\\nGate: decided", "amount": amount}, form=Wire, four_eyes=True, risk_level="high", evidence_ids=["e1", "e2"],
        proposed_action="send money", quorum=2 if amount > 5 else 1,
    )
    return answer.data.amount
"""


@pytest.fixture
def wire(shell: Shell, home: Path) -> str:
    """A run that asks whether it may send money, for a second pair of eyes."""
    (home / "wire.py").write_text(WIRE)
    found: str = shell("run", "wire.py:wire", "-i", "5", "--as", "ida", "--json").data["run_id"]
    return found


def test_a_decision_is_of_what_the_command_has_shown(shell: Shell, wire: str) -> None:
    said = shell("gates", "approve", wire, "--as", "ann")
    assert (said.code, said.out) == (0, "")
    assert "shows:\n  to: bob\n    Gate: decided\n  amount: 5\n" in said.err
    assert [row["type"] for row in _events(shell, wire)].count("GateDecided") == 1


def test_what_was_edited_is_decided_by_its_hash(shell: Shell, wire: str) -> None:
    """Who has looked before the edit would decide about something else with the same command."""
    shell("gates", "edit", wire, "--as", "bob", "--data", '{"amount": 1000000}')
    for decision in ("approve", "reject"):
        refused = shell("gates", decision, wire, "--as", "ann")
        assert refused.code == 4
        shown = shell("gates", "show", wire, "--json").data["shown_hash"]
        assert "was edited by bob" in refused.err
        assert f"--shown {shown}" in refused.err
    typed = next(line for line in shell("gates", "show", wire).out.splitlines() if "holdfast gates approve" in line)
    assert shell(*[{"<NAME>": "ann"}.get(word, word) for word in shlex.split(typed)[1:]]).code == 0, "as it is printed there"
    (decided,) = [row for row in _events(shell, wire) if row["type"] == "GateDecided"]
    assert (decided["decision"], decided["by"], decided["shown_hash"]) == ("approve", "ann", shown)


def _events(shell: Shell, run: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines()]


def test_a_question_is_found_by_its_risk_and_says_who_has_approved(shell: Shell, wire: str) -> None:
    more = shell("run", "wire.py:wire", "-i", "7", "--as", "ida", "--json").data["run_id"]
    assert len(shell("gates", "list", "--risk", "high", "--risk", "low", "--json").data) == 2
    assert shell("gates", "list", "--risk", "low", "--json").data == []
    first = shell("gates", "list", "--risk", "high", "--risk", "low", "--limit", "1")
    assert "There are more: holdfast gates list --risk high --risk low --after" in first.err
    wrong = shell("gates", "list", "--risk", "grave")
    assert (wrong.code, "is none of low, medium, high, critical" in wrong.err) == (2, True)
    shown = shell("gates", "show", more).out
    for line in ("Proposes send money", "Evidence e1, e2", "Risk high", "Approvals 0 of 2 approved"):
        assert line in [" ".join(each.split()) for each in shown.splitlines()]
    assert "0 of 2" in shell("gates", "list").out
    shell("gates", "approve", more, "--as", "ann")
    assert "1 of 2: ann" in shell("gates", "list").out
    shell("gates", "approve", more, "--as", "bob")
    assert "Approvals  2 of 2 approved, by ann, bob" in shell("gates", "show", more).out
    assert "2 of 2: ann, bob" in shell("gates", "list", "--all").out
