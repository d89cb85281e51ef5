"""`holdfast.budget` and `holdfast.capped` around the official SDKs. The provider's journal says which calls were made."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import holdfast
from holdfast.errors import UsageError
from holdfast.testing.model_rule import Fault, Rule
from holdfast.testing.model_server import ModelServer

PATIENCE_S = 60
MODEL = "claude-haiku-4-5"
QUESTION: Any = {"max_tokens": 50, "messages": [{"role": "user", "content": "Hi."}]}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def ended(run_id: str) -> tuple[str, Decimal]:
    """How a run stands for another process."""
    with holdfast.sync.open("sqlite:///holdfast.db", execute=False) as engine:
        state = engine.run(run_id).state()
        return state.ended or "running", Decimal(state.budget.settled_nanousd) / 10**9


def test_calls_of_both_sdks_are_paid_from_the_budget_and_refused_after_the_block(server: ModelServer) -> None:
    with holdfast.budget("0.50") as budget:
        claude = anthropic.Anthropic(**budget.anthropic_client_kwargs(), max_retries=0)
        gpt = openai.OpenAI(**budget.openai_client_kwargs(), max_retries=0)
        assert claude.messages.create(model=MODEL, **QUESTION).content
        first = budget.spent_usd
        assert gpt.chat.completions.create(model="gpt-4.1-nano", **QUESTION).choices
        assert Decimal(0) < first < budget.spent_usd
        assert budget.left_usd == Decimal("0.50") - budget.spent_usd
    with pytest.raises(anthropic.AuthenticationError, match="has ended"):
        claude.messages.create(model=MODEL, **QUESTION)
    with pytest.raises(openai.AuthenticationError, match="has ended"):
        gpt.chat.completions.create(model="gpt-4.1-nano", **QUESTION)
    assert len(server.calls) == 2
    assert ended(budget.run_id) == ("completed", budget.spent_usd)


def test_at_the_limit_a_call_is_refused_and_the_run_of_the_block_ends(server: ModelServer) -> None:
    with pytest.raises(anthropic.APIStatusError) as refused, holdfast.budget("0.0001") as budget:
        anthropic.Anthropic(**budget.anthropic_client_kwargs()).messages.create(model=MODEL, **QUESTION)
    assert refused.value.status_code == 402
    assert server.calls == []
    assert (budget.spent_usd, budget.left_usd) == (Decimal(0), Decimal("0.0001"))
    assert ended(budget.run_id) == ("cancelled", Decimal(0))


async def test_async_functions_have_budgets_of_their_own_at_the_same_time(server: ModelServer) -> None:
    @holdfast.capped("0.50")
    async def ask(number: int, *, budget: holdfast.Budget) -> str:
        async with anthropic.AsyncAnthropic(**budget.anthropic_client_kwargs()) as client:
            await asyncio.gather(*(client.messages.create(model=MODEL, **QUESTION) for _ in range(number)))
        return budget.run_id

    one, two = await asyncio.gather(ask(1), ask(2))
    spent = [(await asyncio.to_thread(ended, run))[1] for run in (one, two)]
    assert spent[1] == 2 * spent[0] > 0
    assert len(server.calls) == 3


def test_a_capped_function_that_raises_ends_its_run_and_a_generator_is_refused(server: ModelServer) -> None:
    runs = []

    @holdfast.capped("0.50")
    def fail(*, budget: holdfast.Budget) -> None:
        runs.append(budget.run_id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert ended(runs[0]) == ("completed", Decimal(0))

    def count(*, budget: holdfast.Budget) -> Iterator[int]:
        yield 1

    with pytest.raises(UsageError, match="a generator goes on"):
        holdfast.capped("0.50")(count)
    with pytest.raises(UsageError, match="Pass a limit"):
        holdfast.budget(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not open"):
        _ = holdfast.budget("0.50").spent_usd


def test_a_child_process_spends_from_the_budget(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-key")
    text = f"import anthropic; anthropic.Anthropic().messages.create(model={MODEL!r}, **{QUESTION!r})"
    with holdfast.budget("0.50") as budget:
        subprocess.run([sys.executable, "-c", text], env=budget.env, check=True)
        assert budget.spent_usd > 0


def test_a_killed_block_is_ended_by_the_next_and_its_call_counts_as_spent(server: ModelServer, tmp_path: Path) -> None:
    server.script.add(Rule(nth=1, fault=Fault("hang")))
    (tmp_path / "killed.py").write_text(
        "import anthropic, holdfast\n"
        "with holdfast.budget('0.50') as budget:\n"
        "    print(budget.run_id, flush=True)\n"
        "    client = anthropic.Anthropic(**budget.anthropic_client_kwargs())\n"
        f"    client.messages.create(model={MODEL!r}, **{QUESTION!r})\n"
    )
    killed = subprocess.Popen([sys.executable, "killed.py"], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    run_id = killed.stdout.readline().strip()
    until_s = time.monotonic() + PATIENCE_S
    while not server.calls and time.monotonic() < until_s:
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    assert len(server.calls) == 1
    assert ended(run_id)[0] == "running"
    with holdfast.budget("0.50") as budget, holdfast.sync.open("sqlite:///holdfast.db", execute=False) as engine:
        with holdfast.sync.timeout(PATIENCE_S):
            state = engine.run(run_id).settled()
        assert state.ended == "failed"
        assert state.budget.in_doubt_nanousd > 0
        assert budget.spent_usd == 0
    assert len(server.calls) == 1
