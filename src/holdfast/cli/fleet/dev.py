"""`holdfast dev`: the HTTP API and a worker in one process on SQLite, started anew whenever a file of the workflows changes.

The process is a `holdfast serve`; what it had in hand goes on in the next. Never here: answering, executing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import OK
from holdfast.cli.process import child
from holdfast.cli.process.stopping import stopped
from holdfast.errors import UsageError
from holdfast.platform import privacy

DEFAULT_PORT: Final = 8485
_LOOK_EVERY_S: Final = 0.5
_ANSWERS_EVERY_S: Final = 0.05
_MOST_FILES: Final = 5_000
"""So many are watched; a project has fewer."""
_WATCHED: Final = frozenset({".py", ".yaml", ".yml", ".toml", ".md", ".json", ".txt"})
_FRESH: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python takes code that it has compiled for that of the file if both are of one second and one size."""
_LEFT_OUT: Final = frozenset({"node_modules", "__pycache__", "build", "dist"})


def dev(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE.py:WORKFLOW", help="Workflows to serve and execute: FILE.py:NAME or FILE.yaml.")
    ],
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port of the HTTP API; 0 picks a free one.")
    ] = DEFAULT_PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the token for callers; by default HOLDFAST_TOKEN or HOLDFAST_TOKEN_FILE, else a random token.",
        ),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Serve workflows on this machine while you write them.

    One process serves the HTTP API and executes runs, on SQLite. It restarts when a file beside the workflows changes. Runs
    continue where they were; a run whose journal no longer fits the code stops and asks.
    """
    from holdfast.cli.opening import is_fleet, located, own_token
    from holdfast.compose.api import CODE, SESSION
    from holdfast.platform.machine import new_trace
    from holdfast.testing.server_process import free_port

    where, _ = located(store)
    if is_fleet(where):
        raise UsageError(
            "`holdfast dev` is for a store on SQLite; `holdfast serve --http` answers for a fleet. Nothing was started."
        )
    with terminal.aside(), tempfile.TemporaryDirectory(prefix="holdfast-dev-") as folder:
        secrets = {"token": own_token(token_file) or new_trace(), SESSION: new_trace(), CODE: new_trace()}
        for name, secret in secrets.items():
            _write(Path(folder) / name, secret)
        words = ["serve", *targets, "--http", f"127.0.0.1:{port or free_port()}", "--token-file", f"{folder}/token"]
        words += ["--browser", folder, "--port", "0", "--grace-s", "1", "--store", where]
        development = _Development(words, [*_folders(targets)], secrets["token"], secrets[CODE])
        return asyncio.run(development.run(as_json=as_json))


def _write(file: Path, token: str) -> None:
    file.touch(privacy.FILE)
    file.write_text(token)


def _folders(targets: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of the workflows' files."""
    for target in targets:
        place = target if target.endswith((".py", ".yaml", ".yml")) else target.rpartition(":")[0]
        file = Path(place)
        yield file.resolve().parent if file.is_file() else Path.cwd()


class _Development:
    """The process that serves, and its files."""

    def __init__(self, words: Sequence[str], folders: Sequence[Path], token: str, code: str) -> None:
        self._words = words
        self._folders = sorted(set(folders))
        self._token = token
        self._code = code

    async def run(self, *, as_json: bool) -> int:
        """Until told to stop; the exit code. A server that cannot be started at all ends it with its own code."""
        stop = stopped("the server hands over what it cannot finish")
        server = f"http://{self._words[self._words.index('--http') + 1]}"
        address, once = f"{server}/api/v1", f"{server}/?code={self._code}"
        words = (
            f"The API is at {address}; try it in another terminal:\n"
            f"  curl -H 'Authorization: Bearer {self._token}' {address}/workflows\n"
            f"or in a browser, with an address that works once: {once}\n"
            f"It restarts when a file changes in {', '.join(map(str, self._folders))}. Ctrl-C stops it."
        )

        async def welcome() -> None:
            await self._answers(address)
            terminal.say(words)
            if as_json:
                terminal.emit({"api": address, "token": self._token, "browser": once})
                terminal.hand_over()

        for number in itertools.count():
            process = await child.start(self._words, _FRESH)
            async with contextlib.AsyncExitStack() as undo:
                relaying = asyncio.create_task(child.relay("server", process))
                undo.push_async_callback(asyncio.wait, [relaying])
                undo.push_async_callback(child.end, process)
                if not number:
                    welcoming = asyncio.create_task(welcome())
                    undo.callback(welcoming.cancel)
                changed = asyncio.create_task(self._changed())
                undo.callback(changed.cancel)
                waits: list[asyncio.Future[Any]] = [stop, changed, relaying]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if relaying.done() and not stop.done() and not changed.done():
                    if not number:
                        return process.returncode or OK
                    terminal.say(f"The server {child.how(process)}; it restarts when a file changes.")
                    await asyncio.wait(waits[:2], return_when=asyncio.FIRST_COMPLETED)
                if stop.done():
                    return OK
                terminal.say(f"{changed.result()} has changed; the server restarts.")
        return OK

    async def _answers(self, address: str) -> None:
        """Wait until this server answers, which another one at its port would not do."""
        import httpx2

        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {self._token}"}, trust_env=False) as http:
            while True:
                with contextlib.suppress(httpx2.HTTPError):
                    if (await http.get(f"{address}/me")).status_code == HTTPStatus.OK:
                        return
                await asyncio.sleep(_ANSWERS_EVERY_S)

    async def _changed(self) -> Path:
        """Wait until a file changes, comes or goes; which."""
        before = await asyncio.to_thread(self._seen)
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now = await asyncio.to_thread(self._seen)
            if now != before:
                return min(path for path, _ in now ^ before)

    def _seen(self) -> frozenset[tuple[Path, int]]:
        """The watched files, each with when it was written."""
        found: set[tuple[Path, int]] = set()
        for folder in self._folders:
            for file in itertools.islice(_files(folder), _MOST_FILES):
                with contextlib.suppress(OSError):  # gone meanwhile
                    found.add((file, file.stat().st_mtime_ns))
        return frozenset(found)


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.is_symlink():
            continue
        if path.is_dir() and not (path / "pyvenv.cfg").exists():
            yield from _files(path)
        elif path.suffix in _WATCHED:
            yield path


EXAMPLES: Final = {"dev": "refund.py:refund"}
