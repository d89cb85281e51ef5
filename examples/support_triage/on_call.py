"""Whoever is on call: answers what Holdfast asks when it cannot know, and when money runs out.

An e-mail whose sender was killed between intent and outcome may have gone out or not. Holdfast guesses nothing and asks;
the answer is in the mail server's journal, under the e-mail's key. The answers are given with the command line, as an
operator would. Never here: the order of events (demo).
"""

from __future__ import annotations

import asyncio
import json
import shlex

from examples.stage import HOLDFAST, StageError
from examples.support_triage.world import World
from holdfast.core.views.projection import EffectRow

OPERATOR = "ops@pinbarrow"
LOOK_S = 0.15
ENOUGH_USD = "1.00"


class OnCall:
    """One operator at work until cancelled."""

    def __init__(self, world: World, *, raises_budgets: bool) -> None:
        self._world = world
        self._raises_budgets = raises_budgets
        self._answered: set[str] = set()
        self._say = world.show.say

    async def work(self) -> None:
        while True:
            for line in await self._world.emails_in("in_doubt"):
                await self._find_out(line)
            for gate, _ in await self._world.engine.gates():
                if gate.reason == "budget" and gate.gate not in self._answered:
                    await self._money(gate.gate, gate.run)
            await asyncio.sleep(LOOK_S)

    async def nothing_in_doubt(self) -> bool:
        return not await self._world.emails_in("in_doubt")

    async def _find_out(self, line: EffectRow) -> None:
        """Ask the mail server's journal what became of an e-mail, and say so."""
        world = self._world
        to = line.request.value()["to"]
        self._say(f"{world.ticket_of(line.run)} requires attention: did the e-mail to {to} go out? Nothing is guessed.")
        await world.mail_server_caught_up()
        found = world.mails.by_key(line.key)
        if found is not None:
            self._say(f"  The mail server has it as number {found.number}, key {line.key[:12]}…: it happened.")
            answer = ["--happened", json.dumps({"to": to, "message_id": found.message_id})]
        else:
            self._say(f"  The mail server never saw the key {line.key[:12]}…: it may be sent.")
            answer = ["--again"]
        await self._holdfast("effects", "resolve", line.call, *answer, "--as", OPERATOR)

    async def _money(self, gate: str, run: str) -> None:
        ticket = self._world.ticket_of(run)
        self._answered.add(gate)
        self._say(f"{ticket} is budget_blocked: its next call could cost more than is left of its limit. Not called.")
        if self._raises_budgets:
            await self._holdfast("budget", "raise", run, ENOUGH_USD, "--as", OPERATOR)
        else:
            await self._holdfast("gates", "reject", gate, "--as", OPERATOR)

    async def _holdfast(self, *words: str) -> None:
        """The command line, as typed."""
        typed = shlex.join(words)
        self._say(f"  $ holdfast {shlex.join(map(_short, words))}", "quiet")
        world = self._world
        command = await world.stage.start("operator", *HOLDFAST, *words, environment=world.environment)
        if code := await command.wait():
            raise StageError(f"`holdfast {typed}` ended with {code}:\n{command.last_words()}")


def _short(word: str) -> str:
    """A word of a command, for the screen."""
    return word if len(word) < 40 else f"{word[:13]}…{word[-18:]}"
