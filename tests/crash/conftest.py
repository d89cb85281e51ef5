"""What the crash tests share: one world outside and one nursery for each process of the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.case import Nursery, nursery
from tests.crash.flows import RULES
from tests.crash.world import World

pytest.register_assert_rewrite("tests.crash.judge")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world"), RULES) as running:
        yield running


@pytest.fixture(scope="session")
def victims(world: World) -> Iterator[Nursery]:
    with nursery(world) as running:
        yield running
