"""Six negotiations, five days and more in seconds, a worker killed in round three of an auction: `python -m
examples.negotiation.demo`.

The end is a table, counted by the mail server, the model server and the suppliers' books; it exits with 1 if a promise was
broken.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import logging
import os
import shutil
import sys
import time as clock
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from examples.negotiation import market
from examples.negotiation.judge import MAIL, MARKET, MODELS, Seen, account, messages
from examples.negotiation.rehearsal import Answer, Rehearsal
from examples.negotiation.status import standing
from examples.negotiation.workflow import CEILING_S, COMPLIANCE, Item, Purchase, begin, hours, negotiation_id
from examples.show import Show, Verdict, many
from examples.stage import LOOPBACK, SOMEWHERE, Child, Stage, StageError, environment, fresh_directory, until_terminated
from examples.watched import add_option, hold, watched
from holdfast import Engine, Run
from holdfast.testing import VirtualTime, model_server
from holdfast.testing.mail_sink import read_mail

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TENANT = "acme"
AT_ONCE = 4
"""Negotiations that may be active: two of the six wait for a place."""
KILLED_IN_ROUND = 3
SLOW_S = 0.3
"""The mail server takes its time over that round: the worker is killed with a message on its way."""
PURCHASES = (
    ("pencils", "office pencils", 50),
    ("laptops", "laptops", 400),
    ("chips", "controller chips", 90),
    ("turbines", "wind turbines", 200),
    ("monitors", "monitors", 300),
    ("more pencils", "office pencils", 70),
)
ANSWERS = {
    "laptops": (Answer(hours(40), "approve"),),
    "chips": (Answer(hours(10), "retry"), Answer(hours(100), "approve", None, COMPLIANCE, "rhea")),
    "turbines": (Answer(hours(20), "reject"),),
}
"""What people say. About the monitors nobody ever answers; about the chips the compliance reviewer does, after 96 hours."""


class Demo:
    def __init__(self, directory: Path, stage: Stage, engine: Engine, time: VirtualTime, show: Show) -> None:
        self.directory = directory
        self.engine = engine
        self.time = time
        self.show = show
        self.runs: dict[str, Run] = {}
        self.kills: list[float] = []
        self._stage = stage
        self._workers: list[Child] = []
        self._told: dict[str, str] = {}

    async def play(self) -> Verdict:
        show = self.show
        await self.engine.set_admission(AT_ONCE, tenant=TENANT)
        deadline = datetime.datetime.fromtimestamp(self.time() / 1000, datetime.UTC).date() + datetime.timedelta(days=45)
        purchases = {
            name: Purchase(category=category, items=[Item(sku=name, pieces=pieces)], deadline=deadline)
            for name, category, pieces in PURCHASES
        }
        auction = negotiation_id(TENANT, purchases["laptops"])
        await self.start_workers(1)
        for name, purchase in purchases.items():
            self.runs[name] = await begin(self.engine, TENANT, purchase)
        again = {(await begin(self.engine, TENANT, purchase)).id for purchase in purchases.values()}
        show.say(f"{many(len(purchases), 'negotiation')} begun, each asked for twice: {len(again)} runs. {AT_ONCE} are active.")
        rehearsal = Rehearsal(self.engine, self.time, self._people)
        await rehearsal.until(lambda: self._in_round(auction))
        await self._kill()
        await self.start_workers(2)
        show.say("Two workers find the same negotiations at the same moment, and go on.", "good")
        await rehearsal.until(self._is_over)
        show.say("Everything has ended. Now count.")
        return await account(self.directory, self.engine, [await self._seen(name) for name in self.runs], auction, self.kills)

    # --- Processes ----------------------------------------------------------------------------------------------------

    async def start_workers(self, number: int) -> None:
        files = [str(self.directory / name) for name in ("runs.db", "time")]
        words = (sys.executable, "-m", "examples.negotiation.worker", *files)
        for _ in range(number):
            worker = await self._stage.start(f"worker-{len(self._workers)}", *words, environment=dict(os.environ), cwd=ROOT)
            self._workers.append(worker)

    async def _kill(self) -> None:
        worker = self._workers[-1]
        self.kills.append(clock.time())
        await worker.kill()
        self.show.say(f"kill -9 {worker.pid}, in round {KILLED_IN_ROUND} of 5, with an invitation on its way.", "kill")

    def _expect_alive(self) -> None:
        for worker in self._workers:
            if worker.failed and worker.pid != self._workers[0].pid:
                raise StageError(f"The {worker.name} has failed:\n{worker.last_words()}")

    # --- What is going on ---------------------------------------------------------------------------------------------

    def _people(self, run: str, reason: str, number: int) -> Answer | None:
        name = next(name for name, each in self.runs.items() if each.id == run)
        if reason == "lifespan":  # the ceiling only summons: an operator lets it go on
            return Answer(hours(2), "answer", {"lifespan": int(8 * CEILING_S)}, "operator", "olaf")
        answers = ANSWERS.get(name, ())
        return answers[number] if number < len(answers) else None

    async def _in_round(self, auction: str) -> bool:
        await self._is_over()
        sent = messages(read_mail(self.directory / MAIL))
        return any(
            each.negotiation == auction and each.action == "AUCTION_INVITATION" and each.round_number == KILLED_IN_ROUND
            for each in sent
        )

    async def _is_over(self) -> bool:
        """Tell what has changed; whether there is nothing left to happen."""
        self._expect_alive()
        states = {name: await run.state() for name, run in self.runs.items()}
        for name, state in states.items():
            now = str(standing(state))
            if now != self._told.get(name):
                self._told[name] = now
                day = (self.time() - state.started_at_ms) / 86_400_000
                if now.partition(" ")[0] in ("QUEUED", "PENDING_APPROVAL", "REQUIRES_ATTENTION", "AWARDED", "CANCELLED"):
                    self.show.say(f"day {day:4.1f}  {name}: {now}", "good" if now == "AWARDED" else "")
        ended = sum(bool(state.ended) for state in states.values())
        self.show.figures(ended, len(states), {name: self._told[name] for name in states})
        return ended == len(states)

    async def _seen(self, name: str) -> Seen:
        state = await self.runs[name].state()
        key = next(row.key for row in await self.engine.runs() if row.run == self.runs[name].id)
        admitted = [each.at_ms for each in await self.runs[name].events() if type(each.event).__name__ == "RunAdmitted"]
        began_ms = admitted[0] if admitted else state.started_at_ms
        return Seen(name, key or "", standing(state), ((state.ended_at_ms or self.time()) - began_ms) / 1000)


async def play(directory: Path, show: Show, *, console: bool) -> Verdict:
    """The demo from beginning to end."""
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(Stage(directory))
        rules = directory / "mail_rules.json"
        slow = {"subject": f"round {KILLED_IN_ROUND}", "delay_s": SLOW_S, "times": 4}
        rules.write_text(json.dumps({"rules": [slow]}))
        _, mail_port = await stage.serve(
            "mail-server", "holdfast.testing.mail_sink", "--journal", str(directory / MAIL), "--rules", str(rules)
        )
        _, model_port = await stage.serve(
            "model-server",
            "holdfast.testing.model_server",
            "--journal",
            str(directory / MODELS),
            "--rules",
            str(HERE / "model_rules.json"),
        )
        show.say(f"A mail server takes SMTP on port {mail_port}; a model server speaks the Anthropic API on port {model_port}.")
        os.environ |= environment(
            f"sqlite:///{directory / 'runs.db'}",
            SMTP_HOST=LOOPBACK,
            SMTP_PORT=str(mail_port),
            PYTHONPATH=str(ROOT),
            MAIL_LOG=str(directory / MAIL),
            **model_server.environment(model_port),
        )
        market.open_at(directory / MARKET)
        time = VirtualTime(directory / "time")
        store = await stack.enter_async_context(time.store(directory / "runs.db"))
        engine = await stack.enter_async_context(Engine.open(store, execute=False))
        with show:
            verdict = await Demo(directory, stage, engine, time, show).play()
        # Not before: a browser's sign-in lasts half a day, and here that is over in a blink.
        await stack.enter_async_context(watched(engine, directory, show, is_wanted=console))
        return await hold(verdict, show, is_wanted=console)


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.negotiation.demo", description=__doc__)
    parser.add_argument(
        "--keep",
        type=Path,
        nargs="?",
        const=SOMEWHERE,
        metavar="DIR",
        help="keep the store, the journals and the logs, in DIR or in a directory that is named at the end",
    )
    add_option(parser)
    options = parser.parse_args(words)
    keep = options.keep
    logging.getLogger().setLevel(logging.WARNING)
    directory, show = fresh_directory(keep), Show(Console(), what="negotiations")
    show.title("Holdfast: six negotiations, weeks in seconds, kill -9 in round three")
    code = 1
    try:
        verdict = asyncio.run(until_terminated(play(directory, show, console=options.console)))
        code = 0 if verdict.kept else 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.say("Stopped. Every process of the demo has ended.")
        code = 130
    except (StageError, TimeoutError) as problem:
        show.say(str(problem) or "Nothing more happened.", "kill")
    finally:
        if keep is not None or code == 1:
            show.say(f"The store, the journals and what each process said are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
