"""Errors on the screen: one clear paragraph, or with --json an object, on stderr; a traceback only for the unexpected.

Never here: an exit code's meaning.
"""

from __future__ import annotations

import traceback
from typing import Final

import typer

from holdfast.cli.page import terminal
from holdfast.cli.page.exit_code import FAILED, USAGE, of_error
from holdfast.errors import HoldfastError
from holdfast.platform.log_filter import MAX_TRACE, clean
from holdfast.platform.masking import without_inputs, without_passwords

_HINT = (
    "This error is unexpected. Runs are safe: what was committed stays, and a worker continues the rest"
    " again. If the traceback does not point into your own code, please report it."
)


_OPTIONS: Final = {
    "send the header `Authorization: Bearer TOKEN`": "set HOLDFAST_TOKEN to it (`holdfast dev` prints its token)",
    "by=NAME": "--as NAME",
    "roles=[ROLE]": "--role ROLE",
    "data=JSON": "--data JSON",
    "output=JSON": "--output JSON",
    "repeat_effects=True": "--repeat-effects",
    "`set_team_budget`": "`holdfast team-budgets set`",
}
"""The arguments and methods that errors name, and the options and commands in their place."""


def tell(problem: Exception, *, as_json: bool) -> int:
    """Say what went wrong; the exit code that goes with it."""
    trace: str | None = None
    if isinstance(problem, HoldfastError):
        code, message = of_error(problem), problem.message
        trace = getattr(problem, "trace", None)
    elif isinstance(problem, typer.TyperException):
        code, message = USAGE, _usage(problem)
    else:
        from holdfast.platform.border import text_of

        code, message = FAILED, text_of(problem)
        trace = f"{without_inputs(''.join(traceback.format_exception(problem)), problem)}{_HINT}\n"
    message = clean(without_passwords(_typed(message)))
    if trace is not None:
        terminal.say_trace(clean(without_passwords(trace), most=MAX_TRACE))
    if not message:  # no command at all: its help has been printed, which says it all
        return code
    if as_json:
        terminal.emit_error({"error": {"class": type(problem).__name__, "message": message, "exit_code": code}})
    else:
        first, *others = problem.parts if isinstance(problem, HoldfastError) else (message,)
        for part in (f"Error: {first}", *others):
            terminal.say_error(clean(without_passwords(_typed(part))))
    return code


def _typed(message: str) -> str:
    """Return an error in the words of the command line: the arguments that it names, as options."""
    for argument, option in _OPTIONS.items():
        message = message.replace(argument, option)
    return message


def _usage(problem: typer.TyperException) -> str:
    """Return the problem of the command, and how to ask for its help."""
    if not problem.format_message():
        return ""
    context = getattr(problem, "ctx", None)
    hint = f" Try '{context.command_path} --help'." if context is not None else ""
    words = problem.format_message().replace("Value error, ", "").rstrip(".")
    return f"{words}{'' if words.endswith('?') else '.'}{hint}"
