"""Runs one script in a subprocess, as a GitHub runner does, and says what became of it. Linux only.

    command      which shell, and its flags
    environment  what a script sees of the world
    devices      which GPUs are its own
    cgroup       what holds it to its memory and cores
    pairs        what a script says in its output file and its environment file
    log          what a script prints: bounded, masked, line by line
    supervisor       the program between worker and script, which ends everything that the script has started
    runner       puts these together

It is no sandbox: a script runs with the rights of its worker's account. Never here: expressions, YAML, what a step that
failed means for its job.
"""

from holdfast.actions.shell.command import command_of
from holdfast.actions.shell.log import LogBounds, LogCounts
from holdfast.actions.shell.runner import Limits, Script, ScriptEnd, run

__all__ = ["Limits", "LogBounds", "LogCounts", "Script", "ScriptEnd", "command_of", "run"]
