"""How far it is from one thought to the next: how many files of Holdfast a start, a result and a decision go through.

    python -m bench.ways [--files]

Counted are the calls, functions and files of this package in the thread of the event loop, and how often the way changes
from one file to another, of a warm engine on SQLite. A coroutine that is resumed counts as a call again. The way of a result
is gone once more with logs, metrics, traces and notifications on: OpenTelemetry's calls count there, and what feeds sinks
beside it does not. Nothing here is timed: figures are the same on every machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx2

import holdfast
from holdfast import Engine, Workflow, human_gate, task
from holdfast.cli.page import log_output
from holdfast.compose.api import HttpPort, answering
from holdfast.observe.meter import Meter
from holdfast.service.access.identity import Identity
from holdfast.service.service import Service
from holdfast.settings import LogRules, Settings, TelemetryRules

_PACKAGE: Final = f"{Path(holdfast.__file__).parent}/"
_OPENTELEMETRY: Final = "/opentelemetry/"
NOBODY: Final = "http://127.0.0.1:9"
SECRET: Final = "whsec_bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3"
_SMALLEST_OF: Final = 20
"""Each way is gone so often; the shortest counts: what else an engine does now and then comes past."""


RESULT: Final = "a step's result → the next step runs"
OBSERVED: Final = "a result → the next, all of it observed"


class Way(NamedTuple):
    """What was called on a way, in its order: (file, function)."""

    calls: list[tuple[str, str]]

    @property
    def files(self) -> int:
        return len({file for file, _ in self.calls})

    @property
    def rooms(self) -> int:
        return len({str(Path(file).parent) for file, _ in self.calls})

    @property
    def moves(self) -> int:
        return sum(a[0] != b[0] for a, b in zip(self.calls, self.calls[1:], strict=False))


class Trace:
    """Hears of every call in this package while a way is gone."""

    def __init__(self) -> None:
        self.found: dict[str, list[Way]] = {}
        self.is_observed = False
        """True while the engine sends everything out: what OpenTelemetry does on the way counts too."""
        self._calls: list[tuple[str, str]] | None = None

    def install(self) -> None:
        sys.setprofile(self._heard)

    def begin(self) -> None:
        self._calls = []

    def end(self, name: str) -> None:
        if self._calls is not None:
            self.found.setdefault(name, []).append(Way(self._calls))
        self._calls = None

    @contextmanager
    def going(self, name: str) -> Iterator[None]:
        self.begin()
        yield
        self.end(name)

    def _heard(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        counts = file.startswith(_PACKAGE) or (self.is_observed and _OPENTELEMETRY in file)
        if self._calls is not None and event == "call" and counts:
            self._calls.append((file.removeprefix(_PACKAGE), frame.f_code.co_qualname))


TRACE: Final = Trace()
two = Workflow("two")


@two.node("a")
@task
def a(state: Any) -> int:
    TRACE.begin()
    return 1


@two.node("b")
@task
def b(state: Any) -> int:
    TRACE.end(OBSERVED if TRACE.is_observed else RESULT)
    return 2


two.edge("a", "b")
asks = Workflow("asks")


@asks.node("question")
@human_gate
def question(state: Any) -> dict[str, str]:
    return {"question": "Shall it?"}


async def measure(folder: Path) -> None:
    """Go each way a few times."""
    async with Engine.open(folder / "ways.db", workflows=[two, asks]) as engine:
        await (await engine.start(two)).result()
        TRACE.found.clear()
        for _ in range(_SMALLEST_OF):
            await (await engine.start(two)).result()
        append = engine.store.log.append

        async def committed(*given: Any, **named: Any) -> Any:
            done = await append(*given, **named)
            TRACE.end("engine.start() → committed")
            return done

        engine.store.log.append = committed  # type: ignore[method-assign]
        for _ in range(_SMALLEST_OF):
            TRACE.begin()
            run = await engine.start(asks)
            await engine.cancel(run.id)
        engine.store.log.append = append  # type: ignore[method-assign]
        service = Service(engine, [two, asks])
        port = answering(service, HttpPort("127.0.0.1:0", Identity()), lambda _: None)
        async with port as address, httpx2.AsyncClient(base_url=f"{address}/api/v1") as http:
            for _ in range(_SMALLEST_OF):
                run = await engine.start(asks)
                gate = await _gate(http)
                decision = {"decision": "approve", "shown_hash": gate["shown_hash"]}
                with TRACE.going("POST /gates/{gate}/decision → answered"):
                    said = await http.post(f"/gates/{quote(gate['gate_id'])}/decision", json=decision)
                said.raise_for_status()
                await run.result()


def observed() -> Settings:
    """Return settings under which everything leaves the process, to a receiver that is away."""
    return Settings(
        logs=LogRules(format="json", level="info"),
        telemetry=TelemetryRules(endpoint=NOBODY),
        channels={"ops": {"kind": "webhook", "url": NOBODY, "secrets": ["OPS_SECRET"], "allow_private": ["127.0.0.0/8"]}},
        notifications={"rule": {"channel": "ops", "occasions": ["run_failed", "gate_opened", "dead_letter"]}},
    )


async def measure_observed(folder: Path) -> None:
    """Go the way of a result with logs, metrics, traces and notifications."""
    os.environ["OPS_SECRET"] = SECRET
    settings = observed()
    log_output.set_up(settings.logs)
    TRACE.is_observed = True
    async with Engine.open(folder / "observed.db", workflows=[two], settings=settings, observers=[Meter()]) as engine:
        for _ in range(_SMALLEST_OF):
            await (await engine.start(two)).result()


async def _gate(http: httpx2.AsyncClient) -> dict[str, Any]:
    while True:
        if rows := (await http.get("/gates")).json()["rows"]:
            gate: dict[str, Any] = (await http.get(f"/gates/{quote(rows[0]['gate_id'])}")).json()
            return gate
        await asyncio.sleep(0.01)


def main() -> None:
    TRACE.install()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
        asyncio.run(measure_observed(Path(folder)))
    sys.setprofile(None)
    say = partial(print, flush=True)
    say(f"{'way':40} {'calls':>6} {'functions':>9} {'files':>6} {'rooms':>6} {'moves':>6}")
    for name, ways in TRACE.found.items():
        way = min(ways, key=lambda each: len(each.calls))
        say(f"{name:40} {len(way.calls):6} {len({*way.calls}):9} {way.files:6} {way.rooms:6} {way.moves:6}")
        if "--files" in sys.argv:
            say("".join(f"    {file}\n" for file in dict.fromkeys(file for file, _ in way.calls)))


if __name__ == "__main__":
    main()
