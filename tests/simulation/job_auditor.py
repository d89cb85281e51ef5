"""Who watches the runs of a workflow file: whether what they say of jobs follows from what the scripts did.

The log of a combination has the names of the executions that it is made of, so every result that is recorded can be worked
out again from what the world knows of those. Never here: the rules by which it is (replay), what any run must keep (auditor).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.actions.jobs.decision import SKIP, SKIPPED, decider, is_decider
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import NodeName, RunId, StepId, is_item, node_of, root_of
from holdfast.core.values.policies import ERROR, LOST
from holdfast.core.views.step_result import END
from tests.simulation.books import Books
from tests.simulation.file import OUTPUTS, File, Job
from tests.simulation.process import Process
from tests.simulation.replay import Outcome, Replay, job_runs, replays, step_runs, worst
from tests.simulation.workers import GPU
from tests.simulation.world import Execution, World

_WELL: Final = ("success", "skipped")
_NOTICED_S: Final = 30.0
"""By then a process has heard of what it has had committed itself, whatever became of the store's answer."""

SEEN: Final = (
    "success",
    "failure",
    "skipped",
    "a combination cancelled",
    "a failure spared",
    "a script broken off",
    "out of time",
    "tried again",
    "done before",
    "at a connected worker",
    "taken up again",
)
"""What a program may see of jobs."""


class EndedCombination(NamedTuple):
    """A combination as its job tells of it, and what explains that."""

    number: int
    said: Mapping[str, Any]
    ran: Sequence[Execution]
    replay: Replay


class JobBooks:
    """One run, as far as its jobs go."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.ended: dict[str, dict[str, Any]] = {}
        """The output of each job that has ended."""
        self.showed: dict[str, list[dict[str, Any]]] = {}
        """What others could see of each job that has ended, each time that it has."""
        self.settled: dict[tuple[str, str | None], dict[str, Outcome]] = {}
        """What became of steps that run once, by job and combination."""
        self.named: dict[tuple[str, int, str], str | None] = {}
        """For which values the name of each of them stands, which its combination's number is a part of."""
        self.items: dict[tuple[str, int], dict[str, Any]] = {}
        """What the combinations that have ended have come to, which are steps."""
        self.item_ended_s: dict[tuple[str, int], float] = {}
        self.began_s: dict[str, float] = {}
        """When the current try of each step did."""
        self.failures: Counter[str] = Counter()
        """Of the tries of each step."""
        self.lost: set[str] = set()
        """The jobs of which a combination's processes have died too often."""
        self.again: set[str] = set()
        """The jobs that were taken up."""

    def matrices(self, job: Job) -> list[dict[str, int] | None]:
        """What its combinations are; one None where it has no matrix."""
        if job.matrix is None:
            return [None]
        values: Sequence[int] = job.matrix.values
        if job.matrix.job is not None:
            told = self.ended[job.matrix.job]["outputs"].get("numbers", "")
            values = json.loads(told) if told else values
        return [{"n": value} for value in values]

    def end(self, id_: str, output: dict[str, Any]) -> None:
        self.ended[id_] = output
        self.showed.setdefault(id_, []).append(self.shown([id_])[id_])

    def shown(self, ids: Sequence[str]) -> dict[str, Any]:
        """What others may see of these jobs."""
        return {id_: {"result": self.ended[id_]["result"], "outputs": self.ended[id_]["outputs"]} for id_ in ids}

    def visible(self, ids: Sequence[str], *, is_over: bool) -> dict[str, list[dict[str, Any]]]:
        """What an attempt may see of these jobs: what they have come to; one that is over, and may not know it yet, what they
        have come to at any time."""
        had = {id_: self.showed.get(id_, []) for id_ in ids}
        return had if is_over else {id_: showed[-1:] if id_ in self.ended else [] for id_, showed in had.items()}

    @property
    def has_failed(self) -> bool:
        return not all(each["result"] in _WELL for each in self.ended.values())


class JobAuditor:
    """Judges the runs of one file."""

    def __init__(self, file: File, world: World, fault: Callable[[str, str, str], None]) -> None:
        """`fault` is told of a promise that is broken."""
        self._file = file
        self._world = world
        self._fault = fault
        self._runs: dict[str, JobBooks] = {}
        self.seen: Counter[str] = Counter()

    def _of(self, run: str) -> JobBooks:
        return self._runs.setdefault(run, JobBooks(self._file))

    # --- What is committed --------------------------------------------------------------------------------------------

    def event(self, books: Books, run: RunId, event: ev.Event) -> None:
        match event:
            case ev.StepStarted():
                self._of(run).began_s[node_of(event.step)] = self._world.loop.time()
            case ev.StepCompleted() if node_of(event.step) == END:
                self._run_completed(run, event.output.value())
            case ev.StepCompleted() if is_decider(node_of(event.step)):
                self._decided(run, event)
            case ev.StepCompleted() if is_item(node_of(event.step)):
                self._combination_ended(run, event)
            case ev.StepCompleted():
                self._job_ended(books, run, self._file.job(node_of(event.step)), event.output.value())
            case ev.StepFailed():
                self._step_failed(run, event)
            case ev.RunReopened() | ev.StepReplayed():
                self._taken_up(run, event)
            case ev.AttemptFailed():
                self._try_failed(run, event)
            case ev.EffectCompleted():
                said = event.response.value()
                given = said if isinstance(said, dict) else {}
                outputs, environment = given.get("outputs", {}), given.get("environment", {})
                self._settle(books, run, event.call, Outcome(given.get("succeeded", True), outputs, environment))
            case ev.EffectFailed():
                self._settle(books, run, event.call, Outcome(False), keeps_name=False)
            case _:
                pass

    def _taken_up(self, run: RunId, event: ev.RunReopened | ev.StepReplayed) -> None:
        known = self._of(run)
        if isinstance(event, ev.StepReplayed) and is_item(name := node_of(event.step)):
            was = known.items.pop(_which(name), None)
            if was is not None and was["result"] in _WELL:
                self._fault("a combination that is well is not done again", run, event.step)
            known.failures[name] = 0
            known.item_ended_s.pop(_which(name), None)
            return
        if isinstance(event, ev.StepReplayed):
            was = known.ended.get(node_of(event.step))
            if was is not None and was["result"] in _WELL:
                self._fault("a job that is well is not done again", run, event.step)
            self._comes_again(run, event.step)
            return
        again = [self._comes_again(run, step) for step in event.superseded]
        known.items = {which: said for which, said in known.items.items() if which[0] not in again}
        known.failures = Counter(
            {name: count for name, count in known.failures.items() if root_of(NodeName(name)) not in again}
        )

    def _comes_again(self, run: RunId, step: StepId) -> NodeName:
        """A job of a run that has failed is done again: it has come to nothing yet."""
        known, name = self._of(run), node_of(step)
        known.ended.pop(name, None)
        known.failures[name] = 0
        known.again.add(name)
        known.lost.discard(name)
        self.seen["taken up again"] += 1
        return name

    def _settle(self, books: Books, run: RunId, call: str, outcome: Outcome, *, keeps_name: bool = True) -> None:
        about, known = books.calls[call].request, self._of(run)
        matrix = _text(about.get("matrix"))
        known.settled.setdefault((about["job"], matrix), {})[about["step"]] = outcome
        if keeps_name:  # what provably did not happen leaves its name to whoever means it next
            matrices = [_text(each) for each in known.matrices(self._file.job(about["job"]))]
            known.named.setdefault((about["job"], matrices.index(matrix), about["step"]), matrix)

    def _decided(self, run: RunId, event: ev.StepCompleted) -> None:
        """A job that would wait for its place is to run, or is skipped before."""
        job = next(each for each in self._file.jobs if decider(each.id) == node_of(event.step))
        if event.decisions == (SKIP,):
            self._skipped(run, job)
        elif not job_runs(job, self._before(run, job)):
            self._fault("a job runs if its condition says so", run, f"{job}: {event}")

    def _skipped(self, run: RunId, job: Job) -> None:
        self.seen["skipped"] += 1
        if job_runs(job, self._before(run, job)):
            self._fault("a job runs if its condition says so", run, f"{job} is skipped after {self._of(run).ended}")
        self._of(run).end(job.id, SKIPPED)

    def _before(self, run: RunId, job: Job) -> dict[str, str]:
        """The results of the jobs that come before it."""
        return {id_: self._of(run).ended[id_]["result"] for id_ in self._file.before(job)}

    def _run_completed(self, run: RunId, output: Any) -> None:
        known = self._of(run)
        if known.has_failed:
            self._fault("a run of which a job has failed does not complete", run, f"{known.ended}")
        if output != {"jobs": known.shown(list(known.ended))}:
            self._fault("a run gives what its jobs have given", run, f"{output}, not {known.ended}")

    def _step_failed(self, run: RunId, event: ev.StepFailed) -> None:
        if event.error.error_class == LOST:
            self._of(run).lost.add(root_of(node_of(event.step)))
            return  # its processes have died too often
        if node_of(event.step) != END:
            self._fault("a job always ends with a result", run, f"{event.step}: {event.error}")
        elif event.error.error_class != ERROR or not self._of(run).has_failed:
            self._fault("a run fails because one of its jobs has", run, f"{event.error}, {self._of(run).ended}")

    def _try_failed(self, run: RunId, event: ev.AttemptFailed) -> None:
        name, failures = node_of(event.step), self._of(run).failures
        failures[name] += 1
        self.seen["tried again"] += 1
        if name == END or failures[name] >= self._file.job(root_of(name)).tries:
            self._fault("a job is tried as often as it says", run, f"{name}: {event.error.message}")

    def _combination_ended(self, run: RunId, event: ev.StepCompleted) -> None:
        """A combination is done. It is again only if it tells of a failure, and its job is taken up."""
        known, name, said = self._of(run), node_of(event.step), event.output.value()
        job, number = self._file.job(root_of(name)), _which(name)[1]
        if (job.id, number) in known.items:
            self._fault("a combination is done once", run, event.step)
        known.items[job.id, number] = said
        known.item_ended_s[job.id, number] = self._world.loop.time()
        if event.provisional != (said["result"] not in _WELL):
            self._fault("a combination that is well is done for good, and no other", run, f"{event.step}: {said}")
        combination = self._explained(run, job, number, said)
        if combination is None:
            return
        if said["outputs"] != combination.replay.outputs:
            self._fault("a combination gives what its steps have given", run, f"{event.step}: {combination}")
        first = not any(
            each["result"] == "failure"
            for (id_, n), each in known.items.items()
            if (id_, n) != (job.id, number) and id_ == job.id
        )
        has_tries = known.failures[name] + 1 < job.tries and (first or not job.fails_fast)
        if has_tries and said["outcome"] == "failure" and not combination.replay.is_hopeless:
            self._fault("a combination is tried as often as its job says", run, f"{event.step}: {said}")

    # --- A job that has ended -----------------------------------------------------------------------------------------

    def _job_ended(self, books: Books, run: RunId, job: Job, output: dict[str, Any]) -> None:
        known = self._of(run)
        if output["result"] == "skipped":
            self._skipped(run, job)
            return
        self.seen[output["result"]] += 1
        if not job_runs(job, self._before(run, job)):
            self._fault("a job runs if its condition says so", run, f"{job} runs after {known.ended}")
        known.end(job.id, output)
        if job.id in known.lost and job.matrix is not None:
            return
        said: list[dict[str, Any]] = output["combinations"] if job.matrix is not None else [output]
        if [each.get("matrix") for each in said] != known.matrices(job):
            self._fault("a job has the combinations of its matrix", run, f"{job}: {output}")
            return
        combinations = [
            combination for n, each in enumerate(said) if (combination := self._explained(run, job, n, each)) is not None
        ]
        if len(combinations) == len(said):
            self._check_result(run, job, output, combinations)
            self._check_outputs(books, run, job, output["outputs"], combinations)
            self._check_stopped(run, job, combinations)

    def _explained(self, run: RunId, job: Job, number: int, said: Mapping[str, Any]) -> EndedCombination | None:
        """What the rules make of the executions that its log names, if that is what it says; else it is a fault."""
        known = self._of(run)
        named = [line for line in said["log"].splitlines() if line in self._world.executions]
        ran = [self._world.executions[token] for token in named]
        matrix = _text(known.matrices(job)[number])
        # Where a job is taken up after another has come to something else, the name of a step may stand for what was done.
        reused = [step.id for step in job.steps if known.named.get((job.id, number, step.id), matrix) != matrix]
        settled = {**known.settled.get((job.id, matrix), {}), **dict.fromkeys(reused, Outcome(False))}
        found = list(replays(job, ran, settled, is_cancelled=said["outcome"] == "cancelled"))
        fitting = [each for each in found if (each.outcome, each.steps) == (said["outcome"], said["steps"])]
        mine = all((each.run, each.job, _combination(each)) == (run, job.id, matrix) for each in ran)
        spared = job.spared == "all" or (job.spared == "first" and number == 0)
        result = "success" if spared and said["outcome"] == "failure" else said["outcome"]
        if not fitting or not mine or said["result"] != result:
            self._fault("a combination is what its steps have come to", run, f"{job} {number}: {said}: {ran}: {found}")
            return None
        return EndedCombination(number, said, ran, fitting[0])

    def _check_result(self, run: RunId, job: Job, output: Mapping[str, Any], combinations: Sequence[EndedCombination]) -> None:
        """What becomes of a job is what becomes of its combinations."""
        known = self._of(run)
        results, outcomes = (
            [combination.said["result"] for combination in combinations],
            [combination.said["outcome"] for combination in combinations],
        )
        if (output["result"], output["outcome"]) != (worst(results), worst(outcomes)):
            self._fault("a job is as well as its combinations", run, f"{job}: {output}")
        if "cancelled" in outcomes and not (job.fails_fast and "failure" in results):
            self._fault("a combination is cancelled by another's failure only", run, f"{job}: {output}")
        has_tries = known.failures[job.id] + 1 < job.tries
        if (
            has_tries
            and job.matrix is None
            and "failure" in outcomes
            and not any(combination.replay.is_hopeless for combination in combinations)
        ):
            self._fault("a job is tried as often as it says", run, f"{job}: {output}")
        for combination in combinations:
            self._note(job, combination)
            done = known.items.get((job.id, combination.number))
            if job.matrix is not None and (done or {"log": ""})["log"] != combination.said["log"]:
                self._fault("what is recorded of a combination is what it counts for", run, f"{combination.said}, not {done}")
        if job.id in known.again:
            self.seen["done before"] += any(said["result"] == "success" for said in output.get("combinations", ()))

    def _note(self, job: Job, combination: EndedCombination) -> None:
        """What this program has seen."""
        said = combination.said
        self.seen["a combination cancelled"] += said["outcome"] == "cancelled"
        self.seen["a failure spared"] += said["result"] != said["outcome"]
        self.seen["a script broken off"] += any(each.ending == "cancelled" for each in combination.ran)
        self.seen["out of time"] += said["outcome"] == "failure" and len(said["steps"]) < len(job.steps)
        self.seen["at a connected worker"] += any(not each.is_here for each in combination.ran)

    def _check_outputs(
        self, books: Books, run: RunId, job: Job, outputs: Mapping[str, str], combinations: Sequence[EndedCombination]
    ) -> None:
        """Of outputs the last to end wins of those that have something to say."""
        items = self._of(run).items
        places = {each.number: items.get((job.id, each.number), {}).get("place", 0) for each in combinations}
        for name in OUTPUTS:
            last = [each for each in combinations if each.replay.outputs[name] != ""]
            latest = max((places[each.number] for each in last), default=0)
            told = {each.replay.outputs[name] for each in last if places[each.number] == latest} or {""}
            if outputs[name] not in told:
                self._fault("a job gives what its steps have given", run, f"{job}: {name}={outputs[name]!r} of {told}")

    def _check_stopped(self, run: RunId, job: Job, combinations: Sequence[EndedCombination]) -> None:
        """After the failure of one combination no other begins what does not ask for it, where that failure is known."""
        known, steps = self._of(run), {step.id: step for step in job.steps}
        failed = [each for each in combinations if each.said["result"] == "failure" and each.ran and job.fails_fast]
        for last in failed:
            process = self._world.processes[last.ran[-1].process]
            if (told_s := known.item_ended_s.get((job.id, last.number))) is None or process.thawed_s >= told_s:
                continue  # when its end was noticed, nobody outside knows
            for other in [each for combination in combinations for each in combination.ran]:
                is_beside = (other.process, other.life) == (last.ran[-1].process, last.ran[-1].life)
                step = steps[other.step]
                # A step that runs once may have been on its way, which nothing breaks off.
                asked = step.once or step_runs(step.condition, "cancelled")
                if is_beside and not asked and other.began_s > told_s + _NOTICED_S:
                    self._fault("a failure stops the other combinations", run, f"{other} began after {last}")

    # --- A script -----------------------------------------------------------------------------------------------------

    def script_began(self, books: Books, process: Process, execution: Execution) -> None:
        """A script is about to do its work: whether it may, and whether it knows what it should."""
        run, job, known = execution.run, self._file.job(execution.job), self._of(execution.run)
        number = None if job.matrix is None else [_text(each) for each in known.matrices(job)].index(_combination(execution))
        visit, held = books.steps.get(_name(job, number)), process.mount.leases if process.mount is not None else {}
        is_over = visit is None or not visit.active or visit.session not in held
        visible, seen = known.visible(job.needs, is_over=is_over), json.loads(execution.env["SEEN"])
        if not all(visible.values()):
            self._fault("a job begins when what it needs has ended", run, f"{execution} after {list(known.ended)}")
            return
        if seen.keys() != visible.keys() or not all(seen[id_] in showed for id_, showed in visible.items()):
            self._fault("a job sees what is recorded of those before it", run, f"{execution}, {visible}")
        if execution.env["ABOUT"] != f"{self._file.given['about']} {self._file.variables['word']}":
            self._fault("a job sees what its run began with", run, f"{execution} in {self._file}")
        if execution.is_here and job.demands.get("runs-on") == GPU and GPU not in process.labels:
            self._fault("a step starts only where its labels are", run, f"{execution}")
        if visit is None or is_over:
            return
        at_once = [
            each
            for each in self._world.executions.values()
            if (each.run, each.job, each.process, each.life) == (run, job.id, execution.process, execution.life)
            and each.ended_s is None
            and each.began_s >= known.began_s[self._step_of(known, job, each)]
        ]
        matrices = known.matrices(job)
        if len(at_once) > (job.most_at_once or len(matrices)):
            self._fault("no more combinations run at once than may", run, f"{at_once}")
        if number is not None and (job.id, number) in known.items:
            self._fault("a combination that has ended is not run again", run, f"{execution}")

    def _step_of(self, known: JobBooks, job: Job, execution: Execution) -> str:
        if job.matrix is None:
            return job.id
        return _name(job, [_text(each) for each in known.matrices(job)].index(_combination(execution)))


def _which(name: NodeName) -> tuple[str, int]:
    """The job and the number of a combination's step."""
    return root_of(name), int(name.rpartition("[")[2][:-1])


def _name(job: Job, number: int | None) -> str:
    """The step of a job, or of its combination of that number."""
    return job.id if number is None else f"{job.id}/0[{number}]"


def _combination(execution: Execution) -> str | None:
    return None if execution.combination is None else _text(json.loads(execution.combination))


def _text(matrix: Any) -> str | None:
    return None if matrix is None else msgspec.json.encode(matrix, order="deterministic").decode()
