"""`holdfast runs`, `budget` and `effects`: what a person sees of a run, and what they may do to it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.testing.model_server import Fault, ModelServer, Rule
from tests.cli.conftest import Said, Shell


def started(shell: Shell, flow: str, *words: str) -> str:
    run: str = shell("run", f"flow:{flow}", "--json", *words).data["run_id"]
    return run


def finished(shell: Shell, flow: str, run: str) -> dict[str, object]:
    """The run after a worker has done what it can."""
    shell("worker", f"flow:{flow}", "--until-idle")
    found: dict[str, object] = shell("runs", "show", run, "--json").data
    return found


def test_runs_are_listed_newest_first_and_filtered(shell: Shell) -> None:
    first = started(shell, "greet", "-i", '{"customer": "Ada"}', "--tenant", "acme", "--key", "k")
    second = started(shell, "letter", "-i", '{"customer": "Ada"}')
    assert [run["run_id"] for run in shell("runs", "list", "--json").data] == [second, first]
    (acme,) = shell("runs", "list", "--tenant", "acme", "--json").data
    assert (acme["run_id"], acme["key"], acme["status"]) == (first, "k", "completed")
    assert [run["run_id"] for run in shell("runs", "list", "--status", "waiting", "--json").data] == [second]
    assert shell("runs", "list", "--before", first, "--json").data == []
    assert first in shell("runs", "list").out
    assert shell("runs", "list", "--status", "asleep").code == 2


def test_no_store_is_made_by_asking(shell: Shell) -> None:
    assert shell("runs", "list").code == 3
    assert shell("runs", "list").code == 3


def test_the_store_is_named_by_the_environment_or_an_option(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///elsewhere.db")
    run = started(shell, "broken")
    assert shell("runs", "show", run, "--store", "elsewhere.db").code == 0
    assert shell("runs", "show", run).code == 0


def test_a_run_shows_its_steps_and_what_went_wrong(shell: Shell) -> None:
    run = started(shell, "broken")
    told = shell("runs", "show", run).out
    assert re.search(r"work#1  failed  \S+ s +\S+ s +1 .*error: ValueError: nothing \\x1b\[31m works", told)
    assert "\x1b" not in told


def test_the_history_of_a_map_is_printed(shell: Shell) -> None:
    run = shell("run", "flow:scales", "-i", '["lead", "iron"]', "--json").data["run_id"]
    events = [json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines()]
    assert [each["pages"] for each in events if each["type"] == "ItemsMapped"] == [[["lead", "iron"]]]
    assert "flow maps 2 items to" in shell("runs", "events", run).out


def test_a_long_history_is_printed_page_by_page(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shell("run", "flow:greet", "-i", '{"customer": "Ann"}', "--json").data["run_id"]
    whole = shell("runs", "events", run).out
    monkeypatch.setattr("holdfast.cli.runs.history._PAGE", 3)
    assert shell("runs", "events", run).out == whole
    assert len(whole.splitlines()) == 4


def test_a_command_s_trace_is_that_of_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    monkeypatch.setenv("TRACEPARENT", f"00-{trace}-00f067aa0ba902b7-01")
    run = started(shell, "letter", "-i", '{"customer": "Ada"}')
    monkeypatch.setenv("TRACEPARENT", "nonsense")
    assert shell("runs", "pause", run).code == 0
    lines = [json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines()]
    assert {line["trace_id"] for line in lines} == {trace}


def test_events_are_one_a_line(shell: Shell) -> None:
    run = started(shell, "greet", "-i", '{"customer": "Ada"}')
    lines = [json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["type"] for line in lines] == ["RunStarted", "StepStarted", "StepCompleted", "RunCompleted"]
    assert lines[0]["input"] == {"customer": "Ada", "pieces": 1}
    told = shell("runs", "events", run, "--after", "2").out.splitlines()
    assert len(told) == 2
    assert told[0].endswith('  greeting completed → "Dear Ada"')


def test_a_paused_run_waits_until_it_is_resumed(shell: Shell) -> None:
    run = shell("run", "flow:greet", "-i", '{"customer": "Ada"}', "--detach").out.strip()
    assert "paused" in shell("runs", "pause", run).err
    assert finished(shell, "greet", run)["status"] == "paused"
    assert shell("runs", "resume", run, "--json").data["run_id"] == run
    assert finished(shell, "greet", run)["status"] == "completed"
    assert shell("runs", "pause", run).code == 4


def test_a_cancelled_run_says_who_and_why(shell: Shell) -> None:
    run = started(shell, "patient")
    assert shell("runs", "cancel", run, "--reason", "no need", "--as", "ann").code == 0
    assert finished(shell, "patient", run)["status"] == "cancelled"
    assert "no need" in shell("runs", "show", run).out
    assert "the run is being cancelled by ann (unverified" in shell("runs", "events", run).out


def test_a_signal_reaches_the_step_that_waits_for_it(shell: Shell) -> None:
    run = started(shell, "patient")
    assert f"holdfast runs signal {run} go" in shell("runs", "show", run).out
    for _ in range(2):
        assert shell("runs", "signal", run, "go", "--data", '{"n": 1}', "--key", "k").code == 0
    assert shell("runs", "signal", run, "go", "--key", "k").code == 4
    assert finished(shell, "patient", run)["output"] == {"n": 1}
    assert shell("runs", "events", run).out.count("the signal 'go' arrived") == 1


def test_a_run_at_its_limit_goes_on_when_it_is_extended(shell: Shell) -> None:
    said = shell("run", "flow:three_steps")
    assert said.code == 8
    (run,) = [run["run_id"] for run in shell("runs", "list", "--json").data]
    assert f"holdfast runs extend {run} --steps 4" in said.err
    assert shell("runs", "extend", run).code == 2
    assert shell("runs", "extend", run, "--steps", "1").code == 2
    assert shell("runs", "extend", run, "--steps", "10").code == 0
    assert finished(shell, "three_steps", run)["status"] == "completed"


def test_a_run_is_moved_to_another_definition(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}')
    refused = shell("runs", "migrate", run, "flow:greet")
    assert refused.code == 4
    assert "approval" in refused.err
    assert shell("runs", "migrate", run, "flow:letter", "--json").data["version"] == 1


@pytest.mark.parametrize(
    ("answer", "status", "paid"),
    [
        (["--happened", '{"paid": 5}'], "completed", "x"),
        (["--did-not", "--reason", "the bank says no"], "failed", "x"),
        (["--again"], "completed", "xx"),
    ],
)
def test_an_unknown_effect_is_resolved_by_a_person(shell: Shell, home: Path, answer: list[str], status: str, paid: str) -> None:
    said = shell("run", "flow:payment")
    assert said.code == 8
    (effect,) = shell("effects", "list", "--state", "in_doubt", "--json").data
    call, run = effect["call"], effect["run_id"]
    assert effect["request"] == {"amount": 5}
    assert f"holdfast effects resolve '{call}' --did-not" in said.err
    assert shell("effects", "resolve", call).code == 2
    assert "shows something else" in shell("effects", "resolve", call, *answer, "--shown", "0" * 64).err
    told = shell("effects", "resolve", call, *answer)
    assert (told.code, ' with {"amount": 5}: it ' in told.err) == (0, True), "what it is bound to was shown"
    lines = told.err.splitlines()
    assert (lines[-3:-1], len(lines)) == (
        [f"Run {run}: running.", "No worker has its workflow now. Start one:"],
        4 + ("--happened" in answer),
    )
    assert lines[-1] == "  holdfast worker FILE.py:payment"
    assert ("recorded unchecked" in told.err) == ("--happened" in answer), "the code of the tool is not loaded there"
    found = finished(shell, "payment", effect["run_id"])
    assert found["status"] == status
    if status == "completed":
        assert found["output"] == {"paid": 5}
    assert (home / "paid").read_text() == paid
    assert shell("effects", "resolve", call, *answer).code == 4


def test_the_books_show_what_is_in_doubt(shell: Shell, server: ModelServer) -> None:
    server.script.add(Rule(fault=Fault("cut_in_body"), times=1))
    said: Said = shell("run", "flow:costly", "--cost-limit", "0.50", "--json")
    assert said.code == 0
    books = shell("budget", "show", said.data["run_id"], "--json").data
    (call,) = books["in_doubt"]
    assert books["in_doubt_usd"] == call["hold_usd"] == said.data["held_usd"]
    assert float(books["settled_usd"]) > 0
    assert call["call"] in shell("budget", "show", said.data["run_id"]).out


def test_a_limit_is_raised_to_an_amount_or_by_one(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}', "--cost-limit", "0.50")
    assert shell("budget", "raise", run, "--by", "0.25", "--json").data["limit_usd"] == "0.75"
    assert shell("budget", "raise", run, "2.00", "--json").data["limit_usd"] == "2.00"
    for words in ([], ["1.00"], ["3.00", "--by", "1"], ["--by", "much"], ["lots"]):
        assert shell("budget", "raise", run, *words).code == 2
    assert shell("budget", "show", run, "--json").data["limit_usd"] == "2.00"


@pytest.mark.parametrize(
    "words", [("runs", "pause"), ("runs", "cancel"), ("runs", "extend", "--steps", "2000"), ("budget", "raise", "--by", "1")]
)
def test_a_command_about_a_run_ends_with_the_next_one(shell: Shell, words: tuple[str, ...]) -> None:
    run = started(shell, "patient", "--cost-limit", "0.50")
    lines = shell(words[0], words[1], run, *words[2:]).err.splitlines()
    assert lines[0].startswith(f"Run {run}: ")
    assert lines[-1].startswith(("  holdfast runs ", "  holdfast worker ")), lines


def test_a_failed_run_is_taken_up_and_one_that_did_not_fail_is_refused(shell: Shell) -> None:
    run = started(shell, "broken")
    said = shell("runs", "retry", run, "--as", "ann")
    worker = "No worker has its workflow now. Start one:\n  holdfast worker FILE.py:broken\n"
    assert (said.code, said.err) == (0, f"Run {run}: running.\n{worker}")
    (reopened,) = [line for line in shell("runs", "events", run, "--json").out.splitlines() if "RunReopened" in line]
    assert json.loads(reopened)["by"] == "ann"
    again = shell("runs", "retry", run)
    assert (again.code, "has not ended" in again.err) == (4, True)
    assert finished(shell, "broken", run)["status"] == "failed"
    assert shell("runs", "retry", "0190-no-run").code == 3


def test_a_run_is_forked_after_a_quote_and_shown_with_where_it_comes_from(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "ada"}')
    refused = shell("runs", "fork", run, "--from", "draft#1")
    assert (refused.code, "pause it first" in refused.err) == (4, True)
    shell("runs", "cancel", run)
    quote = shell("runs", "fork", run, "--from", "approval#1", "--dry-run", "--json").data["fork"]
    assert (quote["kept_steps"], quote["begins_at"], quote["limit_usd"]) == (["draft#1"], "approval#1", None)
    told = shell("runs", "fork", run, "--from", "approval#1", "--dry-run")
    assert "Kept, not executed again: draft#1.\nRun again: approval#1, and whatever comes after.\n" in told.out
    assert told.out.endswith("Cost: nothing, unless it makes new model calls; it has no limit (--cost-limit sets one).\n")
    assert len(shell("runs", "list", "--json").data) == 1
    wrong = ("--state", '{"approval": "approve"}'), ("--state", "[]"), ("--output", '"approve"'), ("--from", "send#1")
    for words in wrong:
        assert shell("runs", "fork", run, "--from", "approval#1", *words).code in (2, 3), words
    said = shell("runs", "fork", run, "--from", "approval#1", "--state", '{"draft": "better"}', "--key", "k", "--json")
    fork = said.data["run_id"]
    assert (said.code, said.data["quote"]["fork"]["kept_steps"]) == (0, ["draft#1"])
    assert shell("runs", "show", fork, "--json").data["forked_from"] == {"run_id": run, "step": "approval#1"}
    assert f"{run}, from approval#1" in shell("runs", "show", fork).out
    assert "the run was forked from approval#1" in shell("runs", "events", fork).out
    shell("worker", "flow:letter", "--until-idle")
    (gate,) = shell("gates", "list", "--run", fork, "--json").data
    assert "better" in shell("gates", "show", gate["gate_id"]).out


def test_a_run_is_labelled_found_by_its_labels_and_counted(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}', "--run-label", "customer=acme", "--run-label", "plan=a=b")
    other = started(shell, "letter", "-i", '{"customer": "Eve"}', "--run-label", "customer=acme")
    said = shell("runs", "label", run[:30], "stage=sent", "plan=", "--as", "ann")
    assert (said.code, said.err) == (0, f"Run {run}: its labels are changed.\n")
    assert shell("runs", "show", run, "--json").data["labels"] == {"customer": "acme", "stage": "sent"}
    assert re.search(r"Labels +customer=acme, stage=sent\n", shell("runs", "show", run).out)
    (event,) = [line for line in shell("runs", "events", run, "--json").out.splitlines() if "RunLabelled" in line]
    assert (json.loads(event)["by"], json.loads(event)["labels"]) == ("ann", {"stage": "sent", "plan": None})
    acme = ("--label", "customer=acme")
    assert [row["run_id"] for row in shell("runs", "list", *acme, "--json").data] == [other, run]
    assert [row["run_id"] for row in shell("runs", "list", *acme, "--label", "stage=sent", "--json").data] == [run]
    counted = shell("runs", "labels", "customer").out.split()
    assert counted == ["KEY", "VALUE", "WORKFLOW", "STATUS", "RUNS", "customer", "acme", "letter", "waiting", "2"]
    rest = shell("runs", "labels", "--limit", "1")
    assert (len(rest.out.splitlines()), "There are more: holdfast runs labels" in rest.err) == (2, True)
    assert shell("runs", "cancel", "--all", "--label", "stage=sent", "--yes").code == 0
    assert {row["run_id"]: row["status"] for row in shell("runs", "list", "--json").data} == {
        run: "cancelled",
        other: "waiting",
    }
    assert shell("runs", "label", run, "stage=late").code == 0, "also after its end"
    for words in (("no label",), ("a b=c",), ("a=" + "x" * 257,), ()):
        assert shell("runs", "label", run, *words).code == 2, words
    assert shell("runs", "list", "--label", "customer").code == 2
    assert shell("runs", "label", "0190-no-run", "a=b").code == 3


def test_a_map_is_a_line_with_counts_and_its_items_are_listed_page_by_page(shell: Shell) -> None:
    run = started(shell, "scales", "-i", '["iron", "air", "tin"]')
    told = shell("runs", "show", run).out
    assert re.search(r"flow/0 +completed +3 +2 +1 +0 +flow/0\[air\]: ValueError: it has no weight", told)
    (found,) = shell("runs", "show", run, "--json").data["maps"]
    assert (found["items"], found["completed"], found["failed"], found["failures"][0]["item"]) == (3, 2, 1, "flow/0[air]")
    seen, after = [], 0
    while after is not None:
        page = shell("runs", "items", run, "flow/0", "--limit", "2", "--after", str(after), "--json").data
        seen += [(each["item"], each["status"], each["output"]) for each in page["items"]]
        after = page["after"]
    assert sorted(seen) == [("flow/0[air]", "failed", None), ("flow/0[iron]", "completed", 4), ("flow/0[tin]", "completed", 3)]
    assert "it has no weight" in shell("runs", "items", run, "flow/0").out
    assert "No item of 'nowhere' has ended" in shell("runs", "items", run, "nowhere").err
