"""The import direction of the house plan: layers import only downwards, and adapters do not know one another."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast

ROOT = Path(holdfast.__file__).parent

FLOORS = (
    {"errors", "settings", "platform"},
    {"core"},
    {"ports", "authoring"},
    {"tools", "models", "scheduling", "stores", "queues", "pools", "validators", "notify", "telemetry", "analytics"},
    {"engine", "observe", "actions"},
    {"storage"},
    {"service"},
    {"wire", "http", "mcp", "gateway"},
    {"client", "compose", "testing", "evaluation"},
    {"cli", "sync"},
    {"__main__", "__init__"},
)
"""From the ground up. A room may import its own floor only where a line below says so, and any floor beneath."""

NEIGHBOURS = {
    ("platform", "errors"),
    ("settings", "errors"),
    ("settings", "platform"),
    ("testing", "compose"),
    ("evaluation", "compose"),
}
"""Rooms of one floor that may know each other: `settings` raises errors, `testing.run_node` and `evaluation` open engines."""

EXCEPTIONS = {("platform", "core")}
"""`platform.machine` keeps the Clock and Ids ports and needs the ids' types; nothing in core knows it."""

PURE = {"asyncio", "random", "secrets", "time", "os", "socket", "threading", "subprocess", "uuid", "sqlite3", "apsw"}
"""What core must never import."""


def parsed(file: Path) -> ast.Module:
    """Nobody keeps it: to look for garbage in the trees of all modules takes longer than to make them again."""
    return ast.parse(file.read_text())


class Read(NamedTuple):
    """What the tests ask of a module, read once."""

    imports: list[ast.stmt]
    """All of them but those for type checking only."""
    at_import: list[ast.stmt]
    asks: list[str]


@functools.cache
def read(file: Path) -> Read:
    tree = parsed(file)
    nodes = [*ast.walk(tree)]
    checking = {inner for node in nodes if is_for_checking(node) for inner in ast.walk(node)}
    imported = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return Read(
        [node for node in imported if node not in checking],
        [node for node in at_import(tree) if isinstance(node, ast.ImportFrom)],
        [*asks_the_machine(nodes)],
    )


def is_for_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@functools.cache
def imports() -> tuple[tuple[str, str, str], ...]:
    """(room, imported room or outside module, file) of every import, those for type checking only left out."""
    return tuple(found for file in sorted(ROOT.rglob("*.py")) for found in imports_of(file))


def imports_of(file: Path) -> Iterator[tuple[str, str, str]]:
    room = file.relative_to(ROOT).parts[0].removesuffix(".py")
    for node in read(file).imports:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module] if node.module != "holdfast" else [f"holdfast.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            yield room, parts[1] if parts[0] == "holdfast" and len(parts) > 1 else name, str(file.relative_to(ROOT))


def floor(room: str) -> int | None:
    return next((i for i, rooms in enumerate(FLOORS) if room in rooms), None)


def test_every_room_has_a_floor() -> None:
    rooms = {
        path.name.removesuffix(".py") for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {room for room in rooms if floor(room) is None} == set()


def test_imports_go_down_only() -> None:
    wrong = []
    for room, other, file in imports():
        there, here = floor(other), floor(room)
        if there is None or here is None or other == room or (room, other) in NEIGHBOURS | EXCEPTIONS:
            continue
        if there >= here and room != "__init__":
            wrong.append(f"{file} imports {other}")
    assert wrong == []


INNER_FLOORS = {
    "platform": (
        {
            "address",
            "current_span",
            "extra",
            "fair_share",
            "log_ids",
            "masking",
            "own_loop",
            "privacy",
            "quiet_requests",
            "spare_time",
        },
        {"border", "http_exchange"},
        {"lasting_loop", "log_filter", "threads"},
        {"machine"},
        {"redaction"},
    ),
    "settings": ({"secrets", "table"}, {"access", "capacity", "hooks", "notifications", "runs", "telemetry"}, {"settings"}),
    "core": (
        {"values"},
        {"capacity"},
        {"nouns"},
        {"facts"},
        {"evolve"},
        {"rules"},
        {"people"},
        {"tick"},
        {"views"},
        {"decide"},
    ),
    "engine": ({"runs"}, {"capacity"}, {"background"}, {"attempts"}, {"flow"}, {"operations"}, {"steps"}, {"fleet"}),
    "actions": ({"expressions", "steering"}, {"places"}, {"binding"}, {"syntax", "shell"}, {"jobs", "program"}),
    "authoring": (
        {"values", "child", "parts"},
        {"flow_input", "guards", "signal", "tool", "trace"},
        {"agents"},
        {"node"},
        {"step"},
        {"mapping"},
        {"options", "workflow"},
        {"context"},
        {"flow"},
        {"user_arguments", "reach"},
        {"unknown_children"},
    ),
    "service": (
        {"control", "cursor", "doc", "principal", "subscription", "concurrency_limit", "wait_sentence"},
        {"view"},
        {"declarations"},
        {"records", "reply_stream", "text"},
        {"access", "explanation", "gate", "letter", "listing"},
        {"handler"},
        {"preview"},
        {"handlers"},
        {"service"},
    ),
    "cli": (
        {"variable"},
        {"backend", "group", "page"},
        {"failure", "connect", "process", "reference"},
        {"dry_run"},
        {"next_steps", "app", "completion", "yaml_file"},
        {"option", "target"},
        {"fleet", "noun"},
        {"filter"},
        {"bulk"},
        {"doctor", "nouns"},
        {"runs"},
        {"develop", "top"},
    ),
}
"""The same within a room of several parts; parts of one floor don't know one another."""


@pytest.mark.parametrize("room", INNER_FLOORS)
def test_imports_go_down_only_within_a_room_too(room: str) -> None:
    floors = {part: i for i, parts in enumerate(INNER_FLOORS[room]) for part in parts}
    files = {file: file.relative_to(ROOT / room).parts[0].removesuffix(".py") for file in (ROOT / room).rglob("*.py")}
    assert {*files.values()} - {"__init__"} == floors.keys()
    wrong = []
    for file, part in files.items():
        if part == "__init__":  # what a room is begun with may be of any of its floors
            continue
        imported = {
            name.split(".")[2]
            for node in ast.walk(parsed(file))
            if isinstance(node, ast.ImportFrom) and node.module
            for name in [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            if name.startswith(f"holdfast.{room}.")
        }
        wrong += [f"{file}: {other}" for other in imported - {part} if floors[other] >= floors[part]]
    assert wrong == []


MAX_NAMES = 30
"""In one listing: of more nobody sees which is meant."""


def test_no_room_lists_more_names_than_one_sees_at_once() -> None:
    folders = [folder for folder in ROOT.rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    listed = {str(folder.relative_to(ROOT)): len({*folder.glob("[a-z]*")} - {ROOT / "py.typed"}) for folder in (ROOT, *folders)}
    assert {folder: names for folder, names in listed.items() if names > MAX_NAMES} == {}


def test_the_core_is_pure() -> None:
    assert [
        f"{file} imports {other}" for room, other, file in imports() if room == "core" and other.split(".")[0] in PURE
    ] == []
    with_async = [
        str(file)
        for file in (ROOT / "core").rglob("*.py")
        if any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(parsed(file)))
    ]
    assert with_async == []


def test_every_module_of_the_core_has_its_own_tests() -> None:
    """A rule is looked up where its module's name says; what is about several rules has a file besides."""
    tests = Path(__file__).parent / "core"
    folds = {file.stem for file in (ROOT / "core/facts/folding").glob("*.py")}
    modules = {file.stem for file in (ROOT / "core").rglob("*.py")} - {"__init__"} - folds
    assert {name for name in modules if not (tests / f"test_{name}.py").exists()} == set()


def test_only_the_composition_root_names_adapters() -> None:
    """The core, the ports and an engine's control know no adapter; adapters do not know one another."""
    adapters = {"stores", "models", "tools", "queues", "pools", "notify", "telemetry", "analytics"}
    wrong = [
        f"{file} imports {other}"
        for room, other, file in imports()
        if other in adapters and other != room and room in adapters | {"core", "ports", "authoring", "service"}
    ]
    assert wrong == []


MAX_STATEMENTS = 265
"""Of a class of the engine: beyond that it is more than one thing."""
MAX_GIVEN = 8
"""What its constructor is given. A frozen value that only says what there is may have more fields."""


def test_no_class_of_the_engine_is_more_than_one_thing() -> None:
    wrong = []
    for file in sorted((ROOT / "engine").rglob("*.py")):
        for kind in (node for node in ast.walk(parsed(file)) if isinstance(node, ast.ClassDef)):
            statements = sum(isinstance(node, ast.stmt) for node in ast.walk(kind))
            if statements > MAX_STATEMENTS:
                wrong.append(f"{file.name}: {kind.name} has {statements} statements")
            for method in kind.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    given = len(method.args.posonlyargs) + len(method.args.args) + len(method.args.kwonlyargs) - 1
                    if given > MAX_GIVEN:
                        wrong.append(f"{file.name}: {kind.name} is given {given} things")
    assert wrong == []


def at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """What counts for a cycle: a module's own statements, and those for type checking. An import in a function is lazy."""
    for node in tree.body:
        yield from node.body if is_for_checking(node) else [node]  # type: ignore[attr-defined]


def test_no_import_cycle_between_modules_not_even_for_types() -> None:
    graph: dict[str, set[str]] = {}
    for file in ROOT.rglob("*.py"):
        name = ".".join(("holdfast", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        found = set()
        for node in read(file).at_import:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast"):
                found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        graph[name] = found
    modules = set(graph)
    edges = {name: {other for other in others if other in modules and other != name} for name, others in graph.items()}
    packages = {name for name in modules if (ROOT.parent / name.replace(".", "/") / "__init__.py").exists()}
    state: dict[str, int] = {}

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        assert state.get(name) != 1, " → ".join((*trail, name))
        state[name] = 1
        for other in edges[name] - packages:
            visit(other, (*trail, name))
        state[name] = 2

    for name in sorted(modules - packages):
        visit(name, ())


CHANCE = {"time", "random", "secrets", "threading", "concurrent"}
"""Modules that ask the machine for the time, for chance, or for a thread."""
CHANCES = {"uuid1", "uuid4", "urandom", "to_thread", "utcnow", "today"}
"""What else does, by its name; and `datetime.now`."""
PORTS = {
    "platform/machine.py": "is the port of time and chance",
    "platform/threads.py": "is the port of threads",
    "platform/masking.py": "locks what other threads read",
    "stores": "is the port of storing, with the store's own time and threads",
    "actions/shell/supervisor.py": "is a program of its own, between a worker and a script",
    "actions/program/passage.py": "carries output in threads; a simulation runs no programs",
    "actions/program/process.py": "waits for output in threads; a simulation runs no programs",
    "gateway": "makes tokens; a simulation runs no programs",
    "service/access/startable.py": "reads files beside the loop; a simulation has no service",
    "service/records.py": "makes records beside the loop; a simulation has no service",
    "engine/flow/loop_watch.py": "looks at the loop from a thread; a simulation is not watched",
    "platform/own_loop.py": "answers callers in other threads; a simulation has none",
    "platform/spare_time.py": "measures processor time; a simulation has no sinks",
    "sync": "has a thread for an engine; a simulation has a loop of its own",
    "cli": "talks to people",
    "client": "waits between two tries; a simulation asks no server",
    "testing": "servers and sinks are outside",
    "mcp/port.py": "loads a package beside the loop; a simulation has no port",
    "models/providers.py": "loads a client beside the loop; a simulation has other models",
    "models/wire.py": "a provider may give a wait as a date; a simulation has other models",
    "analytics": "writes to a server beside the loop; a simulation has none",
    "models/prices.py": "prices have dates; who simulates gives it another clock",
}
"""Where the machine itself may be asked, and why. Everywhere else a simulation would no longer repeat itself."""
SIMULATION = Path(__file__).parent / "simulation"
SIMULATIONS = {
    "chance.py": "is where a simulation's chance comes from",
    "__main__.py": "says how long it takes",
    "test_": "looks at it from outside",
}
"""The same of the simulation's own modules."""


def places(file: Path) -> set[str]:
    """What `PORTS` may call a module: its room, or its path."""
    return {file.parts[0].removesuffix(".py"), file.as_posix()}


def asks_the_machine(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in CHANCE)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in CHANCE:
            # A type that only says what is handed in asks for nothing.
            yield from (alias.name for alias in node.names if (node.module, alias.name) != ("random", "Random"))
        elif isinstance(node, ast.Attribute) and (
            node.attr in CHANCES or (node.attr == "now" and ast.unparse(node.value).endswith("datetime"))
        ):
            yield ast.unparse(node)


def test_only_the_ports_ask_for_the_time_for_chance_or_for_a_thread() -> None:
    inside = [file for file in sorted(ROOT.rglob("*.py")) if not PORTS.keys() & places(file.relative_to(ROOT))]
    inside += [file for file in sorted(SIMULATION.glob("*.py")) if not {file.name, file.name[:5]} & SIMULATIONS.keys()]
    assert [f"{file}: {asked}" for file in inside for asked in read(file).asks] == []


def test_what_asks_the_machine_is_found() -> None:
    bad = "import time, random as r\nfrom uuid import uuid4\nimport datetime, uuid, os\n"
    bad += "datetime.datetime.now()\nuuid.uuid4()\nos.urandom(3)\n"
    assert list(asks_the_machine(ast.walk(ast.parse(bad)))) == [
        "time",
        "random",
        "datetime.datetime.now",
        "uuid.uuid4",
        "os.urandom",
    ]
