"""An error of a step is caught by its own class, as in any Python, on the first pass and on every replay."""

from __future__ import annotations

import abc
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from holdfast import Context, Engine, OperationFailed, RetryPolicy, RunFailed, ToolFailed, flow, step, tool
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import ErrorRecord, RaisedError
from holdfast.engine.runs import raised
from tests.engine.kit import bounded, opened

PLAIN: Any = SimpleNamespace(clean=lambda value: bytes(inline(value).json))


class Declined(Exception):
    """With an initializer of its own, attributes, and words that need them."""

    def __init__(self, code: int, *, card: str) -> None:
        super().__init__(code)
        self.code = code
        self.card = card
        self.connection = object()

    def __str__(self) -> str:
        return f"{self.card} was declined: {self.code}"


class Slotted(RuntimeError):
    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Abstract(Exception, metaclass=abc.ABCMeta):
    pass


class Registered(Exception):
    known: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls) -> None:
        Registered.known[cls.__name__] = cls


class Gone(Registered):
    pass


class Unsaid(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)

    def __eq__(self, other: object) -> bool:
        raise SystemExit(1)

    __hash__ = None  # type: ignore[assignment]


class Own(ToolFailed):
    pass


class Outer:
    class Inner(Exception):
        pass


PROBLEMS: list[Exception] = [
    RuntimeError("bad thing"),
    KeyError("customer"),
    Declined(51, card="visa"),
    Slotted("why"),
    Abstract("no"),
    Gone("x"),
    Unsaid("x"),
    Own("it did not happen", error_class="tool"),
    Outer.Inner("x"),
    FileNotFoundError(2, "No such file", "a.txt"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
    ZeroDivisionError(),
    PermissionError("no"),
]
ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        yield engine


@pytest.mark.usefixtures("replays")
@bounded
async def test_an_error_of_a_step_is_caught_by_its_own_class_on_each_pass(engine: Engine) -> None:
    passes: list[list[str]] = []
    found: list[Any] = []

    @step(retry=ONCE)
    def plain(n: int) -> None:
        raise PROBLEMS[n]

    @step(retry=ONCE)
    async def asynchronous(n: int) -> None:
        raise PROBLEMS[n]

    @flow
    async def catches(ctx: Context) -> None:
        seen: list[str] = []
        for work in (plain, asynchronous):
            for n, problem in enumerate(PROBLEMS):
                try:
                    await work(n)
                except type(problem) as caught:
                    seen.append(f"{type(caught).__mro__} {caught} {caught!r} {caught.args} {hash(caught) != 0}")
                    found.append(caught)
        passes.append(seen)
        await ctx.wait_signal("go on")
        seen.append("")
        await ctx.wait_signal("go on")

    run = await engine.start(catches)
    for _ in range(2):
        await run.settled()
        await engine.signal(run.id, "go on")
    await run.result()
    assert [len(seen) for seen in passes] == [2 * len(PROBLEMS) + number for number in (0, 1, 1)]
    assert passes[0] == passes[1][:-1] == passes[2][:-1]
    assert all(isinstance(each, OperationFailed) and each.message == each.error.message for each in found)  # type: ignore[attr-defined]


@bounded
async def test_what_is_plain_of_an_exception_comes_back_and_what_is_not_says_so(engine: Engine) -> None:
    @step
    def pay() -> None:
        raise Declined(51, card="visa")

    @step
    def reads() -> None:
        raise FileNotFoundError(2, "No such file", "a.txt")

    @flow
    async def catches(ctx: Context) -> list[Any]:
        found: list[Any] = []
        for again in range(2):
            try:
                await pay()
            except Declined as problem:
                found += [problem.code, problem.card, list(problem.args)]
                with pytest.raises(AttributeError, match="'connection' here"):
                    problem.connection  # noqa: B018
            try:
                await reads()
            except OSError as problem:
                found += [problem.errno, problem.filename, problem.strerror]
            if not again:
                await ctx.sleep(0.001)
        return found

    assert await (await engine.start(catches)).result() == [51, "visa", [51], 2, "a.txt", "No such file"] * 2


@bounded
async def test_what_only_a_base_class_catches_is_an_operation_that_failed(engine: Engine) -> None:
    kinds: list[type[BaseException]] = [SystemExit, GeneratorExit, StopIteration, StopAsyncIteration, BaseException]

    @step(retry=ONCE)
    def work(n: int) -> None:
        raise kinds[n]

    @flow
    async def catches(ctx: Context) -> list[str]:
        found = []
        for n in range(len(kinds)):
            try:
                await work(n)
            except Exception as problem:
                found.append(type(problem).__name__)
        return found

    assert await (await engine.start(catches)).result() == ["OperationFailed"] * len(kinds)


@bounded
async def test_an_error_of_a_tool_is_caught_by_its_own_class(engine: Engine) -> None:
    @tool(effect="once")
    def pay() -> None:
        raise Declined(51, card="visa")

    @step(effect="read")
    async def look() -> None:
        raise LookupError("nowhere")

    @flow(tools=[pay])
    async def catches(ctx: Context) -> list[Any]:
        found: list[Any] = []
        try:
            await ctx.tool("pay")
        except Declined as problem:
            found.append(problem.code)
        try:
            await look()
        except LookupError as problem:
            found.append(str(problem))
        return found

    code, words = await (await engine.start(catches)).result()
    assert code == 51
    assert "nowhere" in words


@bounded
async def test_an_error_that_leaves_the_flow_again_is_recorded_as_it_was(engine: Engine) -> None:
    @step(retry=ONCE)
    def work() -> None:
        raise TimeoutError("late")

    @flow
    async def passes_on(ctx: Context) -> None:
        try:
            await work()
        except TimeoutError:
            raise

    run = await engine.start(passes_on)
    with pytest.raises(RunFailed):
        await run.result()
    error = (await run.state()).error
    assert error is not None
    assert (error.error_class, error.exception) == (
        "timeout",
        RaisedError("builtins", "TimeoutError", inline({"args": ["late"]})),
    )
    assert error.message.startswith("TimeoutError: late (test_raised.py")


@bounded
async def test_the_data_of_an_exception_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_KEY_OF_PAY", "sk-a-key-of-some-length")

    @step(retry=ONCE)
    def work() -> None:
        raise Declined(51, card="sk-a-key-of-some-length")

    @flow
    async def pays(ctx: Context) -> None:
        ctx.secret("KEY_OF_PAY")
        await work()

    async with opened(f"sqlite:///{tmp_path / 'holdfast.db'}") as engine:
        run = await engine.start(pays)
        with pytest.raises(RunFailed):
            await run.result()
        assert "sk-a-key" not in str(await run.events())


# --- A record -------------------------------------------------------------------------------------------------------------


def error(module: str, name: str, data: Any = None) -> ErrorRecord:
    told = RaisedError(module, name, None if data is None else inline(data))
    return ErrorRecord("flow", "error", "It failed.", True, 0, exception=told)


@pytest.mark.parametrize(
    "record",
    [
        ErrorRecord("flow", "error", "It failed.", True, 0),
        error("no.such.module", "Problem"),
        error("colorsys", "Problem"),
        error("builtins", "print"),
        error("builtins", "SystemExit"),
        error("builtins", "KeyboardInterrupt"),
        error("builtins", "StopIteration"),
        error("builtins", "ExceptionGroup"),
        error("builtins", "int"),
        error("builtins", "NoSuchError"),
        error("builtins", "ValueError.__init__"),
        error("holdfast.errors", "StoreError"),
        error("holdfast.errors", "PlaceLost"),
        error("holdfast.errors", "NonDeterministicStep"),
        error("holdfast.errors", "OperationFailed"),
        error("pydantic_core", "ValidationError"),
        error(__name__, "test_a_record_that_names_no_class_is_an_operation_that_failed.<locals>.Here"),
    ],
    ids=lambda record: record.exception.name if record.exception else "none",
)
def test_a_record_that_names_no_class_is_an_operation_that_failed(record: ErrorRecord) -> None:
    loaded = set(sys.modules)
    problem = raised.again(record, None, __name__)
    assert type(problem) is OperationFailed
    assert (problem.message, problem.error) == ("It failed.", record)  # type: ignore[attr-defined]
    assert set(sys.modules) == loaded, "a history makes nothing be imported"


def test_no_code_of_the_class_runs_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    Registered.known.clear()
    for problem in PROBLEMS:
        told = raised.of(problem, PLAIN.clean)
        assert told is not None
        made = raised.again(ErrorRecord("flow", "error", "It failed.", True, 0, exception=told), None, __name__)
        assert isinstance(made, type(problem))
        assert (str(made), made.message) == ("It failed.", "It failed.")
    assert Registered.known == {}


def test_data_that_is_not_plain_or_too_much_is_left_out() -> None:
    problem = Declined(51, card="x" * raised.MAX_DATA_BYTES)
    told = raised.of(problem, PLAIN.clean)
    assert told == RaisedError(__name__, "Declined", None)
    problem = Declined(51, card="visa")
    problem.args = ((1, 2), {3})
    told = raised.of(problem, PLAIN.clean)
    assert told == RaisedError(__name__, "Declined", inline({"attributes": {"code": 51, "card": "visa"}}))


def test_an_error_class_of_a_file_loaded_by_path_is_found_in_its_own_module(
    tmp_path: Path, load: Callable[[Path], Any]
) -> None:
    """A worker knows the file `orders.py` under another name than the script does, and on another machine another."""
    (tmp_path / "orders.py").write_text("class Late(Exception): pass\nproblem = Late('x')\n")
    module = load(tmp_path / "orders.py")
    told = raised.of(module.problem, PLAIN.clean)
    assert told is not None
    assert told.module == "orders"
    record = ErrorRecord("flow", "error", "It failed.", True, 0, exception=told)
    assert isinstance(raised.again(record, None, module.__name__), module.Late)
    assert type(raised.again(record, None, "another")) is OperationFailed


def test_a_class_that_is_not_loaded_is_caught_by_the_nearest_of_its_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step imports a module that the next process has not imported when it replays the step."""
    module = ModuleType("lazily_imported")
    exec("class Unread(ValueError): pass\nclass ParseFailed(Unread): pass", vars(module))
    monkeypatch.setitem(sys.modules, "lazily_imported", module)
    told = raised.of(module.ParseFailed("line 3"), PLAIN.clean)
    assert told is not None
    record = ErrorRecord("flow", "error", "It failed.", True, 0, exception=told)
    assert isinstance(raised.again(record, None, __name__), module.ParseFailed)
    del module.ParseFailed
    assert isinstance(raised.again(record, None, __name__), module.Unread)
    monkeypatch.delitem(sys.modules, "lazily_imported")
    kept = msgspec.json.decode(msgspec.json.encode(record), type=ErrorRecord)
    assert kept == record
    caught = raised.again(kept, None, __name__)
    assert isinstance(caught, ValueError)
    assert isinstance(caught, OperationFailed)
    assert caught.args == ("line 3",)
    assert "lazily_imported" not in sys.modules


def test_data_that_cannot_be_encoded_does_not_hide_the_class() -> None:
    told = raised.of(FileNotFoundError(2, "No such file", "\udcff"), PLAIN.clean)
    assert told == RaisedError("builtins", "FileNotFoundError")


@pytest.fixture
def load() -> Callable[[Path], Any]:
    from holdfast.cli.target import _from_file

    return _from_file
