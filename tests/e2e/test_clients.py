"""Clients that are made of the description of the API have typed fields, and start, follow and decide runs with them.

`make clients` installs the two generators.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest

from tests.http.kit import NO_TLS
from tests.http.test_commands import FLOWS, TOKEN, private
from tests.wire.kit import ended, holdfast

PROGRAMS = Path(__file__).parents[2] / "examples" / "generated_clients"
PYTHON = Path(sys.prefix) / "clients" / "bin"
DONE = "completed: shipped tea, for [] at 0.00 dollars"
MAX_S = 240

pytestmark = pytest.mark.long


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where a server answers that executes a workflow with a gate, and whose description is `openapi.json` in the folder."""
    token = str(private(tmp_path / "token", TOKEN))
    words = ("--http", "127.0.0.1:0", "--port", "0", "--token-file", token, "--store", str(tmp_path / "runs.db"))
    server = holdfast("serve", f"{FLOWS}:order", *words, folder=tmp_path)
    with ended(server):
        found = server.says(r"HTTP on (http://\S+)/api/v1\.")[1]
        headers = {"authorization": f"Bearer {TOKEN}"}
        described = httpx2.get(f"{found}/api/v1/openapi.json", headers=headers, verify=NO_TLS, timeout=MAX_S)
        (tmp_path / "openapi.json").write_text(described.raise_for_status().text)
        yield found


def run(words: Sequence[str | Path], folder: Path) -> str:
    """Return what a command prints. Fails the test where the command fails."""
    path = f"{PYTHON}{os.pathsep}{os.environ['PATH']}"
    named = {"PATH": path, "MYPYPATH": str(folder / "client"), "PYTHONPATH": str(folder / "client")}
    done = subprocess.run(words, cwd=folder, env=os.environ | named, capture_output=True, text=True, timeout=MAX_S)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    return done.stdout + done.stderr


@pytest.mark.skipif(not PYTHON.exists(), reason="the generator of clients in Python is not installed: make clients")
def test_a_generated_python_client_starts_watches_and_decides(address: str, tmp_path: Path) -> None:
    """What the generator cannot take it leaves out, and warns."""
    generate = [PYTHON / "openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "client"]
    assert run([*generate, "--fail-on-warning"], tmp_path) == "Generating client\n"
    program = PROGRAMS / "order.py"
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", tmp_path / "cache"]
    run([*mypy, "--python-executable", PYTHON / "python", program], tmp_path)
    assert run([PYTHON / "python", program, address, TOKEN], tmp_path) == f"{DONE}\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(
    not (PROGRAMS / "node_modules" / ".package-lock.json").exists(), reason="openapi-typescript is not installed: make clients"
)
def test_generated_typescript_types_start_watch_and_decide(address: str, tmp_path: Path) -> None:
    installed = tmp_path / "node_modules"
    installed.symlink_to(PROGRAMS / "node_modules")
    for name in ("package.json", "order.ts"):
        shutil.copy(PROGRAMS / name, tmp_path)
    said = run(["node", installed / "openapi-typescript" / "bin" / "cli.js", "openapi.json", "-o", "holdfast.d.ts"], tmp_path)
    assert "warning" not in said.lower()
    how = ["--strict", "--noEmitOnError", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom"]
    run(["node", installed / "typescript" / "bin" / "tsc", *how, "order.ts"], tmp_path)
    assert run(["node", "order.js", address, TOKEN], tmp_path) == f"{DONE}\n"
