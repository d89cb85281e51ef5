"""One world for all places."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.canaries.world import World, planted_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with planted_world(tmp_path_factory.mktemp("canaries")) as planted:
        yield planted
