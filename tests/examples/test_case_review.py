"""The case review keeps to its scenarios: each path is judged, and the case system's own books say what was done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.case_review import desk
from examples.case_review.workflow import ACTIONS, ApprovalRequest, wf
from holdfast import Engine, RunFailed
from holdfast.core.views.trajectory import Trajectory
from holdfast.errors import Conflict
from holdfast.evaluation import (
    Scenario,
    assert_came_back_to,
    assert_caught_by,
    assert_failed_at,
    assert_stopped_before,
    assert_trajectory,
    assert_went_to_approval,
)
from holdfast.evaluation.playing import play
from holdfast.evaluation.suite import read
from holdfast.testing.mail_sink import MailSink
from holdfast.testing.model_server import ModelServer, Rule, load_rules
from tests.engine.kit import Time, engine_at

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "case_review"
SCENARIOS = {each.id.split()[0]: each for each in read((EXAMPLE / "cases.yaml").read_text(), "cases.yaml").scenarios}
complete = pytest.mark.skipif(os.environ.get("HOLDFAST_WORKFLOWS") != "all", reason="takes a while: make workflows")
WITHIN_S = 120


@pytest.fixture
def mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailSink]:
    """The world of a case: its books, a mail server, and a model that can be led astray."""
    with ModelServer(journal=tmp_path / "calls.jsonl") as models, MailSink(journal=tmp_path / "mail.jsonl") as sink:
        models.script.add(*load_rules(EXAMPLE / "model_rules.json", Rule))
        given = {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(sink.port), desk.VARIABLE: str(tmp_path / "desk.db")}
        for name, value in (models.environment | given).items():
            monkeypatch.setenv(name, value)
        yield sink


async def path_of(name: str) -> tuple[Scenario, Trajectory]:
    scenario = SCENARIOS[name]
    path = await play(wf, scenario)
    assert_trajectory(path, scenario.expect, scenario.id)
    return scenario, path


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_scenario_goes_the_way_that_is_expected(name: str, mails: MailSink) -> None:
    _, path = await path_of(name)
    if name == "2":
        assert_went_to_approval(path, "request_approval")
    if name.startswith("3b"):
        assert_stopped_before(path, "draft_recommendation")
    if name == "4":
        assert_failed_at(path, "resolve_access")
    if name == "7":
        assert_caught_by(path, "validate_recommendation")
    if name == "10":
        assert_came_back_to(path, "retrieve_policy")
    approved = [each for each in path.approvals if each.decision == "approve"]
    assert len(desk.done()) == len(approved)
    assert len(mails.messages) == (1 if name == "11" else 0)


async def test_a_model_that_is_talked_into_everything_does_nothing(mails: MailSink) -> None:
    _, path = await path_of("9")
    asked = [each for each in path.approvals if each.node == "draft_recommendation"]
    assert len(asked) == len(ACTIONS) == 5
    assert {each.decision for each in path.approvals} == {"reject"}
    assert desk.done() == []


async def test_the_approval_has_all_fields_and_is_the_supervisors(mails: MailSink, database: str) -> None:
    """On PostgreSQL: the record that is shown, who may answer, and what the case system has of it."""
    async with Engine.open(database, workflows=[wf]) as engine:
        run = await engine.start(wf, SCENARIOS["2"].input)
        state = await run.settled()
        [gate] = state.gates.values()
        shown: dict[str, Any] = gate.opened.shown.value()
        request = shown["arguments"]["approval"]
        assert set(request) == set(ApprovalRequest.model_fields)
        assert (shown["tool"], request["proposed_action"], request["requested_by"]) == (
            "issue_sanction",
            "issue_sanction",
            "cora",
        )
        assert (request["approver_role"], request["evidence_ids"], request["risk_level"]) == (
            "supervisor",
            ["policy-goods"],
            "high",
        )
        assert request["expires_at"] - request["created_at"] == 14 * 86_400
        [(row, _)] = await engine.gates(risk_levels=["high"])
        assert (row.gate, row.proposed_action, row.risk_level) == (gate.opened.gate, "issue_sanction", "high")
        assert list(row.evidence_ids) == request["evidence_ids"]
        assert abs((row.expires_at_ms or 0) / 1000 - request["expires_at"]) < 60
        with pytest.raises(Exception, match="supervisor"):
            await engine.decide(gate.opened.gate, "approve", by="cora", roles=["clerk"])
        assert desk.done() == []
        await engine.decide(gate.opened.gate, "approve", by="sara", roles=["supervisor"])
        answer = (await run.result())["final_answer"]
        assert (answer["action"], answer["approval"]["status"]) == ("issue_sanction", "approved")
        assert answer["approval"]["approval_id"] == request["approval_id"]
        assert "[policy-goods]" in answer["recommendation"]
    assert desk.done() == [("issue_sanction", "C-2", request["approval_id"])]


async def test_an_approval_that_comes_after_its_time_is_none(mails: MailSink, tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        run = await engine.start(wf, SCENARIOS["2"].input)
        [gate] = (await run.settled()).gates
    now.forward(days=15)
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        with pytest.raises(RunFailed, match=r"The request for approval \S+ has expired"):
            await engine.run(run.id).result()
        with pytest.raises(Conflict):
            await engine.decide(gate, "approve", by="sara", roles=["supervisor"])
    assert desk.done() == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"approval_id": ""}, "needs an approval"),
        ({"proposed_action": "send_notice"}, "needs an approval of exactly this"),
        ({"expires_at": 1.0}, "has expired"),
    ],
)
def test_the_case_system_takes_no_action_without_a_valid_approval(mails: MailSink, changed: dict[str, Any], why: str) -> None:
    valid = {"approval_id": "a", "proposed_action": "close_case", "expires_at": 9e9}
    with pytest.raises(desk.Refused, match=why):
        desk.act("close_case", "C-1", valid | changed, "key")
    desk.act("close_case", "C-1", valid, "key")
    desk.act("close_case", "C-1", valid, "key")
    assert desk.done() == [("close_case", "C-1", "a")]


@complete
def test_the_demo_keeps_its_promises() -> None:
    words = [sys.executable, "-m", "examples.case_review.demo"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout
    assert "BROKEN" not in done.stdout
