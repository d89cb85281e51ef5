"""What is said of runs that wait for a store: as long as they do, and that they go on when they do."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.values.ids import RunId
from holdfast.engine.runs.blocked_runs import BlockedRuns
from holdfast.errors import StoreError
from holdfast.platform.machine import MachineClock

RUN = RunId("run")


class PromptMessage:
    """What the session of a process has said of itself."""

    def __init__(self) -> None:
        self.hindrances = BlockedRuns(MachineClock(), lambda: 1, self._tell)
        self.runs: list[list[RunId]] = []

    async def _tell(self) -> None:
        self.runs.append([each.run for each in self.hindrances.list_blocked()])


def log_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message.partition(" run")[0] for record in caplog.records]


async def test_a_run_waits_until_the_last_of_its_steps_does_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    said = PromptMessage()
    with said.hindrances.over(RUN) as one:
        one(StoreError("The bucket is away."))
        one(StoreError("The bucket is still away."))
        with said.hindrances.over(RUN) as another:
            another(StoreError("The disk is full."))
        with said.hindrances.over(RUN):
            pass  # what a third asks of the store is there
        assert [each.reason for each in said.hindrances.list_blocked()] == ["The disk is full."]
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert said.runs == [[RUN], []]
    assert log_of(caplog) == ["holdfast waits to go on with", "holdfast goes on with"]


@pytest.mark.parametrize("end", [asyncio.CancelledError, StoreError], ids=["told to stop", "gave up"])
async def test_who_waits_no_longer_and_got_nothing_does_not_go_on(
    end: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    said = PromptMessage()

    async def wait() -> None:
        with said.hindrances.over(RUN) as note:
            note(StoreError("The bucket is away."))
            raise end

    with pytest.raises(end):
        await wait()
    assert said.hindrances.list_blocked() == ()
    assert log_of(caplog) == ["holdfast waits to go on with"]
