"""What may be asked for a page at a time, as data. `cursor` is what the page before ended with; a list goes on after that row,
so rows that come meanwhile are no trouble.

Never here: finding the answer.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Struct, UnsetType

View: TypeAlias = dict[str, Any]
"""Plain data, as --json prints it (service.view)."""

USUAL: Final = 100
MOST: Final = 1_000
"""Rows of a page."""


class Page(NamedTuple):
    """Some rows of a list, and where it goes on; `cursor` is None at its end."""

    rows: list[View]
    cursor: str | None


class Runs(Struct, frozen=True, kw_only=True):
    """Runs, newest first. Times are those of a run's start."""

    tenant: str | None = None
    workflow: str | None = None
    status: tuple[str, ...] = ()
    key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    in_doubt: bool = False
    cursor: str | None = None
    limit: int = USUAL


class Gates(Struct, frozen=True, kw_only=True):
    """Open gates, or with `all` every one, oldest first."""

    run: str | None = None
    tenant: str | None = None
    all: bool = False
    cursor: str | None = None
    limit: int = USUAL


class Effects(Struct, frozen=True, kw_only=True):
    """Calls of tools, oldest first, with their requests and responses."""

    run: str | None = None
    tenant: str | None = None
    state: str | None = None
    cursor: str | None = None
    limit: int = USUAL


class Events(Struct, frozen=True, kw_only=True):
    """A run's history from its beginning."""

    run: str
    cursor: str | None = None
    limit: int = USUAL


class ForkQuote(Struct, frozen=True, kw_only=True):
    """What a fork of a run would be, in one row: what is kept, what is reused, what is done anew, and the most it can cost."""

    run: str
    step: str
    output: Any | UnsetType = UNSET
    state: dict[str, Any] = {}
    cost_limit_usd: str | int | float | None = None


class Tree(Struct, frozen=True, kw_only=True):
    """A run with everything below it, in one row: how each of them stands, and what all of them have cost."""

    run: str


class Items(Struct, frozen=True, kw_only=True):
    """How the items of a map (`review`; in a flow `flow/2`) have ended, in the order in which they did."""

    run: str
    map: str
    cursor: str | None = None
    limit: int = USUAL


class Streams(Struct, frozen=True, kw_only=True):
    """What is said in a run while it goes on: what models say, and what user code writes. The list goes on until the run has
    ended and all is told; a page comes when there is something, or after `wait_s` (30 at most)."""

    run: str
    name: str | None = None
    """Only this stream, or this call (`draft#1:0:1`)."""
    wait_s: float = 0.0
    cursor: str | None = None
    """Also `start` and `now`."""
    limit: int = USUAL


class DeadLetters(Struct, frozen=True, kw_only=True):
    """Steps that have failed for good, of which nobody has said what is to become, or those that are `resolved`, or any,
    the oldest run's first. Times are those of the latest failure."""

    letter: str | None = None
    """Only this one, `RUN:STEP`, with all about it."""
    run: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    node: str | None = None
    error_class: str | None = None
    state: Literal["open", "resolved", "any"] = "open"
    since_ms: int | None = None
    until_ms: int | None = None
    cursor: str | None = None
    limit: int = USUAL


class DeadLetterSummary(Struct, frozen=True):
    """How many there are by workflow, node and class of error, with the age of the oldest open one."""

    tenant: str | None = None


class Costs(Struct, frozen=True, kw_only=True):
    """What models cost on the days from `first_day` to `last_day` (`2026-11-21`), by day, tenant, workflow, node and model."""

    first_day: str = "0000-01-01"
    last_day: str = "9999-12-31"
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


class Doubts(Struct, frozen=True, kw_only=True):
    """Model calls of which nobody knows what they cost, of the newest run first. A page ends with the calls of a whole run."""

    run: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


class Conversations(Struct, frozen=True, kw_only=True):
    """Conversations by tenant and name; or the one of that `name`, with all that was said in it."""

    name: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


class Schedules(Struct, frozen=True, kw_only=True):
    """Schedules by tenant and name, or the one of that `name`."""

    name: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


class SharedValues(Struct, frozen=True, kw_only=True):
    """The latest versions of shared values by tenant, space and key; or, with `key`, all that are kept of one, the latest
    last."""

    space: str | None = None
    key: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


class Pools(Struct, frozen=True):
    """The pools that steps can ask amounts of, by name."""

    name: str | None = None
    """Only this one, with who has how much of it."""


class Budget(Struct, frozen=True):
    """What a tenant, or a team of it, has spent this day and this month."""

    tenant: str
    team: str | None = None


class Admission(Struct, frozen=True):
    """How many runs of a tenant, or of all together, are active, and how many may be."""

    tenant: str | None = None


class Workflows(Struct, frozen=True, kw_only=True):
    """The workflows whose code some process has loaded, by name, the highest version first, with how many living processes can
    run each."""

    name: str | None = None
    """Only this one, in `version` or the highest, with its definition and what its input must fit."""
    version: int | None = None
    cursor: str | None = None
    limit: int = USUAL


class Queue(Struct, frozen=True):
    """The steps that wait for a worker or a pool, longest first; with `run` why those of one run do."""

    run: str | None = None
    step: str | None = None


Query: TypeAlias = (
    Runs | Gates | Effects | Events | Streams | ForkQuote | Items | Tree | DeadLetters | DeadLetterSummary | Costs | Doubts
    | Schedules | Conversations | SharedValues | Pools | Budget | Admission | Workflows | Queue
)  # fmt: skip
