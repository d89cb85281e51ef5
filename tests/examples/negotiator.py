"""A process that negotiates until all is over, or until it has seen so many commits: then it kills itself with SIGKILL.

    python -m tests.examples.negotiator FOLDER STORE COMMITS ['{"name": …}' …]

FOLDER has the time, the suppliers' books and what was said; STORE is a file in it or the address of a PostgreSQL. Never here: what is
right.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from examples.negotiation import market
from examples.negotiation.rehearsal import Answer, Rehearsal
from examples.negotiation.status import standing
from examples.negotiation.workflow import Item, Purchase, begin, hours, wf
from holdfast import Engine
from holdfast.ports import EventsCommitted, Observation
from holdfast.testing import VirtualTime

TENANT = "acme"


class Dies:
    """Ends the process after so many commits of its own."""

    def __init__(self, commits: int) -> None:
        self._left = commits

    def __call__(self, observation: Observation, /) -> None:
        if isinstance(observation, EventsCommitted) and observation.own:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class StoreTime:
    """That of a store which cannot leap."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self) -> int:
        return self._engine.now_ms()

    def reach(self, at_ms: int) -> None:
        """It comes by itself."""


def answers_of(cases: list[dict[str, Any]]) -> dict[str, list[Answer]]:
    """What people say; a case has it as hours and a decision."""
    return {case["name"]: [Answer(hours(after), *said) for after, *said in case.get("answers", ())] for case in cases}


async def negotiate(folder: Path, store: str, commits: int, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """How each case stands at the end, and how many commits there were."""
    market.open_at(folder / "market.db")
    seen = 0

    def count(observation: Observation, /) -> None:
        nonlocal seen
        seen += isinstance(observation, EventsCommitted) and observation.own

    async with AsyncExitStack() as stack:
        virtual = VirtualTime(folder / "time") if not store.startswith("postgresql") else None
        opened: Any = store if virtual is None else await stack.enter_async_context(virtual.store(folder / store))
        engine = await stack.enter_async_context(Engine.open(opened, workflows=[wf], observers=[count, Dies(commits)]))
        time: Any = virtual or StoreTime(engine)
        today = datetime.datetime.fromtimestamp(engine.now_ms() / 1000, datetime.UTC).date()
        answers, runs = answers_of(cases), {}
        for case in cases:
            deadline = today.replace(month=12, day=31) + datetime.timedelta(days=60)
            purchase = Purchase(category=case["category"], items=[Item(sku="x", pieces=case["pieces"])], deadline=deadline)
            runs[case["name"]] = await begin(engine, TENANT, purchase)
        names = {run.id: name for name, run in runs.items()}

        def people(run: str, reason: str, number: int) -> Answer | None:
            said = answers[names[run]] if reason == "approval" else []
            return said[number] if number < len(said) else None

        async def over() -> bool:
            return all([bool((await run.state()).ended) for run in runs.values()])

        await Rehearsal(engine, time, people).until(over)
        found = {name: str(standing(await run.state())) for name, run in runs.items()}
    return {"standing": found, "commits": seen}


if __name__ == "__main__":
    given = [json.loads(each) for each in sys.argv[4:]]
    print(json.dumps(asyncio.run(negotiate(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), given))))
