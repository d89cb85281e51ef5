"""A run with everything below it: its children, theirs, and what all of them together have cost.

Never here: answering in words (cli), changing anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.core.facts import events as ev
from holdfast.core.rules.forking import questions
from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import RunRow
from holdfast.engine.runs.mailbox import RunHistory
from holdfast.errors import NotFound
from holdfast.ports import ChildLink, Store

MAX_RUNS: Final = 10_000
"""Of a tree that are looked at; the newest are left out."""
_PAGE: Final = 1000


class Tokens(NamedTuple):
    """The tokens that a run has used, those held or in doubt besides, and its own limit."""

    used: int = 0
    outstanding: int = 0
    limit: int | None = None


class Member(NamedTuple):
    """A run of a tree, `depth` runs below the one at its top. `row` is None for one that is about to start."""

    run: RunId
    parent: RunId | None
    depth: int
    row: RunRow | None
    tokens: Tokens = Tokens()


class Tree(NamedTuple):
    """A run and all below it, each before its children, these in the order in which they were asked for."""

    root: RunId
    """The run at the top of the whole tree, of which this may be a part."""
    members: Sequence[Member]
    is_whole: bool

    @property
    def tokens(self) -> Tokens:
        """Of all of them together, without a limit."""
        return Tokens(sum(each.tokens.used for each in self.members), sum(each.tokens.outstanding for each in self.members))

    @property
    def settled_nanousd(self) -> int:
        return sum(each.row.settled_nanousd for each in self.members if each.row is not None)

    @property
    def outstanding_nanousd(self) -> int:
        """Held and in doubt."""
        return sum(each.row.held_nanousd + each.row.in_doubt_nanousd for each in self.members if each.row is not None)


async def tree_of(store: Store, run: RunId) -> Tree:
    """The run with everything below it, as of now. Raises NotFound."""
    own = await store.children.link(run)
    root = run if own is None else own.root
    links = await _links(store, root)
    rows = {row.run: row for row in await _rows(store, root)}
    top = await store.views.run(run)
    if top is None:
        raise NotFound(f"There is no run {run} in this store; `holdfast runs list` shows those that are.")
    rows[run] = top
    below: dict[RunId, list[ChildLink]] = {}
    for link in links[:MAX_RUNS]:
        below.setdefault(link.parent, []).append(link)
    members = [
        each if each.row is None else each._replace(tokens=await _tokens(store, each.run))
        for each in _members(run, None if own is None else own.parent, 0, below, rows)
    ]
    return Tree(root, members, len(links) <= MAX_RUNS)


async def quiet_children(store: Store, history: Sequence[ev.Recorded]) -> frozenset[RunId]:
    """Return the children of a run that have asked no person, nor has any below them: as far as they have ended and their
    histories are here."""
    found = set[RunId]()
    for child in {each.event.child for each in history if isinstance(each.event, ev.ChildRequested)}:
        theirs = await store.log.events(child)
        is_over = any(isinstance(each.event, ev.RunCompleted | ev.RunFailed) for each in theirs)
        if is_over and not questions(theirs, await quiet_children(store, theirs)):
            found.add(child)
    return frozenset(found)


async def _tokens(store: Store, run: RunId) -> Tokens:
    """As its history tells."""
    state = await RunHistory(run, store.log).load()
    return Tokens(state.tokens_used, state.tokens_held + state.tokens_in_doubt, state.max_tokens)


def _members(
    run: RunId, parent: RunId | None, depth: int, below: dict[RunId, list[ChildLink]], rows: dict[RunId, RunRow]
) -> Iterator[Member]:
    yield Member(run, parent, depth, rows.get(run))
    for link in below.get(run, ()):
        yield from _members(link.child, run, depth + 1, below, rows)


async def _links(store: Store, root: RunId) -> list[ChildLink]:
    found: list[ChildLink] = []
    while page := await store.children.family(root, found[-1].child if found else None, _PAGE):
        found += page
        if len(page) < _PAGE or len(found) > MAX_RUNS:
            break
    return found


async def _rows(store: Store, root: RunId) -> list[RunRow]:
    found: list[RunRow] = []
    while page := await store.views.runs(root=root, before=found[-1].run if found else None, limit=_PAGE):
        found += page
        if len(page) < _PAGE or len(found) > MAX_RUNS:
            break
    return found
