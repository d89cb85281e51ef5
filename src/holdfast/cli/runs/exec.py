"""`holdfast exec`: runs a program whose model calls are limited and recorded, and continues it where it was.

The program's output is the command's. Never here: how a model call is taken, how a program is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from holdfast.cli.connect import Placeholder, located, typed
from holdfast.cli.option import Store, Who
from holdfast.cli.page import log_output, terminal
from holdfast.cli.page.exit_code import BUDGET_BLOCKED, DIFFERENT, FAILED, INTERRUPTED, OF_STATUS
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import Conflict, RunEnded, UsageError

if TYPE_CHECKING:
    from holdfast.actions.program.foreground import Foreground
    from holdfast.compose import Engine
    from holdfast.core.facts.state import State
    from holdfast.service.control.handle import Run

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end a program as a rule: the second of them ends it in any case."""
_PASSED: Final = (signal.SIGWINCH, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)

OnChange = Literal["stop", "live"]


def exec(  # noqa: A001 - as it is typed
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] PROGRAM [ARGS]...", help="Program to run, with its arguments.", show_default=False),
    ] = None,
    *,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Continue this run instead: its program starts again.")
    ] = None,
    cost_limit: Annotated[
        str | None, typer.Option("--cost-limit", metavar="USD", help="Maximum cost of all its model calls, in dollars.")
    ] = None,
    on_change: Annotated[
        OnChange,
        typer.Option(
            "--on-change",
            metavar="HOW",
            help="Action when the calls of a resumed program differ from the recorded ones: `stop`, or continue `live`.",
        ),
    ] = "stop",
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="Tenant of the run.")] = "default",
    by: Who = None,
    store: Store = None,
) -> int:
    """Run any agent under a cost limit, and resume it.

    Its model calls go through a gateway on this machine, which holds their worst case against the limit, makes them with the
    keys of this process, and records the replies. Resumed, the program starts from the top and gets the recorded replies first.
    Exits with the program's own code; with 7 where the limit stopped a program that exited with 0, with 9 at a difference, and
    with 130 after a second Ctrl-C.
    """
    from holdfast.platform.machine import run_quickly

    if resume is not None and program:
        raise UsageError("--resume RUN starts the program of that run again: pass no other program. Nothing was started.")
    if resume is None and not program:
        raise UsageError("Pass a program to run (holdfast exec -- PROGRAM ARGS), or --resume RUN. Nothing was started.")
    if resume is not None and cost_limit is not None:
        raise UsageError("--cost-limit is of a new run. To raise the limit of a run, use `holdfast budget raise RUN USD`.")
    log_output.begin()
    return run_quickly(_Execution(store, on_change, tenant, by).run(program or (), resume, cost_limit))


class _Execution:
    """One execution of the command."""

    def __init__(self, store: str | None, on_change: OnChange, tenant: str, by: str | None) -> None:
        from holdfast.actions.program.foreground import Foreground

        self._store = store
        self._on_change: OnChange = on_change
        self._tenant = tenant
        self._by = by
        self._foreground: Foreground = Foreground()
        self._endings = 0
        self._run: str | None = None

    async def run(self, command: Sequence[str], resume: str | None, cost_limit: str | None) -> int:
        """Return the exit code."""
        try:
            return await self._conducted(command, resume, cost_limit)
        except asyncio.CancelledError:  # only by a signal
            if self._run is None:
                terminal.say("Interrupted. Nothing was started.")
            else:
                terminal.say(f"Interrupted. Continue the run:\n  {self._again(self._run)}")
            return INTERRUPTED

    async def _conducted(self, command: Sequence[str], resume: str | None, cost_limit: str | None) -> int:
        from holdfast.compose import Engine

        where, known = located(self._store)
        task = asyncio.current_task()
        assert task is not None
        with _Signals(self._foreground, task):
            async with Engine.open(where, settings=known) as engine:
                run = await (self._start(engine, command, cost_limit) if resume is None else self._resume(engine, resume))
                state = await run.settled()
        return self._conclude(state)

    async def _start(self, engine: Engine, command: Sequence[str], cost_limit: str | None) -> Run[Any]:
        from holdfast.actions.program.workflow import Start, workflow_of

        start = Start(tuple(command), os.getcwd(), str(uuid.uuid4()))  # noqa: PTH109 - as the program itself would ask
        start.program.expect_file()
        workflow = workflow_of(start, self._foreground, on_change=self._on_change)
        claim = resolve_actor(self._by).claim
        run = await engine.start(workflow, start.as_input(), cost_limit_usd=cost_limit, tenant=self._tenant, by=claim)
        self._begun(run.id)
        return run

    async def _resume(self, engine: Engine, text: str) -> Run[Any]:
        from holdfast.actions.program.workflow import NAME, Start, workflow_of
        from holdfast.cli import reference
        from holdfast.cli.backend import LocalBackend
        from holdfast.service.service import Service

        run = engine.run(await reference.run_id(LocalBackend(Service(engine), resolve_actor(self._by)), text))
        state = await run.state()
        if state.workflow != NAME:
            raise UsageError(
                f"Run {run.id} is of {state.workflow}, and `holdfast exec --resume` continues those of `holdfast exec` only."
                " Nothing was done."
            )
        if state.ended in ("completed", "cancelled"):
            raise RunEnded(f"Run {run.id} is {state.ended}. Nothing was done.")
        start = Start.of_input(await engine.payloads.value(state.input, state.tenant))
        if start is None:
            raise UsageError(f"Run {run.id} was not started by `holdfast exec`: it has no program. Nothing was done.")
        start.program.expect_file()
        workflow = workflow_of(start, self._foreground, on_change=self._on_change)
        if workflow.hash != state.graph_hash:
            raise Conflict(f"Run {run.id} was started by a version of Holdfast that this one does not continue.")
        await engine.runtime.catalog.add(workflow)
        claim = resolve_actor(self._by).claim
        if state.ended == "failed":
            await engine.retry(run.id, by=claim)
        elif state.paused:
            await engine.resume(run.id, by=claim)
        self._begun(run.id)
        return run

    def _begun(self, run: str) -> None:
        self._run = run
        terminal.say(f"Run {run}. If it stops, continue it with: {self._again(run)}")

    def _again(self, run: str) -> str:
        return typed("exec", "--resume", run, store=self._store)

    def _conclude(self, state: State) -> int:
        """Say how the run stands, and return the exit code."""
        from holdfast.core.values.money import usd
        from holdfast.core.values.policies import NON_DETERMINISTIC
        from holdfast.core.views.status import status

        now, end, budget = status(state), self._foreground.end, state.budget
        own = end.exit_code if end is not None else None
        spent = f"${usd(budget.settled_nanousd)}"
        if budget.limit_nanousd is not None:
            spent += f" of ${usd(budget.limit_nanousd)}"
        if budget.in_doubt_nanousd:
            spent += f" and up to ${usd(budget.in_doubt_nanousd)} for calls of unknown outcome"
        if now == "budget_blocked":
            more = typed("budget", "raise", state.run, Placeholder("<USD>"), store=self._store)
            terminal.say(
                f"Stopped at the cost limit: {spent} spent, and the next call may cost more than is left. Continue with a"
                f" higher one:\n  {more}\n  {self._again(state.run)}"
            )
            return own or BUDGET_BLOCKED
        if state.ended == "failed" and state.error is not None and state.error.error_class == NON_DETERMINISTIC:
            terminal.say(f"Stopped at a difference: {state.error.message}\n  {self._again(state.run)} --on-change live")
            return DIFFERENT
        if now in ("completed", "failed", "cancelled"):
            why = f" {state.error.message}" if state.error is not None and own is None else ""
            again = f" Run it again from its last recorded call: {self._again(state.run)}" if now == "failed" else ""
            terminal.say(f"Run {state.run}: {now}, {spent}.{why}{again}")
        else:
            show = typed("runs", "show", state.run, store=self._store)
            terminal.say(f"Run {state.run}: {now}, {spent}. What it waits for: {show}")
        return own or OF_STATUS.get(now, FAILED)


class _Signals:
    """`with _Signals(foreground, task):` signals go to the program. The second that asks it to end, or the first while none
    runs, cancels the task."""

    def __init__(self, foreground: Foreground, task: asyncio.Task[Any]) -> None:
        self._foreground = foreground
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._is_asked = False

    def __enter__(self) -> None:
        for each in (*_ENDING, *_PASSED):
            self._loop.add_signal_handler(each, self._pass, each)

    def __exit__(self, *_: object) -> None:
        for each in (*_ENDING, *_PASSED):
            self._loop.remove_signal_handler(each)

    def _pass(self, number: signal.Signals) -> None:
        is_ending = number in _ENDING
        if is_ending and self._is_asked:
            self._task.cancel()
            return
        self._is_asked |= is_ending
        if not self._foreground.signal(number) and is_ending:
            self._task.cancel()


SETTINGS: Final = {"allow_interspersed_args": False}
"""Options after the program's name are the program's."""
EXAMPLES: Final = {"exec": "--cost-limit 0.50 -- python agent.py"}
