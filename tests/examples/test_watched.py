"""The demos can be watched in the console until Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast.http import console

ROOT = Path(__file__).parents[2]
WITHIN_S = 200
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)(/\?code=\S+)")
complete = pytest.mark.skipif(os.environ.get("HOLDFAST_WORKFLOWS") != "all", reason="takes minutes: make workflows")

pytestmark = [
    pytest.mark.timeout(WITHIN_S + 60),
    pytest.mark.skipif(not console.find().is_built, reason="the console is not built: make console"),
]


@contextmanager
def playing(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A demo, with the output of all that it starts. It is ended."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "OPENAI_"))}
    with subprocess.Popen(
        [sys.executable, "-m", *words, "--console"],
        cwd=ROOT,
        env=given | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        try:
            yield demo
        finally:
            if demo.poll() is None:
                demo.terminate()


def heard(demo: subprocess.Popen[str], words: re.Pattern[str]) -> re.Match[str]:
    """Return what matches in the output of a demo, from here on."""
    assert demo.stdout is not None
    shown = ""
    for line in demo.stdout:
        shown += line
        if (found := words.search(line)) is not None:
            return found
    pytest.fail(f"It has ended, and never said {words.pattern}:\n{shown}")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("examples.support_triage.demo", "--model-server", "--tickets", "2"), id="support-triage"),
        pytest.param(("examples.negotiation.demo",), id="negotiation", marks=complete),
        pytest.param(("examples.research_team.demo",), id="research-team", marks=complete),
    ],
)
def test_a_demo_is_watched_in_the_console_until_ctrl_c(words: tuple[str, ...]) -> None:
    with playing(*words) as demo:
        address, once = heard(demo, ADDRESS).groups()
        with httpx2.Client(base_url=address, trust_env=False, follow_redirects=True, timeout=20) as browser:
            page = browser.get(once, headers={"accept": "text/html"})
            assert page.status_code == 200
            assert "<script" in page.text
            assert browser.get("/api/v1/runs").status_code == 200
            heard(demo, re.compile("until Ctrl-C"))
            runs = browser.get("/api/v1/runs").json()["rows"]
            assert runs
            assert browser.get(f"/api/v1/runs/{runs[0]['run_id']}/operations").json()["rows"]
            demo.send_signal(signal.SIGINT)
            assert demo.wait(WITHIN_S) == 0
