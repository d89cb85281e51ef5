"""A selection of several runs: the options for it, and their meaning.

Never here: what is done with those runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, get_args

import typer

from holdfast.cli.page import moment
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.service.declarations.query import Runs

Workflow = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="Only this workflow, by its name.")]
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help="Only runs with this status, or one of several: failed,waiting."),
]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only the run started under this key.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only runs started since this time: 2h, 3d, 2026-11-21, 2026-11-21T09:30."),
]
RunTags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only runs with this tag. If repeated, with all of them.")
]
RunLabels = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only runs with this label. May be repeated.")
]
Text = Annotated[
    str | None,
    typer.Option("--text", metavar="TEXT", help="Only runs with this text in their workflow, key, tags, labels or starter."),
]
MinCost = Annotated[str | None, typer.Option("--min-cost", metavar="USD", help="Only runs that spent at least this much.")]
MaxCost = Annotated[str | None, typer.Option("--max-cost", metavar="USD", help="Only runs that spent at most this much.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only runs started before this time.")]


class Asked(NamedTuple):
    """The options as they were typed."""

    tenant: str | None
    workflow: str | None
    statuses: Sequence[str] | None
    key: str | None
    since: str | None
    until: str | None
    parent: str | None = None
    """The whole id of a run."""
    tags: Sequence[str] | None = None
    text: str | None = None
    min_cost: str | None = None
    max_cost: str | None = None
    labels: Sequence[str] | None = None

    @property
    def is_any(self) -> bool:
        """True without any option: every run is meant."""
        return not any(self)

    def query(self, now_ms: int, usual: Sequence[str] = ()) -> Runs:
        """Return the query; with the statuses that are `usual`, if none is given. Raises UsageError."""
        from holdfast.core.views.status import Status
        from holdfast.service.declarations.query import Runs

        return Runs(
            tenant=self.tenant,
            workflow=self.workflow,
            key=self.key,
            parent=self.parent,
            status=tuple(among(self.statuses, get_args(Status), "status") or usual),
            tag=tuple(self.tags or ()),
            label=tuple(self.labels or ()),
            text=self.text,
            min_cost_usd=self.min_cost,
            max_cost_usd=self.max_cost,
            since_ms=None if self.since is None else moment.given(self.since, "--since", now_ms),
            until_ms=None if self.until is None else moment.given(self.until, "--until", now_ms),
        )


def among(given: Sequence[str] | None, known: Iterable[str], what: Literal["status", "state"]) -> list[str] | None:
    """The words of an option that takes several, apart or joined by commas. Raises UsageError for one that is none of
    those `known`."""
    if not given:
        return None
    words = [word.strip() for each in given for word in each.split(",")]
    for word in words:
        if word not in known:
            raise UsageError(f"There is no {what} {word!r}; there are {', '.join(known)}. Nothing was done.")
    return words
