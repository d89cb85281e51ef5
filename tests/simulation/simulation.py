"""A deterministic simulation of Holdfast: the real core and engine in virtual time, among random programs and faults.

`simulate(seed)` puts processes, disk, world, people and auditor together, runs one program, and says what came of it. A seed
repeats what it did, exactly; `python -m tests.simulation` runs many.

Never here: what a fault does, or what must hold.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Final, Literal

import msgspec

from holdfast.authoring.flow import Flow
from holdfast.authoring.workflow import Workflow
from tests.simulation import script
from tests.simulation.approval import Approvals
from tests.simulation.auditor import Auditor, Violation
from tests.simulation.chance import Chance, spread_s
from tests.simulation.desk import Desk, chore
from tests.simulation.fault import RATES, Faults
from tests.simulation.flow import draw_flow
from tests.simulation.flow_auditor import FlowAuditor
from tests.simulation.job_auditor import JobAuditor
from tests.simulation.loop import SimulatedLoop, Stuck, TooLong
from tests.simulation.people import People
from tests.simulation.process import Process
from tests.simulation.program import DAY_S, TENANT, Program, draw, draw_of_file, draw_with_agent
from tests.simulation.scenario import Scenario
from tests.simulation.schedule import Timetable, nightly
from tests.simulation.score import Scores
from tests.simulation.store import LEASE_S, Disk
from tests.simulation.talk_auditor import TalkAuditor
from tests.simulation.workers import GPU
from tests.simulation.world import SimulatedModel, World

Mode = Literal["safety", "progress"]
Kind = Literal["python", "talk", "file", "flow"]
"""What a program is made of."""

LEARNED: Final = "learned from the store"
"""Seen where a script ran in a process that, since it was started again, was told of its workflow by nobody."""
_LONGEST_S: Final = 400 * DAY_S
"""A program that has not ended by then never will: it sleeps for 30 days at a time, at most a few times."""
_AFTERWARDS_S: Final = 1000.0
"""What an ended program is still watched for: late answers, and what dead sessions left behind."""
_LATEST_EVENTS: Final = 40
_FILES: Final = 0.2
"""How many programs are workflow files."""
_TALKS: Final = 0.1
"""Beside how many people talk with an agent."""
_FLOWS: Final = 0.1
"""How many are one flow in plain asyncio."""
_DISTURBANCES: Final = ("crash_any_time", "freeze_any_time", "renewals_stall", "stop", "all_stand_still", "disk_away")


class Outcome(msgspec.Struct):
    """What became of one program."""

    seed: int
    mode: Mode
    made_of: Kind
    status: str
    violations: list[str]
    history: str
    """SHA-256 of all histories: equal seeds, equal histories."""
    steps: int
    virtual_s: float
    events: dict[str, int] = {}
    nodes: dict[str, int] = {}
    joins: dict[str, int] = {}
    faults: dict[str, int] = {}
    refusals: dict[str, int] = {}
    jobs: dict[str, int] = {}
    talks: dict[str, int] = {}
    besides: dict[str, int] = {}
    """Approvals, answers and scores."""
    latest: list[str] = []
    """The last events before a violation."""


def simulate(
    seed: int,
    mode: Mode | None = None,
    kinds: Iterable[str] | None = None,
    *,
    made_of: Kind | None = None,
    scenario: Scenario | None = None,
    tells: bool = False,
) -> Outcome:
    """Run the program of `seed`, or that of a scenario, and judge it.

    In `safety` faults never end; in `progress` they do, and then the program must end too. Undeclared, it is the seed that
    decides, and `safety` for a scenario; so it does about what the program is `made_of`, and which `kinds` of faults happen. With `tells` the outcome
    has the whole history.
    """
    with _quiet():
        return _Simulation(seed, mode, kinds, made_of, scenario).run(tells)


class _Simulation:
    def __init__(
        self, seed: int, mode: Mode | None, kinds: Iterable[str] | None, made_of: Kind | None, scenario: Scenario | None
    ) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self._stream = self.chance.stream("simulation")
        drawn: Mode = self._stream.choice(("safety", "progress"))
        self.mode: Mode = mode or (drawn if scenario is None else "safety")
        self.faults = Faults(self.chance, kinds)
        self.made_of: Kind = made_of or _kind(self.chance.stream("made of").random())
        self._scenario = scenario
        if scenario is None:
            self.program = _DRAWING[self.made_of](self.chance.stream("program"), f"p{seed}")
        else:
            self.program = scenario.program()
            self.made_of = _made_of(self.program)
            self.faults.rates = {kind: scenario.faults.get(kind, 0.0) for kind in RATES}
        self.loop = SimulatedLoop(self.chance.stream("loop"))  # type: ignore[abstract]
        self.faults.clock = self.loop.time
        self.disk = Disk(self.loop.time)
        self.auditor = Auditor(self.loop, self.disk)
        self.world = World(self.loop, self.chance, self.faults, self.auditor)
        self.auditor.world = self.auditor.answers.world = self.world
        self.auditor.approvals = Approvals(
            self.chance.stream("approvals"),
            TENANT,
            self.program.workflow.name,
            self.program.rules,
            self.auditor.books,
            self.auditor.fault,
        )
        self.disk.on_shared = self.auditor.approvals.changed
        self.scores = Scores(self.chance.stream("scores"), self.auditor.fault)
        self.disk.on_score = self.scores.added
        if self.program.file is not None:
            self.auditor.jobs = JobAuditor(self.program.file, self.world, self.auditor.fault)
            self.auditor.has_shells = self.program.has_shells
        if self.program.agent is not None:
            self.auditor.talk = TalkAuditor(self.auditor.books, self.auditor.fault)
            self.disk.on_said = self.auditor.talk.changed
        if self.made_of == "flow":
            self.auditor.flows = FlowAuditor(self.auditor.fault)
        self.processes = self._processes()
        self.world.processes = {process.name: process for process in self.processes}
        self.people = People(
            self.loop, self.chance, self.faults, self.world, self.auditor, self.program, self.scores, lambda: self.processes
        )
        if self.made_of == "python":  # who judges jobs follows one run
            agree = lambda: not self.auditor.clock_jumped  # noqa: E731 - said to both
            self.auditor.timetable = Timetable(self.chance.stream("schedule"), TENANT, self.auditor.fault, agree)
            self.disk.on_schedule = self.auditor.timetable.changed
            stream = self.chance.stream("desk")
            self.auditor.desk = Desk(stream, TENANT, self.auditor.books, self.auditor.fault, agree)
            self.disk.on_supervised = self.auditor.desk.changed
        self._ending = False
        if scenario is not None:
            scenario.arrange(self)

    def _processes(self) -> list[Process]:
        count = self._stream.choice((1, 2, 2, 3)) if self._scenario is None else self._scenario.processes
        labels = self.chance.stream("labels")
        made = []
        for number in range(count + 1):
            executes = number < count
            process = Process(
                f"worker{number}" if executes else "desk",
                self.loop,
                self.disk,
                self.chance,
                self.faults,
                executes=executes,
                slots=self._stream.choice((1, 2, 10)),
                labels=[GPU] if number == 0 or labels.random() < 0.5 else [],
                workflows=list if executes and self.program.is_learned else self._workflows,
                model=lambda process: SimulatedModel(self.world, process),
                yaml=self.program.is_learned,
                shell=script.run,
                lends_shell=self.program.has_shells,
                observers=[self.auditor.observe],
            )
            process.on_end = self._ended
            made.append(process)
        return made

    def _workflows(self) -> list[Workflow]:
        own = [each for each in (self.program.workflow, self.program.later) if each is not None]
        return [*own, *self.program.children, nightly, chore]

    # --- What happens to processes ------------------------------------------------------------------------------------

    def _ended(self, process: Process) -> None:
        """A process that has ended is started again, some time."""
        self._jump_clock()
        after_s = spread_s(self._stream, 0.001, 60.0)
        self.loop.later(after_s, process.start)

    def _jump_clock(self) -> None:
        if self.faults.strikes("clock_jump"):
            self.auditor.clock_jumped = True
            days = self._stream.choice((-30, -1, -0.01, 0.01, 1, 30))
            self.disk.wall_offset_ms += int(days * DAY_S * 1000)

    def _disturb(self, process: Process) -> None:
        """Something happens to a process that has nothing to do with what it is doing."""
        if self.faults.over or self.faults.spent or not any(self.faults.rates[kind] for kind in _DISTURBANCES):
            return
        if self.faults.kills("crash_any_time"):
            process.crash()
        elif self.faults.kills("freeze_any_time"):
            process.freeze(spread_s(self._stream, 0.1, 100.0))
        elif self.faults.kills("renewals_stall"):
            process.stall(spread_s(self._stream, 1.0, 60.0))
        elif self.faults.kills("stop"):
            process.stop()
        elif self.faults.kills("all_stand_still"):
            self.outlast_leases(Process.freeze)
        elif self.faults.kills("disk_away"):
            self.disk.away_until_s = self.loop.time() + self.outlast_leases(Process.stall)
        self.loop.later(spread_s(self._stream, 0.05, 500.0), self._disturb, process)

    def outlast_leases(self, harm: Callable[[Process, float], None]) -> float:
        """Do the same to every process at once, for longer than its lease: for how long."""
        seconds = LEASE_S + spread_s(self.chance.stream("longer than a lease"), 0.1, 60.0)
        for process in self.processes:
            harm(process, seconds)
        return seconds

    def _calm(self) -> None:
        """Faults are over, whatever was going on."""
        self.faults.over = True

    # --- Running ------------------------------------------------------------------------------------------------------

    def run(self, tells: bool = False) -> Outcome:
        for process in self.processes:
            self.loop.later(spread_s(self._stream, 0.001, 1.0), process.start)
            self.loop.later(spread_s(self._stream, 0.05, 100.0), self._disturb, process)
        self.loop.later(0.0, self.people.begin)
        if self.mode == "progress":
            self.loop.later(spread_s(self._stream, 1.0, 1000.0), self._calm)
        self.loop.later(_LONGEST_S, self._too_late)
        self.auditor.on_end = self._run_ended
        status = "ended"
        try:
            self.loop.run()
        except Stuck:
            status = self._stuck()
        except TooLong as problem:
            self.auditor.fault("a program takes a bounded number of steps", self.people.run or "?", str(problem))
        if not self.auditor.violations:
            self.auditor.close(over=self.mode == "progress" and status == "ended" and self._ending)
            self.people.check_acknowledged()
            if self.auditor.talk is not None and self.people.talk is not None:
                self.auditor.talk.close(self.people.talk.said, over=status == "ended" and self._ending)
            if self.auditor.desk is not None:
                self.auditor.desk.close(over=status == "ended" and self._ending)
            self._check_problems()
        outcome = self._outcome(status, tells)
        self.loop.dissolve()
        return outcome

    def _run_ended(self) -> None:
        if not self._ending:
            self._ending = True
            self.loop.later(_AFTERWARDS_S, self.loop.halt)

    def _too_late(self) -> None:
        if self.mode == "progress":
            self._stuck()
        self.loop.halt()

    def _stuck(self) -> str:
        """Everybody waits. In safety mode a fault may be why; when faults are over, nothing is."""
        if self.mode == "progress":
            rows = [kept.row for kept in self.disk.runs.values()]
            told = [f"{row.status}, {row.waiting_for.decode()}" for row in rows] or ["it never started"]
            self.auditor.fault("every program ends once faults stop", self.people.run or "?", "; ".join(told))
        return "stuck"

    def _check_problems(self) -> None:
        for problem in self.loop.problems:
            self.auditor.fault("no callback breaks", self.people.run or "?", f"{problem}")

    def _outcome(self, status: str, tells: bool) -> Outcome:
        digest = hashlib.sha256()
        latest: list[str] = []
        for kept in self.disk.runs.values():
            for line in kept.lines:
                digest.update(line.event)
                digest.update(line.append_id.encode())
            if self.auditor.violations or tells:
                first = 0 if tells else max(0, len(kept.lines) - _LATEST_EVENTS)
                latest += [
                    f"{number:4} {line.at_ms} {line.event.decode()}"
                    for number, line in enumerate(kept.lines[first:], first + 1)
                ]
        statuses = [kept.row.status for kept in self.disk.runs.values()]
        seen = Counter(self.faults.seen)
        seen["conflict"] = self.disk.conflicts
        told = ", ".join(statuses) if status == "ended" else f"{status}: {', '.join(statuses)}"
        return Outcome(
            self.seed,
            self.mode,
            self.made_of,
            told,
            [str(violation) for violation in self.auditor.violations],
            digest.hexdigest(),
            self.loop.steps,
            self.loop.time(),
            dict(self.auditor.events),
            dict(self.auditor.nodes),
            dict(self.auditor.joins),
            dict(seen),
            dict(self.people.refusals),
            self._jobs(),
            dict(self.auditor.talk.seen) if self.auditor.talk is not None else {},
            {**self.auditor.approvals.seen, **self.auditor.answers.seen, **self.scores.seen},
            latest,
        )

    def _jobs(self) -> dict[str, int]:
        """What there was to be seen of the jobs of a file."""
        seen = Counter(self.auditor.jobs.seen) if self.auditor.jobs is not None else Counter()
        again = [each for each in self.world.executions.values() if each.life > 1]
        seen[LEARNED] += len(again) if self.program.is_learned else 0
        return dict(seen)


def _kind(drawn: float) -> Kind:
    if drawn > 1 - _FLOWS:
        return "flow"
    return "file" if drawn < _FILES else "talk" if drawn < _FILES + _TALKS else "python"


def _made_of(program: Program) -> Kind:
    if isinstance(program.workflow, Flow):
        return "flow"
    return "file" if program.file else "talk" if program.agent else "python"


_DRAWING: Final[dict[Kind, Callable[[Random, str], Program]]] = {
    "python": draw,
    "talk": draw_with_agent,
    "file": draw_of_file,
    "flow": draw_flow,
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nobody reads the log of a simulated process; and nothing is collected while one runs, which would tidy up after
    the dead at a moment of its own choosing."""
    log = logging.getLogger("holdfast")
    filters, disabled = list(log.filters), log.disabled
    log.disabled = True
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        log.filters[:] = filters
        log.disabled = disabled
        if collecting:
            gc.enable()


__all__ = ["Kind", "Mode", "Outcome", "Violation", "simulate"]
