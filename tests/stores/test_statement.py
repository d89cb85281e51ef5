"""The SQL in files: every statement is named, described, used, and finds its index."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import apsw.ext
import pytest

from holdfast.ports import LetterFilter, RunFilter
from holdfast.ports.caller import AuditFilter
from holdfast.stores import statement

ROOM = Path(statement.__file__).parent
SQL = statement.statements("sqlite")
CONDITIONS = statement.conditions("sqlite")


@pytest.fixture(scope="module")
def db() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.create_scalar_function("vec_distance_l2", lambda one, other: 0.0, 2)  # of an extra
    for migration in statement.migrations("sqlite"):
        db.execute(migration.sql)
    return db


def text_of(dialect: str) -> str:
    """What both dialects have, and what this one has by itself."""
    return "".join(
        (ROOM / "sql" / place / name).read_text() for place in ("", dialect) for name in ("queries.sql", "conditions.sql")
    )


def parts_of(condition: str) -> tuple[str, str]:
    """Return the list that a condition is of, and its criterion."""
    name = max((each for each in SQL if condition.startswith(f"{each}_")), key=len)
    return name, condition.removeprefix(f"{name}_")


def of_list(condition: str) -> str:
    """A condition, or an order, as a list in SQLite has it."""
    return statement.for_sqlite(CONDITIONS[condition].replace("{}", "$1"))


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_two_statements_have_one_name(dialect: str) -> None:
    """The later would be taken for the earlier."""
    names = re.findall(r"^-- name: *(\w+)$", text_of(dialect), re.MULTILINE)
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_is_described_and_used(dialect: str) -> None:
    text = text_of(dialect)
    sources = "".join(file.read_text() for place in ("", "nouns", dialect) for file in (ROOM / place).glob("*.py"))
    for name in statement.statements(dialect):
        assert re.search(rf"-- name: {name}\n-- \w", text), f"{name} has no description"
        assert f'"{name}"' in sources, f"{name} is used by nobody"


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_criterion_of_a_list_has_a_condition_that_is_described_and_used(dialect: str) -> None:
    found = statement.conditions(dialect)
    selected = {"runs": RunFilter, "letters": LetterFilter, "audit": AuditFilter}
    for name, criteria in selected.items():
        missing = {f"{name}_{each}" for each in criteria.__annotations__} - found.keys()
        assert missing <= {"runs_limit", "letters_limit", "letters_state", "audit_limit", "audit_newest_first"}, (
            f"no condition: {missing}"
        )
    text, lists = text_of(dialect), "".join(file.read_text() for file in (ROOM / "nouns").glob("*.py"))
    for condition in found:
        name, criterion = parts_of(condition)
        assert re.search(rf"-- name: {condition}\n-- \w", text), f"{condition} has no description"
        is_criterion = criterion in (*getattr(selected.get(name), "__annotations__", ()), "order", "open", "resolved")
        assert is_criterion or f'"{criterion}"' in lists, f"{condition} is used by nobody"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_fits_its_list(db: apsw.Connection, condition: str) -> None:
    name, criterion = parts_of(condition)
    clause = "order by" if criterion.partition("_")[0] == "order" else "where"
    apsw.ext.query_info(db, f"{SQL[name]} {clause} {of_list(condition)}")


def test_what_is_written_once_is_read_by_sqlite_too() -> None:
    assert statement.for_sqlite(
        """select run::text, day from holdfast.runs
        where run = any($1::uuid[]) and day <> all($2::text[]) and due_ms > $10::bigint order by name collate "C\""""
    ) == (
        """select run, day from runs
        where run in (select value from json_each(?1)) and day not in (select value from json_each(?2)) and due_ms > ?10"""
        " order by name"
    )


@pytest.mark.parametrize("name", SQL)
def test_every_statement_fits_the_tables(db: apsw.Connection, name: str) -> None:
    apsw.ext.query_info(db, SQL[name])


@pytest.mark.parametrize(
    "name",
    [
        "standings",
        "events",
        "due_runs",
        "lost_runs",
        "next_due_ms",
        "stranded_hashes",
        "stranded_runs",
        "wanted_hashes",
        "unended",
        "unplaced",
        "seqs",
    ],
)
def test_nothing_that_is_asked_often_walks_through_all_runs(db: apsw.Connection, name: str) -> None:
    plan = str(apsw.ext.query_info(db, SQL[name], explain_query_plan=True).query_plan)
    assert not re.search(r"SCAN (runs|events|flights|waiters)\b", plan), plan


def test_labels_are_found_and_counted_by_their_index(db: apsw.Connection) -> None:
    found = f"{SQL['runs']} where {of_list('runs_label')} order by id desc limit 50"
    for asked, index in ((found, "run_labels_by_value"), (SQL["label_counts"], "SEARCH l USING PRIMARY KEY")):
        plan = str(apsw.ext.query_info(db, asked, explain_query_plan=True).query_plan)
        assert index in plan, plan
        assert not re.search(r"SCAN (run_labels|l)\b", plan), plan
    assert all(f"SEARCH runs USING INDEX runs_by_{each} ({each}=?)" in plan for each in ("tenant", "workflow"))
    assert plan.count("TEMP B-TREE") == 1, "to group; the newest are read in the order of the index"


def test_migrations_are_numbered_in_order_and_none_twice() -> None:
    found = statement.migrations("sqlite")
    versions = [migration.version for migration in found]
    assert versions == sorted(set(versions)), "two with one number, or out of order"


def test_a_statement_is_widened_to_as_many_rows_as_there_are() -> None:
    one = "insert into t (a, b) values (?, ?) on conflict (a) do nothing"
    assert statement.widened(one, 3) == "insert into t (a, b) values (?, ?), (?, ?), (?, ?) on conflict (a) do nothing"
