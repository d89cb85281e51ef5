"""What the invariants' tests share with those of the engine: a store, a real model server, workers of their own."""

from tests.engine.conftest import model, server, store
from tests.engine.test_two_processes import desk, path, start

__all__ = ["desk", "model", "path", "server", "start", "store"]
