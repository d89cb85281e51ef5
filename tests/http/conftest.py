"""One engine with an HTTP port for a module's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.http.kit import Asked, served


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Asked]:
    """Asked by somebody who may do everything."""
    async with served(tmp_path) as port, port.asked() as asked:
        yield asked
