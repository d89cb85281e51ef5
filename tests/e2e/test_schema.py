"""The HTTP API is as its own description says, whatever is sent: Schemathesis makes requests of it, with all of its checks.

`make e2e` makes many of each operation; otherwise a few.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.test_commands import FLOWS, TOKEN, private
from tests.wire.kit import ended, holdfast

EVERYTHING = os.environ.get("HOLDFAST_E2E") == "all"
CONFIG = Path(__file__).parent / "schemathesis.toml"
MAX_S = 600
"""On two busy cores; alone it takes half of that."""


@pytest.mark.long
def test_whatever_is_sent_is_answered_as_the_description_says(tmp_path: Path) -> None:
    server = holdfast(
        "serve",
        f"{FLOWS}:order",
        f"{FLOWS}:quick",
        f"{FLOWS}:answering",
        "--http",
        "127.0.0.1:0",
        "--port",
        "0",
        "--token-file",
        str(private(tmp_path / "token", TOKEN)),
        "--store",
        str(tmp_path / "runs.db"),
        folder=tmp_path,
    )
    with ended(server):
        address = server.says(r"HTTP on (http://\S+)/api/v1\.")[1]
        how = (
            ["--max-examples", "40", "--phases", "examples,coverage,fuzzing"]
            if EVERYTHING
            else ["--max-examples", "3", "--phases", "fuzzing"]
        )
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "schemathesis"),
                "--config-file",
                str(CONFIG),
                "run",
                f"{address}/api/v1/openapi.json",
                "--checks",
                "all",
                "--header",
                f"Authorization: Bearer {TOKEN}",
                "--seed",
                "20261124",
                "--continue-on-failure",
                "--no-color",
                *how,
            ],
            capture_output=True,
            text=True,
            timeout=MAX_S,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
        tested = re.search(r"Tested: (\d+)", done.stdout)
        assert tested is not None
        assert int(tested[1]) >= 70
