"""Finds the workflow, or the tasks of a connected worker, that `FILE.py:name`, `package.module:name` or `FILE.yaml` means.

Never here: running it. The file is the user's own code, so what goes wrong in it is shown as Python shows it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.cli import yaml_file
from holdfast.cli.page.terminal import aside
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.evaluation.suite import Suite
    from holdfast.wire.task import Tasks

T = TypeVar("T")

_MACHINERY: Final = (str(Path(__file__).parents[1]), importlib.__file__, "<frozen ")

_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def is_name(target: str) -> bool:
    """True if `target` is neither a file nor a module, so that it can only be the name of a workflow that the store knows."""
    return not yaml_file.is_meant(target) and not target.endswith(".py") and ":" not in target


def meant_file(name: str) -> str:
    """Return the words for a name that means a workflow of a file here (`m.typed`), or nothing."""
    place, _, rest = name.rpartition(".")
    file = Path(*place.split(".")).with_suffix(".py") if place else None
    return "" if file is None or not file.is_file() else f"For the workflow of a file, write {file}:{rest}. "


def load(target: str, *, to_run: bool = False) -> Workflow:
    """The workflow. Raises UsageError when the file cannot be imported (`trace` says where) or holds no such workflow, and
    where it is `to_run` but asks for what cannot be done here."""
    if yaml_file.is_meant(target):
        return yaml_file.workflow(target, to_run=to_run)
    place, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    if not place:
        raise UsageError(f"{target!r} names no workflow; write FILE.yaml, FILE.py:WORKFLOW or PACKAGE.MODULE:WORKFLOW.")
    return _pick(_imported(place), place, name)


def load_tasks(target: str) -> Tasks:
    """The tasks of a connected worker. Raises UsageError as `load` does."""
    from holdfast.wire.task import Tasks

    place, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    if not place:
        raise UsageError(f"{target!r} names no tasks; write FILE.py:TASKS or PACKAGE.MODULE:TASKS.")
    return _only(_imported(place), place, name, Tasks, "set of tasks", "make one with tasks = holdfast.wire.Tasks()")


def load_suite(target: str) -> Suite:
    """Scenarios that are made in Python. Raises UsageError as `load` does."""
    from holdfast.evaluation.suite import Suite

    place, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    if not place:
        raise UsageError(f"{target!r} names no scenarios; write FILE.yaml, FILE.py:SUITE or PACKAGE.MODULE:SUITE.")
    return _only(_imported(place), place, name, Suite, "suite", "make one with suite = holdfast.evaluation.Suite(...)")


def _imported(place: str) -> ModuleType:
    path = Path(place)
    if place.endswith(".py") and not path.is_file():
        raise UsageError(f"There is no file {place}.")
    try:
        with aside():
            return _from_file(path.resolve()) if place.endswith(".py") else _from_path(place)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # noqa: BLE001 - whatever a user's file raises is reported
        told = traceback.format_exception_only(problem)[-1].strip().removesuffix(".")
        raise UsageError(f"{place} could not be imported: {told}. Nothing was done.", trace=_users_part(problem)) from None


def _from_path(name: str) -> ModuleType:
    _reach(Path.cwd())
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    """The module in a file, under a name that no other module has; inside its package, if it lives in one."""
    packages: list[str] = []
    root = path.parent
    while (root / "__init__.py").is_file():
        packages.insert(0, root.name)
        root = root.parent
    own = f"{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    name = ".".join([*packages, own])
    if name in sys.modules:
        return sys.modules[name]
    for directory in (Path.cwd(), root, path.parent):
        _reach(directory)
    if packages:
        importlib.import_module(".".join(packages))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _reach(directory: Path) -> None:
    """Have imports look into `directory` first."""
    sys.path[:] = [str(directory), *(entry for entry in sys.path if entry != str(directory))]


def _pick(module: ModuleType, place: str, name: str) -> Workflow:
    from holdfast.authoring.workflow import Workflow

    return _only(module, place, name, Workflow, "workflow", "make one with @flow, or with wf = Workflow('name')")


def _only(module: ModuleType, place: str, name: str, kind: type[T], noun: str, advice: str) -> T:
    """The one of its kind in a module, or the one of that name."""
    found = {key: value for key, value in vars(module).items() if isinstance(value, kind)}
    if name in found:
        return found[name]
    if not name and len({id(value) for value in found.values()}) == 1:
        return next(iter(found.values()))
    known = ", ".join(f"{place}:{key}" for key in found)
    if not found:
        raise UsageError(f"There is no {noun} in {place}; {advice}.")
    if not name:
        raise UsageError(f"There are several {noun}s in {place}; name one: {known}.")
    raise UsageError(f"There is no {noun} {name!r} in {place}; it has {known}.")


def _users_part(problem: BaseException) -> str:
    """The traceback without the frames of Holdfast and of the import machinery, nor those of installed packages where
    code of the user's own leads to them."""
    told = traceback.TracebackException.from_exception(problem)
    chain: list[traceback.TracebackException | None] = [told]
    for link in chain:  # grows while it is walked
        if link is not None:
            frames = [frame for frame in link.stack if not frame.filename.startswith(_MACHINERY)]
            own = [frame for frame in frames if not frame.filename.startswith(_INSTALLED)]
            link.stack = traceback.StackSummary.from_list(own or frames)
            chain += [link.__cause__, link.__context__, *(link.exceptions or ())]
    return "".join(told.format())
