"""Conversations: begun, spoken in, waited for and looked at.

Never here: what follows from a message (core.nouns.conversations), carrying one on (engine.background.dialogue).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.authoring.values.content import Audio, Document, Image
from holdfast.authoring.workflow import Workflow
from holdfast.core.nouns import client_tools
from holdfast.core.nouns import conversations as rule
from holdfast.core.nouns.client_tools import ClientContext, ClientTool
from holdfast.core.nouns.conversations import ON_BUSY, Change, Conversation, ConversationTurn, Exchanges, OnBusy
from holdfast.core.values.actor import Actor
from holdfast.core.values.content import ContentPart, are_same
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import ScopeRow
from holdfast.engine.background.conversation_runner import ConversationRunner, with_turns
from holdfast.engine.operations import prompt
from holdfast.engine.runs.starting import scopes_of_run
from holdfast.errors import Conflict, InvalidInput, KeyMissing, NotFound, OutcomeUnknown, ToolFailed
from holdfast.ports import MAX_LISTED, Store
from holdfast.service.control.base import NOT_GIVEN, limits_of, named_budget, word
from holdfast.service.control.change import changed
from holdfast.service.control.command import Commands
from holdfast.service.control.naming import DEFAULT_TENANT

_MAX_NAME: Final = 128
"""Of an id: a start key, and the name of a scope, are made of it."""


MessageText: TypeAlias = str | Image | Audio | Document | Sequence[Any]
"""A text, a content part, or a list of both; parts may be the JSON of such."""


class Thread(NamedTuple):
    """A conversation, its turns by number, and what it has spent, in nano-dollars and in tokens."""

    conversation: Conversation
    exchanges: Exchanges
    books: ScopeRow
    tokens: ScopeRow


class Conversations(Commands):
    """The conversations of the store, on whatever machine each of their runs is."""

    @property
    def _dialogues(self) -> ConversationRunner:
        return ConversationRunner(self.runtime, self.payloads, self.executor.services.gateway)

    async def open_conversation(
        self,
        name: str,
        workflow: Workflow | str,
        *,
        on_busy: OnBusy = "enqueue",
        cost_limit_usd: float | str | Decimal | None = None,
        max_tokens: int | None = None,
        tenant: str = DEFAULT_TENANT,
        team: str | None = None,
        team_budget: str | None = None,
        agent: str | None = None,
        by: str | Actor | None = None,
        private: bool = False,
    ) -> Conversation:
        """Open a conversation with an agent, or return the open one of that name. An agent is a workflow whose input is a
        `Chat`.

        Args:
            workflow: The agent: the workflow, or its name.
            private: True to hide it from all callers of a port but `by`, with the token or key that opened it.

        Raises:
            InvalidInput: The workflow takes no Chat, or an option cannot be used.
            NotFound: The store does not know the workflow.
            Conflict: The open conversation is with another agent.
        """
        if isinstance(workflow, str):
            graph = (await self.workflow(workflow, tenant=tenant)).graph
        else:
            await self.runtime.catalog.add(workflow)
            graph, workflow = workflow.graph, workflow.name
        _expect(on_busy)
        if len(name.encode()) > _MAX_NAME or not name.strip():
            raise InvalidInput(f"A conversation's name has 1 to {_MAX_NAME} bytes. Nothing was changed.", field="name")
        claim = self._claim(by)
        new = Conversation(
            id=word("name of the conversation", name),
            tenant=word("tenant", tenant),
            workflow=workflow,
            made_at_ms=self.now_ms(),
            on_busy=on_busy,
            team=None if team is None else word("team", team),
            team_budget=named_budget(team_budget),
            spends_as=agent,
            by=claim.name,
            is_private=private,
            client=claim.client if private else None,
        )
        await scopes_of_run(self.store, new.tenant, new.team_budget, agent, graph)
        limits: Mapping[str, int | None] = {}
        if not (cost_limit_usd is None and max_tokens is None):
            given = NOT_GIVEN if cost_limit_usd is None else cost_limit_usd
            limits = limits_of(rule.scope_of(tenant, name), given, NOT_GIVEN if max_tokens is None else max_tokens)
        if not await self.store.conversations.put(Change(new, ())):
            there = (await self.conversation(name, tenant=tenant)).conversation
            if there.workflow != workflow:
                raise Conflict(
                    f"Conversation {name!r} is one with {there.workflow!r}, not with {workflow!r}. Nothing was changed: begin"
                    " another."
                )
        await self._set_limits(limits)
        return (await self.conversation(name, tenant=tenant)).conversation

    async def conversation(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Thread:
        """Return a conversation with its messages.

        Raises:
            NotFound: The conversation does not exist.
        """
        names = word("tenant", tenant), word("name of the conversation", name)
        found = await self.store.conversations.find(*names)
        if found is None:
            raise no_conversation(name)
        return await talk_of(self.store, found)

    async def conversations(
        self, *, tenant: str | None = None, after: tuple[str, str] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[Conversation]:
        """Return conversations, by tenant and name.

        Args:
            after: Tenant and name of the last row of the page before.
        """
        return await self.store.conversations.page(tenant, after, limit)

    async def set_conversation_budget(
        self,
        name: str,
        limit_usd: float | str | Decimal | None = NOT_GIVEN,
        *,
        max_tokens: int | None = NOT_GIVEN,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        """Limit what all runs of a conversation may spend together.

        Args:
            name: Name of the conversation.
            limit_usd: Limit in dollars; None for no limit. By default it stays as it is.
            max_tokens: Limit in tokens, input and output together; None for no limit. By default it stays as it is.

        Raises:
            NotFound: The conversation does not exist.
            InvalidInput: A limit cannot be used.
        """
        await self.conversation(name, tenant=tenant)
        await self._set_limits(limits_of(rule.scope_of(tenant, name), limit_usd, max_tokens))

    async def send_message(
        self,
        name: str | Conversation,
        text: MessageText,
        *,
        tenant: str = DEFAULT_TENANT,
        after: int | None = None,
        on_busy: OnBusy | None = None,
        key: str | None = None,
        by: str | Actor | None = None,
        tools: Sequence[ClientTool] = (),
        context: Sequence[ClientContext] = (),
    ) -> ConversationTurn:
        """Send a message to an agent. It is durable when the call returns, and will be answered.

        Args:
            name: Name of the conversation, or a conversation of this tenant, which is read again only if it has changed.
            text: Message: a text, or a list of texts and content parts. Content with an address is read now and kept.
            after: Number of the earlier message after which a new branch begins.
            on_busy: Rule while the agent works; by default the conversation's.
            key: Idempotency key: repeated, it is the same message.
            tools: Tools of a front end, offered in the run of this message.
            context: Context of a front end, for the run of this message.

        Raises:
            NotFound: The conversation does not exist.
            InvalidInput: The message is empty, too large, or cannot be read.
            Conflict: The message is refused while the agent works; it was not sent.
        """
        there = name if isinstance(name, Conversation) else None
        tenant, name = word("tenant", tenant), word("name of the conversation", name if isinstance(name, str) else name.id)
        dialogues = self._dialogues
        key = None if key is None else word("key", key)
        words, given = _pieces(text)
        clean = self.payloads.plain(words)
        if not isinstance(clean, str) or not (clean.strip() or given):
            raise InvalidInput("A message is a text that is not empty, or has content parts. Nothing was sent.")
        client_tools.checked(tools, context)
        known = await dialogues.carry_on(
            tenant, name, None if there is None else await with_turns(self.runtime.store.conversations, there)
        )
        if known is None:
            raise no_conversation(name)
        conversation = known.conversation
        how, claim = conversation.on_busy if on_busy is None else _expect(on_busy), self._claim(by)
        lasting: tuple[str, ...] = ()
        if how == "rollback" and conversation.run is not None:
            lasting = await dialogues.lasting(conversation.run)
        new = ConversationTurn(
            number=0,
            text=clean,
            at_ms=self.now_ms(),
            on_busy=how,
            by=claim.name or conversation.by,
            maker=claim.maker,
            key=key,
            parts=tuple([await self._kept_part(each, tenant) for each in given]),
            tools=tuple(tools),
            context=tuple(context),
        )
        said: list[int] = []

        def decide(conversation: Conversation, exchanges: Exchanges) -> Change | None:
            same = next((each for each in exchanges.values() if key is not None and each.key == key), None)
            if same is not None:
                if same.text != clean or not are_same(same.parts, new.parts):
                    raise Conflict(f"The key {key!r} is another message's of this conversation. Nothing was sent.")
                said.append(same.number)
                return None
            change = rule.take_message(conversation, exchanges, new, after=after, cannot_be_undone=lasting)
            said.append(change.conversation.said)
            return change

        known = await dialogues.change(known, decide)
        known = None if known is None else await dialogues.carry_on(tenant, name, known)
        if known is None:
            raise no_conversation(name)
        return known.exchanges[said[-1]]

    async def _kept_part(self, part: Image | Audio | Document, tenant: str) -> ContentPart:
        contents = self.executor.services.contents
        if part.url is None:
            # A sender of a hash may claim anything of it, and each later run would get that.
            whole = part if part.data is not None else await contents.read(part, tenant)
            return await contents.store_part(whole, tenant, self.now_ms())
        try:
            return await contents.fetched(part, tenant, self.now_ms())
        except (ToolFailed, OutcomeUnknown) as problem:
            raise InvalidInput(f"{problem.message} Nothing was sent.") from None

    async def delete_conversation(self, name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Delete a conversation with its messages. Histories of its runs stay until their months are removed, and its spending
        stays counted. A conversation whose key was deleted is deleted unread, even while its agent works.

        Raises:
            NotFound: The conversation does not exist.
            Conflict: The agent is working.
        """
        tenant, name = word("tenant", tenant), word("name of the conversation", name)

        async def attempt() -> bool | None:
            try:
                found = await self._dialogues.carry_on(tenant, name)
            except KeyMissing:
                return await self.store.conversations.discard(tenant, name) or None
            if found is None:
                raise no_conversation(name)
            rule.expect_idle(found.conversation)
            return await self.store.conversations.remove(found.conversation) or None

        await changed(f"Conversation {name!r}", attempt)

    async def reply(self, name: str, number: int, *, tenant: str = DEFAULT_TENANT) -> ConversationTurn:
        """Wait until a message has been answered, or will not be. `status` says which, and `reply` has the text. A message that
        steered a run has that run's reply.

        Args:
            name: Name of the conversation.
            number: Number of the message.

        Raises:
            NotFound: The conversation or the message does not exist.
        """
        names = word("tenant", tenant), word("name of the conversation", name)
        while True:
            known = await self._dialogues.carry_on(*names)
            if known is None:
                raise no_conversation(name)
            found = known.exchanges.get(number)
            if found is None:
                raise NotFound(f"Conversation {name!r} has no message {number}.")
            if found.status not in ("waiting", "active"):
                part_of = found if found.steers is None else known.exchanges[found.steers]
                return msgspec.structs.replace(found, reply=part_of.reply, problem=part_of.problem)
            if known.conversation.run is not None:
                await self.run(known.conversation.run).until(lambda state: bool(state.ended))

    async def stop_reply(self, name: str, *, tenant: str = DEFAULT_TENANT) -> RunId | None:
        """Stop the agent's current reply; the next waiting message follows. Return the id of the stopped run, None if none was
        in progress.

        Args:
            name: Name of the conversation.
        """
        known = await self._dialogues.carry_on(tenant, name)
        if known is None:
            raise no_conversation(name)
        run = known.conversation.run
        if run is not None:
            await self.cancel(run, reason="stopped by who spoke")
        return run


def _pieces(message: MessageText) -> tuple[str, list[Image | Audio | Document]]:
    """The words of a message, and what is attached to it. Raises InvalidInput."""
    if isinstance(message, str):
        return message, []
    if not message:
        raise InvalidInput("A message is a text, or a list of texts and content parts. Nothing was sent.")
    if isinstance(message, list | tuple) and all(isinstance(each, str) for each in message):
        return "\n\n".join(message), []
    pieces = prompt.parse_message(message)
    words = "\n\n".join(each for each in pieces if isinstance(each, str) and each)
    return words, [each for each in pieces if not isinstance(each, str)]


def _expect(on_busy: str) -> OnBusy:
    found = next((each for each in ON_BUSY if each == on_busy), None)
    if found is None:
        raise InvalidInput(f"on_busy is {on_busy!r:.80}; it is one of {', '.join(ON_BUSY)}. Nothing was done.")
    return found


async def talk_of(store: Store, conversation: Conversation) -> Thread:
    """Return a conversation with its messages, once it was read."""
    name = conversation.tenant, conversation.id
    exchanges = await store.conversations.exchanges(*name)
    books, tokens = await store.scopes.balances(rule.scopes_of(*name))
    return Thread(conversation, {each.number: each for each in exchanges}, books, tokens)


def no_conversation(name: str) -> NotFound:
    return NotFound(
        f"There is no conversation {name!r:.130} in this store; `holdfast conversations list` shows those that are."
    )
