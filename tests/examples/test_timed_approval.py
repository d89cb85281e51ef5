"""The example of an approval with a time limit does what it says, in either case."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.timed_approval import Verdict, approval
from holdfast import Engine, Run
from holdfast.core.facts import events as ev
from holdfast.errors import AlreadyDecided, Conflict, NotFound
from tests.engine.history import events_of
from tests.engine.kit import Time, engine_at, gate_of

REQUEST = {"what": "a standing desk", "amount_eur": 640}


async def asked(engine: Engine) -> tuple[Run, str]:
    run = await engine.start(approval, REQUEST)
    return run, await gate_of(run)


async def test_an_approval_in_time_is_one_and_its_limit_is_called_off(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[approval]) as engine:
        run, gate = await asked(engine)
    now.forward(days=1)
    async with engine_at(tmp_path, now, workflows=[approval]) as engine:
        run = engine.run(run.id)
        await engine.decide(gate, "approve", by="grace")
        assert await run.result() == Verdict(outcome="approved", by="grace")
        assert await events_of(run, ev.TimerFired, ev.EffectIntended) == []


async def test_an_approval_that_is_not_given_in_time_is_withdrawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[approval]) as engine:
        run, gate = await asked(engine)
    now.forward(days=3)
    async with engine_at(tmp_path, now, workflows=[approval]) as engine:
        run = engine.run(run.id)
        assert await run.result() == Verdict(outcome="nobody answered", by=None)
        assert (await run.state()).gates == {}
        with pytest.raises((Conflict, NotFound, AlreadyDecided)):
            await engine.decide(gate, "approve", by="grace")
    assert capsys.readouterr().out == "to the head of the team: Nobody answered in time: a standing desk\n"
