"""Criteria by which runs and dead letters are selected: each declared here once, with its description.

Lists and bulk commands have them as fields, the command line as options, and stores as conditions (`stores/sql`) under the
names of RunFilter and LetterFilter. Never here: a condition, a caller's rights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Meta

from holdfast.core.nouns.labels import Pair
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.money import Usd

GateOrder: TypeAlias = Literal["opened", "due", "closed"]
"""The order of a list of gates: as they were opened, by deadline, or those that are no longer open, closed last first."""
WaitKindName: TypeAlias = Annotated[str, Meta(extra_json_schema={"$ref": "#/components/schemas/WaitKind"})]
"""A kind of `status.Wait`, as text: the set itself would load the rules."""
_TENANT: Final = "Only this tenant; by default the caller's own, or all for a caller that acts for all tenants."


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria of lists and bulk commands, as callers give them."""

    tenant: Annotated[str | None, Meta(description=_TENANT)] = None
    workflow: Annotated[str | None, Meta(description="Only this workflow, by its name.")] = None
    version: Annotated[int | None, Meta(description="Only runs of this version of their workflow.")] = None
    status: tuple[str, ...] = ()
    """Described by each list or command, as its default differs."""
    waiting_for: Annotated[
        tuple[WaitKindName, ...],
        Meta(description="Only runs that wait for one of these, as their `waiting_for` has it; `gate` is a person."),
    ] = ()
    key: Annotated[str | None, Meta(description="Only runs started under this start key.")] = None
    since_ms: Annotated[int | None, Meta(description="Only runs started at this time or later, in Unix milliseconds.")] = None
    until_ms: Annotated[int | None, Meta(description="Only runs started before this time, in Unix milliseconds.")] = None
    tag: Annotated[tuple[str, ...], Meta(description="Only runs that have all of these tags.")] = ()
    label: Annotated[tuple[str, ...], Meta(description="Only runs that have all of these labels, each as `key=value`.")] = ()
    text: Annotated[
        str | None,
        Meta(
            description="Only runs with this text in their workflow's name, their start key, a tag, a label or who started"
            " them; any case."
        ),
    ] = None
    min_cost_usd: Annotated[
        Usd | None, Meta(description="Only runs that have spent at least this much, in dollars; money in doubt is not counted.")
    ] = None
    max_cost_usd: Annotated[
        Usd | None, Meta(description="Only runs that have spent at most this much, in dollars; money in doubt is not counted.")
    ] = None
    min_score: Annotated[
        str | None, Meta(description="Only runs with a current score of at least this, as `NAME=VALUE`: `helpful=0.8`.")
    ] = None
    max_score: Annotated[
        str | None, Meta(description="Only runs with a current score of at most this, as `NAME=VALUE`: `helpful=0.5`.")
    ] = None


class RunFilter(TypedDict, total=False):
    """The criteria as a store takes them; most are those of Selection, by the same names. A criterion that is missing or None
    matches any. Times are those of a run's start."""

    prefix: str | None
    """Only runs whose id begins with this."""
    ids: Sequence[str] | None
    """Only runs with one of these ids."""
    tenant: str | None
    workflow: str | None
    version: int | None
    status: str | Sequence[str] | None
    """Only runs with this status, or with one of several."""
    waiting_for: Sequence[str] | None
    """Only runs with a wait of one of these kinds (`status.Wait`). It reads each run that the other criteria leave."""
    key: str | None
    parent: str | None
    """Only children of this run, by its id."""
    root: str | None
    """Only runs below this one at any depth, by its id."""
    since_ms: int | None
    until_ms: int | None
    in_doubt: bool
    """True to select only runs with money in doubt."""
    labels: Sequence[Pair] | None
    """Only runs that have all of these labels, as pairs; a tag is one with an empty key."""
    text: str | None
    """Only runs with this text in their workflow's name, their key, a tag, a label or who started them; any case. It reads each
    run that the other criteria leave."""
    cost_from_nanousd: int | None
    """Only runs that have spent at least this much, in nano-dollars; money in doubt is not counted."""
    cost_to_nanousd: int | None
    """Only runs that have spent at most this much, in nano-dollars; money in doubt is not counted."""
    score_from: tuple[str, float] | None
    """Only runs with a score of this name that counts (core.nouns.scores), of at least this value."""
    score_to: tuple[str, float] | None
    """The same of at most this value."""
    before: str | None
    """Only runs older than this one, by its id."""
    limit: int


class LetterSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The criteria of lists and bulk commands of dead letters, as callers give them."""

    run: Annotated[str | None, Meta(description="Only this run, by its id.")] = None
    tenant: Annotated[str | None, Meta(description=_TENANT)] = None
    workflow: Annotated[str | None, Meta(description="Only this workflow, by its name.")] = None
    node: Annotated[str | None, Meta(description="Only steps of this node, by its name.")] = None
    error_class: Annotated[
        str | None, Meta(description="Only steps that failed with this error class, like `timeout` or `tool`.")
    ] = None
    since_ms: Annotated[
        int | None, Meta(description="Only steps that last failed at this time or later, in Unix milliseconds.")
    ] = None
    until_ms: Annotated[int | None, Meta(description="Only steps that last failed before this time, in Unix milliseconds.")] = (
        None
    )


LetterState = Literal["open", "resolved"]


class _LetterFilter(TypedDict, total=False):
    tenant: str | None
    workflow: str | None
    node: str | None
    error_class: str | None
    since_ms: int | None
    until_ms: int | None
    limit: int


class LetterCriteria(_LetterFilter, total=False):
    """The criteria by which Python code selects dead letters. A criterion that is missing or None matches any. Times are those
    of the latest failure."""

    run_id: str | None
    """Only dead letters of this run; by default of all."""
    after: str | None
    """Last dead letter of the page before, `RUN:STEP`."""


class LetterFilter(_LetterFilter, total=False):
    """The same as a store takes them."""

    run: RunId | None
    state: LetterState | None
    after: tuple[RunId, StepId] | None
    """Only those that come after this one."""
