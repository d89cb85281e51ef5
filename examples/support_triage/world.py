"""Everything around the runs in the demo: its processes, what they have written down, and what the store says.

Never here: the order of events (demo), an operator's decisions (on_call).
"""

from __future__ import annotations

import asyncio
import json
import smtplib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from examples.journals import ModelJournal
from examples.show import Show
from examples.stage import HOLDFAST, LOOPBACK, Child, Stage, StageError
from examples.support_triage.judge import KILLS, MailJournal, Ticket, usd
from examples.support_triage.workflow import HERE
from holdfast import Engine
from holdfast.core.views.projection import EffectRow, RunRow

LOOK_S = 0.01
PATIENCE_S = 240.0
"""A machine that has come to a halt is no broken promise."""
SMTP_TIMEOUT_S = 10.0

Condition = Callable[[], bool | Awaitable[bool]]


@dataclass
class World:
    stage: Stage
    engine: Engine
    show: Show
    store: str
    tickets: Sequence[Ticket]
    workflow: str
    """FILE:NAME, as the worker is told."""
    environment: Mapping[str, str]
    mail_server: Child
    mail_port: int
    mails: MailJournal
    models: ModelJournal | None
    """None where the models are real."""
    rows: Sequence[RunRow] = ()
    kills: list[float] = field(default_factory=list)
    worker: Child | None = None
    reviewer: Child | None = None

    # --- The worker ---------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        """How many steps run at once: few enough that the tickets take a while."""
        return max(2, len(self.tickets) // 4)

    async def start_worker(self) -> None:
        command = (*HOLDFAST, "worker", self.workflow, "--slots", str(self.slots))
        self.worker = await self.stage.start("worker", *command, environment=self.environment, cwd=HERE)

    async def kill_worker(self) -> tuple[int, int]:
        """kill -9. Returns its pid, and how many model calls were on their way, as the other side saw it."""
        worker, self.worker = self.worker, None
        assert worker is not None
        at_unix_s = time.time()
        calls = self.model_calls_in_flight()
        await worker.kill()
        self.kills.append(at_unix_s)
        (self.stage.directory / KILLS).write_text(json.dumps(self.kills))
        return worker.pid, calls

    # --- What is going on ---------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        return sum(row.ended_at_ms is not None for row in self.rows)

    def ticket_of(self, run: str) -> str:
        return next((row.key or run for row in self.rows if row.run == run), run)

    def model_calls_in_flight(self) -> int:
        if self.models is not None:
            return len(self.models.in_flight(time.time()))
        return sum(row.held_nanousd > 0 for row in self.rows)

    async def emails_in(self, state: str) -> list[EffectRow]:
        """The ledger's lines about e-mails that are `intended` or `in_doubt`."""
        lines = await self.engine.effects(state=state)
        return [line for line, _ in lines if line.tool == "send_email"]

    async def look(self) -> None:
        """Read the runs, and make sure that everybody is there who should be."""
        self.rows = await self.engine.runs()
        for child in (self.mail_server, self.worker):
            if child is not None and not child.alive:
                raise StageError(f"The {child.name} has ended by itself:\n{child.last_words()}")
        if self.reviewer is not None and self.reviewer.failed:  # done with her work, she leaves
            raise StageError(f"The {self.reviewer.name} has failed:\n{self.reviewer.last_words()}")

    def facts(self) -> dict[str, str]:
        """The state of things, for the audience."""
        by_status: dict[str, int] = {}
        for row in self.rows:
            by_status[row.status] = by_status.get(row.status, 0) + 1
        words = {"waiting": "to approve", "requires_attention": "in question", "budget_blocked": "out of money"}
        facts = {words.get(name, name): str(by_status[name]) for name in sorted(by_status) if name != "completed"}
        if self.models is not None:
            facts["model calls"] = str(len(self.models.calls()))
        facts["e-mails"] = str(len(self.mails.records()))
        spent, doubt = (sum(getattr(row, name) for row in self.rows) for name in ("settled_nanousd", "in_doubt_nanousd"))
        facts["spent"] = usd(spent) + (f" + {usd(doubt)} in doubt" if doubt else "")
        return facts

    async def until(self, met: Condition, what: str) -> None:
        """Wait for something to be seen. Raises StageError if it is not."""
        if not await self.comes_true(met, within_s=PATIENCE_S):
            raise StageError(f"Waited {PATIENCE_S:g} s for {what}.")

    async def comes_true(self, met: Condition, *, within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            found = met()
            if found if isinstance(found, bool) else await found:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def mail_server_caught_up(self) -> None:
        """Returns when the mail server has read what was sent to it before: one that answers us is awake."""

        def greet() -> None:
            with smtplib.SMTP(LOOPBACK, self.mail_port, local_hostname="localhost", timeout=SMTP_TIMEOUT_S) as server:
                server.noop()

        await asyncio.to_thread(greet)
