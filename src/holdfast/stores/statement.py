"""SQL out of files: statements by name, and migrations in order.

What both databases are asked in the same words is written once, in PostgreSQL's. Never here: a connection, a statement.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"^-- name: *(\w+)$", re.MULTILINE)
_INDEX: Final = re.compile(r"^create (?:unique )?index (\w+) ", re.MULTILINE)
_VALUES: Final = re.compile(r"values (\([^)]*\))")
_FOR_SQLITE: Final = (
    (re.compile(r"\bholdfast\."), ""),
    (re.compile(r"::(?:text|uuid|bigint|integer|float8|boolean|bytea)(?:\[\])?"), ""),
    (re.compile(r" collate \"C\""), ""),
    (re.compile(r"= any ?\((\$\d+)\)"), r"in (select value from json_each(\1))"),
    (re.compile(r"<> all ?\((\$\d+)\)"), r"not in (select value from json_each(\1))"),
    (re.compile(r"\$(\d+)"), r"?\1"),
    (re.compile(r"\bstrpos\("), "instr("),
    (re.compile(r"\bchr\("), "char("),
)
"""Differences of SQLite: no schemas, no types of expressions, the order of bytes everywhere, lists as JSON, other marks, and
names of its own for two functions."""


class Migration(NamedTuple):
    """A change of the tables, applied in one transaction; a store of version n has had the first n of them."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of its text. A store remembers it, because an applied migration is never edited afterwards."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.version:04d}_{self.name}"


def statements(dialect: str) -> dict[str, str]:
    """The statements of `sql/queries.sql`, which both dialects have, and those of `sql/<dialect>/queries.sql`."""
    return _named(dialect, "queries.sql")


def conditions(dialect: str) -> dict[str, str]:
    """The same of `conditions.sql`: what lists select by, and their order."""
    return _named(dialect, "conditions.sql")


def _named(dialect: str, file: str) -> dict[str, str]:
    both = _statements(resources.files(__package__).joinpath("sql", file))
    if dialect == "sqlite":
        both = {name: for_sqlite(text) for name, text in both.items()}
    return both | _statements(_folder(dialect).joinpath(file))


def _statements(file: Traversable) -> dict[str, str]:
    """Return the statements of a file by name, each after its line `-- name: ...` and a comment."""
    pieces = _NAME.split(file.read_text())
    return {
        name: "\n".join(line for line in body.splitlines() if line and not line.startswith("--"))
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


@functools.lru_cache(maxsize=1_000)
def for_sqlite(statement: str) -> str:
    """`statement`, in PostgreSQL's words, for SQLite."""
    return functools.reduce(lambda text, each: each[0].sub(each[1], text), _FOR_SQLITE, statement)


def migrations(dialect: str) -> tuple[Migration, ...]:
    """The migrations of a dialect in order; their files are named `<version>_<name>.sql`."""
    files = sorted(_folder(dialect).joinpath("migrations").iterdir(), key=lambda file: file.name)
    found = [(file.name.removesuffix(".sql").partition("_"), file) for file in files if file.name.endswith(".sql")]
    return tuple(Migration(int(number), name, file.read_text()) for (number, _, name), file in found)


@cache
def indexes(dialect: str) -> frozenset[str]:
    """The names of the indexes that the migrations make."""
    return frozenset(name for each in migrations(dialect) for name in _INDEX.findall(each.sql))


def edited(names: Iterable[Migration], applied: Callable[[Migration], str | None]) -> Migration | None:
    """The first of `names` that a store has had with another text. `applied` tells the sha256 of the one that it has had,
    None where it has not, or where 0.1.0 applied it, which did not write that down."""
    return next((each for each in names if applied(each) not in (None, each.sha256)), None)


def was_edited(store: str, migration: Migration) -> str:
    """Return the error message for a migration that was edited after a store had it."""
    return (
        f"The store {store} has had migration {migration} with another text than this Holdfast has: it was edited after it"
        " had been applied, here or where the store was made. The present state of the tables is unknown, so nothing was"
        " touched. Use the Holdfast that last worked on it, or a release whose migrations are as they were published."
    )


def is_of_no_release(names: Sequence[Migration], version: int) -> bool:
    """True for a store of a version between those of `names`: it was made between two releases, whose migrations became one."""
    return version < names[-1].version and all(version != each.version for each in names)


def was_of_no_release(store: str, version: int) -> str:
    """The message about such a store."""
    return (
        f"The tables of the store {store} are at version {version}, which no release has: a Holdfast from between two releases"
        " has made them. No migration leads on from there, so nothing was touched. Use the Holdfast that last worked on it, or"
        " begin a new store."
    )


@cache
def widened(statement: str, rows: int) -> str:
    """`statement`, which inserts one row, made to insert `rows` of them."""
    return _VALUES.sub(lambda values: "values " + ", ".join([values[1]] * rows), statement, count=1)


def _folder(dialect: str) -> Traversable:
    return resources.files(__package__).joinpath("sql", dialect)
