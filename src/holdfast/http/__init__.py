"""The HTTP API of a Service, on FastAPI: JSON in and out, problems (RFC 9457), histories and streams as server-sent events.

It maps paths, bodies and headers to commands and queries, and what they come to back. Never here: what is answered (service),
who is known by which token (service.access), a process (compose).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.platform.extra import needs

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdfast.authoring.workflow import Workflow
    from holdfast.service.control.control import Control

__all__ = ["app"]


def app(engine: Control, *, tokens: str | Path | None, keys: bool = False, workflows: Sequence[Workflow] = ()) -> FastAPI:
    """Return the HTTP API of an engine as an application that your own FastAPI application can mount.

    It answers below `/api/v1` of its place while the engine is open. Your server provides TLS and limits of connections.

    Args:
        engine: The engine, `Engine.open(…)`.
        tokens: File of the callers' tokens. With None and without `keys`, every request is accepted: use this only behind
            your own authentication.
        keys: True to accept the API keys of the store.
        workflows: Workflows that callers of each tenant may start.

    Raises:
        UsageError: The file of tokens cannot be used.
        MissingExtra: The extra `fleet` is not installed.
    """
    with needs("fleet", "The HTTP API"):
        from holdfast.http.api import Api, NoSniff  # noqa: PLC0415
    # The client of this API has the routes from this package, and no engine.
    from holdfast.platform.machine import new_trace  # noqa: PLC0415
    from holdfast.service.access.identity import Identity, read_tokens  # noqa: PLC0415
    from holdfast.service.service import Service  # noqa: PLC0415

    service = Service(engine, workflows)
    identity = Identity(tokens=read_tokens(None if tokens is None else Path(tokens)), takes_keys=keys)
    identity.keys, identity.failures = service.keys, service.failed_log_ins
    api = Api(identity, new_trace)
    api.service = service
    application = api.application()
    application.add_middleware(NoSniff)
    return application
