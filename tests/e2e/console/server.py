"""A real `holdfast dev` with a store of its own, as the tests of the console ask, stop and restart it."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.http.kit import NO_TLS
from tests.wire.kit import Process, holdfast

FLOWS: Final = Path(__file__).parent / "flows.py"
WORKFLOWS: Final = tuple(f"flows.py:{name}" for name in ("moment", "many", "broken", "asks"))
"""Of the copy of FLOWS in the server's folder."""
TOKEN: Final = "a-token-of-some-length"


class DevServer:
    """`holdfast dev` with these workflows. Its token stays the same over a restart, as its store does."""

    def __init__(self, folder: Path, workflows: tuple[str, ...] = WORKFLOWS, port: int = 0, **environment: str) -> None:
        self.folder = folder
        shutil.copy(FLOWS, folder)
        self._workflows = workflows
        self._environment = {"HOLDFAST_TOKEN": TOKEN, **environment}
        self._process = self._started(port)

    def _started(self, port: int) -> Process:
        words = (*self._workflows, "--port", str(port), "--no-open", "--store", str(self.folder / "runs.db"))
        return holdfast("dev", *words, folder=self.folder, **self._environment)

    @property
    def address(self) -> str:
        """Address of the console and of the API, once it answers."""
        return self._process.says(r"the API is at (http://\S+)/api/v1")[1]

    @property
    def once(self) -> str:
        """Address that signs a browser in, once."""
        return self._process.says(r"(http://\S+/\?code=\w+)")[1]

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Ask the API, `/runs`, and return its answer. Fails for a problem."""
        headers = {"authorization": f"Bearer {TOKEN}", **headers}
        answer = httpx2.request(method, f"{self.address}/api/v1{path}", json=body, headers=headers, verify=NO_TLS, timeout=60)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def start(self, workflow: str, data: Any, **more: Any) -> str:
        """Start a run, and return its id."""
        run: str = self.request("POST", "/runs", {"workflow": workflow, "input": data, **more})["run_id"]
        return run

    def kill(self) -> None:
        """Kill the process that serves, which is not the first: with that one `dev` ends. It starts another with `restart`."""
        (served,) = self._served()
        os.kill(served, signal.SIGKILL)

    def restart(self) -> None:
        """Have `dev` start another process that serves, at the same port on the same store, and wait until it answers."""
        ready = r"Ready: the API is at "
        before = sum(bool(re.search(ready, line)) for line in self._process.lines)
        code = self.folder / "flows.py"
        code.write_text(code.read_text() + "\n")
        self._process.says(ready, before + 1)

    def pause(self) -> None:
        """Stop it in the middle of what it does: it keeps its port, and answers nothing until `resume`."""
        for pid in self._served():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Have it go on."""
        for pid in self._served():
            os.kill(pid, signal.SIGCONT)

    def _served(self) -> list[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [*map(int, children)]

    def end(self) -> None:
        """End it with the process that serves for it."""
        self.resume()
        self._process.stop()
        self._process.end()
