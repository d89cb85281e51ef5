"""The format as one table: every key, what it takes, which contexts its expressions see, and what was left out and why.

The reader, the JSON Schema and the page about the format follow it. Never here: reading a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.actions.syntax.document import AUTO
from holdfast.core.values.demand import MAX_NAMES, MAX_PRIORITY

STARTING: Final = ("inputs", "vars")
"""What expressions see before any job has run."""
DECIDING: Final = ("inputs", "vars", "needs", "jobs")
"""And when a job is about to be decided."""
CONDITION: Final = (*DECIDING, "left")
"""And in its `if`, which also sees what is left of the run's limits."""
PLACING: Final = (*DECIDING, "matrix", "strategy")
"""And when it is known which combination of its matrix it is."""
RUNNING: Final = (*PLACING, "env", "steps", "job")
"""And in its steps, and when they are over."""

ABSENT: Final[Mapping[str, str]] = {
    "github": "there is no repository and no event here; values come with the run's input: write inputs.NAME",
    "secrets": "a secret must not become part of a run's history; a command reads it from the worker it runs on",
    "runner": "steps run on any worker that fits; a command asks its own system",
}
"""Contexts that GitHub has and this format has not, and why."""

USES: Final = "uses"
"""The key by which a step or a job is another's. It is refused, and with it goes what is given to the other."""
BESIDE_USES: Final = ("with", "secrets")

IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,99}"
_IDENTIFIER_WORDS: Final = "begins with a letter or '_', followed by at most 99 letters, digits, '-' and '_'"
VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]*"
LABEL: Final = r"[^\s,\x00-\x1f\x7f]{1,100}"
"""A label, a tag, or the name of a pool: what a demand takes, without control characters."""
_LABEL_WORDS: Final = "1 to 100 characters without blanks and commas"

MAX_JOBS: Final = 1000
MAX_STEPS: Final = 1000
MAX_ENTRIES: Final = 256
"""Of env, outputs, needs: more is data."""
LONGEST_MINUTES: Final = 43_200
"""Thirty days."""


class Text(msgspec.Struct, frozen=True):
    """A text, or a number or boolean as text. Without contexts it takes no expression."""

    contexts: tuple[str, ...] = ()
    pattern: str | None = None
    """What it has to look like where no expression stands in it."""
    words: str = "a text"
    """What is allowed, in words."""
    is_script: bool = False
    may_be_empty: bool = False


class If(msgspec.Struct, frozen=True):
    """A condition: an expression with or without `${{ }}`, with the status functions."""

    contexts: tuple[str, ...]


class Number(msgspec.Struct, frozen=True):
    minimum: float
    maximum: float
    is_whole: bool = True
    contexts: tuple[str, ...] = ()
    is_above: bool = False
    """The minimum itself is too small."""
    units: tuple[tuple[str, int], ...] = ()
    """What people write behind the number, and what that makes of it. Not allowed, but understood when it is refused."""
    word: str | None = None
    """What may stand in place of a number."""


class Boolean(msgspec.Struct, frozen=True):
    contexts: tuple[str, ...] = ()


class Choice(msgspec.Struct, frozen=True):
    words: tuple[str, ...]


class ListOf(msgspec.Struct, frozen=True):
    item: Kind
    most: int = MAX_ENTRIES
    takes_one: bool = False
    """A single item may stand without the list."""
    no_mapping: str = ""
    """Why there can be no mapping, where GitHub has one."""


class MapOf(msgspec.Struct, frozen=True):
    """Names of the user's own, each with a value."""

    what: str
    value: Kind
    pattern: str = IDENTIFIER
    words: str = _IDENTIFIER_WORDS
    most: int = MAX_ENTRIES
    example: str = ""


class Object(msgspec.Struct, frozen=True):
    """Known keys."""

    what: str
    fields: tuple[Field, ...]
    refused: Mapping[str, str] = {}
    """Keys that GitHub has and this format has not: why, and what to do instead."""


class Either(msgspec.Struct, frozen=True):
    """A mapping, or something else."""

    scalar: Kind
    mapping: Kind


class Data(msgspec.Struct, frozen=True):
    """Anything, with expressions in it."""

    contexts: tuple[str, ...]


class Field(msgspec.Struct, frozen=True):
    key: str
    kind: Kind
    text: str
    """What it means, in a line."""
    is_required: bool = False
    is_ours: bool = False
    """An extension of GitHub's format."""
    example: str | None = None


Kind = Text | If | Number | Boolean | Choice | ListOf | MapOf | Object | Either | Data


def _env(contexts: tuple[str, ...]) -> MapOf:
    return MapOf(
        "a variable",
        Text(contexts, may_be_empty=True),
        VARIABLE,
        "is made of letters, digits and '_', and begins with no digit",
        example="env:\n  NAME: value",
    )


def _minutes(contexts: tuple[str, ...]) -> Number:
    units = (("m", 1), ("min", 1), ("h", 60))
    return Number(0, LONGEST_MINUTES, is_whole=False, contexts=contexts, is_above=True, units=units)


_SIZES: Final = (("m", 1), ("mb", 1), ("mi", 1), ("mib", 1), ("g", 1000), ("gb", 1000), ("gi", 1024), ("gib", 1024))
_SPANS: Final = (("s", 1), ("m", 60), ("min", 60), ("h", 3600))

_NO_GROUP: Final = "there are no groups of runners; write labels, or 'any', and what a job takes under 'resources'"
_NO_EVENTS: Final = "a run is started by 'holdfast run' or by a program, not by an event. Remove it"
_NO_CONTAINER: Final = "steps run on workers, not in containers. Ask for workers that have what is needed with 'runs-on'"
_NO_USES_JOB: Final = "a workflow stands by itself and calls no other. Write the other's jobs into this file"
_NO_USES_STEP: Final = "there is no marketplace of actions; a step runs a command. Write what the action does under 'run'"
_NO_PERMISSIONS: Final = "there is no token of a repository whose permissions could be set. Remove it"
_NO_CONCURRENCY: Final = "what may run at once is set by 'pools' of a job, and by 'holdfast admission' for whole runs"
_NO_DEFAULTS: Final = "each step says for itself what differs. Write 'shell' and 'working-directory' into the steps"

STEP: Final = Object(
    "a step",
    (
        Field("id", Text(pattern=IDENTIFIER, words=f"a name that {_IDENTIFIER_WORDS}"), "Its name in `steps`."),
        Field("name", Text(RUNNING), "What people see."),
        Field("if", If(RUNNING), "Whether it runs; `success()` unless a status function stands in it."),
        Field("run", Text(RUNNING, is_script=True), "The script.", is_required=True, example="run: echo hello"),
        Field(
            "shell",
            Text(words="'bash', 'sh', 'python', or a command with {0} in it"),
            "`bash`, `sh`, `python`, or a command with `{0}` for the script's file.",
        ),
        Field("env", _env(RUNNING), "Variables of the environment, above those of the job."),
        Field("working-directory", Text(RUNNING), "Where the script starts, below the job's own directory."),
        Field("timeout-minutes", _minutes(RUNNING), "After so long it has failed."),
        Field("continue-on-error", Boolean(RUNNING), "Its failure does not fail the job."),
        Field(
            "effect",
            Choice(("read", "idempotent", "once")),
            "What a lost attempt means: run again (`idempotent`, the default, and `read`), or ask a person (`once`).",
            is_ours=True,
        ),
    ),
    {"uses": _NO_USES_STEP, "with": "it gives values to an action, and there are none. Give the script its values with 'env'"},
)

OUTPUT: Final = Object(
    "an output",
    (
        Field("value", Text(RUNNING), "The value.", is_required=True, example="value: ${{ steps.ID.outputs.NAME }}"),
        Field("storage", Choice(("s3", "local")), "`s3` where it is large and must last; else `local`.", is_ours=True),
    ),
)

_LABELS: Final = ListOf(Text(PLACING, LABEL, f"a text of {_LABEL_WORDS}, like gpu or zone=eu"), most=MAX_NAMES)

RESOURCES: Final = Object(
    "resources",
    (
        Field(
            "cpu", Number(0, 10_000_000, contexts=PLACING, units=(("m", 1),)), "Millicores: 2000 is two cores.", is_ours=True
        ),
        Field("memory", Number(0, 1_000_000_000, contexts=PLACING, units=_SIZES), "Megabytes.", is_ours=True),
        Field("gpus", Number(0, 10_000, contexts=PLACING), "How many.", is_ours=True),
        Field("tags", _LABELS, "What the worker must be tagged with.", is_ours=True),
    ),
)

LIMITS: Final = Object(
    "limits",
    (
        Field("memory", Number(16, 1_000_000_000, units=_SIZES), "Megabytes of address space of a process.", is_ours=True),
        Field("cpu-seconds", Number(1, 31_536_000, units=_SPANS), "Of one process.", is_ours=True),
        Field("file", Number(1, 1_000_000_000, units=_SIZES), "Megabytes of a file that it writes.", is_ours=True),
        Field("processes", Number(1, 1_000_000), "Of the worker's account, all together.", is_ours=True),
    ),
)

RETRY: Final = Object(
    "retry",
    (
        Field(
            "max", Number(0, 100), "How often a failed job is tried again.", is_required=True, is_ours=True, example="max: 3"
        ),
        Field("backoff", Choice(("fixed", "exponential")), "`exponential`, the default, doubles the delay.", is_ours=True),
        Field(
            "delay-seconds", Number(0, 86_400, is_whole=False, units=_SPANS), "Before the first repetition; 1.", is_ours=True
        ),
        Field(
            "max-delay-seconds", Number(0, 86_400, is_whole=False, units=_SPANS), "Never longer than this; 60.", is_ours=True
        ),
    ),
)

STRATEGY: Final = Object(
    "a strategy",
    (
        Field("matrix", Data(DECIDING), "Lists of values; the job runs once for each combination."),
        Field("fail-fast", Boolean(DECIDING), "A failure cancels the other combinations; true."),
        Field("max-parallel", Number(1, 1000, contexts=DECIDING), "How many combinations run at once."),
    ),
)

JOB: Final = Object(
    "a job",
    (
        Field("name", Text(PLACING), "What people see."),
        Field("needs", ListOf(Text(words="the id of a job"), takes_one=True), "The jobs that come before."),
        Field("if", If(CONDITION), "Whether it runs; `success()` of all jobs before it unless a status function stands in it."),
        Field(
            "runs-on",
            msgspec.structs.replace(_LABELS, takes_one=True, no_mapping=_NO_GROUP),
            "Labels that the worker must have, all of them; `any` asks for none.",
            is_required=True,
            example="runs-on: any",
        ),
        Field("strategy", STRATEGY, "Runs the job in variants."),
        Field("env", _env(PLACING), "Variables of the environment of all its steps, above those of the workflow."),
        Field("timeout-minutes", _minutes(PLACING), "After so long it has failed; 360."),
        Field("continue-on-error", Boolean(PLACING), "Its failure does not fail the run."),
        Field(
            "steps",
            ListOf(STEP, most=MAX_STEPS),
            "What it does, one after the other.",
            is_required=True,
            example="steps:\n  - run: echo hello",
        ),
        Field(
            "outputs",
            MapOf("an output", Either(Text(RUNNING), OUTPUT), example="outputs:\n  NAME: ${{ steps.ID.outputs.NAME }}"),
            "What later jobs may read.",
        ),
        Field("resources", RESOURCES, "What it takes of a worker.", is_ours=True),
        Field("limits", LIMITS, "How far a process of its scripts may go, where not as the settings say.", is_ours=True),
        Field("retry", RETRY, "Whether a failed job is tried again.", is_ours=True),
        Field(
            "pools",
            MapOf(
                "a pool",
                Number(1, 10_000_000_000, contexts=PLACING, word=AUTO),
                LABEL,
                f"has {_LABEL_WORDS}",
                most=MAX_NAMES,
                example="pools:\n  OPENAI_RPS: 5",
            ),
            "The amount that it takes of each pool; `auto` is the amount that earlier runs reported as used.",
            is_ours=True,
        ),
        Field(
            "priority", Number(-MAX_PRIORITY, MAX_PRIORITY), "Higher goes first where jobs wait for a place; 0.", is_ours=True
        ),
    ),
    {
        "uses": _NO_USES_JOB,
        "with": _NO_USES_JOB,
        "secrets": _NO_USES_JOB,
        "container": _NO_CONTAINER,
        "services": "a service runs by itself; tell the steps where it is with 'env'",
        "permissions": _NO_PERMISSIONS,
        "concurrency": _NO_CONCURRENCY,
        "defaults": _NO_DEFAULTS,
        "environment": "there are no deployment environments. Put what differs into 'env' or the run's input",
        "snapshot": "workers have no images. Remove it",
    },
)

_JOBS: Final = "jobs:\n  greet:\n    runs-on: any\n    steps:\n      - run: echo hello"

WORKFLOW: Final = Object(
    "a workflow",
    (
        Field("name", Text(words="a text"), "Its name; the file's where there is none."),
        Field("env", _env(STARTING), "Variables of the environment of all steps."),
        Field("jobs", MapOf("a job", JOB, most=MAX_JOBS, example=_JOBS), "The jobs, by id.", is_required=True, example=_JOBS),
    ),
    {
        "on": _NO_EVENTS,
        "run-name": "runs have ids, and keys that their starter chooses. Remove it",
        "permissions": _NO_PERMISSIONS,
        "concurrency": _NO_CONCURRENCY,
        "defaults": _NO_DEFAULTS,
        "inputs": "a run's input is not declared; expressions read it as inputs.NAME. Remove it",
    },
)


def field(kind: Object, key: str) -> Field:
    return next(each for each in kind.fields if each.key == key)


def json_schema() -> dict[str, Any]:
    """The format for editors, as JSON Schema of draft 2020-12."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A Holdfast workflow", **_schema(WORKFLOW)}


_EXPRESSION: Final = {"type": "string", "pattern": r"\$\{\{"}


def _schema(kind: Kind) -> dict[str, Any]:
    match kind:
        case Text():
            return _text_schema(kind)
        case If():
            return {"type": ["string", "boolean", "number", "null"]}
        case Number():
            bound = "exclusiveMinimum" if kind.is_above else "minimum"
            number = {"type": "integer" if kind.is_whole else "number", bound: kind.minimum, "maximum": kind.maximum}
            others = [*([{"const": kind.word}] if kind.word else []), *([_EXPRESSION] if kind.contexts else [])]
            return {"anyOf": [number, *others]} if others else number
        case Boolean():
            return {"anyOf": [{"type": "boolean"}, _EXPRESSION]} if kind.contexts else {"type": "boolean"}
        case Choice():
            return {"enum": list(kind.words)}
        case ListOf():
            item = _schema(kind.item)
            several = {"type": "array", "items": item, "minItems": 1, "maxItems": kind.most}
            return {"anyOf": [item, several]} if kind.takes_one else several
        case MapOf():
            return {
                "type": "object",
                "propertyNames": {"pattern": f"^{kind.pattern}$"},
                "minProperties": 1,
                "maxProperties": kind.most,
                "additionalProperties": _schema(kind.value),
            }
        case Object():
            return _object_schema(kind)
        case Either():
            return {"anyOf": [_schema(kind.scalar), _schema(kind.mapping)]}
        case Data():
            return {"anyOf": [{"type": "object", "minProperties": 1}, _EXPRESSION]}


def _text_schema(kind: Text) -> dict[str, Any]:
    if kind.pattern is not None and kind.contexts:
        return {"anyOf": [{"type": "string", "pattern": f"^{kind.pattern}$"}, {"type": ["number", "boolean"]}, _EXPRESSION]}
    if kind.pattern is not None:
        return {"type": "string", "pattern": f"^{kind.pattern}$"}
    return {"type": ["string", "number", "boolean", *(("null",) if kind.may_be_empty else ())]}


def _object_schema(kind: Object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.key: {"description": each.text, **_schema(each.kind)} for each in kind.fields},
        "required": [each.key for each in kind.fields if each.is_required],
        "additionalProperties": False,
    }
