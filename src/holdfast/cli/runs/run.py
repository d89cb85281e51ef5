"""`holdfast run`: starts a run and follows it until it ends or needs a person.

Never here: how its progress looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from holdfast.cli.connect import backend, is_fleet, is_there, located, mask_passwords, server, typed
from holdfast.cli.noun import ArgumentSpec, group_of
from holdfast.cli.option import AsJson, Own, Store, Who, grace
from holdfast.cli.page import console_page, log_output, moment, terminal
from holdfast.cli.page.exit_code import INTERRUPTED, OF_STATUS, OK
from holdfast.cli.page.typed_input import json_value, resolve_actor
from holdfast.cli.page.worker_labels import missing, needed
from holdfast.cli.process import shutdown_notice
from holdfast.cli.process.interruption import Interruption
from holdfast.cli.target import is_name, meant_file
from holdfast.core.nouns.labels import pair
from holdfast.core.values.policies import AUTHORIZATION
from holdfast.errors import NotFound, UsageError
from holdfast.platform import log_ids
from holdfast.service.declarations.command import Start
from holdfast.service.principal import Principal

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.cli.backend import Backend
    from holdfast.compose import Engine
    from holdfast.core.facts.state import OpenCall
    from holdfast.core.values.demand import Resources
    from holdfast.core.values.ids import CallId
    from holdfast.engine.runs.stored_workflow import StoredWorkflow
    from holdfast.service.declarations.query import View


START: Final = group_of(
    Start,
    {
        "workflow": "",
        "version": "",
        "yaml": "",
        "input": "",
        "tenant": ArgumentSpec(),
        "team": ArgumentSpec(),
        "team_budget": ArgumentSpec(),
        "agent": ArgumentSpec(),
        "cost_limit_usd": ArgumentSpec("--cost-limit USD"),
        "max_tokens": ArgumentSpec("--token-limit N", 0),
        "max_model_calls": ArgumentSpec("--model-calls N", 1),
        "max_tool_calls": ArgumentSpec("--tool-calls N", 1),
        "max_wall_s": ArgumentSpec("--wall-s SECONDS", 0.001),
        "on_limit": ArgumentSpec("--on-limit HOW"),
        "key": ArgumentSpec("--key KEY"),
        "tags": ArgumentSpec("--run-tag TAG"),
        "labels": ArgumentSpec("--run-label KEY=VALUE", read=pair),
        "queue": ArgumentSpec(),
        "on_end": ArgumentSpec("--on-end CHANNEL"),
    },
)
"""The options of a start, which are the fields of Start."""


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="WORKFLOW",
            help=(
                "Workflow: FILE.py:NAME, FILE.yaml, PACKAGE.MODULE:NAME, or a name that `workflows list`"
                " shows. A named workflow runs where its code is loaded."
            ),
        ),
    ],
    input_text: Annotated[
        str | None, typer.Option("--input", "-i", metavar="JSON", help="Input of the run: JSON, @FILE, or @- for stdin.")
    ] = None,
    *,
    start: Annotated[dict[str, Any], START],
    detach: Annotated[bool, typer.Option("--detach", help="Return once the run is durably started.")] = False,
    here: Annotated[
        bool, typer.Option("--here", help="On a fleet's store: execute its steps in this process too, as a worker would.")
    ] = False,
    own: Own,
    grace_s: Annotated[float, grace("Time that calls already sent get to finish after an interruption, in seconds.")] = 30.0,
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Start a run and follow it until it ends or waits.

    In a fleet, the workers execute it.
    """
    following = RunFollower(target, store)
    with Interruption(following.words) as interruption:
        try:
            heard = terminal.is_live() and not as_json
            how = FollowOptions(detach, here, own.labels, own.resources, grace_s, heard)
            return _follow(following, interruption, input_text, as_json, how, {**start, "by": resolve_actor(by).claim})
        except asyncio.CancelledError:  # only by a signal
            interruption.tell()
            return INTERRUPTED


class FollowOptions(NamedTuple):
    """Settings of what happens with the run once it is started."""

    detach: bool
    here: bool
    labels: Sequence[str]
    resources: Resources
    grace_s: float
    heard: bool
    """True if texts of the run are shown as they come."""


class Outcome(NamedTuple):
    """The end of following a run: as --json prints it, why it ended, and what it waits for, in words."""

    found: View
    reason: str | None
    waits: list[str]
    told: Collection[str] = ()
    """Failures that were printed while it went on."""


class RunFollower:
    """The progress of this command with its run, for the person who interrupts it."""

    def __init__(self, target: str, store: str | None) -> None:
        self.target = target
        self.store = store
        self.is_named = False
        """Whether it is of a workflow whose code is elsewhere."""
        self.starting = False
        self.run: str | None = None
        self.status: str | None = None
        """Where it was left, once it is followed no more."""
        self.unattended = False
        """Whether it could go on, and no living process has its workflow."""
        self.labels: Sequence[str] = ()
        """The options that a worker of it needs."""
        self.in_flight: Callable[[], Mapping[CallId, OpenCall]] = dict
        """The calls of it that have left this process and have no outcome."""
        self.ids = log_ids.NOWHERE
        """Ids of the run on each line of the log that is about it."""

    def begins(self, ids: log_ids.LogIds) -> None:
        """Keep the ids of the run that has begun. Messages from now on are about it."""
        self.ids = ids
        log_ids.enter(ids)

    def means(self, workflow: Workflow | StoredWorkflow) -> None:
        """Its run is going to be one of `workflow`."""
        self.labels = needed(workflow)
        if is_name(self.target):
            self.is_named, self.target = True, "--yaml" if workflow.graph.has_scripts else f"FILE.py:{workflow.name}"

    def worker(self, *more: str) -> str:
        """The command that drives its run, where the workflow's code is."""
        return typed("worker", self.target, *self.labels, *more, store=self.store)

    def words(self) -> str:
        if self.run is None:
            if not self.starting:
                return "Interrupted. Nothing was started."
            return f"Interrupted. To see whether the run was started: {typed('runs', 'list', store=self.store)}"
        show = typed("runs", "show", self.run, store=self.store)
        if self.status is not None:
            return f"Interrupted. Run {self.run} is {self.status}, and nothing of it is lost:\n  {show}"
        if server(self.store) is not None:
            cancel = typed("runs", "cancel", self.run, store=self.store)
            return f"Interrupted. Run {self.run} continues at the server:\n  {show}\nor cancel it:\n  {cancel}"
        return (
            f"Interrupted. Run {self.run} keeps what it has done. Continue it:\n"
            f"  {self.worker('--until-idle')}\n"
            "or cancel it:\n"
            f"  {typed('runs', 'cancel', self.run, store=self.store)}" + shutdown_notice.describe_open_calls(self.in_flight())
        )


def _follow(
    following: RunFollower,
    interruption: Interruption,
    text: str | None,
    as_json: bool,
    options: FollowOptions,
    start: dict[str, Any],
) -> int:
    from holdfast.cli.target import load
    from holdfast.platform.machine import run_quickly

    log_output.begin()
    store = following.store
    workflow = following.target if is_name(following.target) else load(following.target, to_run=True)
    value = json_value(text, "--input") if text is not None else None
    with terminal.aside():
        doing = _run if server(store) is None else _run_there
        outcome = run_quickly(doing(workflow, value, start, options, following, interruption))
    log_ids.enter(following.ids)
    found = outcome.found
    if as_json:
        terminal.emit(found)
    elif options.detach:
        terminal.show(found["run_id"])
        words = "." if server(store) is not None else f":\n  {following.worker()}"
        if found["status"] != "running":
            terminal.say(f"Run {found['run_id']}: {found['status']}.")
        elif following.unattended:
            terminal.say(f"Started. A worker takes it up{words}")
        else:
            terminal.say("A process that is running executes it.")
    else:
        _conclude(outcome, _retry(following, found))
    terminal.hand_over()
    return OK if options.detach else OF_STATUS.get(found["status"], OK)


async def _run(
    target: Workflow | str,
    value: Any,
    start: dict[str, Any],
    options: FollowOptions,
    following: RunFollower,
    interruption: Interruption,
) -> Outcome:
    from holdfast.cli import next_steps
    from holdfast.cli.backend import LocalBackend
    from holdfast.cli.process import job_log
    from holdfast.cli.runs import progress
    from holdfast.compose import Engine
    from holdfast.core.values.ids import RunId
    from holdfast.core.views.status import status
    from holdfast.service import view
    from holdfast.service.service import Service

    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    where, known = located(following.store)
    execute = options.here or not (options.detach or is_fleet(where))
    if isinstance(target, str):
        _expect_elsewhere(target, where, options)
        execute = False
    elif execute and (lacks := missing(target, options.labels, options.resources.tags, options.resources.gpus)):
        raise UsageError(
            f"{target.name} requires labels that this process lacks, so nothing was started. If it has them, pass"
            f" {' '.join(lacks)}."
        )
    async with Engine.open(
        where,
        workflows=[] if isinstance(target, str) else [target],
        execute=execute,
        labels=options.labels,
        resources=options.resources,
        settings=known,
        call_grace_s=options.grace_s,
    ) as engine:
        workflow = await _find_workflow(engine, target) if isinstance(target, str) else target
        following.means(workflow)
        following.starting = True
        now_ms = engine.now_ms()
        begun = await engine.start(workflow, value, **start | {"tenant": start.get("tenant") or "default"})
        following.run = begun.id  # at once: it may be interrupted now
        following.in_flight = shutdown_notice.announce_calls(engine.executor, RunId(begun.id))
        state = await begun.state()
        following.begins(
            log_ids.LogIds(
                begun.id, tenant=state.tenant, workflow=state.workflow, traceparent=state.traceparent, root=state.root
            )
        )
        is_new = state.started_at_ms >= now_ms
        terminal.say(_begun(begun.id, workflow.name, workflow.version, None if is_new else now_ms - state.started_at_ms))
        following.unattended = not execute and status(state) == "running" and not await engine.workers_of(workflow)
        if following.unattended and not options.detach:
            _tell_of_no_worker(following)
        if state.graph_hash != workflow.hash and not options.detach:
            terminal.say(
                "It was started with another definition of this workflow, so it is only followed from here."
                " `holdfast runs migrate` continues it with this one."
            )
        told: Collection[str] = ()
        asking = LocalBackend(Service(engine), resolve_actor(None))
        since = "start" if is_new else "now"  # of one that was there nothing is printed again
        if not options.detach:
            with progress.display(workflow.graph, engine.now_ms) as display, job_log.show_job_output():
                telling = engine.watch_stream(begun.id, since=since) if options.heard else None
                state = await progress.follow(begun, display, asking, telling)
                told = display.reported
        found = await view.of_run(engine, state)
        waits = await next_steps.of_run(asking, found, following.store)
        following.status = found["status"]
    interruption.over()
    return Outcome(found, state.reason, waits, told)


async def _run_there(
    workflow: Workflow | str,
    value: Any,
    start: dict[str, Any],
    options: FollowOptions,
    following: RunFollower,
    interruption: Interruption,
) -> Outcome:
    """The same of a workflow that a server knows by its name."""
    from holdfast.cli import next_steps
    from holdfast.cli.runs import progress
    from holdfast.service.declarations import query

    task = asyncio.current_task()
    assert task is not None
    interruption.stops(task)
    if not isinstance(workflow, str) or options.here:
        raise UsageError(
            f"{following.target} would run in this process, which needs a store, and HOLDFAST_URL names a server: pass the name"
            " of a workflow that it knows (`holdfast workflows list`), or --store. Nothing was started."
        )
    claim = start.pop("by")
    async with backend(None, Principal(claim.name)) as service:
        following.starting, began_ms = True, service.now_ms()
        found = await service.execute(Start(workflow=workflow, input=value, **start))
        assert found is not None
        following.run = found["run_id"]
        whole = await service.row(query.Run(found["run_id"]))
        following.begins(await _ids_there(service, whole))
        old_ms = began_ms - moment.ms(whole["started_at"])
        is_known = "key" in start and old_ms > _CLOCKS_DIFFER_MS
        terminal.say(_begun(found["run_id"], found["workflow"], found["version"], old_ms if is_known else None))
        if (address := console_page.of_run(found["run_id"])) is not None:
            terminal.say(f"Its page: {address}")
        following.unattended = whole["workflow_missing_since"] is not None
        if following.unattended and not options.detach:
            terminal.say("Started. It waits: no worker has its workflow now.")
        reason, told = None, None
        if not options.detach:
            whole, told = await progress.listen(service, found["run_id"])
            found, reason = {name: whole[name] for name in found}, whole["reason"]
        waits = await next_steps.of_run(service, found, None)
        following.status = found["status"]
    interruption.over()
    return Outcome(found, reason, waits, told or ())


async def _ids_there(service: Backend, row: View) -> log_ids.LogIds:
    """Return the ids of a run of a server. Its trace stands in its first event, which is read only for a log that shows it."""
    from holdfast.service.declarations import query

    ids = log_ids.LogIds(row["run_id"], tenant=row["tenant"], workflow=row["workflow"])
    if log_output.is_json():
        first = (await service.rows(query.Events(run=row["run_id"], limit=1)))[0]
        ids.traceparent, ids.root = first.get("traceparent") or "", row["run_id"]
    return ids


_CLOCKS_DIFFER_MS: Final = 2_000
"""Difference between the clocks of a server and its caller that counts as none."""


def _begun(run: str, workflow: str, version: int, old_ms: int | None) -> str:
    """Return the words for the run of a start; `old_ms` is the age of one that the start key found."""
    head = f"Run {run} of {workflow} {version}"
    return head if old_ms is None else f"{head} already exists (started {moment.span(old_ms)} ago); showing it."


def _expect_elsewhere(name: str, place: str, options: FollowOptions) -> None:
    """Raises UsageError if no process can know a workflow of that name, or nothing but its code would do."""
    if not is_there(place):
        raise UsageError(
            f"{name!r} names no file or module (write FILE.yaml, FILE.py:WORKFLOW or PACKAGE.MODULE:WORKFLOW), and there is no"
            f" store at {mask_passwords(place)} that could know a workflow of this name. Nothing was started."
        )
    if options.here:
        raise UsageError(
            f"--here runs the steps in this process, which needs the code of {name}: pass FILE.py:WORKFLOW. Nothing"
            " was started."
        )


async def _find_workflow(engine: Engine, name: str) -> StoredWorkflow:
    """The workflow that a store knows by this name. Raises NotFound, which names the file where one is meant."""
    try:
        return await engine.workflow(name)
    except NotFound as problem:
        raise NotFound(f"{meant_file(name)}{problem.message}") from None


def _tell_of_no_worker(following: RunFollower) -> None:
    words = f"Started. It waits: no worker has its workflow now. Start one elsewhere:\n  {following.worker()}"
    if not following.is_named:
        words += f"\nor run it here: add {' '.join(['--here', *following.labels])}."
    elif following.target != "--yaml":
        by_file = typed("run", following.target, store=following.store)
        words += f"\nA name runs nothing in this process; a file does: {by_file}"
    terminal.say(words)


def _conclude(outcome: Outcome, again: Sequence[str]) -> None:
    """The output on stdout; on stderr how the run ended, or what it waits for and the commands that go with it."""
    from holdfast.cli.page.event_words import failed

    found, reason, waits, told = outcome
    spent = f"${found['cost_usd']}" + (f" of ${found['limit_usd']}" if found["limit_usd"] is not None else "")
    if found["status"] == "completed":
        output = found["output"]
        if isinstance(output, str):
            terminal.show_text(output)
        else:
            terminal.emit(output)
    terminal.hand_over()
    why = failed(**found["error"]) if found["error"] is not None else reason
    ended = found["status"] in ("completed", "failed", "cancelled")
    why = None if why in told else why
    terminal.say(f"Run {found['run_id']}: {found['status']}, {spent}." + (f" {why}" if why and ended else ""))
    for line in [*waits, *again]:
        terminal.say(line)


def _retry(following: RunFollower, row: View) -> list[str]:
    """Return the commands that take up a run which failed for lack of a key: its start key shows it as it is."""
    if row["status"] != "failed" or row["error"] is None or row["error"]["error_class"] != AUTHORIZATION:
        return []
    retry = typed("runs", "retry", row["run_id"], store=following.store)
    worker = [] if server(following.store) is not None else [f"  {following.worker('--until-idle')}"]
    return ["Set what is missing, then take the run up where it failed:", f"  {retry}", *worker]


EXAMPLES: Final = {"run": "refund.py:refund --input '\"Order 17 arrived broken.\"'"}
