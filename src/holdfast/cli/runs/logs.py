"""`holdfast logs`: what the jobs of a run have printed, from the store, wherever they ran.

Never here: how much of it is kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import reference
from holdfast.cli.connect import listing
from holdfast.cli.option import AsJson, RunArgument, Store
from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import INTERRUPTED
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.process.interruption import Interruption
from holdfast.errors import NotFound
from holdfast.service.declarations.query import Logs, View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

_LOOK_EVERY_S: Final = 0.5
_LAST_WORDS_S: Final = 2.0
"""How long after the end of a run to look once more: its workers write what was printed once a second."""


def logs(
    run: RunArgument,
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Only this job, with all its combinations.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more until the run has ended.")] = False,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Print the output of a run's jobs.

    The beginning and the end of each attempt are kept, even after the worker is gone.
    """
    with Interruption(lambda: "Interrupted.") as interruption:
        try:
            asyncio.run(_logs(run, _Printing(job, as_json=as_json), follow, store, interruption))
        except asyncio.CancelledError:
            interruption.tell()
            raise typer.Exit(INTERRUPTED) from None


async def _logs(text: str, printing: _Printing, follow: bool, store: str | None, interruption: Interruption) -> None:
    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    async with listing(store, resolve_actor(None)) as service:
        run = await reference.run_id(service, text)
        is_over = not follow
        await printing.more(service, run)
        while not is_over and not terminal.is_unread():
            is_over = (await reference.run(service, run))["ended_at"] is not None
            await asyncio.sleep(_LAST_WORDS_S if is_over else _LOOK_EVERY_S)
            await printing.more(service, run)
    printing.end(run)
    interruption.over()


class _Printing:
    """The progress of printing, of each attempt of each job."""

    def __init__(self, job: str | None, *, as_json: bool) -> None:
        self._job = job
        self._as_json = as_json
        self._others: set[str] = set()
        self._told: dict[tuple[str, int], int] = {}
        """Bytes of what it has printed that were dealt with."""
        self._begun: dict[tuple[str, int], bytes] = {}
        """A line of which the end is not there yet."""

    async def more(self, service: QueryBackend, run: str) -> None:
        for piece in (await service.query(Logs(run=run, text=False))).rows:
            job, attempt, first = piece["job"], piece["attempt"], piece["first_byte"]
            if self._job is not None and job != self._job and not job.startswith(f"{self._job} ("):
                self._others.add(job)
            elif first + piece["bytes"] > self._told.get((job, attempt), 0):
                asked = Logs(run=run, job=job, attempt=attempt, first_byte=first)
                for found in (await service.query(asked)).rows:  # none if it was cut meanwhile
                    self._piece(found)
        terminal.hand_over()

    def _piece(self, piece: View) -> None:
        name, first, content = (piece["job"], piece["attempt"]), piece["first_byte"], piece["text"].encode()
        told = self._told.get(name, 0)
        if first > told:
            self._line(name, self._begun.pop(name, b""))
            self._cut(name, first - told)
        *lines, rest = (self._begun.pop(name, b"") + content[max(told - first, 0) :]).split(b"\n")
        for line in lines:
            self._line(name, line)
        self._begun[name] = rest
        self._told[name] = first + len(content)

    def _line(self, name: tuple[str, int], line: bytes) -> None:
        job, attempt = name
        text = line.decode(errors="replace")
        if self._as_json:
            terminal.emit_line({"job": job, "attempt": attempt, "line": text})
        else:
            terminal.show(terminal.line(f"{_title(job, attempt)} | {text}"))

    def _cut(self, name: tuple[str, int], size: int) -> None:
        job, attempt = name
        if self._as_json:
            terminal.emit_line({"job": job, "attempt": attempt, "cut_bytes": size})
        else:
            terminal.show(terminal.line(f"{_title(job, attempt)} | ({size:,} bytes were cut here)"))

    def end(self, run: str) -> None:
        """Raises NotFound where there was no such job."""
        for name, rest in self._begun.items():
            if rest:
                self._line(name, rest)
        if not self._told and self._others:
            others = ", ".join(sorted(self._others))
            raise NotFound(f"Run {run} has no job {self._job!r} that printed anything. These did: {others}.")
        if not self._told:
            terminal.say(
                f"Nothing that jobs of run {run} printed is kept: they printed nothing, or its month is archived, and then the"
                " end of it is in the output of each job."
            )


def _title(job: str, attempt: int) -> str:
    return job if attempt == 1 else f"{job}, try {attempt}"


EXAMPLES: Final = {"logs": "019aa8b2 --follow"}
