"""How soon the commands of a person on call answer, on a store of very many runs.

    python -m bench.on_call [--runs 1000000] [--store sqlite|postgres|all] [--keep FOLDER] [--rounds 3]

The engine brings one run of each kind to its end, its question or its failure. The others are copies of their rows, under ids
of their own and with times of the last days, written past the engine: every row is one that the engine writes, and none of
the copies was executed. Commands are measured in this process (their modules loaded, the store opened each time), and as
processes of their own beside `holdfast --version`, which opens nothing. Prints a table, and marks what took over half a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import asyncpg

from holdfast import Context, Engine, Workflow, flow, human_gate, step, task
from holdfast.cli.app import invoke
from holdfast.testing.postgres_server import PostgresServer

LIMIT_S: Final = 0.5
KINDS: Final = {"done": 0.965, "asking": 0.02, "lettered": 0.005, "placed": 0.001, "told": 0.009}
"""The kinds of runs, each with its share."""
WANTED: Final = {
    "done": ("completed",),
    "asking": ("waiting",),
    "lettered": ("requires_attention", "failed"),
    "placed": ("waiting", "running"),
    "told": ("waiting",),
}
TABLES: Final = ("runs", "events", "gates", "dead_letters", "run_labels", "snapshots", "waiters", "counted")
DAYS: Final = 20
CHUNK: Final = 20_000
TENANTS: Final = 20
WORKFLOWS: Final = 50

done = Workflow("done")
asking = Workflow("asking")
lettered = Workflow("lettered", on_exhausted="dead_letter")
placed = Workflow("placed", runs_on=["gpu"])


@done.node("write")
@task
async def write(state: Any) -> str:
    return "x" * 200


@asking.node("ask")
@human_gate(reviewers=["ann", "role:legal"], timeout_days=30)
async def ask(state: Any) -> dict[str, str]:
    return {"question": "Send it?"}


@lettered.node("broken")
@task
async def broken(state: Any) -> None:
    raise ValueError("this order has no address")


@placed.node("train")
@task
async def train(state: Any) -> None:
    pass


@flow
async def told(ctx: Context) -> None:
    await ctx.wait_signal("paid")


@step
def count(number: int) -> int:
    return number


@flow
async def long(ctx: Context, steps: int) -> int:
    for number in range(steps):
        await count(number)
    return await ctx.wait_signal("paid", type=int)


FLOWS: Final = {"done": done, "asking": asking, "lettered": lettered, "placed": placed, "told": told}


# --- The runs that the engine makes -----------------------------------------------------------------------------------


async def templates(store: str, long_steps: int) -> tuple[dict[str, str], str]:
    """A run of each kind, by its name; and one with a long history."""
    async with Engine.open(store, workflows=[*FLOWS.values(), long]) as engine:
        runs = {name: await engine.start(wf, labels={"stage": name}) for name, wf in FLOWS.items()}
        big = await engine.start(long, long_steps)
        async with asyncio.timeout(600):
            for name, run in runs.items():
                while await run.status() not in WANTED[name]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            while await big.status() != "waiting":  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return {name: run.id for name, run in runs.items()}, big.id


class Row(NamedTuple):
    table: str
    columns: tuple[str, ...]
    values: tuple[Any, ...]


def copies(
    rows: Sequence[Row], old: str, new: str, shift_ms: int, draw: random.Random
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The rows of a run under another id, at another time, of some tenant and workflow."""
    tenant, workflow = f"tenant-{draw.randrange(TENANTS)}", f"-{draw.randrange(WORKFLOWS)}"
    for row in rows:
        yield (
            row.table,
            tuple(
                value
                if value is None
                else value + shift_ms
                if column.endswith("_ms") and isinstance(value, int)
                else value.replace(old, new) + (workflow if column == "workflow" else "")
                if isinstance(value, str) and column != "tenant"
                else tenant
                if column == "tenant"
                else value.replace(old.encode(), new.encode())
                if isinstance(value, bytes)
                else value
                for column, value in zip(row.columns, row.values, strict=True)
            ),
        )


def ids(count: int, draw: random.Random) -> Iterator[tuple[str, int]]:
    """So many ids of runs with their times, in order, over the last days of this month."""
    now_ms = time.time_ns() // 1_000_000
    today = time.gmtime(now_ms / 1000)
    span_ms = min(DAYS, max(1, today.tm_mday - 1)) * 86_400_000
    for number in range(count):
        at_ms = now_ms - 60_000 - span_ms + span_ms * number // count
        bits = (at_ms << 80) | (7 << 76) | (draw.getrandbits(12) << 64) | (2 << 62) | draw.getrandbits(62)
        yield str(uuid.UUID(int=bits)), at_ms


def kinds(count: int, draw: random.Random) -> list[str]:
    return draw.choices([*KINDS], [*KINDS.values()], k=count)


# --- Two databases ----------------------------------------------------------------------------------------------------


def fill_sqlite(file: Path, patterns: dict[str, str], runs: int) -> None:
    db = apsw.Connection(str(file))
    db.pragma("synchronous", 0)
    db.pragma("cache_size", -800_000)
    rows: dict[str, list[Row]] = {}
    for name, run in patterns.items():
        rows[name] = []
        for table in TABLES:
            columns = [each for (each,) in db.execute(f"select name from pragma_table_info('{table}') where name <> 'id'")]
            for values in db.execute(f"select {', '.join(columns)} from {table} where run = ?", (run,)):
                rows[name].append(Row(table, tuple(columns), values))
    inserts = {
        row.table: f"insert into {row.table} ({', '.join(row.columns)}) values ({', '.join('?' * len(row.columns))})"
        for each in rows.values()
        for row in each
    }
    draw = random.Random(0)
    for chunk, names in _chunks(runs, draw):
        with db:
            for table, values in _made(chunk, names, rows, patterns, draw).items():
                db.executemany(inserts[table], values)
    for statement, values in costs():
        db.executemany(statement.format(*("?" * 12)), values)
    db.execute("update cost_progress set cursor = (select max(id) from events)")  # the copies are counted
    db.pragma("wal_checkpoint", "truncate")
    db.close()


def _chunks(runs: int, draw: random.Random) -> Iterator[tuple[list[tuple[str, int]], list[str]]]:
    made = 0
    every = ids(runs, draw)
    while made < runs:
        chunk = [next(every) for _ in range(min(CHUNK, runs - made))]
        yield chunk, kinds(len(chunk), draw)
        made += len(chunk)
        _print(f"\r{made} runs", end="", file=sys.stderr)
    _print(file=sys.stderr)


def _made(
    chunk: Sequence[tuple[str, int]],
    names: Sequence[str],
    rows: dict[str, list[Row]],
    patterns: dict[str, str],
    draw: random.Random,
) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for (new, at_ms), name in zip(chunk, names, strict=True):
        began_ms = next(row.values[row.columns.index("started_at_ms")] for row in rows[name] if row.table == "runs")
        for table, values in copies(rows[name], patterns[name], new, at_ms - began_ms, draw):
            found.setdefault(table, []).append(values)
    return found


def costs() -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """A roll-up of costs as the runs would have it, without one of them having called a model."""
    days = [time.strftime("%Y-%m-%d", time.gmtime(time.time() - each * 86_400)) for each in range(DAYS)]
    kinds = [(f"tenant-{tenant}", f"done-{wf}", "write", f"m{wf % 3}") for tenant in range(TENANTS) for wf in range(2)]
    marks = "{}, {}, {}, {}, {}, {}, {}, {}, {}"
    yield f"insert into costs values ({marks})", [(day, *kind, 48, 10, 10, 48_000) for day in days for kind in kinds]
    hours = [f"{day}T{hour:02}" for day in days for hour in range(24)]
    rows = [(hour, tenant, "", *rest, 2, 10, 10, 2_000) for hour in hours for tenant, *rest in kinds]
    yield f"insert into costs_by_hour values ({marks}, {{}})", rows


async def fill_postgres(store: str, patterns: dict[str, str], runs: int) -> None:
    db = await asyncpg.connect(store)
    rows: dict[str, list[Row]] = {}
    place = 10_000_000
    for name, run in patterns.items():
        rows[name] = []
        for table in TABLES:
            for found in await db.fetch(f"select * from holdfast.{table} where run = $1::text::uuid", run):
                values = tuple(str(value) if column == "run" else value for column, value in found.items())
                rows[name].append(Row(table, tuple(found.keys()), values))
    columns = {row.table: row.columns for each in rows.values() for row in each}
    draw = random.Random(0)
    for chunk, names in _chunks(runs, draw):
        for table, made in _made(chunk, names, rows, patterns, draw).items():
            records = []
            for values in made:
                place += 1
                records.append(
                    tuple(
                        uuid.UUID(value) if column == "run" else place if column in ("place", "id") else value
                        for column, value in zip(columns[table], values, strict=True)
                    )
                )
            await db.copy_records_to_table(table, schema_name="holdfast", columns=columns[table], records=records)
    await db.execute(f"select setval('holdfast.places', {place + 1})")
    for statement, values in costs():
        table = statement.split()[2]
        await db.copy_records_to_table(table, schema_name="holdfast", records=values)
    for table in (*TABLES, "costs", "costs_by_hour"):
        await db.execute(f"vacuum (analyze) holdfast.{table}", timeout=1200)
    await db.close()


# --- Commands ---------------------------------------------------------------------------------------------------------


def _print(text: str = "", **how: Any) -> None:
    print(text, **how)  # noqa: T201


def commands(patterns: dict[str, str], big: str) -> list[tuple[str, ...]]:
    """What a person on call types."""
    asks, done_, broken_ = patterns["asking"], patterns["done"], patterns["lettered"]
    lists = [
        ("runs", "list"),
        ("runs", "list", "--limit", "1000"),
        ("runs", "list", "--status", "failed,requires_attention", "--since", "2h"),
        ("runs", "list", "--status", "requires_attention"),
        ("runs", "list", "--status", "completed", "--workflow", "done-3"),
        ("runs", "list", "--tenant", "tenant-3", "--since", "7d", "--until", "6d"),
        ("runs", "list", "--tenant", "tenant-3", "--workflow", "done-3", "--status", "completed"),
        ("runs", "list", "--label", "stage=told"),
        ("runs", "list", "--waiting-for", "gate"),
        ("runs", "list", "--waiting-for", "worker"),
        ("runs", "labels", "stage"),
        ("runs", "search", asks[:13]),
        ("runs", "search", "asking-4"),
        ("gates", "list"),
        ("gates", "list", "--order", "due"),
        ("gates", "list", "--order", "closed"),
        ("dead-letters", "list"),
        ("dead-letters", "summary"),
        ("effects", "list"),
        ("effects", "list", "--state", "in_doubt"),
        ("budget", "doubts"),
        ("queue", "list"),
        ("pools", "list"),
        ("admission", "show", "--fleet"),
        ("workflows", "list"),
        ("schedules", "list"),
        ("supervisors", "list"),
        ("costs", "show"),
        ("costs", "summary"),
        ("costs", "labels", "--key", "stage"),
        ("costs", "runs"),
        ("costs", "extra"),
        ("costs", "forecast"),
        ("notifications", "list"),
        ("sessions", "list"),
        ("store", "status"),
        ("doctor",),
        ("audit", "list"),
    ]
    each = [("runs", verb, run) for verb in ("show", "explain", "events") for run in (asks, done_, broken_, big)]
    all_ = [("runs", "show", big, how) for how in ("--operations", "--trace")]
    return [*lists, *each, *all_, ("queue", "why", patterns["placed"])]


def here_s(words: Sequence[str]) -> tuple[float, float, str]:
    """How long a command takes in this process, how much processor time of it, and what was wrong."""
    out, err = io.StringIO(), io.StringIO()
    began, used = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke([*words])
    took, used = time.perf_counter() - began, time.process_time() - used
    return took, used, "" if code == 0 or words[0] == "doctor" else f"exit {code}: {err.getvalue().strip()[:100]}"


def process_s(words: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "holdfast", *words], capture_output=True, check=False)
    return time.perf_counter() - began


def measured(patterns: dict[str, str], big: str, rounds: int, processes: int) -> int:
    """Print how long each command takes: the least of some rounds, after one that loads its modules."""
    slow = 0
    _print(f"`holdfast --version`: {min(process_s(['--version']) for _ in range(rounds)):.2f} s\n")
    _print("| command | here, s | processor of it, s | as a process, s |\n| --- | --- | --- | --- |")
    for words in commands(patterns, big):
        _, _, wrong = here_s(words)
        took, used, _ = min(here_s(words) for _ in range(rounds))
        alone = f"{min(process_s(words) for _ in range(processes)):.2f}" if processes else ""
        slow += took > LIMIT_S
        mark = " **slow**" if took > LIMIT_S else ""
        name = " ".join(words).replace(big, "LONG")
        for kind, run in patterns.items():
            name = name.replace(run, kind.upper())
        _print(f"| `{name}` | {took:.3f}{mark} | {used:.3f} | {alone} | {wrong}".rstrip("| ") + " |", flush=True)
    return slow


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--store", choices=["sqlite", "postgres", "all"], default="all")
    parser.add_argument("--long-steps", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="Folder of a store that is filled once and measured again.")
    given = parser.parse_args()
    with contextlib.ExitStack() as undo:
        folder = given.keep or Path(undo.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        slow = 0
        for kind in ["sqlite", "postgres"] if given.store == "all" else [given.store]:
            slow += one(kind, folder, given, undo)
    sys.exit(1 if slow else 0)


def one(kind: str, folder: Path, given: argparse.Namespace, undo: contextlib.ExitStack) -> int:
    """Fill a store of a kind, unless that was done, and measure."""
    names = folder / f"{kind}.txt"
    if kind == "sqlite":
        store = f"sqlite:///{folder / 'runs.db'}"
    else:
        settings = ("shared_buffers=1GB", "max_wal_size=4GB", "fsync=off")
        store = undo.enter_context(PostgresServer(settings=settings, archive=folder / "postgres")).url
    os.environ["HOLDFAST_STORE"] = store
    if not names.exists():
        began = time.perf_counter()
        patterns, big = asyncio.run(templates(store, given.long_steps))
        here_s(["costs", "rollup"])  # so that the copies are counted, as their costs are
        if kind == "sqlite":
            fill_sqlite(folder / "runs.db", patterns, given.runs)
        else:
            asyncio.run(fill_postgres(store, patterns, given.runs))
        names.write_text("\n".join([big, *(f"{name} {run}" for name, run in patterns.items())]))
        _print(f"filled in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    big, *rest = names.read_text().splitlines()
    _print(f"\n### {kind}, {given.runs:,} runs\n")
    return measured(dict(each.split() for each in rest), big, given.rounds, given.processes)


if __name__ == "__main__":
    main()
