"""A data set of real runs: nothing personal that was planted anywhere in them is left, and it runs as a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, StringConstraints

from holdfast import Engine, StateView, Workflow, check, human_gate, llm_node, task, tool, tool_node
from holdfast.errors import UsageError
from holdfast.evaluation import Expectation, Redaction, Scenario, Suite, judge, load_records, recorded
from holdfast.evaluation.recording import line
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule

NAME, MAIL, PHONE = "Zebedee Quartz", "zebedee@quartz.example", "+49 170 5550142"
CARD, IBAN, ADDRESS = "4242424242424242", "DE89370400440532013000", "203.0.113.77"
REVIEWER, STARTER = "Wilhelmina Okapi", "Ferdinand Gnu"
CANARIES = (NAME, "Zebedee", MAIL, PHONE, CARD, IBAN, ADDRESS, REVIEWER, STARTER)
ALL = f"{NAME}, {MAIL}, {PHONE}, {CARD}, {IBAN}, {ADDRESS}"


class Claim(BaseModel):
    customer: str
    card: Annotated[str, StringConstraints(pattern=r"^\d{16}$")]
    card_number: int
    grade: Literal["gold", "silver"]
    notes: list[str]


@tool(effect="idempotent")
def look_up(customer: str, note: str) -> dict[str, str]:
    return {"found": f"{customer} at {ADDRESS}", "note": note}


@tool(effect="read")
def fail(reason: str) -> str:
    raise ValueError(f"no account {IBAN} of {reason}")


def claims() -> Workflow:
    wf = Workflow("claims", input=Claim)

    @wf.node("judge")
    @llm_node(model="claude-haiku-4-5", max_tokens=100)
    def judge_(state: StateView) -> str:
        return f"Is {ALL} right?"

    @wf.node("look_up")
    @tool_node(name=look_up)
    def look(state: StateView) -> Any:
        return {"customer": state.input.customer, "note": ALL}

    @wf.node("fail")
    @tool_node(name=fail)
    def fail_(state: StateView) -> Any:
        return {"reason": NAME}

    @wf.node("ask")
    @human_gate(reviewers=[REVIEWER])
    def ask(state: StateView) -> Any:
        return {"title": f"Pay {NAME}?", "diff": ALL}

    @wf.node("same")
    @check
    def same(state: StateView) -> str:
        return "pass" if state.input.customer in state.events["look_up"].output["found"] else "fail"

    @wf.node("end")
    @task
    def end(state: StateView) -> str:
        return f"paid {ALL}"

    for source, target in (("judge", "look_up"), ("look_up", "fail"), ("fail", "ask"), ("ask", "same"), ("same", "end")):
        wf.edge(source, target, on="error" if source == "fail" else "success")
    return wf


async def ended_run(engine: Engine, wf: Workflow, customer: str = NAME) -> str:
    run = await engine.start(
        wf,
        {"customer": customer, "card": CARD, "card_number": int(CARD), "grade": "gold", "notes": [ALL]},
        by=STARTER,
        key=f"order of {MAIL}",
        tags=[f"for {MAIL}"],
        labels={"phone": PHONE},
    )
    await run.settled()
    [(gate, _)] = await engine.gates(run.id)
    await engine.decide(gate.gate, by=REVIEWER, reason=f"{NAME} called from {PHONE}")
    await run.settled()
    return run.id


async def test_nothing_personal_that_was_planted_is_left_and_the_data_set_runs(
    tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text=f"Yes, {ALL}."))
    wf, file = claims(), tmp_path / "set.jsonl"
    async with Engine.open(tmp_path / "runs.db", workflows=[wf], model=model) as engine:
        run = await ended_run(engine, wf)
        whole = line(await recorded(engine, run, None)).decode()
        file.write_bytes(line(await recorded(engine, run, Redaction(["customer"]))))
    said = file.read_text()
    for canary in CANARIES:
        assert canary in whole, f"{canary} was not planted"
        assert canary not in said, [part for part in said.split('"') if canary in part]
    [record] = load_records(file)
    given = record.began.input.value()
    assert Claim.model_validate(given)
    assert said.count(given["customer"]) > 5, "a person has one name everywhere"
    suite = Suite(
        workflow="claims",
        scenarios=[Scenario(id="real", records=str(file), expect=Expectation(nodes=("judge", "same", "end")))],
    )
    [found] = [each async for each in judge(suite, wf)]
    assert found.passed, found.misses
    assert len(server.calls) == 1


async def test_a_run_whose_input_no_longer_fits_its_schema_is_refused(
    tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="Yes."))
    wf = claims()
    async with Engine.open(tmp_path / "runs.db", workflows=[wf], model=model) as engine:
        run = await ended_run(engine, wf, customer="Ada Lovelace")
        with pytest.raises(UsageError, match=r"does not fit its workflow's schema any more: .*grade"):
            await recorded(engine, run, Redaction(["grade"]))
        assert json.loads(line(await recorded(engine, run, Redaction(["customer"]))))["redacted"] is True
