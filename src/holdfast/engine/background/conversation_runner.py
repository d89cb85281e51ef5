"""Carries conversations on: starts the run that a message asks for, hears of its end, and has the next message follow.

Whoever has said something does so, and whoever ends a run of one; what they left undone is found in the store. Every part is
written down before it is done, and a run has a start key, so doing it twice is doing it once. Never here: what follows from a
message (core.nouns.conversations), when one is carried on (engine.background.consequences).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from holdfast.authoring.values.plain import encode
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import authors
from holdfast.core.facts.state import State
from holdfast.core.nouns import conversations as rule
from holdfast.core.nouns.conversations import Change, Conversation, ConversationTurn, Exchanges, Outcome
from holdfast.core.rules.children import MAX_DEPTH
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import CallId, RunId
from holdfast.core.values.payload import digest
from holdfast.engine.runs.background_tasks import BackgroundTasks
from holdfast.engine.runs.content import moved
from holdfast.engine.runs.payloads import Payloads
from holdfast.engine.runs.runtime import Runtime
from holdfast.engine.runs.starting import NewRun, scopes_of_run, start_once, workflow_of
from holdfast.errors import BlobLost, Conflict, CorruptHistory, HoldfastError, NotFound, RunEnded, StoreError
from holdfast.models.gateway import Gateway
from holdfast.ports import Conversations

log = logging.getLogger("holdfast")

_MOST: Final = 100
"""Conversations of one look; the rest is the next one's."""
_TRIES: Final = 50
"""Of a change that others have come before: many who speak at once."""
_EVENTS: Final = 1_000


class ConversationState(NamedTuple):
    """A conversation and what was said in it, by number, as one process knows them. What others add meanwhile fails the change
    that is made of it."""

    conversation: Conversation
    exchanges: Exchanges

    def after(self, change: Change) -> ConversationState:
        """Return the same as it is in the store once a change of it is kept: it need not be read again."""
        kept = msgspec.structs.replace(change.conversation, revision=change.conversation.revision + 1)
        return ConversationState(kept, {**self.exchanges, **{each.number: each for each in change.exchanges}})


class ConversationRunner:
    """The conversations of the store, as one process sees to them."""

    def __init__(self, runtime: Runtime, payloads: Payloads, gateway: Gateway | None) -> None:
        """`gateway`: whose prices the runs are held to, where the process has one."""
        self._runtime = runtime
        self._payloads = payloads
        self._gateway = gateway
        self._conversations = runtime.store.conversations

    async def look(self, background_tasks: BackgroundTasks) -> int:
        """Carry on the conversations that are due, and return how many they were. Raises StoreError."""
        due = await self._conversations.due(_MOST)
        for each in due:
            background_tasks.soon(self.carry_on(each.tenant, each.id))
        return len(due)

    async def change(
        self, thread: ConversationState, decide: Callable[[Conversation, Exchanges], Change | None]
    ) -> ConversationState | None:
        """Have a change decided and kept, again if another was first. Return the conversation as it is then, also without a
        change; None if it is gone."""
        tenant, name = thread.conversation.tenant, thread.conversation.id
        found: ConversationState | None = thread
        for _ in range(_TRIES):
            if found is None:
                return None
            change = decide(*found)
            if change is None:
                return found
            if await self._conversations.put(change):
                return found.after(change)
            found = await loaded(self._conversations, tenant, name)
        raise Conflict(f"Conversation {name} is changed by others all the time. Nothing was sent: try again.")

    async def carry_on(self, tenant: str, name: str, thread: ConversationState | None = None) -> ConversationState | None:
        """Do what can be done now, and return the conversation as it is then, None if it does not exist. It is read if it is
        not `thread`, and again if another has changed it."""
        found = await loaded(self._conversations, tenant, name) if thread is None else thread
        for _ in range(_TRIES):
            if found is None or found.conversation.active is None:
                return found
            change = await self._next(*found)
            if change is None:
                return found
            if await self._conversations.put(change):
                found = found.after(change)
            else:
                found = await loaded(self._conversations, tenant, name)
        return found

    async def _next(self, conversation: Conversation, exchanges: Exchanges) -> Change | None:
        if conversation.run is None:
            return await self._start(conversation, exchanges)
        row = await self._runtime.store.views.run(conversation.run)
        if row is None or row.ended_at_ms is None:
            if conversation.cancelling:
                return await self._cancel(conversation)
            return await self._tell(conversation, exchanges) if conversation.steering else None
        outcome = await self._outcome(conversation, exchanges, row.status)
        lasting = await self.lasting(conversation.run) if conversation.waiting else ()
        return rule.ended(conversation, exchanges, outcome, lasting)

    async def _outcome(self, conversation: Conversation, exchanges: Exchanges, status: str) -> Outcome:
        """Return the outcome of the active run, which has ended."""
        assert conversation.run is not None
        parts = [each.number for each in exchanges.values() if each.steers == conversation.active]
        try:
            state = await self._runtime.runs.state(conversation.run)
            reply = await self._reply(state) if state.ended == "completed" else None
            summed = await self._payloads.value(state.summary, state.tenant) if state.summary is not None else {}
        except (CorruptHistory, NotFound, BlobLost) as lost:  # for good, and what waits can be answered all the same
            problem = f"Its run {conversation.run} has ended, and what it returned cannot be read. {lost.message}"
            return Outcome(status=status, problem=problem, unread=parts)
        return Outcome(
            status=status,
            reply=reply,
            problem=state.error.message if state.error is not None else None,
            handed_to=None if reply is None else await self._handed_to(conversation.run),
            unread=[number for number in parts if not state.has_read(number)],
            summary=summed.get("text", ""),
            covers=summed.get("covers", 0),
            given=summed.get("given", 0),
            authors=authors(state),
            makers={**state.makers},
        )

    async def _handed_to(self, run: RunId) -> str | None:
        """The agent that answered in the end, where the run handed the conversation over; that one may have done so, too."""
        agent = None
        for _ in range(MAX_DEPTH):
            state = await self._runtime.runs.state(run)
            if state.handed_to is None:
                break
            run, agent = state.handed_to
        return agent

    async def _start(self, conversation: Conversation, exchanges: Exchanges) -> Change:
        assert conversation.active is not None
        message = exchanges[conversation.active]
        key = rule.key_of(conversation, message.number)
        try:
            make = partial(self._new_run, conversation, exchanges, message)
            run = (await start_once(self._runtime, conversation.tenant, key, make)).run
        except StoreError:
            raise  # the outcome is unknown: it stays to be started
        except HoldfastError as refused:
            log.warning("holdfast cannot have message %s of %s answered: %s", message.number, conversation.id, refused)
            return rule.ended(conversation, exchanges, Outcome(status="failed", problem=refused.message))
        return rule.started(conversation, exchanges, run)

    async def _new_run(self, conversation: Conversation, exchanges: Exchanges, message: ConversationTurn) -> NewRun:
        runtime, tenant = self._runtime, conversation.tenant
        given = rule.input_of(conversation, await self._here(tenant, exchanges), message.number)
        agent = message.agent or conversation.workflow
        workflow = await workflow_of(runtime, tenant, agent)
        valid = workflow.validated_input(given)
        shared = await scopes_of_run(runtime.store, tenant, conversation.team_budget, conversation.spends_as, workflow.graph)
        start = cmd.StartRun(
            RunId(""),
            tenant,
            await self._payloads.keep(valid, tenant, runtime.store.clock.now_ms()),
            digest([agent, encode(valid).decode()]),
            by=Actor(message.by, maker=message.maker),
            price_fingerprint=None if self._gateway is None else self._gateway.price_fingerprint,
            team=conversation.team,
            queue=True,
            shared=(*rule.scopes_of(tenant, conversation.id), *shared),
            agent=conversation.spends_as,
            contributors=rule.authors_of(exchanges, message.number),
            makers=rule.makers_of(exchanges, message.number),
        )
        return NewRun(workflow.graph, start)

    async def _here(self, tenant: str, exchanges: Exchanges) -> Exchanges:
        """The same with all that is attached kept for this month."""
        now_ms = self._runtime.store.clock.now_ms()
        found = dict(exchanges)
        for each in exchanges.values():
            if each.parts:
                parts = [await moved(self._payloads, part, tenant, now_ms) for part in each.parts]
                found[each.number] = msgspec.structs.replace(each, parts=tuple(parts))
        return found

    async def _tell(self, conversation: Conversation, exchanges: Exchanges) -> Change | None:
        """Hand the active run the messages since it began; it knows which it has already. None if it has ended."""
        assert conversation.run is not None
        state = await self._runtime.runs.state(conversation.run)
        kept_ms = max(self._runtime.store.clock.now_ms(), state.started_at_ms)
        for number in conversation.steering:
            message = exchanges[number]
            said = await self._payloads.keep(rule.message_of(message), conversation.tenant, kept_ms)
            try:
                by = Actor(message.by, maker=message.maker)
                await self._runtime.runs.send(conversation.run, cmd.SendMessage(number, said, by))
            except RunEnded:
                return None
        return rule.deliver_steering(conversation)

    async def _cancel(self, conversation: Conversation) -> Change:
        assert conversation.run is not None
        try:
            await self._runtime.runs.send(conversation.run, cmd.CancelRun("another message came", Actor(conversation.by)))
        except Conflict:
            log.debug(
                "run %s of conversation %s is ending already",
                conversation.run,
                conversation.id,
                extra={"run_id": conversation.run},
            )
        return Change(msgspec.structs.replace(conversation, cancelling=False), ())

    async def _reply(self, state: State) -> str:
        """Return a run's result as text."""
        if state.parts:
            value = {name: await self._payloads.value(part, state.tenant) for name, part in state.parts.items()}
            return encode(value).decode()
        value = await self._payloads.value(state.output, state.tenant)
        return value if isinstance(value, str) else encode(value).decode()

    async def lasting(self, run: RunId) -> tuple[str, ...]:
        """Return the tools with which a run, or one below it, has done to the world what cannot be undone, as far as that is
        known."""
        found: dict[CallId, str] = {}
        runs = [run]
        for each in runs:  # which grows
            seq = 0
            while page := await self._runtime.store.log.events(each, seq, _EVENTS):
                for recorded in page:
                    match recorded.event:
                        case ev.EffectIntended() as event if event.policy != "read":
                            if event.compensation is None and event.compensates is None:
                                found[event.call] = event.tool
                        case ev.EffectFailed(call) | ev.EffectReleased(call):
                            found.pop(call, None)
                        case ev.ChildRequested(child=child, again=False):
                            runs.append(child)
                        case _:
                            pass
                seq = page[-1].seq
        return tuple(dict.fromkeys(found.values()))


async def loaded(conversations: Conversations, tenant: str, name: str) -> ConversationState | None:
    """Read a conversation of a store and what was said in it."""
    found = await conversations.find(tenant, name)
    return None if found is None else await with_turns(conversations, found)


async def with_turns(conversations: Conversations, conversation: Conversation) -> ConversationState:
    """Return a conversation that was read with what was said in it."""
    return ConversationState(
        conversation, {each.number: each for each in await conversations.exchanges(conversation.tenant, conversation.id)}
    )
