"""`holdfast runs export` and `holdfast replay`: what leaves a store, by whose leave, and what a change would do to it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.testing.model_server import ModelServer, Rule
from tests.cli.conftest import Shell

FLOW = """
from holdfast import Workflow, check, llm_node, task

wf = Workflow(name="letters")

@wf.node("draft")
@llm_node(model="openai:gpt-4o-mini", max_tokens=20)
def draft(state):
    return f"Write to {state.input['name']}."

@wf.node("short")
@check
def short(state):
    return "pass" if len(state.events["draft"].output) < 100 else "reject"

@wf.node("send")
@task
def send(state):
    return "sent"

wf.edge("draft", "short")
wf.edge("short", "send")
"""


@pytest.fixture
def letters(shell: Shell, home: Path, server: ModelServer) -> Path:
    """Two runs that have ended, and the file of their workflow."""
    server.script.add(Rule(text="Dear all, mail ann@example.org."))
    (home / "letters.py").write_text(FLOW)
    for name in ("Ada", "Bob"):
        assert shell("run", "letters.py:wf", "--input", f'{{"name": "{name}"}}').code == 0
    return home


def exported(shell: Shell, *words: str) -> str:
    said = shell("runs", "export", "--all", "--workflow", "letters", "--to", "records.jsonl", *words)
    assert said.code == 0, said.err
    return Path("records.jsonl").read_text()


def test_runs_are_exported_redacted_and_replayed(shell: Shell, letters: Path) -> None:
    text = exported(shell, "--redact", "name")
    assert "ann@" not in text
    assert "Ada" not in text
    assert stat.S_IMODE(Path("records.jsonl").stat().st_mode) == 0o600
    said = shell("replay", "records.jsonl", "letters.py:wf")
    assert (said.code, said.out) == (0, "2 of 2 runs took the same path\n")
    assert not list(letters.glob("replay*"))


def test_what_goes_another_way_is_reported_and_exits_with_1(shell: Shell, letters: Path) -> None:
    exported(shell)
    Path("stricter.py").write_text(FLOW.replace("< 100", "< 5"))
    said = shell("replay", "records.jsonl", "stricter.py:wf")
    assert said.code == 1
    assert said.out.count("diverges") == 2
    assert "  draft\n  short\n- send\n" in said.out
    assert said.out.endswith("0 of 2 runs took the same path\n")
    data = shell("replay", "records.jsonl", "stricter.py:wf", "--json").data
    assert [each["passed"] for each in data["runs"]] == [False, False]
    assert data["passed"] is False


def test_the_permission_is_the_settings(shell: Shell, letters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = shell("runs", "export", "--all", "--to", "whole.jsonl", "--whole")
    assert said.code == 1
    assert "let only redacted records of runs leave the store (exports = 'redacted')" in said.err
    assert not Path("whole.jsonl").exists()
    monkeypatch.setenv("HOLDFAST_EXPORTS", "none")
    assert "let no records of runs leave" in shell("runs", "export", "--all", "--to", "x.jsonl").err
    monkeypatch.setenv("HOLDFAST_EXPORTS", "whole")
    assert "ann@example.org" in exported(shell, "--whole")


def test_a_changed_prompt_is_quoted_then_asked_live_within_the_cap(
    shell: Shell, letters: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_EXPORTS", "whole")
    exported(shell, "--whole")
    calls = len(server.calls)
    Path("kinder.py").write_text(FLOW.replace("Write to", "Write kindly to"))
    said = shell("replay", "records.jsonl", "kinder.py:wf", "--quote")
    assert "2 of 2 runs would make new model calls. The first ones cost $" in said.out
    refused = shell("replay", "records.jsonl", "kinder.py:wf", "--live", "1.00")
    assert refused.code == 2
    assert "Confirm with --yes" in refused.err
    assert len(server.calls) == calls
    done = shell("replay", "records.jsonl", "kinder.py:wf", "--live", "1.00", "--yes")
    assert (done.code, len(server.calls)) == (0, calls + 2)
    assert "2 of 2 runs took the same path; 2 live calls cost $" in done.out
    capped = shell("replay", "records.jsonl", "kinder.py:wf", "--live", "0.000001", "--yes")
    assert (capped.code, len(server.calls)) == (1, calls + 2)
    assert "of what may be spent is left" in capped.out


def test_bad_words_are_refused(shell: Shell, letters: Path) -> None:
    exported(shell)
    assert "exists already" in shell("runs", "export", "--all", "--to", "records.jsonl").err
    assert shell("runs", "export", "--to", "x.jsonl").code == 2
    assert shell("runs", "export", "--all", "--to", "y.jsonl", "--whole", "--redact", "a").code == 2
    assert "cannot be read" in shell("replay", "none.jsonl", "letters.py:wf").err
    Path("bad.jsonl").write_text("no record\n")
    assert "bad.jsonl, line 1: this is no record of a run" in shell("replay", "bad.jsonl", "letters.py:wf").err
    assert shell("replay", "records.jsonl", "letters.py:wf", "--live", "much", "--yes").code == 2
    assert not Path("y.jsonl").exists()


def test_a_workflow_file_is_replayed_and_its_scripts_are_not_run(shell: Shell, home: Path) -> None:
    text = "name: files\njobs: {a: {runs-on: any, steps: [{effect: once, run: 'echo ran >> ../world'}]}}\n"
    text = text.replace("../world", str(home / "world"))
    (home / "files.yaml").write_text(text)
    assert shell("run", "files.yaml").code == 0
    assert shell("runs", "export", "--all", "--to", "records.jsonl").code == 0
    said = shell("replay", "records.jsonl", "files.yaml")
    assert (said.code, said.out) == (0, "1 of 1 run took the same path\n")
    (home / "other.yaml").write_text(text.replace("echo ran", "echo did"))
    said = shell("replay", "records.jsonl", "other.yaml")
    assert said.code == 1
    assert "not in its record: a#1 begins, whose job is another than the one that was recorded" in said.out
    assert (home / "world").read_text() == "ran\n"


def test_a_replay_shows_the_turn_that_differs(shell: Shell, letters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_EXPORTS", "whole")
    exported(shell, "--whole")
    letters.joinpath("brief.py").write_text(FLOW.replace("Write to {state", "Write\\nbriefly to {state"))
    said = shell("replay", "records.jsonl", "brief.py:wf")
    assert said.code == 1
    shown = """\
  draft#1/0 asks openai:gpt-4o-mini otherwise:
      user
    - Write to Ada.
    + Write
    + briefly to Ada.
"""
    assert shown in said.out
