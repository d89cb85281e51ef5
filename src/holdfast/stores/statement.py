"""SQL out of files: statements by name, and migrations in order.

Never here: a connection, or SQL of any database.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"^-- name: *(\w+)$", re.MULTILINE)
_VALUES: Final = re.compile(r"values (\([^)]*\))")


class Migration(NamedTuple):
    """A change of the tables, applied in one transaction; a store of version n has had the first n of them."""

    version: int
    name: str
    sql: str


def statements(dialect: str) -> dict[str, str]:
    """The statements of `sql/<dialect>/queries.sql`, each after its line `-- name: ...` and a comment."""
    pieces = _NAME.split(_folder(dialect).joinpath("queries.sql").read_text())
    return {
        name: "\n".join(line for line in body.splitlines() if line and not line.startswith("--"))
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def migrations(dialect: str) -> tuple[Migration, ...]:
    """The migrations of a dialect in order; their files are named `<version>_<name>.sql`."""
    files = sorted(_folder(dialect).joinpath("migrations").iterdir(), key=lambda file: file.name)
    found = [(file.name.removesuffix(".sql").partition("_"), file) for file in files if file.name.endswith(".sql")]
    return tuple(Migration(int(number), name, file.read_text()) for (number, _, name), file in found)


@cache
def widened(statement: str, rows: int) -> str:
    """`statement`, which inserts one row, made to insert `rows` of them."""
    return _VALUES.sub(lambda values: "values " + ", ".join([values[1]] * rows), statement, count=1)


def _folder(dialect: str) -> Traversable:
    return resources.files(__package__).joinpath("sql", dialect)
