"""By what shared values are found: their words and their vectors, which follow each value in its own commit.

Ids of one space have the same first half, so that its vectors lie together and its words are known by it. Never here: a
value, what is near enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw

from holdfast.core.nouns.shared_values import SharedIndex, query_words, words_of
from holdfast.core.views.projection import SharedChange, SharedUse
from holdfast.platform.extra import needs
from holdfast.stores.sqlite.context import rows, value

_HALF: Final = 32
_MAX_RANKED: Final = 2000
"""Entries that a search by words compares: it leaves out the commonest words, and of what has the others takes the latest."""
_LAST: Final = 2**63 - 1

Rows = list[tuple[Any, ...]]


def follow(db: apsw.Connection, change: SharedChange) -> None:
    """A value is found by what its latest version says, or not any more."""
    uses, used_at_ms = drop(db, change.tenant, change.space, change.key)
    if change.index is None:
        return
    entry = _next(db, change.tenant, change.space)
    name = (change.tenant, change.space, change.key)
    rows(db, "put_shared_entry", (entry, *name, uses, used_at_ms))
    if change.index.words:
        words = " ".join(_marked(entry, words_of(change.index.words)))
        rows(db, "put_shared_words", (entry, words))
    if change.index.vector:
        rows(db, "put_shared_vector", (entry, change.index.model, change.index.vector))


def drop(db: apsw.Connection, tenant: str, space: str, key: str) -> tuple[int, int]:
    """Find a value no more: how often it was used, and when."""
    known = rows(db, "drop_shared_entry", (tenant, space, key))
    if not known:
        return 0, 0
    [(entry, uses, used_at_ms)] = known
    rows(db, "drop_shared_words", (entry,))
    rows(db, "drop_shared_vector", (entry,))
    return uses, used_at_ms


def use(db: apsw.Connection, uses: Sequence[SharedUse]) -> None:
    for each in uses:
        for key in each.keys:
            rows(db, "use_shared_entry", (each.tenant, each.space, key, each.at_ms))


def extension() -> str:
    """The library that compares vectors. Raises MissingExtra."""
    with needs("memory", "A search by meaning"):
        import sqlite_vec  # noqa: PLC0415 - an extra
    path: str = sqlite_vec.loadable_path()
    return path


def nearest(db: apsw.Connection, vectors: str, tenant: str, space: str, query: SharedIndex, limit: int) -> Rows:
    """The entries whose vectors are nearest, with their cosines."""
    home = value(db, "shared_home", (tenant, space))
    if home is None:
        return []
    first = home >> _HALF << _HALF
    db.enable_load_extension(True)
    db.load_extension(vectors)
    db.enable_load_extension(False)
    return rows(db, "search_shared_vectors", (first, _end(first), query.vector, query.model, limit))


def by_words(db: apsw.Connection, tenant: str, space: str, text: str, limit: int) -> Rows:
    """The entries that have any of the words, those first that have more and rarer ones of them."""
    home = value(db, "shared_home", (tenant, space))
    asked = query_words(text)
    if home is None or not asked:
        return []
    counted = sorted((value(db, "count_shared_words", (f'"{word}"', _MAX_RANKED)), word) for word in _marked(home, asked))
    taken: list[str] = []
    ranked = 0
    for count, word in counted:
        ranked += count
        if taken and ranked > _MAX_RANKED:
            break
        taken.append(f'"{word}"')
    return rows(db, "search_shared_words", (" OR ".join(taken), _MAX_RANKED, limit))


def _marked(entry: int, words: Sequence[str]) -> list[str]:
    """Words as those of the space of `entry`."""
    return [f"s{entry >> _HALF}x{word}" for word in words]


def _next(db: apsw.Connection, tenant: str, space: str) -> int:
    """The next id of a space: behind those that it has, or, for its first, behind those of all spaces."""
    home = value(db, "shared_home", (tenant, space))
    if home is None:
        last: int | None = value(db, "last_shared_entry", (0, _LAST))
        return ((last or 0) >> _HALF) + 1 << _HALF
    first = home >> _HALF << _HALF
    latest: int = value(db, "last_shared_entry", (first, _end(first)))
    return latest + 1


def _end(first: int) -> int:
    return first + (1 << _HALF) - 1
