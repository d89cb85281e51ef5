"""A selection of several runs: the options for it, and their meaning.

The options are the fields of Selection. Never here: what is done with those runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import typer

from holdfast.cli.group import Group
from holdfast.cli.noun import ArgumentSpec, group_of
from holdfast.cli.page import moment
from holdfast.core.views.selection import Selection
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.service.declarations.query import Runs

Workflow = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="Only this workflow, by its name.")]

_FIELDS: Final = group_of(
    Selection,
    {
        "tenant": ArgumentSpec(),
        "workflow": ArgumentSpec(),
        "version": ArgumentSpec("--workflow-version N"),
        "status": ArgumentSpec("--status STATUS", help="Only runs with this status, or one of several: failed,waiting."),
        "waiting_for": ArgumentSpec(
            "--waiting-for KIND",
            help="Only runs that wait for this, like gate (a person), signal, timer, slot, worker or money.",
        ),
        "key": ArgumentSpec("--key KEY", help="Only the run started under this key."),
        "since_ms": ArgumentSpec(
            "--since TIME", help="Only runs started since this time: 2h, 3d, 2026-11-21, 2026-11-21T09:30."
        ),
        "until_ms": ArgumentSpec("--until TIME", help="Only runs started before this time."),
        "tag": ArgumentSpec("--tag TAG", help="Only runs with this tag. If repeated, with all of them."),
        "label": ArgumentSpec("--label KEY=VALUE", help="Only runs with this label."),
        "text": ArgumentSpec("--text TEXT", help="Only runs with this text in their workflow, key, tags, labels or starter."),
        "min_cost_usd": ArgumentSpec("--min-cost USD", help="Only runs that spent at least this much."),
        "max_cost_usd": ArgumentSpec("--max-cost USD", help="Only runs that spent at most this much."),
        "min_score": ArgumentSpec("--min-score NAME=VALUE", help="Only runs with a score of at least this: helpful=0.8."),
        "max_score": ArgumentSpec("--max-score NAME=VALUE", help="Only runs with a score of at most this."),
    },
)
"""The fields as the command line takes them: a word only where it is not spelt or described as over HTTP."""


class ListOptions(NamedTuple):
    """The criteria that were typed, by the names of their fields."""

    given: Mapping[str, Any]

    @property
    def is_any(self) -> bool:
        """True without any option: every run is meant."""
        return not self.given

    def query(self, now_ms: int, usual: Sequence[str] = ()) -> Runs:
        """Return the query; with the statuses that are `usual`, if none is given. Raises UsageError."""
        from holdfast.core.views.status import Status
        from holdfast.service.declarations.query import Runs

        values: dict[str, Any] = {
            name: moment.parse_time(value, f"--{name.removesuffix('_ms')}", now_ms) if name.endswith("_ms") else value
            for name, value in self.given.items()
        }
        values["status"] = tuple(among(self.given.get("status"), get_args(Status), "status") or usual)
        return Runs(**values)


def _create_filters(**argument: Any) -> ListOptions:
    return ListOptions({name: value for name, value in _FIELDS.make(**argument).items() if value})


SELECTION: Final = Group(_create_filters, **_FIELDS.options)
Selected: TypeAlias = Annotated[ListOptions, SELECTION]


def among(values: Sequence[str] | None, names: Iterable[str], field: Literal["status", "state"]) -> list[str] | None:
    """The words of an option that takes several, apart or joined by commas. Raises UsageError for one that is none of
    those `names`."""
    if not values:
        return None
    words = [word.strip() for each in values for word in each.split(",")]
    for word in words:
        if word not in names:
            raise UsageError(f"There is no {field} {word!r}; there are {', '.join(names)}. Nothing was done.")
    return words
