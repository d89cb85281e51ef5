"""Which commands there are, and what becomes of their errors.

Never here: what a command does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Final, NoReturn

import typer

from holdfast import __version__
from holdfast.cli import failure, terminal
from holdfast.cli.admission import app as admission
from holdfast.cli.budget import app as budget
from holdfast.cli.costs import app as costs
from holdfast.cli.effects import app as effects
from holdfast.cli.gates import app as gates
from holdfast.cli.graph import graph, validate
from holdfast.cli.logs import logs
from holdfast.cli.pools import app as pools
from holdfast.cli.queue import app as queue
from holdfast.cli.run import run
from holdfast.cli.runs import app as runs
from holdfast.cli.serve import serve
from holdfast.cli.store import app as store
from holdfast.cli.up import up
from holdfast.cli.worker import worker
from holdfast.errors import UsageError

_STRAGGLER_S: Final = 0.2
"""How long the thread of a finished step may take to notice that it is no longer needed."""

app = typer.Typer(
    name="holdfast",
    help="Agent runs that never forget where they were, never do a completed thing twice, and never spend above"
    " their limit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        terminal.show(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _of_all(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say which version this is, and end.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    pass


app.command()(run)
app.command()(worker)
app.command()(serve)
app.command()(up)
app.command()(logs)
app.add_typer(runs, name="runs")
app.add_typer(gates, name="gates")
app.add_typer(budget, name="budget")
app.add_typer(admission, name="admission")
app.add_typer(pools, name="pools")
app.add_typer(queue, name="queue")
app.add_typer(costs, name="costs")
app.add_typer(effects, name="effects")
app.add_typer(store, name="store")
app.command()(validate)
app.command()(graph)


def invoke(arguments: Sequence[str]) -> int:
    """Do what `arguments` say; the exit code. Whatever goes wrong is told on stderr."""
    terminal.prepare()
    try:
        _readable(arguments)
        code = app(list(arguments), prog_name="holdfast", standalone_mode=False)
    except Exception as problem:  # noqa: BLE001 - the last place that can tell anybody
        return failure.tell(problem, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _readable(arguments: Sequence[str]) -> None:
    """Raises UsageError for what is no text: no name in a store is, and no path that SQLite could open."""
    for word in arguments:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{word!r} is not valid UTF-8. Nothing was done.") from None


def main() -> NoReturn:
    """The console script."""
    terminal.outlive_readers()
    code = invoke(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is said: leaving needs no traceback
    terminal.hand_over()
    # A plain function that runs in a thread cannot be stopped; its step has been handed over, so nobody waits for it.
    if any(_straggles(thread) for thread in threading.enumerate() if thread.name.startswith("holdfast-step")):
        os._exit(code)
    sys.exit(code)


def _straggles(thread: threading.Thread) -> bool:
    thread.join(_STRAGGLER_S)
    return thread.is_alive()
