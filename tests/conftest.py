"""The servers that tests share: each is started when a test first asks for it, once in every process of the test run."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from holdfast.testing import pooler_server
from holdfast.testing.pooler_server import PoolerServer
from holdfast.testing.postgres_server import FAST, PostgresServer, installed
from holdfast.testing.redis_server import RedisServer
from tests.hanging import pytest_timeout_set_timer  # noqa: F401 - a hook
from tests.schemas import Schemas, new_schema

# Whoever collects first may import it, and then it is too late.
pytest.register_assert_rewrite("tests.stores.conformance")

_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 4 * 1024**3
"""Bytes that are to be free there: five times what the tests of a run have at once."""
_OF_A_RUN: Final = re.compile(r"tests-(\d+)-")


def _write_to_own_folder() -> None:
    """Have all temporary files of this process and of its children in a folder of their own: in memory, where there is room and
    TMPDIR does not say otherwise. Tests kill processes and no machine: what the kernel was given outlives them, and waiting
    for a disk proves nothing."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that has started it has made one
        return
    place = Path(tempfile.gettempdir()) if "TMPDIR" in os.environ or not _has_room(_MEMORY) else _MEMORY
    for left in place.glob("tests-*-*"):
        if (found := _OF_A_RUN.match(left.name)) and not Path("/proc", found[1]).exists() and _is_old(left):
            _remove(left)
    folder = Path(tempfile.mkdtemp(prefix=f"tests-{os.getpid()}-", dir=place))
    folder.chmod(0o1777)  # as the place itself: servers and processes of other accounts write there too
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    atexit.register(_remove, folder)


def _is_old(folder: Path) -> bool:
    """True if nothing was put there for an hour: a process of another container is not seen, and may share the memory."""
    return time.time() - folder.stat().st_mtime > 3600


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _has_room(place: Path) -> bool:
    """True if files may be written and executed there, and enough of them."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    can_be_used = os.access(place, os.W_OK | os.X_OK) and not found.f_flag & os.ST_NOEXEC
    return can_be_used and found.f_bavail * found.f_frsize >= _ROOM


_write_to_own_folder()
PostgresServer.templates = Path(tempfile.gettempdir())


def pytest_sessionfinish(exitstatus: int) -> None:
    """Keep the folders of tests that failed: a run after an hour removes them."""
    if exitstatus != pytest.ExitCode.OK:
        atexit.unregister(_remove)


_TIMES: Final = float(os.environ.get("HOLDFAST_EXAMPLES", "1"))
"""How many times as many examples as usual: ten in `make properties`, fewer in `make quick`."""


def examples(usual: int) -> int:
    """Return how many examples a test is to try that usually tries so many."""
    return max(1, round(usual * _TIMES))


settings.register_profile("any machine", deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
EVERYWHERE = os.environ.get("HOLDFAST_STORES") == "all"
"""Whether every case is to run on each kind of store and each PostgreSQL: `make stores`."""
EVERYTHING = EVERYWHERE or any(os.environ.get(f"HOLDFAST_{kind}") == "all" for kind in ("CRASH", "E2E", "WORKFLOWS"))
"""Whether all tests of some kind are to run, the long ones too."""
_ONE_CASE = {"store": ("postgres",), "connect": ("oldest postgres", "pooled postgres", "encrypted postgres")}
"""By the parameter that names the store: on which ones a test with a table of cases runs its first alone. What differs there
from case to case is above the store; what a store makes of each value, the conformance suite asks every kind of store."""


_ABOVE = (
    "test_agent_loop",
    "test_agents",
    "test_bad_input",
    "test_compaction",
    "test_content",
    "test_conversations",
    "test_dead_letters",
    "test_endings",
    "test_flows",
    "test_forking",
    "test_handoffs",
    "test_limits",
    "test_maps",
    "test_model_branch",
    "test_model_calls",
    "test_model_streams",
    "test_own_loop",
    "test_reach",
    "test_routing",
    "test_slips",
    "test_standing_approvals",
    "test_steering",
    "test_supervisors",
    "test_tool_approval",
    "test_tool_results",
    "test_tool_rules",
    "test_tools_of_models",
    "test_typed_state",
    "test_undoing_children",
    "test_values",
)
"""Modules of the engine's tests that are about what stands above a store: how code and models are called, and what values and
graphs mean. Of each, the first test alone runs on PostgreSQL."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """More than there are cores: a test also waits for a server, a process, a disk or a lease. Each more costs five seconds of a
    core before its first test, so where nothing waits there are as many as cores: `-n logical`."""
    return (1 if config.option.numprocesses == "logical" else 3) * len(os.sched_getaffinity(0))


_COLLECT_EVERY: Final = (2_000, 10, 10)
"""Objects before the youngest are looked through, and how often that is done before the older ones are. At Python's own pace it
was a twentieth of the tests' time."""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None]:
    """Look for no garbage while tests are collected, nor later in what stays until the end: their modules and all that these
    import. It was two of five seconds of each worker, and each full look during a test a third of one."""
    _begin_elsewhere(session.config)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(*_COLLECT_EVERY)


_ROOMS: Final = {str(path): number for number, path in enumerate(sorted(Path(__file__).parent.iterdir()))}
"""All that is collected, in the order in which pytest does so."""


def _is_worker_at_all(config: pytest.Config) -> bool:
    """Whether this is one of several workers, and nobody has said which files they are to take."""
    return hasattr(config, "workerinput") and config.args_source is pytest.Config.ArgsSource.TESTPATHS


def _begin_elsewhere(config: pytest.Config) -> None:
    """Have each worker collect from another place on, so that it finds most modules compiled by the others: where nothing was
    compiled before, that is half of what collecting takes."""
    if not _is_worker_at_all(config):
        return
    worker: dict[str, Any] = config.workerinput  # type: ignore[attr-defined] - xdist's
    rooms = [each for each in _ROOMS if Path(each).is_dir() or Path(each).match("test_*.py")]
    sizes = [sum(file.stat().st_size for file in Path(each).rglob("*.py")) or 1 for each in rooms]
    share, number = sum(sizes) / worker["workercount"], int(worker["workerid"].removeprefix("gw"))
    first = next(at for at, upto in enumerate(accumulate(sizes)) if upto > number * share)
    config.args[:] = rooms[first:] + rooms[:first]


def _in_order(items: list[pytest.Item]) -> None:
    """All workers must have the same order, whatever they have begun with."""
    here = len(Path(__file__).parent.parts)
    items.sort(key=lambda item: _ROOMS[str(Path(*item.path.parts[: here + 1]))])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `make stores` what would be the same test on another store once more, and to `make long` what takes long: a
    test that is asked for by its name or mark runs."""
    if _is_worker_at_all(config):
        _in_order(items)
    if not EVERYTHING and not config.option.markexpr:
        named = tuple(name for name in config.args if "::" in name)
        _leave_out(config, items, [each for each in items if each.get_closest_marker("long") and not _is_of(each, named)])
    if EVERYWHERE:
        return
    met: set[tuple[object, ...]] = set()
    again = []
    for item in items:
        case = getattr(item, "callspec", None)
        for name, stores in _ONE_CASE.items():
            if case is not None and case.params.get(name) in stores:
                test = item.nodeid.partition("[")[0], case.params[name]
                if item.path.parent.name == "engine" and item.path.stem in _ABOVE:
                    test = item.path.stem, case.params[name]
                if test in met:
                    again.append(item)
                met.add(test)
    _leave_out(config, items, again)


def _is_of(item: pytest.Item, named: tuple[str, ...]) -> bool:
    """Whether a test is one of those that were asked for by their names, or a case of one."""
    return any(item.nodeid.startswith(name.removeprefix(f"{item.config.rootpath}/")) for name in named)


def _leave_out(config: pytest.Config, items: list[pytest.Item], left: list[pytest.Item]) -> None:
    if left:
        config.hook.pytest_deselected(items=left)
        gone = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in gone]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that many tests share; each has a schema of its own in it (`database`)."""
    with PostgresServer(settings=FAST) as server:
        yield server


@pytest.fixture(scope="session")
def oldest_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of the oldest version that is installed."""
    if len(installed()) < 2:
        pytest.skip(f"only one PostgreSQL is installed here ({', '.join(map(str, installed()))})")
    with PostgresServer(version=min(installed()), settings=FAST) as server:
        yield server


@pytest.fixture(scope="session")
def pooler(postgres: PostgresServer) -> Iterator[PoolerServer]:
    """A pgbouncer before the shared PostgreSQL, lending connections for a transaction at a time."""
    if pooler_server.installed() is None:
        pytest.skip("pgbouncer is not installed here (apt-get install pgbouncer)")
    with PoolerServer(postgres) as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis that many tests share, one after the other in this process; each finds it as the last one left it."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def schemas(postgres: PostgresServer) -> Iterator[Schemas]:
    """Stores on it, for one test after the other."""
    with closing(Schemas(postgres)) as kept:
        yield kept


@pytest.fixture(scope="session")
def oldest_schemas(oldest_postgres: PostgresServer) -> Iterator[Schemas]:
    """The same on the oldest PostgreSQL."""
    with closing(Schemas(oldest_postgres)) as kept:
        yield kept


@pytest.fixture
def database(postgres: PostgresServer, schemas: Schemas) -> Iterator[str]:
    """The address of an empty store, the test's own."""
    with schemas.lent() as schema:
        yield f"{postgres.url}?schema={schema}"


@pytest.fixture
def oldest_database(oldest_postgres: PostgresServer, oldest_schemas: Schemas) -> Iterator[str]:
    """The same on the oldest PostgreSQL."""
    with oldest_schemas.lent() as schema:
        yield f"{oldest_postgres.url}?schema={schema}"


@pytest.fixture
def pooled_database(postgres: PostgresServer, pooler: PoolerServer, schemas: Schemas) -> Iterator[str]:
    """The same through a pooler."""
    with schemas.lent() as schema:
        yield f"{postgres.url_of('postgres', port=pooler.port)}?schema={schema}&pooler=transaction"


@pytest.fixture
def new_database(postgres: PostgresServer) -> str:
    """The address of a store that is still to be made."""
    return f"{postgres.url}?schema={new_schema()}"


def say(server: PostgresServer, statement: str) -> str:
    return server.run("psql", "--quiet", "--no-align", "--tuples-only", f"--dbname={server.url}", f"--command={statement}")


def everything_in(server: PostgresServer, schema: str) -> bytes:
    """Every row of every table of a schema as text, bytes as the characters they are."""
    tables = say(server, f"select tablename from pg_tables where schemaname = '{schema}'").split()
    rows = "; ".join(f"select each::text from {schema}.{table} each" for table in tables)
    return say(server, f"set bytea_output = escape; {rows}").encode()
