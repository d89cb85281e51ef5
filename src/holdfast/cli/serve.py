"""`holdfast serve`: leads the fleet's lane while nobody else does, and tells on a port how it goes.

Never here: leading (the engine does that).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import terminal
from holdfast.cli.opening import located
from holdfast.cli.option import Store
from holdfast.cli.stopping import stopped

if TYPE_CHECKING:
    from holdfast.engine.leader import Leader
    from holdfast.observe.health import Gauges

DEFAULT_PORT: Final = 8484
_LOOK_EVERY_S: Final = 0.2


def serve(
    host: Annotated[str, typer.Option("--host", help="Where the health and metrics port listens.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="That port; 0 takes a free one.")
    ] = DEFAULT_PORT,
    store: Store = None,
) -> None:
    """Lead a fleet: find what is due and hand it to the workers. Start two; one leads, the other stands by."""
    with terminal.aside():
        asyncio.run(_serve(host, port, store))


async def _serve(host: str, port: int, store: str | None) -> None:
    from holdfast.compose import leading
    from holdfast.observe.health import Health

    where, known = located(store)
    async with leading(where, settings=known) as leader:
        health = Health(broken=lambda: leader.broken, reach=leader.reach, gauges=lambda: gauges(leader))
        async with health.listening(host, port) as listening:
            terminal.say(
                f"Serving lane {leader.lane}; health and metrics on http://{host}:{listening}. Ctrl-C stops it."
            )
            stop = stopped("another process leads from now on")
            led = False
            while not stop.done():
                if leader.broken is not None:
                    raise leader.broken
                if leader.leads.is_set() != led:
                    led = leader.leads.is_set()
                    terminal.say("This process leads." if led else "This process stands by.")
                await asyncio.wait([stop], timeout=_LOOK_EVERY_S)


def gauges(leader: Leader) -> Gauges:
    """The figures of a process that leads or stands by."""
    return {
        "holdfast_leads": ("Whether this process leads its lane.", float(leader.leads.is_set())),
        "holdfast_jobs_waiting": ("Jobs that wait for a worker with a free slot.", leader.jobs),
        "holdfast_workers": ("Workers that have spoken lately.", leader.workers),
        "holdfast_slots": ("Slots of those workers.", leader.slots),
        "holdfast_slots_free": ("Slots of those workers that are free.", leader.free),
    }
