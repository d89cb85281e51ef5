"""Money in doubt is listed with what is known of it, and settled as a person says: at once, or by a rule of his."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Workflow, llm_node
from holdfast.core.facts.events import ModelCallReconciled
from holdfast.engine.background.doubt import DoubtRule, Doubts
from holdfast.models.providers import Providers
from holdfast.settings import BudgetRules, Settings
from holdfast.testing.model_server import Fault, ModelServer, Rule
from tests.engine.kit import Time, engine_at, opened

asks = Workflow("asks")


@asks.node("answer")
@llm_node(model="claude-haiku-4-5", max_tokens=100)
async def _answer(state: object) -> str:
    return "How much?"


async def test_money_in_doubt_is_listed_with_what_is_known_until_it_is_reconciled(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=2, fault=Fault("missing_usage")))
    async with opened(store, workflows=[asks], model=model) as engine:
        runs = [await engine.start(asks, tenant=tenant) for tenant in ("acme", "other", "acme")]
        await asyncio.gather(*(run.result() for run in runs))
        found = await engine.doubts()
        row = {each.run: each for each in found}[found[0].run]
        assert len(found) == 2, "the third call's cost is known"
        assert (row.step, row.model, row.workflow) == ("answer#1", "claude-haiku-4-5", "asks")
        assert row.hold_nanousd > 0
        assert 0 < row.sent_at_ms <= row.in_doubt_since_ms
        assert row.session == engine.runtime.membership.session
        assert [each.run for each in await engine.doubts(run_id=row.run)] == [row.run]
        assert not await engine.doubts(until_ms=row.sent_at_ms - 1)
        assert {each.tenant for each in await engine.doubts(tenant="acme")} <= {"acme"}
        await engine.reconcile(row.call, "0.001", by="ada")
        assert [each.call for each in await engine.doubts()] == [each.call for each in found if each != row]


@pytest.mark.parametrize("is_unspent", [True, False])
async def test_a_rule_settles_doubts_after_its_time_and_the_history_names_its_author(
    tmp_path: Path, server: ModelServer, model: Providers, is_unspent: bool
) -> None:
    now = Time()
    server.script.add(Rule(times=1, fault=Fault("missing_usage")))
    rules = Settings(budget=BudgetRules(doubt_after_h=2, settle="unspent" if is_unspent else "hold", set_by="ada"))
    async with engine_at(tmp_path, now, workflows=[asks], model=model, settings=rules) as engine:
        run = await engine.start(asks)
        await run.result()
        (doubt,) = await engine.doubts()
        rule = DoubtRule(2, is_unspent, "ada")
        await Doubts(engine.runtime, None).turn()
        await Doubts(engine.runtime, rule).turn()
        now.forward(1.9 * 3600)
        await Doubts(engine.runtime, rule).turn()
        assert await engine.doubts(), "nobody has said anything of one that is this young"
        now.forward(0.2 * 3600)
        await Doubts(engine.runtime, rule).turn()
        assert not await engine.doubts()
        (told,) = [each.event for each in await run.events() if isinstance(each.event, ModelCallReconciled)]
        assert (told.cost_nanousd, told.by, told.rule) == (0 if is_unspent else doubt.hold_nanousd, "ada", str(rule))
