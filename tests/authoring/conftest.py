"""What the tests of ready-made parts share: a store in a fresh directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.empty import empty_store


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{empty_store(tmp_path / 'holdfast.db')}"
