"""`holdfast dev`: the HTTP API and a worker in one process on SQLite, restarted whenever a file of the workflows changes.

The process is a `holdfast serve`; its work goes on in the next one. Never here: answering, executing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli.option import AsJson, Store, health_port
from holdfast.cli.page import console_page, terminal
from holdfast.cli.page.exit_code import OK
from holdfast.cli.process import child, dev_server
from holdfast.cli.process.stopping import stopped
from holdfast.cli.process.watching import Watch, files_of, roots_of
from holdfast.errors import UsageError
from holdfast.platform import privacy

DEFAULT_PORT: Final = 8485
_MAX_DEATHS: Final = 3
"""Times that a server which had answered is started again within `_FORGIVEN_S`; then a change of a file is waited for."""
_FORGIVEN_S: Final = 60.0
_FRESH: Final = {"PYTHONDONTWRITEBYTECODE": "1"}
"""Python takes code that it has compiled for that of the file if both are of one second and one size."""


def dev(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE.py:WORKFLOW", help="Workflows to serve and execute: FILE.py:NAME or FILE.yaml.")
    ],
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port of the HTTP API; 0 picks a free one.")
    ] = DEFAULT_PORT,
    health_port: Annotated[int, health_port("--health-port")] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the token for callers; by default HOLDFAST_TOKEN or HOLDFAST_TOKEN_FILE, else a random token,"
            " kept beside the store.",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--reload-include",
            metavar="PATTERN",
            help="Also restart when a file or folder of this pattern changes, like 'prompts/*.md'. Repeatable.",
        ),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the console in a browser.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Serve workflows as you write them, with a console.

    One process serves the HTTP API and executes runs, on SQLite. It restarts when an imported module under the working
    directory, a workflow file or holdfast.toml changes. Runs continue where they were; a run whose journal no longer fits the
    code stops and asks.
    """
    from holdfast.cli.connect import is_fleet, located, own_token
    from holdfast.compose.api import CODE
    from holdfast.platform.machine import new_trace
    from holdfast.storage import file_of
    from holdfast.testing.server_process import free_port

    where, _ = located(store)
    if is_fleet(where):
        raise UsageError(
            "`holdfast dev` is for a store on SQLite; `holdfast serve --http` answers for a fleet. Nothing was started."
        )
    for pattern in include or ():
        if not pattern.strip() or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UsageError(
                f"--reload-include takes a pattern below the working directory, like 'prompts/*.md', and no {pattern!r}."
                " Nothing was started."
            )
    os.environ.setdefault("HOLDFAST_KEEP_REQUESTS", "full")  # one who writes a workflow reads what its models were asked
    with terminal.aside(), tempfile.TemporaryDirectory(prefix="holdfast-dev-") as folder:
        file, own = file_of(where), own_token(token_file)
        before = dev_server.find(file)
        token = own or (before and before.token) or new_trace()
        secrets = {"token": token, CODE: new_trace()}
        for name, secret in secrets.items():
            _write(Path(folder) / name, secret)
        listens = f"127.0.0.1:{port or free_port()}"
        words = ["serve", *targets, "--http", listens, "--token-file", f"{folder}/token"]
        words += ["--browser", folder, "--port", str(health_port), "--grace-s", "1", "--store", where]
        named = [*files_of(targets), Path.cwd() / "holdfast.toml"]
        watch = Watch(named, roots_of(targets), include or (), Path(folder))
        opens = not (no_open or as_json) and console_page.has_display()
        development = _Development(words, watch, Path(folder), secrets["token"], secrets[CODE], opens=opens)
        here = dev_server.DevServer(f"http://{listens}", None if own else token)
        return asyncio.run(development.run(partial(dev_server.keep, file, here), as_json=as_json))


def _write(file: Path, token: str) -> None:
    file.touch(privacy.FILE)
    file.write_text(token)


class _Development:
    """The process that serves, and its files."""

    def __init__(self, words: Sequence[str], watch: Watch, folder: Path, token: str, code: str, *, opens: bool) -> None:
        self._words = words
        self._watch = watch
        self._folder = folder
        self._token = token
        self._code = code
        self._opens = opens
        self._has_answered = False
        """True if the server that runs now has answered."""
        self._deaths: deque[float] = deque(maxlen=_MAX_DEATHS)

    async def run(self, keep: Callable[[], None], *, as_json: bool) -> int:
        """Run until stopped, and return the exit code. `keep` notes where it answers, once it does. A server that cannot be
        started at all ends it with its own code."""
        from holdfast.http import console

        stop = stopped("the server hands over what it cannot finish")
        server = f"http://{self._words[self._words.index('--http') + 1]}"
        address, once = f"{server}/api/v1", f"{server}/?code={self._code}"
        page = f"The console, at an address that works once: {once}" if console.find().is_built else console.MISSING.strip()
        words = (
            f"Ready: the API is at {address}; try it in another terminal:\n"
            f"  curl -H 'Authorization: Bearer {self._token}' {address}/workflows\n"
            f"{page}\n"
            f"It restarts when a module that it imported from {Path.cwd()} changes. Ctrl-C stops it."
        )

        async def welcome(*, is_first: bool) -> None:
            await child.serves(self._folder)
            self._has_answered = True
            if is_first:
                with contextlib.suppress(OSError):  # a store in a folder that takes no other file
                    keep()
            terminal.say(words if is_first else f"Ready: the API is at {address}.")
            if is_first and self._opens and console.find().is_built:
                await asyncio.to_thread(console_page.show, once)
            if as_json and is_first:
                terminal.emit({"api": address, "token": self._token, "browser": once})
                terminal.hand_over()

        for number in itertools.count():
            self._watch.begin()
            self._has_answered = False
            child.forget_serves(self._folder)
            process = await child.start(self._words, _FRESH)
            async with contextlib.AsyncExitStack() as undo:
                relaying = asyncio.create_task(child.relay("server", process))
                undo.push_async_callback(asyncio.wait, [relaying])
                undo.push_async_callback(child.end, process)
                welcoming = asyncio.create_task(welcome(is_first=not number))
                undo.callback(welcoming.cancel)
                changed = asyncio.create_task(self._watch.changed())
                undo.callback(changed.cancel)
                waits: list[asyncio.Future[Any]] = [stop, changed, relaying]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if relaying.done() and not stop.done() and not changed.done():
                    if not number and not self._has_answered:
                        return process.returncode or OK
                    if self._may_start_again():
                        terminal.say(f"The server {child.describe_exit(process)} and starts again; no run is lost.")
                        continue
                    await asyncio.to_thread(self._watch.end)
                    welcoming.cancel()
                    changed.cancel()
                    changed = asyncio.create_task(self._watch.edited())
                    undo.callback(changed.cancel)
                    terminal.say(f"The server {child.describe_exit(process)}; it restarts when a file changes.")
                    again: list[asyncio.Future[Any]] = [stop, changed]
                    await asyncio.wait(again, return_when=asyncio.FIRST_COMPLETED)
                if stop.done():
                    return OK
                terminal.say(f"{changed.result()} has changed; the server restarts.")
        return OK

    def _may_start_again(self) -> bool:
        """True if the server had answered, and has not ended by itself too often. One that cannot start is to be edited."""
        now_s = asyncio.get_running_loop().time()
        is_often = len(self._deaths) == _MAX_DEATHS and now_s - self._deaths[0] < _FORGIVEN_S
        self._deaths.append(now_s)
        return self._has_answered and not is_often


EXAMPLES: Final = {"dev": "refund.py:refund"}
