"""Bulk commands: all runs that a filter finds, each by itself, so that one refusal does not stop the others.

Never here: what is done to one (command, repair), asking a person for confirmation (cli).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Unpack

from holdfast.core.rules.forking import Fork
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import digest
from holdfast.core.views.projection import RunRow
from holdfast.core.views.selection import LetterCriteria
from holdfast.engine.runs.starting import started_as
from holdfast.errors import HoldfastError, InvalidInput, StoreError
from holdfast.ports import RunFilter
from holdfast.service.control.base import NOT_GIVEN, word
from holdfast.service.control.repair import Repairs, expect_settled

BulkAction = Literal["retry", "cancel", "pause", "resume", "fork"]
LetterAction = Literal["retry", "resolve"]
MAX_RUNS: Final = 1000
"""Of one call, each a commit or more: it takes some seconds. `before` the last of them the next go on."""

_UNENDED: Final = ("running", "waiting", "requires_attention", "budget_blocked")
USUAL: Final[Mapping[BulkAction, Sequence[str]]] = {
    "cancel": (*_UNENDED, "paused"),
    "pause": _UNENDED,
    "resume": ("paused",),
    "retry": ("failed",),
    "fork": ("failed",),
}
"""Default statuses of the selected runs."""


def fork_name(name: str | None, step: str, *parts: Any) -> str:
    """Return the prefix of the start keys of one bulk's forks: the caller's name, or one made of the request. So a bulk that
    broke off and is sent again forks no run twice."""
    return word("name of the forks", name, "fork_key") if name is not None else f"bulk-{digest([step, *parts])[:16]}"


class BulkOutcome(NamedTuple):
    """The outcome of one run, or its preview: its status, why it refused, and the run that was forked from it."""

    run: RunId
    status: str
    refused: str | None = None
    fork: RunId | None = None
    letter: str | None = None
    """Of a dead letter, which."""
    plan: Fork | None = None
    """Of a fork that would be, what it would begin with."""


class Bulks(Repairs):
    """Commands to many runs or dead letters, executed one after the other."""

    async def bulk(
        self,
        action: BulkAction,
        *,
        step: str | None = None,
        fork_key: str | None = None,
        reason: str = "cancelled",
        repeat_effects: bool = False,
        dry_run: bool = False,
        by: str | Actor | None = None,
        **filters: Unpack[RunFilter],
    ) -> Sequence[BulkOutcome]:
        """Retry, cancel, pause, resume or fork all runs that match, newest first. Without `status` the runs are those that the
        action applies to, like `failed` for retry.

        A bulk of forks that you repeat forks no run twice. It returns the forks that it has made, and refuses to fork them.

        Args:
            limit: Maximum number of runs, at most 1,000.

        Raises:
            StoreError: The store failed in between; the runs before it are done.
        """
        if (step is None) == (action == "fork"):
            raise InvalidInput("step= says from where runs are forked, and goes with fork and nothing else. Nothing was done.")
        _expect_few(filters.get("limit", MAX_RUNS))
        filters["limit"], filters["status"] = filters.get("limit", MAX_RUNS), filters.get("status") or USUAL[action]
        found = await self.runs(**filters)
        if step is not None:
            name = fork_name(fork_key, step, repeat_effects)
            return [await self._forked(row, name, step, repeat_effects, dry_run, by) for row in found]
        return [await self._outcome(action, row.run, row.status, reason, dry_run, by) for row in found]

    async def _forked(
        self, row: RunRow, name: str, step: str, repeats: bool, dry_run: bool, by: str | Actor | None
    ) -> BulkOutcome:
        if (row.key or "").startswith(f"{name}/"):
            return BulkOutcome(row.run, row.status, "It is a fork that this has made.")
        key = f"{name}/{row.run}"
        known = await started_as(self.runtime, row.tenant, key)
        try:
            if known is not None:
                return BulkOutcome(row.run, row.status, fork=known.run)
            if dry_run:
                plan = await self.fork_plan(row.run, step, repeat_effects=repeats, by=by)
                return BulkOutcome(row.run, row.status, plan=plan)
            fork = await self.fork(row.run, step, repeat_effects=repeats, key=key, by=by)
        except StoreError:
            raise
        except HoldfastError as problem:
            return BulkOutcome(row.run, row.status, problem.message)
        return BulkOutcome(row.run, row.status, fork=RunId(fork.id))

    async def _outcome(
        self, action: BulkAction, run: RunId, status: str, reason: str, dry_run: bool, by: str | Actor | None
    ) -> BulkOutcome:
        try:
            if dry_run:
                may = status in USUAL[action] or (action in ("pause", "resume") and status in (*_UNENDED, "paused"))
                return BulkOutcome(run, status, None if may else f"It is {status}.")
            if action == "cancel":
                await self.cancel(run, reason=reason, by=by)
            else:
                await {"retry": self.retry, "pause": self.pause, "resume": self.resume}[action](run, by=by)
        except StoreError:
            raise
        except HoldfastError as problem:
            return BulkOutcome(run, status, problem.message)
        return BulkOutcome(run, await self.run(run).status())

    async def bulk_dead_letters(
        self,
        action: LetterAction,
        output: Any = NOT_GIVEN,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        by: str | Actor | None = None,
        **criteria: Unpack[LetterCriteria],
    ) -> Sequence[BulkOutcome]:
        """Retry or resolve all open dead letters that match, those of the oldest run first. A dead letter that was retried
        meanwhile counts as done.

        Args:
            run_id: Only dead letters of this run; by default of all.
            after: Last dead letter of the page before, `RUN:STEP`.
            limit: Maximum number of dead letters, at most 1,000, which is the default.

        Raises:
            StoreError: The store failed in between; the dead letters before it are done.
        """
        if action == "retry" and output is not NOT_GIVEN:
            raise InvalidInput("output= goes with resolve; a replay finds out what comes of it. Nothing was done.")
        criteria.setdefault("limit", MAX_RUNS)
        _expect_few(criteria["limit"])
        found = await self.dead_letters(**criteria)
        return [await self._letter_outcome(action, each.id, output, reason, dry_run, by) for each in found]

    async def _letter_outcome(
        self, action: LetterAction, letter: str, output: Any, reason: str | None, dry_run: bool, by: str | Actor | None
    ) -> BulkOutcome:
        found, state = await self.dead_letter(letter)
        refused: str | None = None
        try:
            if found.resolved_at_ms is not None:
                pass
            elif dry_run and action == "retry":
                expect_settled(state, found.letter.step)
            elif action == "retry":
                await self.retry_dead_letter(letter, by=by)
            elif not dry_run:
                await self.resolve_dead_letter(letter, output, reason=reason, by=by)
        except StoreError:
            raise
        except HoldfastError as problem:
            refused = problem.message
        return BulkOutcome(state.run, await self.run(state.run).status(), refused, letter=letter)


def _expect_few(limit: int) -> None:
    if not 1 <= limit <= MAX_RUNS:
        raise InvalidInput(f"limit is {limit}; one call is about 1 to {MAX_RUNS}. Nothing was done.")
