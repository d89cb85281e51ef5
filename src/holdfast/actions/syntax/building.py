"""From what was read to a Document, with the checks that look at more than one value.

Never here: which keys there are, how a value is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from holdfast.actions.expressions import Condition, Template
from holdfast.actions.steering import obeyed_by
from holdfast.actions.syntax import dependency, directory, reference
from holdfast.actions.syntax.document import (
    JOB_MINUTES,
    Document,
    Job,
    Limits,
    Output,
    PoolShare,
    Resources,
    Retry,
    Script,
    Step,
    Strategy,
    Variable,
    asks_for_label,
)
from holdfast.actions.syntax.keys import JOB, USES
from holdfast.actions.syntax.mistake import Position, listed, quoted, suggestion
from holdfast.actions.syntax.reading import EntryReader, NamedEntry, Path, Section
from holdfast.actions.syntax.script import script_of
from holdfast.actions.syntax.source import Mapping as MappingNode
from holdfast.actions.syntax.source import Scalar
from holdfast.actions.syntax.source import Sequence as SequenceNode
from holdfast.actions.syntax.strategy import strategy_of
from holdfast.core.values.demand import variable_of

_OWN_VARIABLES: Final = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
_OWN_PREFIX: Final = "HOLDFAST_"
_SHELLS: Final = ("bash", "sh", "python")
_ALWAYS: Final = Condition(None)


def build(reading: EntryReader, root: Section, name: str) -> Document:
    """The document. Where it is wrong, what could be made of it, and the mistakes are in `reading`."""
    found: tuple[NamedEntry, ...] = root.get("jobs", ())
    jobs = tuple(_Jobs(reading).job(each) for each in found)
    written = root.node.get("jobs")
    every = {entry.key.lower() for entry in written.entries} if isinstance(written, MappingNode) else set()
    known = {job.id.lower(): job for job in jobs}
    unread = frozenset(every - known.keys())
    needs = _needs(reading, jobs, {each.name: each.value for each in found}, unread)
    vague = {each.name.lower(): _vague(each.value, known[each.name.lower()]) for each in found}
    reference.check(reading, reference.Jobs(known, dependency.ancestors(needs), unread, vague))
    return Document(_text(root.get("name")) or name, _env(reading, root.get("env", ()), ("env",)), jobs)


class _Jobs:
    def __init__(self, reading: EntryReader) -> None:
        self._reading = reading

    def job(self, output: NamedEntry) -> Job:
        section: Section = output.value
        reading, path = self._reading, section.path
        said = section.get("strategy")
        strategy = None if said is None else strategy_of(reading, said)
        steps = tuple(self._step(each, strategy) for each in section.get("steps", ()))
        self._unique_ids(section, steps)
        labels = section.get("runs-on", ())
        resources = section.get("resources")
        return Job(
            at=output.at,
            id=output.name,
            name=section.get("name"),
            needs=tuple(_text(need) for need in section.get("needs", ())),
            condition=section.get("if", _ALWAYS),
            labels=tuple(label for label in labels if asks_for_label(_text(label))),
            strategy=strategy,
            env=_env(reading, section.get("env", ()), (*path, "env"), strategy),
            timeout_minutes=section.get("timeout-minutes", JOB_MINUTES),
            continue_on_error=section.get("continue-on-error", False),
            steps=steps,
            outputs=tuple(_output(each) for each in section.get("outputs", ())),
            resources=Resources() if resources is None else _resources(resources),
            retry=self._retry(section),
            pools=self._pools(section),
            priority=section.get("priority"),
            limits=None if section.get("limits") is None else _limits(section.get("limits")),
        )

    # --- Steps ----------------------------------------------------------------------------------------------------

    def _step(self, section: Section, strategy: Strategy | None) -> Step:
        shell = _text(section.get("shell")) or None
        self._shell(section, shell)
        self._directory(section)
        return Step(
            at=section.node.at,
            id=_text(section.get("id")) or None,
            name=section.get("name"),
            condition=section.get("if", _ALWAYS),
            script=self._script(section, shell),
            shell=shell,
            env=_env(self._reading, section.get("env", ()), (*section.path, "env"), strategy),
            working_directory=section.get("working-directory"),
            timeout_minutes=section.get("timeout-minutes"),
            continue_on_error=section.get("continue-on-error", False),
            effect=section.get("effect", "idempotent"),
        )

    def _unique_ids(self, section: Section, steps: Sequence[Step]) -> None:
        first: dict[str, Step] = {}
        for number, step in enumerate(steps):
            if step.id is not None and first.setdefault(step.id.lower(), step) is not step:
                self._reading.wrong(
                    step.at,
                    (*section.path, "steps", number, "id"),
                    f"two steps have the id {quoted(step.id)}, the first in"
                    f" line {first[step.id.lower()].at.line}; give this one another.",
                )

    def _shell(self, section: Section, shell: str | None) -> None:
        if shell is None or shell in _SHELLS or "{0}" in shell:
            return
        self._reading.wrong(
            section.value_at("shell"),
            (*section.path, "shell"),
            f"{quoted(shell)} is no shell that is known.{suggestion(shell, _SHELLS)} Allowed are {listed(_SHELLS)}, and any"
            " command in which {0} stands for the script's file.",
            f"shell: {shell.split()[0]} {{0}}",
        )

    def _directory(self, section: Section) -> None:
        template: Template | None = section.get("working-directory")
        if template is None:
            return
        # A value that is not known yet is looked at again when it is.
        path = "".join(part if isinstance(part, str) else "x" for part in template.parts)
        problem = directory.problem(path)
        if problem is not None:
            self._reading.wrong(
                section.value_at("working-directory"),
                (*section.path, "working-directory"),
                f"found {quoted(path)}; {problem}.",
                "working-directory: data/raw",
            )

    def _script(self, section: Section, shell: str | None) -> Script:
        template: Template | None = section.get("run")
        node = section.node.get("run")
        if template is None or not isinstance(node, Scalar):
            return Script("")
        return script_of(self._reading, template, node, (*section.path, "run"), shell)

    # --- What belongs to the whole job ----------------------------------------------------------------------------

    def _pools(self, job: Section) -> tuple[PoolShare, ...]:
        entries: tuple[NamedEntry, ...] = job.get("pools", ())
        told_by: dict[str, str] = {}
        for each in entries:
            variable = variable_of(each.name)
            if (first := told_by.setdefault(variable, each.name)) != each.name:
                self._reading.wrong(
                    each.at,
                    (*job.path, "pools", each.name),
                    f"a script gets the amounts of {first!r} and {each.name!r} in the same"
                    f" variable, {variable}. Give one of the two pools another name, or take of them in different jobs.",
                )
        return tuple(PoolShare(each.at, each.name, each.value) for each in entries)

    def _retry(self, job: Section) -> Retry:
        section: Section | None = job.get("retry")
        if section is None:
            return Retry()
        delay, most = section.get("delay-seconds", 1.0), section.get("max-delay-seconds")
        if most is not None and most < delay:
            self._reading.wrong(
                section.at("max-delay-seconds"),
                (*section.path, "max-delay-seconds"),
                f"max-delay-seconds is {most}, below delay-seconds, which is {delay}; raise it, or remove it.",
            )
        return Retry(
            section.get("max", 0), section.get("backoff", "exponential"), delay, max(60.0, delay) if most is None else most
        )


def _resources(section: Section) -> Resources:
    return Resources(section.get("cpu", 0), section.get("memory", 0), section.get("gpus", 0), section.get("tags", ()))


def _limits(section: Section) -> Limits:
    return Limits(section.get("memory"), section.get("cpu-seconds"), section.get("file"), section.get("processes"))


def _output(output: NamedEntry) -> Output:
    if isinstance(output.value, Section):
        value = output.value.get("value", Template(()))
        return Output(output.at, output.name, value, output.value.get("storage", "local"))
    return Output(output.at, output.name, output.value, "local")


def _is_from_outside(value: Template, strategy: Strategy | None) -> bool:
    """True unless the file alone says what it may be, as where it is read from a matrix that is written out."""
    is_written = strategy is not None and strategy.combinations is not None
    return bool(value.expressions) and not value.names.contexts <= ({"matrix", "strategy"} if is_written else set())


def _env(
    reading: EntryReader, entries: Iterable[NamedEntry], path: Path, strategy: Strategy | None = None
) -> tuple[Variable, ...]:
    found = []
    for entry in entries:
        if entry.name.upper().startswith(_OWN_PREFIX) or entry.name in _OWN_VARIABLES:
            reading.wrong(
                entry.at,
                (*path, entry.name),
                f"{entry.name!r} is set by Holdfast for every step; choose a name that does not"
                f" begin with {_OWN_PREFIX} and is not {' or '.join(_OWN_VARIABLES)}.",
            )
        elif (who := obeyed_by(entry.name)) is not None and _is_from_outside(entry.value, strategy):
            reading.wrong(
                entry.at,
                (*path, entry.name),
                f"{entry.name!r} steers what is run: {who}, so its value must not come from"
                " outside. Write the value itself; or choose another name, and have the script look at it.",
            )
        found.append(Variable(entry.name, entry.value, entry.at))
    return tuple(found)


def _vague(section: Section, job: Job) -> frozenset[str]:
    """The keys of a job whose meaning is unknown, because they are refused or wrong."""
    found = {entry.key for entry in section.node.entries if entry.key in JOB.refused}
    if USES in found:
        found |= {"outputs", "steps"}
    outputs, steps = section.node.get("outputs"), section.node.get("steps")
    if outputs is not None and not (isinstance(outputs, MappingNode) and len(outputs.entries) == len(job.outputs)):
        found.add("outputs")
    ids = [item.get("id") for item in steps.items if isinstance(item, MappingNode)] if isinstance(steps, SequenceNode) else []
    if steps is not None and (len(ids) != len(job.steps) or sum(map(bool, ids)) != sum(bool(step.id) for step in job.steps)):
        found.add("steps")
    if section.node.get("strategy") is not None and section.get("strategy") is None:
        found.add("strategy")
    return frozenset(found)


def _needs(
    reading: EntryReader, jobs: Sequence[Job], sections: Mapping[str, Section], unread: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the needs of each job by ids in lower case; a need that leads nowhere is reported and left out."""
    known = {job.id.lower(): job for job in jobs}
    found: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        path: Path = ("jobs", job.id, "needs")
        sound: list[str] = []
        for need in job.needs:
            at = _need_at(sections[job.id], need)
            if need.lower() == job.id.lower():
                reading.wrong(at, path, "a job cannot need itself; remove it.")
            elif need.lower() in unread:
                continue
            elif need.lower() not in known:
                ids = [each for each in (other.id for other in jobs) if each != job.id]
                there = f"There is {listed(ids)}." if ids else "There is no other job."
                reading.wrong(at, path, f"there is no job {quoted(need)}.{suggestion(need, ids)} {there}")
            elif need.lower() in sound:
                reading.wrong(at, path, f"{need!r} stands twice; remove one.")
            else:
                sound.append(need.lower())
        found[job.id.lower()] = tuple(sound)
    for cycle in dependency.cycles(found):
        first = known[cycle[0]]
        told = " -> ".join(known[each].id for each in cycle)
        at = _need_at(sections[first.id], known[cycle[1]].id)
        reading.wrong(at, ("jobs", first.id, "needs"), f"these jobs wait for one another: {told}. Remove one of these needs.")
    return found


def _need_at(job: Section, need: str) -> Position:
    """Return the position of a need in the list of a job's needs."""
    node = job.node.get("needs")
    items = node.items if isinstance(node, SequenceNode) else (node,)
    named = (item for item in items if isinstance(item, Scalar) and item.text.lower() == need.lower())
    return next((item.at for item in named), job.at("needs"))


def _text(template: Template | None) -> str:
    """Return the text of a template without expressions; "" for others."""
    if template is None or template.expressions:
        return ""
    return "".join(str(part) for part in template.parts)
