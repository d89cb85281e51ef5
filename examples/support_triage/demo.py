"""The whole example, with a kill -9 in the middle, and an account of what happened: `make demo`.

25 support tickets are classified and answered by models, a person approves each reply, one e-mail goes out for each.
Meanwhile the worker is killed twice, at the worst moments that can be found. The end is a table, counted from the
journals of the model server and the mail server, which nobody killed; it exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from examples.journals import ModelJournal
from examples.show import Show, Verdict, many
from examples.stage import LOOPBACK, SOMEWHERE, Stage, StageError, alongside, environment, fresh_directory, until_terminated
from examples.support_triage.judge import MAIL, MODELS, STORE, MailJournal, Ticket, account
from examples.support_triage.on_call import ENOUGH_USD, OnCall
from examples.support_triage.workflow import HERE, wf
from examples.support_triage.world import World
from examples.watched import add_option, hold, watched
from holdfast import Engine, settings
from holdfast.testing import model_server

ROOT = HERE.parent.parent
MODEL_LATENCY_S = 0.25
MAIL_DELAY_S = 0.4
"""The mail server thinks this long between taking a message and saying so: the window in which nobody can know."""
FRESH_S = 0.15
"""An e-mail taken this short a time ago is still far from acknowledged when the kill arrives."""
REVIEW_PAUSE_S = 0.25
ARRIVAL_S = 0.25
FROZEN_AT_MOST_S = 15.0
GATHERING_S = 0.8
WATCH_S = 0.2

POOR_TICKET = 2
POOR_LIMIT_USD = "0.05"
"""One ticket starts with so little money that the worst case of its draft does not fit."""
REAL_TICKETS = 3
REAL_LIMIT_USD = "0.40"
SECOND_THOUGHTS_S = 5


# --- The story --------------------------------------------------------------------------------------------------------


async def play(tickets: Sequence[Ticket], directory: Path, show: Show, *, real: bool, console: bool) -> Verdict:
    """The demo from beginning to end."""
    store = f"sqlite:///{directory / STORE}"
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(Stage(directory))
        engine = await stack.enter_async_context(Engine.open(store, execute=False, settings=settings.load(HERE)))
        await stack.enter_async_context(watched(engine, directory, show, is_wanted=console))
        world = await set_up(stage, engine, show, store, tickets, real=real)
        on_call = OnCall(world, raises_budgets=not real)
        with show:
            await alongside(story(world, on_call, real=real), watch(world), on_call.work())
        if world.worker is not None:
            await world.worker.end()
        show.say("Everything has ended. Now count.")
        return await hold(await account(directory, tickets), show, is_wanted=console)


async def story(world: World, on_call: OnCall, *, real: bool) -> None:
    say, count = world.show.say, len(world.tickets)
    await world.start_worker()
    assert world.worker is not None
    say(f"A worker is started (pid {world.worker.pid}), and {count} tickets begin to arrive. Each starts a run of its name.")
    say("Mira, in a process of her own, reads every draft: she approves most of them and edits some.")
    reviewer = (sys.executable, "-m", "examples.support_triage.reviewer", world.store, str(count))
    world.reviewer = await world.stage.start(
        "reviewer", *reviewer, "--pause-s", str(REVIEW_PAUSE_S), environment=world.environment, cwd=ROOT
    )
    arriving = asyncio.create_task(deliver(world, ARRIVAL_S, real=real))
    await first_kill(world)
    started = await arriving
    again = await deliver(world, 0, real=real)
    say(f"The ticket feed stumbles and delivers all {count} again: {len(again - started)} new runs, every name is known.")
    await second_kill(world, on_call)
    await world.until(lambda: world.done == count, "the last ticket")


async def set_up(stage: Stage, engine: Engine, show: Show, store: str, tickets: Sequence[Ticket], *, real: bool) -> World:
    """The other side: whoever answers prompts and takes mail, in processes of their own."""
    rules = stage.directory / "mail_rules.json"
    rules.write_text(json.dumps({"rules": [{"delay_s": MAIL_DELAY_S}]}))
    mail_journal, model_journal = stage.directory / MAIL, stage.directory / MODELS
    mail_server, mail_port = await stage.serve(
        "mail-server", "holdfast.testing.mail_sink", "--journal", str(mail_journal), "--rules", str(rules)
    )
    show.say(f"A mail server takes SMTP on port {mail_port} and keeps a journal of every e-mail.")
    given = {"SMTP_HOST": LOOPBACK, "SMTP_PORT": str(mail_port), "PYTHONPATH": str(ROOT)}
    if real:
        show.say("ANTHROPIC_API_KEY is set, so the models are the real ones; they keep no journal that we could read.")
    else:
        _, port = await stage.serve(
            "model-server",
            "holdfast.testing.model_server",
            "--journal",
            str(model_journal),
            "--rules",
            str(HERE / "model_rules.json"),
            "--latency-s",
            str(MODEL_LATENCY_S),
        )
        given |= model_server.environment(port)
        show.say(f"A model server speaks the Anthropic API on port {port} and keeps a journal of every request.")
    return World(
        stage=stage,
        engine=engine,
        show=show,
        store=store,
        tickets=tickets,
        workflow=f"{HERE / ('for_real_models.py' if real else 'workflow.py')}:wf",
        environment=environment(store, **given),
        mail_server=mail_server,
        mail_port=mail_port,
        mails=MailJournal(mail_journal),
        models=None if real else ModelJournal(model_journal),
    )


async def deliver(world: World, pause_s: float, *, real: bool) -> set[str]:
    """Start a run for each ticket, under the ticket's name as its key. One of them gets too little money."""
    if real:
        from examples.support_triage import for_real_models  # noqa: F401, PLC0415 - it changes the writing model
    runs = set()
    for number, ticket in enumerate(world.tickets):
        limit = REAL_LIMIT_USD if real else POOR_LIMIT_USD if number == POOR_TICKET else ENOUGH_USD
        run = await world.engine.start(wf, dict(ticket), key=ticket["id"], cost_limit_usd=limit)
        runs.add(run.id)
        await asyncio.sleep(pause_s)
    return runs


async def first_kill(world: World) -> None:
    """kill -9 while model calls and e-mails are on their way."""
    count = len(world.tickets)

    def worst_moment() -> bool:
        taken = len(world.mails.records())
        if world.done == count:
            return True
        if taken <= count // 8:
            return False
        fresh = bool(world.mails.taken_within(FRESH_S, time.time()))
        calls = world.model_calls_in_flight()
        late = taken > count // 2  # the best moment has not come and may not: take the next good one
        return (fresh and calls >= world.slots // 2) or (late and (fresh or calls > 0))

    await world.until(worst_moment, "model calls and e-mails to be on their way together")
    if world.done == count:
        world.show.say("Everything was done before there was anything to destroy.")
        return
    pid, calls = await world.kill_worker()
    emails = len(world.mails.taken_within(MAIL_DELAY_S, world.kills[-1]))
    world.show.say(
        f"kill -9 {pid}. On their way: {many(calls, 'model call')}, and {many(emails, 'e-mail')} that the mail server has"
        " taken and not acknowledged.",
        "kill",
    )
    await restart(world)


async def second_kill(world: World, on_call: OnCall) -> None:
    """Once more, between the intent and the outcome of e-mails, when the mail server does not listen."""
    say, count = world.show.say, len(world.tickets)
    before = world.done
    await world.until(lambda: world.done >= min(before + max(2, count // 8), count), "more tickets to be answered")
    await world.until(on_call.nothing_in_doubt, "the operator's answers")
    if world.done == count:
        return
    world.mail_server.freeze()
    say("The mail server freezes (SIGSTOP): it accepts connections and answers nothing.", "kill")

    async def stuck(least: int) -> bool:
        return world.done == count or len(await unseen(world)) >= least

    await world.comes_true(lambda: stuck(1), within_s=FROZEN_AT_MOST_S)
    await world.comes_true(lambda: stuck(3), within_s=GATHERING_S)
    if await unseen(world):
        pid, calls = await world.kill_worker()
        emails = len(await world.emails_in("intended"))
        say(
            f"kill -9 {pid}, between the intent and the outcome of {many(emails, 'e-mail')};"
            f" {many(calls, 'model call')} on their way.",
            "kill",
        )
    world.mail_server.thaw()
    say("The mail server listens again.")
    if world.worker is None:
        await restart(world)


async def unseen(world: World) -> list[str]:
    """The keys of e-mails that are intended and that the mail server has not taken."""
    return [line.key for line in await world.emails_in("intended") if world.mails.by_key(line.key) is None]


async def restart(world: World) -> None:
    await world.start_worker()
    assert world.worker is not None
    world.show.say(f"A new worker (pid {world.worker.pid}) folds every run from its events and goes on.", "good")


async def watch(world: World) -> None:
    """Keep the figures moving, and notice when somebody is missing."""
    while True:
        await world.look()
        world.show.figures(world.done, len(world.tickets), world.facts())
        await asyncio.sleep(WATCH_S)


# --- The command ------------------------------------------------------------------------------------------------------


def main() -> int:
    options = _options()
    real = bool(os.environ.get("ANTHROPIC_API_KEY")) and not options.model_server
    tickets = json.loads((HERE / "tickets.json").read_text(encoding="utf-8"))
    count = options.tickets or (REAL_TICKETS if real else len(tickets))
    show = Show(Console())
    directory = fresh_directory(options.keep)
    code = 1
    try:
        code = _demonstrate(tickets[:count], directory, show, real=real, console=options.console)
    finally:
        if options.keep is not None or code == 1:
            show.say(f"The store, the journals and what each process said are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return code


def _demonstrate(tickets: Sequence[Ticket], directory: Path, show: Show, *, real: bool, console: bool) -> int:
    show.title(f"Holdfast: {many(len(tickets), 'support ticket')}, one worker, kill -9")
    try:
        if real:
            _warn(show, len(tickets))
        verdict = asyncio.run(until_terminated(play(tickets, directory, show, real=real, console=console)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.say("Stopped. Every process of the demo has ended.")
        return 130
    except StageError as problem:
        show.say(str(problem), "kill")
        return 1
    return 0 if verdict.kept else 1


def _warn(show: Show, tickets: int) -> None:
    show.say(
        f"This will call real models with your key: {tickets} runs, each stopped at ${REAL_LIMIT_USD}, so at most"
        f" ${tickets * float(REAL_LIMIT_USD):.2f}; a few cents are likely. --model-server spends nothing.",
        "kill",
    )
    if show.console.is_terminal:
        show.say(f"It begins in {SECOND_THOUGHTS_S} seconds; Ctrl-C stops it.")
        time.sleep(SECOND_THOUGHTS_S)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.support_triage.demo", description=__doc__)
    parser.add_argument("--tickets", type=_some, metavar="N", help="the first N of the 25 (with real models: 3)")
    parser.add_argument(
        "--keep",
        type=Path,
        nargs="?",
        const=SOMEWHERE,
        metavar="DIR",
        help="keep the store, the journals and the logs, in DIR or in a directory that is named at the end",
    )
    parser.add_argument(
        "--model-server", action="store_true", help="use the simulated models even though ANTHROPIC_API_KEY is set"
    )
    add_option(parser)
    return parser.parse_args()


def _some(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least one ticket is needed")
    return number


if __name__ == "__main__":
    sys.exit(main())
