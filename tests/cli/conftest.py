"""The command line as a user types it: in an empty directory with a real store, in this process where that says enough."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.cli.app import invoke
from holdfast.testing.model_server import ModelServer
from tests.forks import Fork

FLOWS = Path(__file__).with_name("flows.py")


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Shell = Callable[..., Said]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where the default store will be; what commands import from it, no later test finds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HOLDFAST_USER", "ida")
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """A command that was interrupted ignores signals until its process ends, which here goes on."""
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """`shell("runs", "list")` is `holdfast runs list`; `flow:NAME` is a workflow of flows.py."""

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = invoke([spelled(word) for word in words])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


@pytest.fixture
def process(home: Path) -> Callable[..., Fork]:
    """The same as a process of its own."""

    def start(*words: str, **environment: str) -> Fork:
        return Fork("holdfast", *map(spelled, words), folder=home, environment=os.environ | environment)

    return start


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A model provider, where the providers' standard environment variables point."""
    with ModelServer(journal=tmp_path / "model-calls.jsonl") as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def spelled(word: str) -> str:
    return f"{FLOWS}:{word.removeprefix('flow:')}" if word.startswith("flow:") else word
