"""A program's connection to the gateway: uvicorn's, without words in the log about programs that leave.

Never here: a port, an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from holdfast.gateway.application import Application
from holdfast.ports import ForwardedCalls

_KEPT_S: Final = 600
"""The longest silence of a connection: its program would otherwise meet a closed one at its next call."""
_MAX_CONNECTIONS: Final = 1_000

_silent: Final = logging.getLogger(__name__)
_silent.disabled = True


class _Connection(H11Protocol):
    """A connection that logs nothing: its application does."""

    def __init__(self, config: Config, state: ServerState) -> None:
        super().__init__(config, state, app_state={})
        self.logger = _silent


def served(calls_of: Callable[[str], ForwardedCalls | None]) -> tuple[Callable[[], Any], ServerState]:
    """Return what makes a connection to the gateway, and the state that all of them share."""
    config = Config(
        Application(calls_of),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEPT_S,
    )
    config.load()
    state = ServerState()
    return lambda: _Connection(config, state), state
