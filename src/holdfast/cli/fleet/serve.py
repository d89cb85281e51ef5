"""`holdfast serve`: leads the fleet's lane if no other process does, serves clients and workers over gRPC and HTTP, and reports
its health on a port.

Never here: leading, the ports (compose puts them together).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.connect import WAIT_S, located, patiently
from holdfast.cli.option import (
    DEFAULT,
    SLOTS,
    THIS_MACHINE,
    AsJson,
    HealthHost,
    HealthPort,
    Lane,
    Own,
    Store,
    WaitS,
    grace,
    slots_of,
)
from holdfast.cli.page import log_output, terminal
from holdfast.cli.process import child
from holdfast.cli.process.stopping import stopped
from holdfast.cli.process.watching import Modules, roots_of
from holdfast.errors import UsageError
from holdfast.platform.extra import needs

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.compose.api import HttpPort
    from holdfast.compose.fleet import Port

DEFAULT_PORT: Final = 8484
_LOOK_EVERY_S: Final = 0.2


def serve(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.py:WORKFLOW", help="With --grpc or --http: workflows to execute, FILE.py:NAME or FILE.yaml."
        ),
    ] = None,
    *,
    host: HealthHost = THIS_MACHINE,
    port: HealthPort = DEFAULT_PORT,
    grpc: Annotated[
        str | None,
        typer.Option("--grpc", metavar="HOST:PORT", help="Address for gRPC clients and workers; also executes workflows."),
    ] = None,
    http: Annotated[str | None, typer.Option("--http", metavar="HOST:PORT", help="Address of the HTTP API.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="With --http: a proxy in front of this port terminates TLS.")
    ] = False,
    proxies: Annotated[
        int,
        typer.Option(
            "--proxies",
            metavar="N",
            min=1,
            max=16,
            help="With --behind-proxy: number of proxies in a row. The client is Nth from the right in X-Forwarded-For.",
        ),
    ] = 1,
    browser: Annotated[
        Path | None, typer.Option("--browser", metavar="FOLDER", hidden=True, help="Folder that `dev` shares with its server.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="File with one token for all clients and workers; on 127.0.0.1 only."
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="TOML file of tokens for clients and workers, with what each may do."),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Accept API keys that `holdfast keys create` made.")] = False,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of the server, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Private key of the server, PEM.")] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option("--client-ca", metavar="FILE", help="Accept only clients with a certificate that this authority signed."),
    ] = None,
    yaml: Annotated[
        bool, typer.Option("--yaml", help="With --grpc: accept workflow files too, and execute all of them in the store.")
    ] = False,
    shell: Annotated[
        bool,
        typer.Option(
            "--shell/--no-shell",
            help="With --grpc: execute jobs of workflow files here too, not only on connected workers with --shell.",
        ),
    ] = True,
    worker_lease_s: Annotated[
        float,
        typer.Option(
            "--worker-lease-s", metavar="SECONDS", min=0.3, max=3600, help="Maximum silence of a connected worker, in seconds."
        ),
    ] = 6.0,
    slots: Annotated[int, slots_of("With --grpc or --http: maximum number of concurrent steps in this process.")] = SLOTS,
    own: Own,
    lane: Lane = DEFAULT,
    grace_s: Annotated[float, grace("With --grpc: time that steps get to finish after a stop signal, in seconds.")] = 10.0,
    wait_s: WaitS = WAIT_S,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Lead a fleet of workers, and serve the API.

    A leader finds runs that are due and hands them to workers. Start two: if one fails, the other leads. With --grpc, on
    any store, it also executes workflows that clients submit, and hands remote tasks to connected workers. With --http, it
    serves the HTTP API for the whole store, and executes the workflows that you name.
    """
    from holdfast import settings
    from holdfast.cli.target import load
    from holdfast.compose.from_settings import identity_of, provider_of
    from holdfast.platform.machine import collect_rarely, run_quickly

    if grpc is None and http is None and targets:
        raise UsageError(
            "Without --grpc or --http HOST:PORT `holdfast serve` leads and executes nothing, so it takes no workflows;"
            " `holdfast worker` executes them. Nothing was started."
        )
    log_output.begin()
    workflows = [load(target, to_run=True) for target in targets or ()]
    reports: Modules | None = None
    if browser is not None:
        reports = Modules(browser, roots_of(targets or ()))
        reports.write()
    how = web = None
    set_ = settings.load()
    identity = identity_of(set_, token_file, tokens, keys=keys, is_development=browser is not None)
    if grpc is not None:
        from holdfast.compose.fleet import Port

        collect_rarely()
        how = Port(
            grpc, identity, tls_cert, tls_key, client_ca, yaml, shell, worker_lease_s, slots, grace_s, own.labels, own.resources
        )
    if http is not None:
        from holdfast.compose.api import HttpPort

        collect_rarely()
        web = HttpPort(
            http,
            identity,
            tls_cert,
            tls_key,
            proxies if behind_proxy else 0,
            browser,
            set_.public_url,
            provider_of(set_) if token_file is None else None,
            set_.hooks,
        )
    with terminal.aside():
        run_quickly(_serve(workflows, host, port, how, web, store, lane, wait_s, slots, reports, as_json))


async def _serve(
    workflows: Sequence[Workflow],
    host: str,
    port: int,
    http: Port | None,
    web: HttpPort | None,
    store: str | None,
    lane: str,
    wait_s: float,
    slots: int,
    reports: Modules | None,
    as_json: bool,
) -> None:
    from holdfast.cli.process import job_log
    from holdfast.compose.fleet import serving
    from holdfast.evaluation.recording import exported

    with needs("fleet", "`holdfast serve`"):
        from holdfast.observe.health import Health
    where, known = located(store)
    async with AsyncExitStack() as stack:
        opening = partial(serving, where, known, workflows, http, web, lane, terminal.say, partial(exported, known), slots)
        served = await stack.enter_async_context(patiently(opening, wait_s))
        health = Health(served.readiness, served.metrics.samples)
        listening = await stack.enter_async_context(health.listening(host, port))
        what = f"Serving lane {lane}; health" if served.leader is not None else "Health"
        terminal.say(f"{what} and metrics on http://{host}:{listening}. Ctrl-C stops it.")
        if as_json:  # what a program that started it has to know, on one line, once it is there
            grpc = served.taking.address if served.taking is not None else None
            led_lane = lane if served.leader is not None else None
            terminal.emit({"health": f"http://{host}:{listening}", "grpc": grpc, "http": served.http, "lane": led_lane})
            terminal.hand_over()
        if reports is not None:
            stack.callback(asyncio.create_task(reports.keep()).cancel)
            child.say_serves(reports.folder)
        if http is not None:
            stack.enter_context(job_log.show_job_output(with_run=True))
        stop = stopped("another process leads from now on" if http is None and web is None else "nothing new is taken")
        led = False
        while not stop.done():
            if served.readiness.broken is not None:
                raise served.readiness.broken
            if served.leads != led:
                led = served.leads
                terminal.say("This process leads." if led else "This process is on standby.")
            await asyncio.wait([stop], timeout=_LOOK_EVERY_S)


EXAMPLES: Final = {"serve": "refund.py:refund --http 127.0.0.1:8080"}
