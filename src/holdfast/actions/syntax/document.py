"""A workflow file as a frozen value: what it says, and where. Nothing of it has been evaluated.

Never here: how it is read, what it means for a run.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from holdfast.actions.expressions import Condition, Expression, Template
from holdfast.actions.syntax.matrix import Combination
from holdfast.actions.syntax.mistake import Position

JOB_MINUTES: Final = 360
"""How long a job may take that says nothing about it; GitHub's own."""
ANY: Final = "any"
"""Under `runs-on` it asks for no label."""

Amount = int | Template
Minutes = float | Template
Flag = bool | Template


class Variable(msgspec.Struct, frozen=True):
    """One entry of an `env`."""

    name: str
    value: Template
    at: Position


class Binding(msgspec.Struct, frozen=True):
    """A variable of the environment by which a script reads the value of an expression in it."""

    name: str
    value: Expression


class Script(msgspec.Struct, frozen=True):
    """A script for a shell: a text that depends on no value, and the variables that carry the values."""

    text: str
    bindings: tuple[Binding, ...] = ()


class Step(msgspec.Struct, frozen=True):
    at: Position
    id: str | None
    name: Template | None
    condition: Condition
    script: Script
    shell: str | None
    """`bash`, `sh`, `python`, a command with `{0}` in it; None for the worker's own choice of bash or sh."""
    env: tuple[Variable, ...]
    working_directory: Template | None
    """Once evaluated it must pass `directory.problem` again."""
    timeout_minutes: Minutes | None
    continue_on_error: Flag
    effect: Literal["read", "idempotent", "once"]


class Output(msgspec.Struct, frozen=True):
    at: Position
    name: str
    value: Template
    storage: Literal["s3", "local"]


class Resources(msgspec.Struct, frozen=True):
    cpu_millicores: Amount = 0
    memory_mb: Amount = 0
    gpus: Amount = 0
    tags: tuple[Template, ...] = ()


class Retry(msgspec.Struct, frozen=True):
    """`times` is how often it is tried again after a failure; 0 is never."""

    times: int = 0
    backoff: Literal["fixed", "exponential"] = "exponential"
    delay_s: float = 1.0
    max_delay_s: float = 60.0


class Limits(msgspec.Struct, frozen=True):
    """The limits of each process of a job's scripts. A limit that is not set is as in the settings."""

    memory_mb: int | None = None
    cpu_s: int | None = None
    file_mb: int | None = None
    processes: int | None = None


AUTO: Final = "auto"


class PoolShare(msgspec.Struct, frozen=True):
    """A job's share of a pool."""

    at: Position
    pool: str
    amount: Amount | Literal["auto"]
    """AUTO is what runs before have used."""


class Strategy(msgspec.Struct, frozen=True):
    at: Position
    matrix: Any
    """JSON data with templates in the place of values; `matrix.resolve` gives them their values."""
    combinations: tuple[Combination, ...] | None
    """Where the file alone says what they are."""
    fail_fast: Flag = True
    max_parallel: Amount | None = None


class Job(msgspec.Struct, frozen=True):
    at: Position
    id: str
    name: Template | None
    needs: tuple[str, ...]
    condition: Condition
    labels: tuple[Template, ...]
    """The labels that the worker must have, without ANY where it is written out."""
    strategy: Strategy | None
    env: tuple[Variable, ...]
    timeout_minutes: Minutes
    continue_on_error: Flag
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    resources: Resources
    retry: Retry
    pools: tuple[PoolShare, ...]
    priority: int | None
    limits: Limits | None = None


def asks_for_label(label: str) -> bool:
    """True if a worker must have this label, as it stands in the file or as an expression gives it."""
    return label != ANY


class Document(msgspec.Struct, frozen=True):
    name: str
    env: tuple[Variable, ...]
    jobs: tuple[Job, ...]
    """In the order of the file; each need is the id of one of them, and there is no cycle."""

    def job(self, id_: str) -> Job:
        return next(job for job in self.jobs if job.id == id_)
