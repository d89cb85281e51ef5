"""`holdfast serve --grpc`: the part of it that executes, and takes clients and workers on a port.

Never here: leading (serve), what is said on the port (wire).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.cli import terminal
from holdfast.cli.opening import shown
from holdfast.extra import needs

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.compose import Engine
    from holdfast.core.demand import Resources
    from holdfast.observe.health import Gauges
    from holdfast.settings import Settings
    from holdfast.wire.roster import Roster


class Port(NamedTuple):
    """Where the port is, who may use it, and what is done behind it."""

    address: str
    token_file: Path | None
    tokens: Path | None
    certificate: Path | None
    key: Path | None
    client_ca: Path | None
    yaml: bool
    """Whether workflow files are taken."""
    shell: bool
    """Whether their jobs run here too."""
    lease_s: float
    slots: int
    grace_s: float
    labels: Sequence[str]
    resources: Resources
    lane: str


class Serving(NamedTuple):
    """The engine behind a port, and the workers that are connected to it."""

    engine: Engine
    roster: Roster
    address: str
    """`host:port`, where it listens."""

    @property
    def gauges(self) -> Gauges:
        members = self.roster.members
        return {
            "holdfast_connected_workers": ("Workers that are connected here.", len(members)),
            "holdfast_connected_slots": ("Slots of those workers.", sum(each.offer.slots for each in members)),
            "holdfast_connected_jobs": ("Jobs that those workers are at.", sum(len(each.jobs) for each in members)),
        }

    async def reach(self) -> None:
        """Ask the store anything. Raises StoreError."""
        await self.engine.runs(limit=1)


@asynccontextmanager
async def taking(workflows: Sequence[Workflow], how: Port, where: str, known: Settings) -> AsyncIterator[Serving]:
    """An engine that executes `workflows` and takes clients and workers. At the end, jobs that run get their grace."""
    from holdfast.compose import Engine
    from holdfast.service.service import Service

    wire = _wire()
    token, tokens = wire.credential.read_token(how.token_file), wire.credential.read_tokens(how.tokens)
    identity = wire.credential.Identity(token, how.certificate, how.key, how.client_ca, tokens)
    files = wire.submission.Submissions(known.blobs, known.vars) if how.yaml else None
    bounds = wire.roster.Bounds(lease_s=how.lease_s, heartbeat_s=how.lease_s / 3, ack_s=min(2.0, how.lease_s))
    roster = wire.roster.Roster(bounds, terminal.say, tells_tenants_apart=identity.tells_tenants_apart)
    server = wire.server.Server(roster, identity)
    async with (
        server.listening(how.address) as port,  # it outlives the engine: what runs at its end is finished by the workers
        Engine.open(
            where, workflows=workflows, yaml=how.yaml, slots=how.slots, labels=how.labels, resources=how.resources,
            settings=known, grace_s=how.grace_s, hands=roster, shell=how.shell, lane=how.lane,
        ) as engine,
    ):  # fmt: skip
        roster.open(engine.executor.placing)
        server.service = Service(engine, workflows, files.take if files is not None else None)
        host = how.address.rpartition(":")[0]
        names = ", ".join(f"{workflow.name} {workflow.version}" for workflow in workflows) or "no workflow by name"
        terminal.say(f"gRPC on {host}:{port}, store {shown(where)}: {names}.")
        try:
            yield Serving(engine, roster, f"{host}:{port}")
        finally:
            server.service = None
            roster.drain()


def _wire() -> Any:
    """What a port needs, loaded when somebody wants one."""
    with needs("fleet", "A gRPC port"):
        from holdfast import wire
        from holdfast.wire import credential, roster, server, submission  # noqa: F401 - as attributes of the package
    return wire
