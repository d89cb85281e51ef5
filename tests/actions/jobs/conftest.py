"""What the tests of jobs share: a store, and a temporary directory of their own for whatever jobs leave behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.empty import empty_store


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workspaces are made: what is left in it was left by a job."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{empty_store(tmp_path / 'holdfast.db')}"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """The journal outside, to which scripts append."""
    return tmp_path / "outside"
