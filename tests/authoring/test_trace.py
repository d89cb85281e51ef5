"""What a history has of an error: the user's own frames, and no path of the machine."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.authoring import trace
from holdfast.cli.target import _from_file
from holdfast.engine.runs.failure import record
from holdfast.tools.outcome import describe

FALLS = 'class Fallen(Exception): ...\n\n\ndef fall():\n    raise Fallen("over")\n'


@pytest.fixture(autouse=True)
def path_of_imports() -> Iterator[None]:
    before, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = before
    for name in set(sys.modules) - known:
        del sys.modules[name]


def problem_of(function: object) -> BaseException:
    try:
        function()  # type: ignore[operator]
    except BaseException as problem:
        problem.__traceback__ = problem.__traceback__ and problem.__traceback__.tb_next
        return problem
    raise AssertionError


def module_at(folder: Path, name: str, text: str = FALLS) -> ModuleType:
    """A module `name`, imported from `folder`."""
    file = folder.joinpath(*name.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    return importlib.import_module(name)


def told_at(folder: Path, name: str = "shop.tills.pay") -> str:
    """The error record of one failure of a module that stands in `folder`."""
    module = module_at(folder, name)
    told, _ = record(problem_of(module.fall), "pay", 0)
    sys.path.remove(str(folder))
    for each in [each for each in sys.modules if each.partition(".")[0] == name.partition(".")[0]]:
        del sys.modules[each]
    return repr(told)


def test_one_error_is_recorded_alike_wherever_its_package_stands(tmp_path: Path) -> None:
    short, long = tmp_path / "a", tmp_path / "another place, ünder a länger path"
    assert told_at(short) == told_at(long)
    assert 'File "shop/tills/pay.py", line 5, in fall' in told_at(short)


def test_a_file_of_no_package_is_named_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for folder in (tmp_path / "a", tmp_path / "b" / "longer"):
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        (folder / "flows").mkdir()
        (folder / "flows" / "st.py").write_text(FALLS)
        module = _from_file(folder / "flows" / "st.py")
        told.append(repr(record(problem_of(module.fall), "pay", 0)))
    assert told[0] == told[1]
    assert 'File "flows/st.py", line 5, in fall' in told[0]
    assert "\\nst.Fallen: over" in told[0]


@pytest.mark.parametrize("here", ["/", "elsewhere", "gone"])
def test_a_file_outside_goes_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "flows" / "st.py").write_text(FALLS)
    module = _from_file(tmp_path / "flows" / "st.py")
    if here == "gone":
        (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / here)
    if here == "gone":
        (tmp_path / "gone").rmdir()
    told, _ = record(problem_of(module.fall), "pay", 0)
    monkeypatch.chdir(tmp_path)
    assert told.trace is not None
    assert 'File "st.py", line 5, in fall' in told.trace
    assert str(tmp_path) not in repr(told)


@pytest.mark.parametrize(
    ("file", "module", "named"),
    [
        ("/home/ann/shop/pay.py", "shop.pay", "shop/pay.py"),
        ("/home/ann/shop/__init__.py", "shop", "shop/__init__.py"),
        ("/home/ann/app.zip/shop/pay.py", "shop.pay", "shop/pay.py"),
        ("/home/ann/generated.py", "shop.pay", "generated.py"),
        ("pay.py", "__main__", "pay.py"),
        ("../ann/pay.py", "__main__", "pay.py"),
        (os.fsdecode(b"/home/ann/p\xff.py"), "p", "p\\udcff.py"),
    ],
)
def test_a_code_file_is_named_by_its_place_in_its_package(file: str, module: str, named: str) -> None:
    assert trace.recorded_file(file, module) == named


def test_a_package_whose_name_begins_like_an_installed_one_is_the_users() -> None:
    """`holdfast_flows` beside `holdfast` is not `holdfast`."""
    package = Path(trace.__file__).parents[1]
    file = package.with_name(f"{package.name}_flows") / "pay.py"
    names = {"__name__": f"{file.parent.name}.pay"}
    exec(compile(FALLS, str(file), "exec"), names)
    assert trace.innermost(problem_of(names["fall"])) == "pay.py:5 in fall"


IMPORTS = "def fall():\n    from shop.parts import nothing\n"
DOES_NOT_PARSE = "def fall():\n    from shop import bad\n"


def test_what_python_says_of_an_import_names_no_path(tmp_path: Path) -> None:
    """`cannot import name 'nothing' from 'shop.parts' (/home/ann/shop/parts.py)`."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "parts.py").write_text("")
    (tmp_path / "shop" / "bad.py").write_text("x = (\n")
    for name, text in (("shop.a", IMPORTS), ("shop.b", DOES_NOT_PARSE)):
        problem = problem_of(module_at(tmp_path, name, text).fall)
        told = repr(record(problem, "pay", 0)) + describe(problem)
        assert str(tmp_path) not in told
        assert "shop/parts.py" in told or "bad.py" in told
