"""The HTTP port of a process: where it listens, whom it knows, and when it must not be.

Never here: the engine behind it (fleet, engine), what is answered (http).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from holdfast.errors import UsageError
from holdfast.platform.extra import needs
from holdfast.platform.machine import new_trace
from holdfast.service.access.identity import Identity, is_loopback, split
from holdfast.service.access.sign_in import SignIns
from holdfast.service.service import Service
from holdfast.settings import HookRules

if TYPE_CHECKING:
    from holdfast.http.hook import Hook
    from holdfast.mcp.port import AgentPort
    from holdfast.service.access.provider import Provider

CODE: Final = "code"
"""The file of the code for a browser; it is removed when it is used."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class HttpPort(NamedTuple):
    """A port's address and the callers that it admits. With `proxies`, TLS ends at a proxy, the first of that many in a row.
    `browser` is a folder with the code for a browser, on loopback and with one token. `public_url` is the address under which
    browsers reach the port, if that is declared. `hooks` take signed requests, by their names."""

    address: str
    identity: Identity
    certificate: Path | None = None
    key: Path | None = None
    proxies: int = 0
    browser: Path | None = None
    public_url: str | None = None
    provider: Provider | None = None
    hooks: Mapping[str, HookRules] = {}


@asynccontextmanager
async def answering(service: Service, http: HttpPort, say: Callable[[str], None]) -> AsyncIterator[str]:
    """Answer over HTTP; the address. Raises UsageError for a port that cannot be had, or that others could reach without TLS
    and tokens."""
    with needs("fleet", "An HTTP port"):
        from holdfast.http import console
        from holdfast.http.api import Api
        from holdfast.http.session import Place, Sessions
        from holdfast.observe.listening import listening
    host, port = split(http.address)
    _expect_safe(host, http)
    sign_ins = SignIns(service.control.store, http.identity, http.provider)
    place = Place(http.certificate is not None or http.proxies > 0, http.public_url)
    code = None if http.browser is None else http.browser / CODE
    pages = console.find()
    sessions = Sessions(sign_ins, place, code, http.identity.token, *([console.START] if pages.is_built else []))
    provider = None
    if http.provider is not None:
        from holdfast.http.provider_sign_in import ProviderSignIn

        provider = ProviderSignIn(sessions, http.provider)
    hosts = LOOPBACK | {host} | _host_of(http.public_url) if is_loopback(host) else None
    agents = _agents()
    api = Api(
        http.identity,
        new_trace,
        hosts=hosts,
        sessions=sessions,
        provider=provider,
        console=pages,
        hooks=_hooks(http, service),
        agents=None if agents is None else agents.answer,
    )
    api.service = service
    http.identity.keys, http.identity.failures = service.keys, service.failed_log_ins
    scheme, shown = "http" if http.certificate is None else "https", f"[{host}]" if ":" in host else host
    async with (
        nullcontext() if agents is None else agents.serving(),
        listening(
            api.application(),
            host,
            port,
            name="--http",
            certificate=http.certificate,
            key=http.key,
            proxies=http.proxies,
            bounds=service.turns.bounds,
        ) as taken,
    ):
        say(f"HTTP on {scheme}://{shown}:{taken}/api/v1.")
        if pages.is_built and http.browser is None:
            say(f"Console on {scheme}://{shown}:{taken}{console.START}.")
        try:
            yield f"{scheme}://{shown}:{taken}"
        finally:
            api.ending.come()


def _agents() -> AgentPort | None:
    """Return what answers agents, None where the protocol is not installed."""
    if find_spec("mcp") is None:
        return None
    from holdfast.mcp.port import AgentPort

    return AgentPort()


def _hooks(http: HttpPort, service: Service) -> Mapping[str, Hook]:
    """Return the hooks of a port; their secrets are masked from now on. Raises UsageError."""
    from holdfast.http.hook import Hook

    secrets = service.control.executor.services.secrets
    return {name: Hook(name, rules, secrets) for name, rules in http.hooks.items()}


def _host_of(url: str | None) -> frozenset[str]:
    host = None if url is None else urlsplit(url).hostname
    return frozenset() if host is None else frozenset({host})


def _expect_safe(host: str, http: HttpPort) -> None:
    if (http.certificate is None) != (http.key is None):
        raise UsageError("A certificate needs its key: give both --tls-cert and --tls-key. Nothing was started.")
    if http.browser is not None and (not is_loopback(host) or http.identity.token is None):
        raise UsageError("--browser goes with --token-file and a port on 127.0.0.1. Nothing was started.")
    if is_loopback(host):
        return
    missing = [] if http.certificate is not None or http.proxies else ["--tls-cert and --tls-key, or --behind-proxy"]
    missing += [] if http.identity.tells_apart else ["--tokens, --keys or [identity] in holdfast.toml"]
    if missing:
        raise UsageError(
            f"{host} can be reached from other machines, and everyone who reaches the port may start workflows and decide."
            f" So it needs TLS, here or at a proxy in front of it, and a token for each caller. Add {' and '.join(missing)}, or"
            " listen on 127.0.0.1. Nothing was started."
        )
