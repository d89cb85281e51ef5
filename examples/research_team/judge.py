"""What really happened: counted by the library and the model server, beside what Holdfast's books say.

Never here: anything that a run of the demo could have told about itself without being asked by somebody else.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.journals import JUST_AFTER_S, JUST_BEFORE_S, ModelJournal, cost_nanousd
from examples.research_team import library
from examples.research_team.team import BUDGET
from examples.research_team.workflow import DRAFTS, MODELS
from examples.show import Figures, Promise, Verdict, many
from holdfast import Engine
from holdfast.core.facts import events as ev
from holdfast.core.values.money import usd
from holdfast.models.prices import Prices

CALLS, READS = "model-calls.jsonl", "library.jsonl"


async def account(
    directory: Path, engine: Engine, answers: Sequence[dict[str, Any]], asked: int, kill_unix_s: float
) -> Verdict:
    """The verdict on a demo that has ended, with these answers to the questions that were `asked`."""
    models, reads = ModelJournal(directory / CALLS), library.read(directory / READS)
    calls = models.calls()
    billed = sum(cost_nanousd(Prices(), call) for call in calls)
    books = (await engine.team_dashboard(BUDGET)).money
    assert books is not None
    report = await engine.routing_report(MODELS, *await _days(engine))
    history = [each.event for row in await engine.runs() for each in await engine.run(row.run).events()]
    held = [event for event in history if isinstance(event, ev.ModelCallHeld)]
    settled = sum(isinstance(event, ev.ModelCallSettled) for event in history)
    doubts = sum(isinstance(event, ev.ModelCallInDoubt) for event in history)
    loans = [sum(event.loans.values()) for event in held if event.loans]
    lost = Counter(
        call.request_sha256 for call in models.in_flight(kill_unix_s, just_before_s=JUST_BEFORE_S, just_after_s=JUST_AFTER_S)
    )
    again = Counter(call.request_sha256 for call in calls)
    again.subtract({*again})
    unsettled = {topic for topic, at in reads if kill_unix_s - JUST_BEFORE_S < at < kill_unix_s + JUST_AFTER_S}
    twice = [topic for topic, count in Counter(topic for topic, _ in reads).items() if count > 1]
    remembered = [topic for each in answers for topic in each["remembered"]]
    drafts, objections = [each["drafts"] for each in answers], sum(bool(each["objection"]) for each in answers)
    by_model = Counter(call.model for call in calls)
    committed = books.used + books.held + books.in_doubt
    return Verdict(
        (
            Figures("questions", f"{asked} asked", f"{len(answers)} answered"),
            Figures("pages read", str(len(reads)), f"{many(len(remembered), 'topic')} known from memory"),
            Figures("model calls", str(len(calls)), f"{settled} settled, {doubts} in doubt"),
            Figures(
                "  by model",
                ", ".join(f"{count} {model}" for model, count in sorted(by_model.items())),
                f"{report.saved_percent:.0f} % saved against always {report.dearest}",
            ),
            Figures("cost", f"${usd(billed)}", f"${usd(books.used)} + ${usd(books.in_doubt)} in doubt of ${usd(books.total)}"),
            Figures("borrowed", "", f"for {many(len(loans), 'call')}, ${usd(max(loans, default=0))} at most"),
        ),
        (
            Promise("Every question was answered", len(answers) == asked, "; ".join(each["answer"] for each in answers)),
            Promise(
                "No completed model call was made again",
                all(count <= lost[hash_] for hash_, count in again.items()),
                f"{many(again.total(), 'request')} came again, {many(lost.total(), 'call')} in flight at the kill",
            ),
            Promise(
                "No page was read again that the team knew",
                {*twice} <= unsettled and len(remembered) > 0,
                f"from memory: {', '.join(remembered)}; lost with the worker and read again: {', '.join(twice) or 'none'}",
            ),
            Promise(
                "The team never spent above its total",
                billed <= committed <= books.total and books.held == 0,
                f"{', '.join(f'{name} ${usd(agent.used)}' for name, agent in books.agents.items())}",
            ),
            Promise(
                "A critic who sees the last draft ends, or is ended",
                drafts == [2, DRAFTS, 1],
                f"drafts: {', '.join(map(str, drafts))}; {objections} published with an objection",
            ),
            Promise(
                "What a page says is no instruction",
                not any("Go to the East" in each["answer"] for each in answers),
                "its words were quoted to the writer",
            ),
        ),
    )


async def _days(engine: Engine) -> tuple[str, str]:
    """The first and the last day of the demo, which may go over midnight."""
    began = min([row.started_at_ms for row in await engine.runs()])
    first = datetime.datetime.fromtimestamp(began / 1000, datetime.UTC).date()
    return first.isoformat(), (first + datetime.timedelta(days=1)).isoformat()
