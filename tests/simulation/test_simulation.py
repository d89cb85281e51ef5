"""Random programs among random faults in virtual time: a selection of those that `make simulate` runs for longer.

Every seed is a promise to itself: what fails here fails again with
`python -m tests.simulation --seed N --mode MODE`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.actions.expressions import Condition
from holdfast.actions.jobs import decision, job, once, spread_job
from holdfast.actions.jobs.once import tool_of
from holdfast.authoring.tool import Tool
from holdfast.core import (
    calls,
    commands,
    conversations,
    decide,
    gates,
    money,
    readiness,
    schedules,
    scores,
    supervision,
    waits,
)
from holdfast.core.conversations import Conversation, Exchange, Exchanges
from holdfast.core.decision import Decision
from holdfast.core.ids import RunId
from holdfast.core.money import Budget
from holdfast.core.schedules import Schedule
from holdfast.core.tool_policy import StandingApproval
from holdfast.engine import function, journal
from holdfast.engine.semantic_cache import CachedAnswers
from holdfast.errors import InvalidDecision
from holdfast.models import gateway, routing
from holdfast.models.prices import Price
from holdfast.tools.executor import ToolExecutor
from tests.simulation.loop import SimulatedLoop
from tests.simulation.report import Report
from tests.simulation.simulation import Kind, Mode, simulate

SELECTED = 225
MOST = 1500
RARE = {"OutcomeOrphaned", "OperationReused", "EffectDeferred"}
"""Events that so few programs may miss: about one in three thousand sees an orphan, one in a thousand an effect deferred."""


def test_no_program_breaks_a_promise() -> None:
    """Nor is there a kind of event, fault, node, join or fate of a job that none of them has seen: it would prove nothing."""
    report = Report()
    for seed in range(MOST):
        report.add(simulate(seed))
        if report.programs >= SELECTED and _is_rare(report.unseen()):
            break
    assert [(failed.seed, failed.mode, failed.violations) for failed in report.failed] == []
    assert _is_rare(report.unseen())


def _is_rare(unseen: dict[str, list[str]]) -> bool:
    return set(unseen) <= {"events"} and RARE.issuperset(unseen.get("events", ()))


@pytest.mark.parametrize(
    "seed", [
        1567, 1928, 2398, 2417, 2473, 2521, 3001764, 3004300, 4227, 21112, 50796, 61832, 65022, 111029, 112853, 122278, 124312, 204937, 220983, 299149, 5000335,
        7000060, 20876, 39041, 40131, 7100389, 7100612, 8000089, 8001364,
    ],
)  # fmt: skip
def test_what_once_broke_a_promise_keeps_it(seed: int) -> None:
    """A run at its limit that was looked at for ever; a decision refused because it came with a migration; a lookup's
    error that no replay saw; a step whose start nobody here knew of; an outcome lost with the time of its attempt; a part
    of a pool that nobody gave back; a place that was given away while its step began; an effect that other code did again; a
    pool that was held for the dead until a clock came to where another had been, or closed until then; a debt that nobody
    looked at again once it was paid; a part that an heir had no use for, and kept; the refusal of an append that nobody
    had heard when its process was killed, of which asyncio complained; a turn that came while a snapshot was written, so
    that two appends were under way; an effect of which a step waited to hear whose own step had failed, so that nobody looked it
    up; a task that was forgotten, by a clock that had jumped, while somebody had its end to write down; a time
    of a schedule that was missed while another waited, and counted at each look; an agent that gave back a loan in the append of
    its next hold, and was refused it for ever; a person who answered in a tool's place over what the journal had there; an
    approval that was used after its end, by a process whose clock was behind; gates that expired at one moment, of which one
    took back the others, so that nobody looked at their run any more. Or seemed to: a visit that had not begun
    when its run was taken up again, and that came again under its name; new ids that other code gathered, of which no journal tells."""
    assert simulate(seed, made_of="python").violations == []


@pytest.mark.parametrize(
    ("seed", "mode"),
    [
        (223, None),
        (256, None),
        (301012, None),
        (12386, "progress"),
        (49153, "safety"),
        (901698, "safety"),
        (40244, "safety"),
    ],
)
def test_what_a_file_once_broke_it_keeps(seed: int, mode: Mode | None) -> None:
    """The error of a script that was broken off, of which nobody was told but asyncio; a pool's share that a process went on
    using under its next session. Or seemed to: a script that was begun by a process which had stood still, while its run
    had failed elsewhere and been taken up again; a line in which others waited for hours for a script that hung;
    a step that runs once and had not run, whose name another combination took."""
    assert simulate(seed, mode, made_of="file").violations == []


# --- A seed repeats itself --------------------------------------------------------------------------------------------

TELL = (
    "import holdfast, sys\n"
    "from tests.simulation import simulation\n"
    "for module in (holdfast, simulation):\n"
    "    assert module.__file__.startswith(sys.argv[1]), module.__file__\n"
    "for seed in range(300, 312):\n"
    "    told = simulation.simulate(seed)\n"
    "    print(seed, told.history, told.steps, told.status)\n"
)
REPOSITORY = Path(__file__).parents[2]


def test_a_seed_repeats_itself_anywhere(tmp_path: Path) -> None:
    """Neither what was simulated before nor the process, its folder, its user and its surroundings change what a seed does."""
    told = []
    for number, folder in enumerate(("a", "another place/of a much longer näme")):
        place = tmp_path / folder
        (place / "home" / "tmp").mkdir(parents=True)
        (place / "holdfast").symlink_to(REPOSITORY / "src" / "holdfast")
        (place / "tests").symlink_to(REPOSITORY / "tests")
        surroundings = {
            "PYTHONPATH": str(place), "PYTHONHASHSEED": str(number), "HOME": str(place / "home"), "USER": f"user{number}",
            "LOGNAME": f"user{number}", "TMPDIR": str(place / "home" / "tmp"), "TZ": ("UTC", "Asia/Kolkata")[number],
            "LC_ALL": ("C", "C.UTF-8")[number],
        }  # fmt: skip
        told.append(
            subprocess.run(
                [sys.executable, "-c", TELL, str(place)],
                env=os.environ | surroundings,
                cwd=(place, "/")[number],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert told[0] == told[1]
    for seed in (311, 303):
        outcome = simulate(seed)
        assert f"{seed} {outcome.history} {outcome.steps} {outcome.status}" in told[0]


# --- The simulation can fail --------------------------------------------------------------------------------------------

ENOUGH = 400


def found(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, broken: Any, *faults: str, made_of: Kind = "python",
    first: int = 0,
) -> str:  # fmt: skip
    """The first promise that a program breaks with `where.name` broken; empty if none of many does.

    `faults`, where given, are all that happens in them. `first` is where one in hundreds is known to be.
    """
    monkeypatch.setattr(where, name, broken)
    for seed in range(first, first + ENOUGH):
        outcome = simulate(seed, kinds=faults or None, made_of=made_of)
        if outcome.violations:
            return outcome.violations[0].partition(":")[0]
    return ""


def always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def test_a_limit_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "could_fit_later", always(True))
    assert found(monkeypatch, money.Budget, "fits", always(True)) == "settled + held + in doubt ≤ limit"


def test_a_call_that_is_settled_at_another_price_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, Price, "cost_nanousd", always(1)) == "what is settled is what was billed, once"


def test_a_lease_that_is_not_looked_at_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(monkeypatch, journal.StepJournal, "may_send", always(True), "freeze_after_commit", first=229)
    # The second where somebody else has taken the call over by then, so that its intent is no longer there to be found.
    assert broken in ("nobody sends past his lease", "nothing is called without a durable intent")


def test_a_schedule_that_forgets_the_run_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = schedules.begun

    def forgetful(schedule: Schedule, runs: Sequence[RunId]) -> Schedule:
        return msgspec.structs.replace(begun(schedule, runs), last_run=None)

    told = found(monkeypatch, schedules, "begun", forgetful, "scheduled")
    assert told in ("no time has its run while the one before goes on", "what goes on is cancelled for the next")


def test_a_supervisor_that_forgets_who_is_at_work_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = supervision.ended

    def forgetful(*given: Any) -> Any:
        after, task = ended(*given)
        return msgspec.structs.replace(after, active=()), task

    told = found(monkeypatch, supervision, "ended", forgetful, "supervised")
    assert told == "no task is lost, and none is done for ever"


def test_a_loop_without_a_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, readiness, "may_loop", always(True))


def test_a_timer_that_fires_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fire = waits.fire_due

    def early(d: Any) -> None:
        d.now_ms += 100_000
        fire(d)
        d.now_ms -= 100_000

    monkeypatch.setattr("holdfast.core.tick.waits.fire_due", early)
    assert found(monkeypatch, waits, "fire_due", early)


def test_a_lost_effect_that_is_repeated_whatever_its_policy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = frozenset({"read", "idempotent", "verify", "once"})
    assert found(monkeypatch, calls, "REPEATABLE", everything)


def test_a_function_that_is_called_again_though_its_result_is_recorded_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forgotten(*_: Any) -> None:
        return None

    assert (
        found(monkeypatch, function, "_known", forgotten, "handler_raises", "function_raises", "crash_after_commit")
        == "a replay sees what was seen"
    )


def test_a_job_that_runs_whatever_has_become_of_those_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = found(monkeypatch, Condition, "evaluate", always(True), made_of="file")
    assert broken in ("a job runs if its condition says so", "a combination is what its steps have come to")


def test_a_job_that_sees_what_nobody_has_recorded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    output_of = decision.output_of

    def invented(*given: Any) -> dict[str, Any]:
        return {**output_of(*given), "outputs": {"v": "invented", "last": "", "numbers": ""}}

    broken = found(monkeypatch, decision, "output_of", invented, made_of="file")
    assert broken == "a job sees what is recorded of those before it"


def test_a_combination_that_is_run_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    combination = spread_job.SpreadJob.combination

    async def forgotten(self: Any, ctx: Any, number: int) -> dict[str, Any]:
        done = await combination(self, ctx, number)
        if not job.plan_of(self._job.strategy, self._decision.contexts(await ctx.view())).fail_fast:
            ctx.provisional = True  # who takes the run up does it again
        return done

    broken = found(monkeypatch, spread_job.SpreadJob, "combination", forgotten, made_of="file")
    # The third where the run is taken up for nothing else.
    assert broken in (
        "a combination that has succeeded is not run again",
        "a combination is done once",
        "a job always ends with a result",
    )


def test_a_failure_that_stops_no_other_combination_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = job.plan_of

    def unmoved(*given: Any) -> Any:
        return msgspec.structs.replace(plan(*given), fail_fast=False)

    broken = found(monkeypatch, spread_job, "plan_of", unmoved, made_of="file", first=101)
    assert broken == "a failure stops the other combinations"


def test_a_message_that_is_answered_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count()

    def another_each_time(conversation: Conversation, number: int) -> str:
        return f"conversation/{next(asked)}/{number}"

    broken = found(monkeypatch, conversations, "key_of", another_each_time, "crash_after_commit", made_of="talk")
    assert broken == "one run answers a message"


def test_a_branch_that_is_told_of_what_was_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(exchanges: Exchanges, number: int | None) -> list[Exchange]:
        return [each for each in exchanges.values() if number is not None and each.number <= number]

    broken = found(monkeypatch, conversations, "path", all_of_it, made_of="talk")
    assert broken == "an agent is told what was said before it"


def test_a_step_that_runs_once_and_is_repeated_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*given: Any) -> Tool:
        tool = tool_of(*given)
        tool.policy = "idempotent"
        return tool

    broken = found(monkeypatch, once, "tool_of", careless, "crash_any_time", "script_supervisor_killed", made_of="file")
    # The second where it had not happened the first time that it was sent.
    assert broken in ("a `once` effect is not called again unasked", "a combination is what its steps have come to")


def test_outputs_that_are_not_those_of_the_last_to_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    together = job.together

    def reversed_(of: Any, ended: list[Any]) -> Any:
        return together(of, ended[::-1])

    assert (
        found(monkeypatch, spread_job, "together", reversed_, made_of="file") == "a job gives what its steps have given"
    )


def test_an_approval_that_is_never_used_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stands(approval: StandingApproval, now_ms: int) -> bool:
        return approval.revoked_by is None and now_ms < approval.until_ms

    told = found(monkeypatch, StandingApproval, "stands", stands, first=63)
    assert told == "an approval stands for no more calls than was said"


def test_an_approval_of_any_call_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(monkeypatch, StandingApproval, "covers", always(True), first=3)
    assert told == "an approval is for the calls that it covers"


def test_an_approval_of_somebody_whom_nobody_asks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(monkeypatch, StandingApproval, "_may_decide", always(True), first=1716)
    assert told == "an approval is for the calls that it covers"


def test_a_call_that_nobody_is_asked_about_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unasked(*_: Any) -> bool:
        return False

    told = found(monkeypatch, ToolExecutor, "_is_asked", unasked, first=3)
    assert told == "each call that needs a word has one of its own"


def test_a_part_of_what_is_answered_together_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def what_it_can(d: Decision, together: commands.DecideTogether) -> None:
        for each in together.decisions:
            with contextlib.suppress(InvalidDecision):
                gates.decide_gate(d, each)

    rules: Any = decide._RULES
    monkeypatch.setitem(rules, commands.DecideTogether, what_it_can)
    told = found(monkeypatch, gates, "decide_together", what_it_can, first=30)
    assert told == "answers that are given together are taken together, or none is"


def test_vectors_without_a_bound_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(monkeypatch, gateway, "embedded_tokens_at_most", always(1), first=69)
    assert told == "no call takes more than was held for it"


def test_a_router_that_asks_whom_it_likes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(monkeypatch, routing, "refusal", always(None), first=3)
    assert told == "a router asks a model that can answer"


def test_a_call_that_nobody_settles_before_another_model_is_asked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def elsewhere(self: Any, journal: Any, path: Any, call: Any, sending: Any, error: Any, **_: Any) -> object:
        return gateway._ELSEWHERE

    told = found(monkeypatch, gateway.Gateway, "_elsewhere", elsewhere, first=26)
    assert told in ("every hold is settled, freed or in doubt", "every program ends once faults stop")


def test_an_answer_to_another_question_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hits = CachedAnswers._hits

    async def any_hits(self: Any) -> Any:
        self._cache = self._cache._replace(threshold=-2.0)
        return await hits(self)

    told = found(monkeypatch, CachedAnswers, "_hits", any_hits, first=69)
    assert told == "an answer is to a question that means the same"


def test_an_answer_that_is_too_old_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(monkeypatch, CachedAnswers, "_is_young", always(True), first=150)
    assert told == "an answer that is too old is none"


def test_scores_of_which_each_counts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, scores, "counting", list) == "the latest score of each name and giver counts"


def test_nothing_is_said_of_what_a_killed_process_had_not_begun() -> None:
    """That is no fault of the program: a process that is killed has branches that were never begun, and asyncio tells."""
    loop = SimulatedLoop(Random(1))  # type: ignore[abstract]
    process = loop.lane("process")

    async def branch() -> None: ...

    async def in_turn(branch: Coroutine[Any, Any, None]) -> None:
        await branch

    async def step() -> None:
        begun = [asyncio.ensure_future(in_turn(branch())) for _ in range(2)]
        loop.kill(process)
        loop.halt()
        await asyncio.wait(begun)

    loop.spawn(process, step())
    loop.run()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop.dissolve()
        gc.collect()
    assert said == []
