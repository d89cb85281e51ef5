"""An engine that forgets: after every commit whatever it keeps only to be fast is gone, and must be found in the store."""

from __future__ import annotations

from holdfast import Engine
from holdfast.engine.driver import Driver
from holdfast.engine.flush import Flush
from holdfast.engine.payloads import Payloads
from holdfast.ports import Append


class ForgetfulFlush(Flush):
    """Commits like its parent; then the run's folded state and the blobs in memory are dropped, before anybody hears of
    the commit. `forgotten` counts how often."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.store, driver.clock)
        self._driver = driver
        self.forgotten = 0

    async def append(self, append: Append) -> None:
        await super().append(append)
        self._driver.mailbox(append.run).state = None
        self._driver.payloads = Payloads(self._driver.store, self._driver.secrets)
        self.forgotten += 1


def forgetful(engine: Engine) -> ForgetfulFlush:
    """Make `engine` forget from now on."""
    flush = engine.driver.flush = ForgetfulFlush(engine.driver)
    return flush
