"""Shared values: what runs and agents of a tenant know together, by space and key, each write a version of its own.

A write is decided on the version that its writer has seen, and the store takes it only while that is the latest: so of two
who write at once one decides again. Where somebody said which version he expects and another stands there, a strategy says
what becomes of the write. Strategies and their names follow the pattern "Shared State with Conflict Resolution" of "7 AI
Agent Orchestration Patterns".

Never here: a store, what a write does to its run (sharing), a clock.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.values.payload import INLINE_BYTES, Payload
from holdfast.errors import InvalidInput

Strategy: TypeAlias = Literal["reject", "first_write", "last_write", "merge"]
"""What becomes of a write that expected another version: it fails; it is left out; it counts; objects are merged, and where
both say something else the value that is there counts."""
STRATEGIES: Final[tuple[Strategy, ...]] = ("reject", "first_write", "last_write", "merge")
MAX_VERSIONS: Final = 20
"""Of a value that are kept."""
LOCK_WAIT_S: Final = 5.0
LOCK_LEASE_S: Final = 30.0
"""How long a lock is waited for and held, unless it is said; both as in the pattern."""
MAX_NAME: Final = 200
"""Characters of a space's name, and of a key."""
MAX_QUERY_WORDS: Final = 32
_COMMON: Final = frozenset(
    """
    a about all am an and any anybody are as at be been but by can could did do does for from get had has have he her
    him his how i if in into is it its let may me might more much must my no nor not of off on or our out over shall
    she should so some than that the their them then there these they this to too up us was we were what when where
    which who whom whose why will with would you your
    """.split()  # noqa: SIM905 - as it is read
)
"""Words of English that say nothing of what a question is about."""
_WORD: Final = re.compile(r"[^\W_]+")
_OURS: Final = "!"
"""With which the names of the engine's own spaces begin."""
CACHE: Final = "!cache"
"""The spaces of answers that models have given."""
APPROVALS: Final = "!approvals"
"""The space of standing approvals."""
RELEASES: Final = "!releases"
"""The space of versions of workflows that a person has released, by the hash of their graphs."""
_DEEPEST: Final = 100


class SharedValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A version of a value: `by` whom it was written, and in which run, if it was in one. `gone`: the value was deleted, and
    this stands in its place, so that nobody takes a later version for one that he has seen. `authors` are the persons who
    contributed to that write, or to the run that made it, and so to the runs that read it (core.facts.contribution)."""

    value: Any
    version: int
    at_ms: int
    by: str
    run: str | None = None
    gone: bool = False
    authors: tuple[str, ...] = ()


class SharedIndex(msgspec.Struct, frozen=True, omit_defaults=True):
    """By what a value is found in its space: its `words`, and its meaning, a `vector` as `packed` makes it, which the embedder
    `model` made. As a query, one of the two: vectors are compared with those of the same model and length only."""

    words: str = ""
    model: str = ""
    vector: bytes = b""


def packed(vector: Sequence[float]) -> bytes:
    """A vector as it is kept: of length one, in numbers of 32 bits. Raises InvalidInput for one without a direction."""
    length = math.sqrt(sum(number * number for number in vector))
    if not 0 < length < math.inf:
        raise InvalidInput(
            f"A vector of {len(vector)} numbers whose length is {length} has no direction, so nothing is like it. Nothing was"
            " written: ask the embedder again, or leave out what it cannot read."
        )
    return struct.pack(f"<{len(vector)}f", *(number / length for number in vector))


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters, in their order: by what a value is found in every store."""
    return _WORD.findall(text.casefold())


def query_words(text: str) -> list[str]:
    """The different words by which a query is searched: without those that every text has, where any other is left."""
    words = list(dict.fromkeys(words_of(text)))
    telling = [word for word in words if word not in _COMMON]
    return (telling or words)[:MAX_QUERY_WORDS]


def unpacked(vector: bytes) -> tuple[float, ...]:
    """The numbers of a vector that was kept."""
    return struct.unpack(f"<{len(vector) // 4}f", vector)


class SharedConflict(msgspec.Struct, frozen=True):
    """A write that expected version `expected` (0: none) and found `found`, written by `found_by`: both sides, and by which
    strategy it was resolved."""

    expected: int
    found: int
    found_by: str
    strategy: Strategy
    current: Payload
    attempted: Payload


class Resolution(msgspec.Struct, frozen=True):
    """The result of a write: the value to write, if `is_written`, and whether another write had come between."""

    value: Any
    is_written: bool
    is_conflict: bool


def resolve(current: SharedValue | None, value: Any, expected: int | None, strategy: Strategy) -> Resolution:
    """Return the result of writing `value` over `current`. `expected` is the version that the writer knows: 0 for none, None
    for any."""
    if current is not None and current.gone:
        current = None
    version = current.version if current is not None else 0
    if expected is None or expected == version:
        return Resolution(value, is_written=True, is_conflict=False)
    if strategy in ("reject", "first_write"):
        return Resolution(None, is_written=False, is_conflict=True)
    there = current.value if current is not None else None
    return Resolution(merged(there, value) if strategy == "merge" else value, is_written=True, is_conflict=True)


def merged(current: Any, attempted: Any, depth: int = 0) -> Any:
    """Objects field by field, deeply; in everything else what is there already counts."""
    if not isinstance(current, dict) or not isinstance(attempted, dict) or depth >= _DEEPEST:
        return attempted if current is None else current
    new = {name: value for name, value in attempted.items() if name not in current}
    return {name: merged(value, attempted.get(name), depth + 1) for name, value in current.items()} | new


def expect_space(name: object) -> str:
    """Raises InvalidInput for what is no name of a space, and for those that the engine gives."""
    if str(name).startswith(_OURS):
        raise InvalidInput(f"Spaces whose names begin with {_OURS!r} are the engine's own. Nothing was read or written.")
    return expect_name("space", name)


def expect_name(kind: str, name: object) -> str:
    """Raises InvalidInput for what is no name of a space, or no key."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or "\0" in name:
        raise InvalidInput(
            f"The {kind} of a shared value is a text of 1 to {MAX_NAME} characters, not {str(name)[:MAX_NAME]!r}. Nothing"
            " was read or written."
        )
    return name


def expect_size(encoded: bytes) -> None:
    """Raises InvalidInput for a value that is too large to be shared."""
    if len(encoded) > INLINE_BYTES:
        raise InvalidInput(
            f"A shared value has {INLINE_BYTES // 1024} KiB at most, and this one {len(encoded) // 1024} KiB. Nothing was"
            " written: keep what is large in a file, or in the output of a step, and share its name."
        )
