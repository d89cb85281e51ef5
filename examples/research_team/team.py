"""Who is in the team, what it may spend, and the desk where its questions are taken. Never here: how a question is answered."""

from __future__ import annotations

from typing import Final

from examples.research_team.workflow import wf
from holdfast import Engine, Supervisor, TeamAgent, WorkerAgent

BUDGET: Final = "research"
TOTAL_USD: Final = "0.06"
TEAM: Final = {
    "planner": TeamAgent(2.0, initial_allocation=0.15),
    "researcher": TeamAgent(1.0, initial_allocation=0.2),
    "writer": TeamAgent(1.5, initial_allocation=0.25),
    "critic": TeamAgent(1.0),
}
"""A draft may cost more than the writer has: the rest is borrowed from who is idle, and what is not used of it goes back."""
AT_ONCE: Final = 2


async def hired(engine: Engine) -> Supervisor:
    """The desk: it takes as many questions as the team can work on, and refuses the rest with a time for another try."""
    await engine.set_team_budget(BUDGET, TEAM, total_usd=TOTAL_USD)
    planner = WorkerAgent("planner", wf, ["question"], max_concurrent=AT_ONCE)
    return await engine.set_supervisor("research desk", [planner], team_budget=BUDGET)
