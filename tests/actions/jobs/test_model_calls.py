"""Scripts of jobs that call models with the official SDK and no key. The provider's journal is the judge: their calls are the
run's, and each answered one was made once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.actions.jobs.provider import environment_of
from holdfast.core.facts.events import ModelCallHeld
from holdfast.core.views.status import status
from holdfast.testing.model_rule import Rule
from holdfast.testing.model_server import ModelServer, Usage
from tests.actions.jobs.kit import Done, done, ran, workflow, world
from tests.engine.kit import opened

SDK = """
import openai, os, sys
client = openai.OpenAI()
for text in {texts}:
    said = [{{"role": "user", "content": text}}]
    client.chat.completions.create(model="gpt-5-mini", max_completion_tokens=1024, messages=said)
{after}
"""
BARE = """
import json, os, sys, urllib.error, urllib.request
for text in {texts}:
    body = {{"model": "gpt-5-mini", "max_completion_tokens": 1024, "messages": [{{"role": "user", "content": text}}]}}
    headers = {{"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
    except urllib.error.HTTPError as problem:
        sys.exit("refused: " + str(problem.code))
{after}
"""
"""The same without the seconds in which an SDK is loaded."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def job(*scripts: str, more: str = "") -> str:
    """A file of one job, whose steps are these programs."""
    lines = ["jobs:", "  asks:", "    runs-on: any", f"    {more}", "    steps:"]
    for number, script in enumerate(scripts):
        lines += [f"      - id: s{number}", f"        shell: \"'{sys.executable}' {{0}}\"", "        run: |"]
        lines += [f"          {line}" for line in script.splitlines()]
    return "\n".join(lines)


def asking(*texts: str, after: str = "pass", program: str = BARE) -> str:
    return program.format(texts=texts, after=after)


async def test_a_script_without_a_key_calls_models_and_run_again_gets_its_replies(
    server: ModelServer, store: str, outside: Path
) -> None:
    server.script.add(Rule(text="yes"))
    fails_once = (
        f"open({str(outside)!r}, 'a').write(os.environ['OPENAI_API_KEY'] + '\\n');"
        f" sys.exit(len(open({str(outside)!r}).readlines()) < 2)"
    )
    text = job(
        asking("one", "same", program=SDK), asking("same", "two", after=fails_once), more="retry: {max: 1, delay-seconds: 0}"
    )
    made = workflow(text)
    async with opened(store, workflows=[made]) as engine:
        run = await engine.start(made, cost_limit_usd="1.00")
        state = await run.settled()
        ended = await done(engine, state)
        held = [each.event for each in await run.events() if isinstance(each.event, ModelCallHeld)]
        assert ended.results["asks"] == "success", ended.jobs
        assert [each.path for each in held] == ["0.0.calls-s0.0", "0.0.calls-s0.1", "0.0.calls-s1.0", "0.0.calls-s1.1"]
        assert len(server.calls) == 4
        assert state.budget.committed_nanousd > 0
    keys = world(outside)
    assert len({*keys}) == 2, "each run of a script has a token of its own"
    assert os.environ["OPENAI_API_KEY"] not in keys


async def test_at_the_limit_a_script_is_refused_and_its_job_waits_for_a_raise(server: ModelServer, store: str) -> None:
    server.script.add(Rule(usage=Usage(20, 500)))
    made = workflow(job(asking("one", "two", "three")))
    async with opened(store, workflows=[made]) as engine:
        run = await engine.start(made, cost_limit_usd="0.0025")
        await run.until(lambda state: status(state) == "budget_blocked")
        before = len(server.calls)
        assert 0 < before < 3
        await engine.raise_budget(run.id, "1.00")
        ended: Done = await done(engine, await run.settled())
        assert ended.results["asks"] == "success", ended.jobs
        assert len(server.calls) == 3


async def test_the_token_of_a_script_that_has_ended_is_refused_to_the_next(
    server: ModelServer, store: str, outside: Path
) -> None:
    keeps = f"open({str(outside)!r}, 'w').write(os.environ['OPENAI_API_KEY'])"
    takes = f"import os; os.environ['OPENAI_API_KEY'] = open({str(outside)!r}).read()"
    ended = await ran(job(asking("one", after=keeps), takes + asking("two")), store)
    assert ended.results["asks"] == "failure"
    assert "refused: 401" in ended.jobs["asks"]["log"]
    assert len(server.calls) == 1


async def test_a_provider_that_its_file_sets_up_is_not_led_to_the_gateway(server: ModelServer, store: str) -> None:
    said = (
        "import os; print(os.environ.get('OPENAI_API_KEY'), os.environ.get('OPENAI_BASE_URL'), 'GEMINI_API_KEY' in os.environ)"
    )
    ended = await ran(job(said, more="env: {OPENAI_API_KEY: mine}"), store)
    assert "mine None True" in ended.jobs["asks"]["log"]


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_BASE_URL"])
def test_a_key_or_an_address_of_a_file_keeps_its_provider_as_it_is(name: str) -> None:
    given = {"OPENAI_API_KEY": "t", "OPENAI_BASE_URL": "g", "OPENAI_QUIET": "1", "GEMINI_API_KEY": "t", "NO_PROXY": "g"}
    own = {name: "mine", "NO_PROXY": "intranet"}
    made = environment_of(own, {**given, "GOOGLE_API_KEY": None})
    assert made == {name: "mine", "OPENAI_QUIET": "1", "GEMINI_API_KEY": "t", "NO_PROXY": "intranet,g"}
    assert "GEMINI_API_KEY" not in environment_of({"GOOGLE_API_KEY": "mine"}, {**given, "GOOGLE_API_KEY": None})
