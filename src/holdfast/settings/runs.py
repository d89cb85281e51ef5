"""Rules for runs in holdfast.toml: retention, money in doubt, new versions, content, scripts, `vars`.

Never here: a decision about a run.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from holdfast.settings.table import TABLE, Networks

VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
VariableValue = Annotated[str, StringConstraints(max_length=48 * 1024)]


class RetentionRules(BaseModel):
    """`[retention]` in holdfast.toml: `hot_days = 30`, `conversations_days = 90`."""

    model_config = TABLE

    conversations_days: int | None = Field(default=None, ge=1, le=36_500)
    """Days without a message after which a conversation is deleted. None: never."""

    hot_days: int | None = Field(default=None, ge=1, le=36_500)
    """Days that a month stays in the tables after its end. Then `holdfast serve` archives it (on PostgreSQL the leader, on
    SQLite with `--grpc`), as soon as no run holds it back."""


class BudgetRules(BaseModel):
    """`[budget]` in holdfast.toml: the handling of money in doubt that is not reconciled. If it is not set, the money stays in
    doubt."""

    model_config = TABLE

    doubt_after_h: float = Field(gt=0, le=8_784, allow_inf_nan=False)
    """Hours in doubt before the rule applies."""
    settle: Literal["unspent", "hold"]
    """Cost of the call by the rule: nothing, or the whole reservation."""
    set_by: str = Field(min_length=1, max_length=200)
    """Name recorded with each settlement."""


class HoldBackRules(BaseModel):
    """`[hold_back.WORKFLOW]` in holdfast.toml: results that a new version of the workflow needs before its runs begin without
    asking. Set it for every process that starts runs."""

    model_config = TABLE

    suite: str = Field(min_length=1)
    """Suite of scenarios, by its file as `holdfast eval FILE --keep` names it."""
    min_scenarios: int = Field(default=1, ge=1)
    """Scenarios that a result must have."""
    max_drop: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    """Share of passed scenarios by which it may be below the version before: 0.02 is two of a hundred."""
    reviewers: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(default=(), max_length=50)
    """Persons or roles (`role:lead`) who may release a version; by default any reviewer."""


class FetchRules(BaseModel):
    """`[fetch]` in holdfast.toml: hosts from which content parts with an address are read. By default every public host, over
    https."""

    model_config = TABLE

    hosts: tuple[str, ...] | None = None
    """Only these hosts."""
    allow_private: Networks = False
    """Private networks to allow besides public addresses, as for an HTTP tool; http is allowed for them."""


class ScriptLimits(BaseModel):
    """`[limits]` in holdfast.toml: limits of each process of a script in a workflow file, unless the file sets its own.

    They stop runaway scripts and no working ones: runtimes reserve much more memory than they use.
    """

    model_config = TABLE

    memory_mb: int = Field(default=256_000, ge=16)
    """Megabytes of address space."""
    cpu_s: int = Field(default=86_400, ge=1)
    """Seconds of processor time."""
    file_mb: int = Field(default=64_000, ge=1)
    """Megabytes of one file that it writes."""
    processes: int = Field(default=16_384, ge=1)
    """Processes and threads of the worker's account, all together; Linux does not apply it to root."""
