"""The list of commands, and the handling of their errors.

Never here: what a command does.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, NoReturn, cast

import typer
import typer.core
import typer.main

from holdfast import __version__
from holdfast.cli import failure
from holdfast.cli.group import expanded
from holdfast.cli.page import terminal
from holdfast.cli.page.log_output import Output
from holdfast.errors import UsageError

_STRAGGLER_S: Final = 0.2
"""How long the thread of a finished step may take to notice that it is no longer needed."""

GROUPS: Final = {
    "Run": {
        "run": ("runs.run", "Start a run and follow it until it ends or waits."),
        "exec": ("runs.exec", "Run any agent under a cost limit, and resume it."),
        "runs": ("runs.runs", "List, inspect, pause, cancel, retry and fork runs."),
        "logs": ("runs.logs", "Print the output of a run's jobs."),
        "chat": ("runs.chat", "Chat with an agent."),
        "conversations": ("nouns.conversations", "List conversations and send messages."),
        "schedules": ("nouns.schedules", "Start runs at the times of a cron expression."),
    },
    "Decide": {
        "gates": ("nouns.gates", "List the questions that runs ask people, and decide them."),
        "approvals": ("nouns.approvals", "Approve tool calls in advance (standing approvals)."),
        "effects": ("nouns.effects", "List tool calls, and resolve those of unknown outcome."),
        "notifications": ("nouns.notifications", "Show and set who is notified of what, and resend messages."),
        "dead-letters": ("nouns.dead_letters", "List permanently failed steps; edit, retry or close them."),
    },
    "Operate": {
        "worker": ("fleet.worker", "Execute runs of workflows."),
        "serve": ("fleet.serve", "Lead a fleet of workers, and serve the API."),
        "up": ("fleet.up", "Start a whole fleet on this machine."),
        "workflows": ("nouns.workflows", "List workflows, and show their inputs and steps."),
        "top": ("top.top", "Watch runs, waits, pools, processes, costs and errors live."),
        "doctor": ("doctor.doctor", "Find what is wrong around the runs, with its remedy."),
        "queue": ("nouns.queue", "List steps that wait for a slot, a worker or a pool, and why."),
        "supervisors": ("nouns.supervisors", "Show the load of supervisors and of their workers."),
        "shared": ("nouns.shared", "Read and write shared values."),
    },
    "Limits": {
        "budget": ("nouns.budget", "Show and set the budgets of runs, tenants and teams."),
        "team-budgets": ("nouns.team_budgets", "Show and set the budgets that agents share."),
        "admission": ("nouns.admission", "Show or set how many runs may be active at once."),
        "pools": ("nouns.pools", "Show and set pools: slots and rates that steps share."),
        "costs": ("nouns.costs", "Show the costs of model calls."),
    },
    "Develop": {
        "dev": ("fleet.dev", "Serve workflows as you write them, with a console."),
        "mcp": ("fleet.mcp", "Serve runs to an agent over the Model Context Protocol."),
        "validate": ("develop.graph", "Check a workflow and report every error and warning."),
        "graph": ("develop.graph", "Print a workflow as a Mermaid flowchart."),
        "eval": ("develop.evaluation", "Evaluate scenarios or recorded runs."),
        "evals": ("nouns.evals", "Browse saved evaluation results."),
        "replay": ("develop.replay", "Replay recorded runs and report which ones diverge."),
        "scores": ("nouns.score", "Show mean run scores by workflow version."),
    },
    "Administer": {
        "keys": ("nouns.keys", "Create, rotate and revoke API keys."),
        "sessions": ("nouns.sessions", "List the sessions of browsers, and end them."),
        "audit": ("nouns.audit", "List and verify the audit log."),
        "store": ("nouns.store", "Inspect, migrate, archive and back up the store."),
    },
}
"""Every command and noun by its group: the module that has it (a command as a function of its name, a noun as `app`), and its
line in the list of commands. `EXAMPLES` of the module are what follows the words of each of its commands."""


class _Entry(NamedTuple):
    group: str
    module: str
    about: str


_COMMANDS: Final = {name: _Entry(group, *entry) for group, commands in GROUPS.items() for name, entry in commands.items()}


class _Later(Mapping[str, Any]):
    """The commands, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _create_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Members(Mapping[str, Any]):
    """The commands of one group, each made when it is asked for: to make one takes milliseconds, and a group has many."""

    def __init__(self, name: str, group: typer.Typer, examples: Mapping[str, str]) -> None:
        self._name = name
        self._group = group
        self._examples = examples
        known = {_name_of(each): each for each in group.registered_commands}
        first = [each for each in _FIRST if each in known]
        self._known = {each: known[each] for each in (*first, *known)}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            info = copy(self._known[name])
            info.callback = info.callback and expanded(info.callback)
            made = typer.main.get_command_from_info(
                info, pretty_exceptions_short=self._group.pretty_exceptions_short, rich_markup_mode=self._group.rich_markup_mode
            )
            self._made[name] = _for_readers(made, f"{self._name} {name}", self._examples[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


_FIRST: Final = ("list", "show")
"""Commands that stand above the others of their group: what each reader looks for."""


def _name_of(command: Any) -> str:
    return command.name or str(typer.main.get_command_name(command.callback.__name__))


def _example(words: str, example: str) -> str:
    return f"Example:\n\nholdfast {words} {example}".rstrip()  # rich sets paragraphs on lines of their own


def _for_readers(command: Any, words: str, example: str) -> Any:
    """Return a command whose help has its example, and paragraphs that fill the line."""
    command.epilog = _example(words, example)
    command.help = _filled(command.help)
    return _without_types_of_flags(command)


def _filled(text: str | None) -> str | None:
    """Return a help text without the line breaks of its source; rich keeps those of all paragraphs but the first."""
    return text and "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def _without_types_of_flags(command: Any) -> Any:
    """Return a command in whose help no type stands beside a flag, which takes no value."""
    for param in command.get_params(typer.Context(command, **_SETTINGS)):
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return command


_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}


@cache
def _create_command(name: str) -> Any:
    """A command or group, made once in this process."""
    module = import_module(f"holdfast.cli.{_COMMANDS[name].module}")
    found = getattr(module, name, None)
    if callable(found):
        only = typer.Typer(add_completion=False)
        only.command(name, context_settings=getattr(module, "SETTINGS", None))(expanded(found))
        return _for_readers(typer.main.get_command(only), name, module.EXAMPLES[name])
    bare = copy(module.app)
    bare.registered_commands = []
    group = typer.main.get_group(bare)
    group.name = name
    group.help = _COMMANDS[name].about
    group.commands = cast(Any, _Members(name, module.app, module.EXAMPLES))
    first = next(iter(group.commands))
    group.epilog = _example(f"{name} {first}", module.EXAMPLES[first])
    return _without_types_of_flags(group)


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
            group, _, about = _COMMANDS[cmd_name]
            return typer.core.TyperCommand(cmd_name, callback=None, help=about, rich_help_panel=group)
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _without_types_of_flags(self)
        self._lists = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lists = False


app = typer.Typer(
    name="holdfast",
    cls=_Group,
    help="Durable execution for LLM agents. Runs survive crashes, wait for people, and stay within their budgets; an effect"
    " of unknown outcome is not repeated without permission.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


def _say_version(value: bool) -> None:
    if value:
        terminal.show(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _of_all(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    pass


def invoke(arguments: Sequence[str]) -> int:
    """Execute `arguments` and return the exit code. Errors are printed on stderr."""
    terminal.prepare()
    logging.lastResort = Output(logging.WARNING)
    try:
        _readable(arguments)
        code = app(list(arguments), prog_name="holdfast", standalone_mode=False)
    except Exception as problem:  # noqa: BLE001 - the last place that can report it
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        return failure.tell(problem, as_json="--json" in own)
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
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is reported: leaving needs no traceback
    terminal.hand_over()
    # A plain function that runs in a thread cannot be stopped; its step has been handed over, so no process waits for it.
    if any(_straggles(thread) for thread in threading.enumerate() if thread.name.startswith("holdfast-step")):
        os._exit(code)
    gc.freeze()  # leaving would look for garbage in all that was loaded: a tenth of a short command
    sys.exit(code)


def _straggles(thread: threading.Thread) -> bool:
    thread.join(_STRAGGLER_S)
    return thread.is_alive()
