"""The files whose changes restart `holdfast dev`: imported modules of the project, workflow files, holdfast.toml, and files
that the user names.

The process that serves reports its modules in a file. Never here: starting and ending a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final

REPORT: Final = "modules.json"
"""The file of the report, in the folder that both processes know."""
_LOOK_EVERY_S: Final = 0.5
_MAX_FILES: Final = 5_000
"""Maximum number of Python files that are watched while the server is down; a project has fewer."""
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", "build", "dist"})
_INSTALLED: Final = tuple({f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def files_of(targets: Sequence[str]) -> list[Path]:
    """Return the workflow files that these targets name."""
    places = [each if each.endswith((".py", ".yaml", ".yml")) else each.rpartition(":")[0] for each in targets]
    return [Path(place).resolve() for place in places if place.endswith((".py", ".yaml", ".yml"))]


def roots_of(targets: Sequence[str]) -> list[Path]:
    """Return the folders of the project: the working directory, and those of workflow files elsewhere."""
    here = Path.cwd()
    folders = {file.parent for file in files_of(targets)}
    return [here, *sorted(folder for folder in folders if not folder.is_relative_to(here))]


class Modules:
    """The report of this process's modules, in a folder that it shares with `dev`."""

    def __init__(self, folder: Path, roots: Sequence[Path]) -> None:
        self.folder = folder
        self._roots = roots
        self._reported: frozenset[Path] | None = None

    def write(self) -> None:
        """Write the modules' files, each with the time at which it was written, unless they are those of the last report."""
        now = imported(self._roots)
        if now == self._reported:
            return
        draft = self.folder / f"{REPORT}.draft"
        draft.write_text(json.dumps({str(path): _written_at(path) for path in now}))
        draft.replace(self.folder / REPORT)
        self._reported = now

    async def keep(self) -> None:
        """Report again when a step imports another module, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.to_thread(self.write)


def imported(roots: Sequence[Path]) -> frozenset[Path]:
    """Return the files of this process's modules under these roots, without installed packages."""
    found: set[Path] = set()
    for module in [*sys.modules.values()]:
        # A module that loads itself at its first use stays unloaded.
        with contextlib.suppress(AttributeError):
            file = object.__getattribute__(module, "__dict__").get("__file__")
            if isinstance(file, str) and not file.startswith(_INSTALLED):
                path = Path(file).absolute()
                if _is_code(path) and any(path.is_relative_to(root) for root in roots):
                    found.add(path)
    return frozenset(found)


class Watch:
    """The watched files, over all starts of the server.

    Args:
        named: Files that are watched whether or not they exist.
        roots: Folders of the project.
        patterns: Patterns of further files, relative to the working directory.
        folder: The folder of the report.
    """

    def __init__(self, named: Sequence[Path], roots: Sequence[Path], patterns: Sequence[str], folder: Path) -> None:
        self._named = named
        self._roots = roots
        self._patterns = patterns
        self._report = folder / REPORT
        self._known: dict[Path, int | None] = {}
        self._python_before: frozenset[tuple[Path, int | None]] = frozenset()

    def begin(self) -> None:
        """Take the files as they are: the server is about to start with them."""
        self._report.unlink(missing_ok=True)
        self._known = {path: _written_at(path) for path in [*self._known, *self._named, *self._matching()]}
        self._python_before = self._python()

    async def changed(self) -> Path:
        """Wait until a watched file changes, appears or disappears; return it."""
        while True:
            if (path := await asyncio.to_thread(self._first_change)) is not None:
                return path
            await asyncio.sleep(_LOOK_EVERY_S)

    def end(self) -> None:
        """Watch all Python files of the project from now on: the server has ended by itself, so no run writes any.

        A server that could not be imported has reported nothing, so the file that it lacks is looked for since its start.
        """
        if self._reported() is not None:
            self._python_before = self._python()

    async def edited(self) -> Path:
        """Wait until a watched file or any Python file of the project changes; return it. `end` comes first."""
        while True:
            if (path := await asyncio.to_thread(self._first_change)) is not None:
                return path
            now = await asyncio.to_thread(self._python)
            if now != self._python_before:
                return min(path for path, _ in now ^ self._python_before)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _first_change(self) -> Path | None:
        matching = [*self._matching()]
        if (reported := self._reported()) is not None:
            # What this start has not imported is not watched any more.
            watched = {*reported, *self._named, *matching}
            kept = {path: at_ns for path, at_ns in self._known.items() if path in watched or not _is_code(path)}
            self._known = reported | kept
        for path in matching:
            if path not in self._known:
                return path
        return next((path for path, at_ns in self._known.items() if _written_at(path) != at_ns), None)

    def _reported(self) -> dict[Path, int | None] | None:
        try:
            report: dict[str, int | None] = json.loads(self._report.read_text())
        except FileNotFoundError:
            return None
        return {Path(path): at_ns for path, at_ns in report.items()}

    def _matching(self) -> Iterator[Path]:
        if not self._patterns:
            return
        here = Path.cwd()
        for path in _files(here):
            if any(_matches(path.relative_to(here), pattern) for pattern in self._patterns):
                yield path

    def _python(self) -> frozenset[tuple[Path, int | None]]:
        code = (path for root in self._roots for path in _files(root) if _is_code(path))
        return frozenset((path, _written_at(path)) for path in itertools.islice(code, _MAX_FILES))


def _is_code(path: PurePath) -> bool:
    return path.suffix == ".py"


def _matches(path: PurePath, pattern: str) -> bool:
    """True if the pattern is that of a file, or of a folder that has it."""
    return any(each.match(pattern) for each in (path, *path.parents))


def _files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # gone meanwhile, or not readable
        return
    for path in entries:
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.is_symlink():
            continue
        if path.is_dir():
            if not (path / "pyvenv.cfg").exists():
                yield from _files(path)
        else:
            yield path


def _written_at(path: Path) -> int | None:
    """Return the time at which a file was written; None if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
