"""Which commands there are, and what becomes of their errors.

Never here: what a command does.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn, cast

import typer
import typer.core
import typer.main

from holdfast import __version__
from holdfast.cli import failure
from holdfast.cli.page import terminal
from holdfast.errors import UsageError

_STRAGGLER_S: Final = 0.2
"""How long the thread of a finished step may take to notice that it is no longer needed."""

_COMMANDS: Final = {
    "run": ("runs.run", "Start a run and follow it until it ends or waits for somebody. In a fleet the workers run it."),
    "worker": (
        "fleet.worker",
        "Drive every run of these workflows in the store, but for those that ask for labels which it has not.",
    ),
    "serve": (
        "fleet.serve",
        "Lead a fleet: find what is due and hand it to the workers. Start two; one leads, the other stands by.",
    ),
    "dev": ("fleet.dev", "Serve workflows over HTTP on this machine while they are written."),
    "up": (
        "fleet.up",
        "Start a fleet on this machine: PostgreSQL and Redis, a leader and workers, until Ctrl-C. Its runs stay in --data.",
    ),
    "logs": (
        "runs.logs",
        "Print what the jobs of a run have printed, also when their workers are gone; of each try the beginning and the end.",
    ),
    "workflows": ("nouns.workflows", "See which workflows the store knows, and what each is started with."),
    "validate": ("develop.graph", "Say everything that is wrong with a workflow, and what should be thought about."),
    "eval": (
        "develop.evaluation",
        "Play scenarios, each on a throwaway store, or replay recorded runs, and say what their paths miss. Models and tools"
        " are really called where a scenario is played, and never where a run is replayed.",
    ),
    "evals": ("nouns.evals", "See what suites of scenarios came to, as `eval --keep` kept it."),
    "replay": (
        "develop.replay",
        "Replay recorded runs with the workflows as they are now, and say which go another way. Models, tools and tasks are"
        " answered from the records; nobody is called, unless it is with --live.",
    ),
    "graph": ("develop.graph", "Print a workflow as a Mermaid flowchart."),
    "runs": ("runs.runs", "See what runs there are, and pause, cancel, retry, extend, signal or score one."),
    "gates": ("nouns.gates", "See what people are asked, and answer."),
    "approvals": ("nouns.approvals", "Say beforehand which calls of tools need not be asked about."),
    "budget": ("nouns.budget", "See what a run, a tenant or a team has spent and set aside, and say what it may spend."),
    "team-budgets": ("nouns.team_budgets", "See and say what agents may spend together, and how they stand."),
    "admission": ("nouns.admission", "See and say how many runs may be active at once."),
    "pools": ("nouns.pools", "See and say how much there is of what steps ask for before they are placed."),
    "chat": ("runs.chat", "Talk with an agent, a line a message; what was said goes on on any machine."),
    "conversations": ("nouns.conversations", "See what was said to agents, and say something."),
    "schedules": ("nouns.schedules", "Start runs by the calendar, and see what comes next."),
    "shared": ("nouns.shared", "See what runs and agents know together, and write it."),
    "supervisors": ("nouns.supervisors", "See how much supervisors have to do, and how their workers stand."),
    "queue": ("nouns.queue", "See which steps wait for a worker or a pool, and why."),
    "costs": ("nouns.costs", "See what models have cost."),
    "effects": ("nouns.effects", "See what the tools did to the world, and resolve a call of unknown outcome."),
    "scores": (
        "nouns.score",
        "Show what runs were said to be worth, by version of their workflow, as the mean of what counts.",
    ),
    "dead-letters": (
        "nouns.dead_letters",
        "See what has failed for good, and have it tried again, perhaps with another input, or be done with it.",
    ),
    "keys": ("nouns.keys", "Make keys with which services call this store's ports, and take them back."),
    "audit": ("nouns.audit", "See who did what from outside, and check that nothing of it was changed."),
    "store": ("nouns.store", "See how the store stands, migrate its tables, and archive or remove months."),
}
"""Every command and group: the module that has it (as its name, a group as `app`), and what it says of itself in a list.
Said here too, because a list of them must not load them all; a test compares."""


class _Later(Mapping[str, Any]):
    """The commands, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Members(Mapping[str, Any]):
    """The commands of one group, each made when it is asked for: to make one takes milliseconds, and a group has many."""

    def __init__(self, group: typer.Typer) -> None:
        self._group = group
        self._known = {_name_of(each): each for each in group.registered_commands}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = typer.main.get_command_from_info(
                self._known[name],
                pretty_exceptions_short=self._group.pretty_exceptions_short,
                rich_markup_mode=self._group.rich_markup_mode,
            )
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _name_of(command: Any) -> str:
    return command.name or str(typer.main.get_command_name(command.callback.__name__))


@cache
def _made(name: str) -> Any:
    """A command or group, made once in this process."""
    module = import_module(f"holdfast.cli.{_COMMANDS[name][0]}")
    found = getattr(module, name, None)
    if callable(found):
        only = typer.Typer(add_completion=False)
        only.command(name)(found)
        return typer.main.get_command(only)
    bare = copy(module.app)
    bare.registered_commands = []
    group = typer.main.get_group(bare)
    group.name = name
    group.commands = cast(Any, _Members(module.app))
    return group


class _Group(typer.core.TyperGroup):
    """Loads the one command that is meant, and none where they are only listed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = cast(Any, _Later())
        self._lists = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        if self._lists:
            return typer.core.TyperCommand(cmd_name, callback=None, help=_COMMANDS[cmd_name][1])
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._lists = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lists = False


app = typer.Typer(
    name="holdfast",
    cls=_Group,
    help="Agent runs that never forget where they were, never do a completed thing twice, and never spend above their limit.",
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
        bool, typer.Option("--version", help="Say which version this is, and end.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    pass


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
    gc.freeze()  # leaving would look for garbage in all that was loaded: a tenth of a short command
    sys.exit(code)


def _straggles(thread: threading.Thread) -> bool:
    thread.join(_STRAGGLER_S)
    return thread.is_alive()
