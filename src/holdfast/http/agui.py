"""AG-UI 1.0: a message to an agent, what its run says as the protocol's events, and our gates as its interrupts.

A thread of the protocol is a conversation of the caller's own, which the store keeps: of what a client sends, only the newest
user message is taken. The specification: https://docs.ag-ui.com/spec/1.0. Never here: what becomes of a message, who may
decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any, Final

import msgspec
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextPart,
    Tool,
    ToolMessage,
    UserMessage,
)
from fastapi.sse import format_sse_event
from pydantic import ValidationError

from holdfast.core.facts.state import TOOL_APPROVAL
from holdfast.core.facts.streams import THINKING, StreamEvent
from holdfast.core.nouns import client_tools
from holdfast.core.nouns.client_tools import CLIENT_TOOL, MAX_RESULT_CHARACTERS, ClientContext, ClientTool
from holdfast.core.nouns.conversations import ConversationTurn
from holdfast.core.values.ids import GateId, RunId, run_of
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.http import problem
from holdfast.http.agui_words import OUR, Words, messages_of
from holdfast.http.problem import Problem
from holdfast.service.control.naming import DEFAULT_TENANT
from holdfast.service.declarations import command, query
from holdfast.service.principal import Principal
from holdfast.service.reply_stream import ReplyStream
from holdfast.service.service import Service
from holdfast.service.text import expect_storable

VERSION: Final = "1.0"
_BEGUN_S: Final = 0.25
"""A message waits until those before it are answered."""
_LOOK_S: Final = 1.0
"""A run that waits for no person is looked at again: what it waits for may be a child's."""
_MAX_MISTAKES: Final = 10


async def answer(service: Service, principal: Principal, workflow: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
    """Say what the newest message says, or decide what `resume` decides, and tell what the agent's run says then. Raises
    Problem, InvalidInput, NotFound, NotPermitted, Conflict and what a decision raises before anything is sent."""
    given = _read(body)
    thread = _Thread(service, principal, workflow, given.thread_id)
    await thread.open()
    results = _results(given)
    answers = given.resume or results
    number, is_again = await (thread.decide(given.resume or [], results) if answers else thread.send_message(given))
    return _lines(_Telling(thread, given.run_id, number, _known_calls(given)).events(is_again=is_again), principal)


# --- What is sent -----------------------------------------------------------------------------------------------------


def _read(body: Mapping[str, Any]) -> RunAgentInput:
    """Raises Problem for what the protocol does not know, InvalidInput for what is not taken."""
    try:
        given = RunAgentInput.model_validate(body)
    except ValidationError as wrong:
        mistakes = [
            {"pointer": "#" + "".join(f"/{part}" for part in each["loc"]), "detail": each["msg"]}
            for each in wrong.errors(include_url=False, include_context=False, include_input=False)
        ]
        words = f"This is no RunAgentInput of AG-UI {VERSION}: {len(mistakes)} fields are wrong. Nothing was done."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", words, errors=mistakes[:_MAX_MISTAKES]) from None
    if given.protocol_version is not None and given.protocol_version.partition(".")[0] != "1":
        raise InvalidInput(f"AG-UI {VERSION} is spoken here, not {given.protocol_version!r:.20}. Nothing was done.")
    for name in ("state", "forwarded_props"):
        if getattr(given, name):
            words = "agents here do not receive them. Nothing was done."
            raise InvalidInput(f"Leave out {name}, or send them empty: {words}")
    if any(each.role in ("system", "developer") for each in given.messages):
        raise InvalidInput(
            "This request has a system or developer message. An agent's instructions come from its author only: leave the"
            " message out. Nothing was done."
        )
    return given


def _newest_message(input_: RunAgentInput) -> UserMessage:
    """The newest message. Raises InvalidInput where it is not the user's."""
    if not input_.messages or not isinstance(newest := input_.messages[-1], UserMessage):
        raise InvalidInput("The newest message is the one to answer, and it is not a user's. Nothing was sent.")
    return newest


def _parts(message: UserMessage) -> tuple[str, list[Any] | None]:
    """Its words, and its content parts as JSON has ours. Raises InvalidInput."""
    if isinstance(message.content, str):
        return message.content, None
    words, parts = [], []
    for part in message.content:
        if part.type == "text":
            words.append(part.text)
            continue
        if part.type not in ("image", "audio", "document") or part.source.type not in ("data", "url"):
            raise InvalidInput(f"A content part {part.type!r} by {part.source.type!r} is not supported. Nothing was sent.")
        kept = {"data": "data", "url": "url"}[part.source.type]
        found = {"type": part.type, kept: part.source.value, "media_type": part.source.mime_type}
        parts.append({name: value for name, value in found.items() if value is not None})
    return "\n\n".join(words), parts


def _front_end_options(input_: RunAgentInput) -> dict[str, Any]:
    """The tools and the context of the front end. Raises InvalidInput."""
    tools = [ClientTool(each.name, each.description, _parameters(each)) for each in input_.tools or ()]
    context = [ClientContext(each.description, each.value) for each in input_.context or ()]
    client_tools.checked(tools, context)
    return {"tools": tools, "context": context}


def _parameters(tool: Tool) -> dict[str, Any]:
    if tool.parameters is None:
        return {}
    if not isinstance(tool.parameters, dict):
        raise InvalidInput(f"Give the parameters of the tool {tool.name!r:.100} as a JSON Schema. Nothing was done.")
    return tool.parameters


def _results(input_: RunAgentInput) -> list[ToolMessage]:
    """The messages of tools that stand at the end: what the front end has done since."""
    found: list[ToolMessage] = []
    for message in reversed(input_.messages):
        if not isinstance(message, ToolMessage):
            break
        found.append(message)
    return found[::-1]


def _known_calls(input_: RunAgentInput) -> Set[str]:
    """The calls of tools that the client has already."""
    said = (each for each in input_.messages if isinstance(each, AssistantMessage))
    return {call.id for each in said for call in each.tool_calls or ()}


def _call_of(row: query.View) -> str:
    """Return the id of the front end's tool call that a gate is about, as it was streamed; without a call, the gate's id."""
    call = row["shown"]["call"]
    return f"{row['run_id']}:{call}" if call is not None else row["gate_id"]


class _Thread:
    """A conversation with an agent that is the caller's own."""

    def __init__(self, service: Service, principal: Principal, workflow: str, name: str) -> None:
        self.service = service
        self.who = principal
        self.workflow = workflow
        self.name = name
        self.control = service.control
        self.tenant = principal.of_tenant(None) or DEFAULT_TENANT
        self.heard: ReplyStream | None = None
        self.told: list[StreamEvent] = []
        """Events of the running answer that were sent already."""

    async def open(self) -> None:
        """Create the thread if it does not exist. Raises NotFound if it belongs to another caller, Conflict if it has another
        agent."""
        begin = command.OpenConversation(name=self.name, workflow=self.workflow, on_busy="reject")
        expect_storable(begin, self.who)
        try:
            found = (await self.control.conversation(self.name, tenant=self.tenant)).conversation
        except NotFound:
            await self.service.execute(self.who, begin, private=True)
            found = (await self.control.conversation(self.name, tenant=self.tenant)).conversation
        if found.by != self.who.claim.name:
            raise NotFound(f"There is no thread {self.name!r:.200} for {self.who.claim}. Nothing was done.")
        if found.workflow != self.workflow:
            raise Conflict(
                f"The thread {self.name!r:.200} is with the agent {found.workflow!r}, not with {self.workflow!r:.200}."
                " Nothing was done: begin another."
            )

    async def send_message(self, input_: RunAgentInput) -> tuple[int, bool]:
        """Return the number of the message, and True if it had been sent before: the same id is the same message."""
        message = _newest_message(input_)
        words, parts = _parts(message)
        known = await self.exchanges()
        say = command.Say(conversation=self.name, text=words, parts=parts, key=message.id)
        said = await self.service.execute(self.who, say, **_front_end_options(input_))
        return said["number"], any(each.key == message.id for each in known.values())

    async def decide(self, entries: list[ResumeEntry], results: Sequence[ToolMessage]) -> tuple[int, bool]:
        """Decide the gates at which the agent waits, also by what the front end's tools came to. The message that it is at, and
        whether all was decided before."""
        talk = await self.control.conversation(self.name, tenant=self.tenant)
        number = talk.conversation.active or talk.conversation.tip
        run = talk.exchanges[number].run if number is not None else None
        if number is None or run is None:
            if not entries:
                raise InvalidInput(_NOBODY_ASKED)
            raise Conflict("This thread has no run that could wait for an answer. Nothing was decided.")
        if len({each.interrupt_id for each in entries}) < len(entries):
            raise InvalidInput("An interrupt is answered twice. Nothing was decided.")
        heard, below = ReplyStream(self.control, run), {each.run for each in (await self.control.tree(run)).members}
        answers = []
        for entry in entries:
            gate = GateId(entry.interrupt_id)
            if run_of(gate) not in below:
                raise NotFound(f"This thread has no interrupt {gate!r:.200}. Nothing was decided.")
            answers.append(_decision(entry))
        answers += await self._client_answers(below, results)
        if not answers:
            raise InvalidInput(_NOBODY_ASKED)
        unanswered = [each for each in answers if not await self._has_decided(each)]
        if unanswered:
            self.heard, self.told = heard, await heard.so_far()
        for each in unanswered:
            await self.service.execute(self.who, each)
        return number, not unanswered

    async def _client_answers(self, runs: Set[RunId], results: Sequence[ToolMessage]) -> list[command.Decide]:
        """The answers to calls of the front end's tools. Results of the agent's own tools come from the store."""
        if not results:
            return []
        calls: dict[str, GateId] = {}
        for run in sorted(runs):
            with suppress(NotFound):  # of a workflow that is hidden from the caller
                await self._note_calls(run, calls)
        found = [(calls[each.tool_call_id], each) for each in results if each.tool_call_id in calls]
        if len({gate for gate, _ in found}) < len(found):
            raise InvalidInput("Answer each call of a tool once. Nothing was done.")
        return [command.Decide(gate, decision="answer", data=_result(each)) for gate, each in found]

    async def _note_calls(self, run: RunId, calls: dict[str, GateId]) -> None:
        """Note the gates of a run at which calls of the front end's tools wait. Raises NotFound."""
        cursor: str | None = None
        while True:
            page = await self.service.query(self.who, query.Gates(run=run, all=True, cursor=cursor))
            for row in page.rows:
                if row["reason"] == CLIENT_TOOL:
                    (gate,) = (await self.service.query(self.who, query.Gate(row["gate_id"]))).rows
                    calls[_call_of(gate)] = gate["gate_id"]
            if (cursor := page.cursor) is None:
                return

    async def _has_decided(self, decision: command.Decide) -> bool:
        """Return True if the caller has already made this same decision: the reply to it was lost."""
        (row,) = (await self.service.query(self.who, query.Gate(decision.gate))).rows
        same_data = decision.data is msgspec.UNSET or decision.data == row["data"]
        same_shown = decision.shown_hash in (None, row["shown_hash"])
        name = self.who.claim.name
        same = (row["by"], row["decision"]) == (name, decision.decision) and same_data
        is_one_of_several = decision.decision == "approve" and name in row["approved_by"]
        return (same or is_one_of_several) and same_shown

    async def exchanges(self) -> Mapping[int, ConversationTurn]:
        return (await self.control.conversation(self.name, tenant=self.tenant)).exchanges

    async def speech(self, number: int) -> ReplyStream | None:
        """Return the reply to a message, once its run exists; None if the message has no run."""
        if self.heard is not None:
            return self.heard
        while True:
            found = (await self.exchanges())[number]
            found = found if found.steers is None else (await self.exchanges())[found.steers]
            if found.run is not None:
                return ReplyStream(self.control, found.run)
            if found.status not in ("waiting", "active"):
                return None
            await asyncio.sleep(_BEGUN_S)

    async def snapshot(self, number: int, events: Sequence[StreamEvent] = ()) -> MessagesSnapshotEvent:
        """All that was said on the way to a message, the message, and what was told of its answer: as a client has it that has
        heard it all, for what it has under another id would stand twice, or at another place."""
        exchanges, way = await self.exchanges(), []
        at: int | None = number
        while at is not None:
            way.append(exchanges[at])
            at = exchanges[at].parent
        messages: list[Message] = []
        for each in reversed(way):
            messages.append(UserMessage(id=each.key or f"{self.name}#{each.number}", content=each.text))
            messages += messages_of(events) if each.number == number else await self._answer(each)
        return MessagesSnapshotEvent(messages=messages)

    async def _answer(self, exchange: ConversationTurn) -> list[Message]:
        """Return the messages that answered an earlier message; only the reply if the streams of its run no longer exist."""
        run = exchange.run
        messages = messages_of(await ReplyStream(self.control, run).so_far()) if run is not None else []
        last = next((each.content for each in reversed(messages) if each.role == "assistant" and each.content), None)
        if exchange.reply and exchange.reply != last:
            messages.append(AssistantMessage(id=_reply_id(exchange), content=exchange.reply))
        return messages

    async def thoughts(self, speech: ReplyStream | None) -> list[StreamEvent]:
        """Return the thinking in the answer so far, with empty texts. A client keeps its thoughts when a snapshot has none, and
        would append any that it receives again."""
        said = [] if speech is None else await ReplyStream(self.control, speech.run).so_far()
        return [msgspec.structs.replace(each, text="") for each in said if each.kind in (THINKING, "reset")]

    async def open_gates(self, speech: ReplyStream) -> list[query.View]:
        """The gates at which the agent waits, each with all about it. Those of hidden runs below it are others' to decide."""
        found: list[query.View] = []
        for gate in await speech.gates():
            with suppress(NotFound):
                found += (await self.service.query(self.who, query.Gate(gate))).rows
        return found


def _decision(entry: ResumeEntry) -> command.Decide:
    """Raises InvalidInput for an answer that is not bound to what was shown. A dismissal is bound to it as a rejection is: the
    service refuses one without a hash, where the gate needs it."""
    payload: Any = entry.payload
    if entry.status == "cancelled":
        if not isinstance(payload or {}, dict) or (payload or {}).keys() - {"shown_hash", "reason"}:
            raise InvalidInput(
                f"The payload of the interrupt {entry.interrupt_id!r:.200}, which is dismissed, is {{shown_hash, reason?}}."
                " Nothing was decided."
            )
        payload = {"reason": "The question was dismissed.", **(payload or {}), "decision": "reject"}
    elif not isinstance(payload, dict) or not {"decision", "shown_hash"} <= payload.keys() <= _PAYLOAD:
        raise InvalidInput(
            f"The answer to the interrupt {entry.interrupt_id!r:.200} is {{decision, shown_hash, data?, reason?}}: its"
            " responseSchema says what each may be. Nothing was decided."
        )
    for name in ("decision", "shown_hash", "reason"):
        if not isinstance(payload.get(name, ""), str):
            raise InvalidInput(f"The {name} of an answer is a text. Nothing was decided.")
    return command.Decide(entry.interrupt_id, **payload)


def _result(message: ToolMessage) -> dict[str, Any]:
    """Return the result of a front end's tool. Raises InvalidInput if it is too large."""
    content = message.content if isinstance(message.content, str) else _texts(message.content)
    if len(content) > MAX_RESULT_CHARACTERS:
        raise InvalidInput(
            f"Shorten the result of the call {message.tool_call_id!r:.200}: {MAX_RESULT_CHARACTERS:,} characters are taken."
            " Nothing was done."
        )
    return {"content": content, "failed": message.error is not None, "message": message.id}


def _texts(parts: Sequence[Any]) -> str:
    words = [part.text for part in parts if isinstance(part, TextPart)]
    if len(words) < len(parts):
        raise InvalidInput("Give the result of a tool as text. Nothing was done.")
    return "\n\n".join(words)


_NOBODY_ASKED: Final = (
    "Send the result of a call of a tool that this thread waits for, or a user's message: no message of a tool here answers"
    " one. Nothing was done."
)
_PAYLOAD: Final = {"decision", "shown_hash", "data", "reason"}


def _interrupt(row: query.View) -> Interrupt:
    """A gate, from all about it."""
    schema = {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": row["allowed"]},
            "data": row["form"] if row["form"] is not None else {},
            "reason": {"type": "string"},
            "shown_hash": {"type": "string", "const": row["shown_hash"]},
        },
        "required": ["decision", "shown_hash"],
        "additionalProperties": False,
    }
    asks = f"May {row['shown']['tool']} be called?" if row["reason"] == TOOL_APPROVAL else row["subject"]
    names = ("run_id", "step", "shown", "shown_hash", "initial_data", "allowed", "reviewers", "due_at")
    return Interrupt(
        id=row["gate_id"],
        reason=row["reason"],
        message=asks,
        expires_at=row["expires_at"],
        response_schema=schema if row["allowed"] else None,
        metadata={OUR: {name: row[name] for name in names}},
    )


def _reply_id(exchange: ConversationTurn) -> str:
    return f"{exchange.run}:reply"


# --- What is sent -----------------------------------------------------------------------------------------------------


async def _lines(stream: AsyncGenerator[BaseEvent, None], principal: Principal) -> AsyncGenerator[bytes, None]:
    """The events as they are sent; what goes wrong is the last of them, for the status has left."""
    try:
        async with aclosing(stream) as events:
            async for event in events:
                yield _line(event)
    except Exception as wrong:  # noqa: BLE001 - whatever it is, the listener gets it
        body = problem.document_of(wrong, principal.trace_id or "").body
        yield _line(RunErrorEvent(message=body["detail"], code=body["code"]))


def _line(event: BaseEvent) -> bytes:
    return format_sse_event(data_str=event.model_dump_json(by_alias=True))


class _Telling:
    """A run of the protocol: the answer to a message, until there is a reply, or a person is asked."""

    def __init__(self, thread: _Thread, run_id: str, number: int, call_ids: Set[str]) -> None:
        """`call_ids`: the calls of tools that the client has."""
        self._known = call_ids
        self._thread = thread
        self._run_id = run_id
        self._number = number
        self._words = Words()

    async def events(self, *, is_again: bool) -> AsyncGenerator[BaseEvent, None]:
        thread = self._thread
        yield RunStartedEvent(thread_id=thread.name, run_id=self._run_id, protocol_version=VERSION)
        heard = await thread.speech(self._number)
        self._words.is_again = is_again
        if is_again:  # so that the client has nothing twice
            yield await thread.snapshot(self._number, await thread.thoughts(heard))
        while heard is not None:
            async with aclosing(self._reply_events(heard)) as events:
                async for event in events:
                    yield event
            state = await thread.control.run(heard.run).state()
            if state.ended:
                break
            if asked := await thread.open_gates(heard):
                for event in self._calls(asked):
                    yield event
                gates = [_interrupt(row) for row in asked if row["reason"] != CLIENT_TOOL]
                yield self._finished(RunFinishedInterruptOutcome(interrupts=gates) if gates else RunFinishedSuccessOutcome())
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await thread.control.run(heard.run).until(lambda now, seq=state.seq: now.seq > seq)  # type: ignore[misc]
        exchange = await thread.control.reply(thread.name, self._number, tenant=thread.tenant)
        for event in self._end(exchange):
            yield event

    async def _reply_events(self, speech: ReplyStream) -> AsyncGenerator[BaseEvent, None]:
        async with aclosing(speech.more()) as telling:
            async for told in telling:
                self._thread.told.append(told)
                for event in self._words.of(told):
                    yield event
                if told.kind == "reset":  # what was sent of that call counts for nothing
                    yield await self._thread.snapshot(self._number, self._thread.told)
        for event in self._words.closed():
            yield event

    def _calls(self, gates: Sequence[query.View]) -> Iterator[BaseEvent]:
        """Yield the calls of the front end's tools that no model's stream has shown."""
        for row in gates:
            if row["reason"] == CLIENT_TOOL and row["shown"]["call"] is None and _call_of(row) not in self._known:
                yield from self._words.call(_call_of(row), row["shown"]["tool"], row["shown"]["arguments"])

    def _end(self, exchange: ConversationTurn) -> Iterator[BaseEvent]:
        if exchange.status == "completed":
            if exchange.reply and exchange.reply != self._words.last:
                yield from self._words.whole(_reply_id(exchange), exchange.reply)
            yield self._finished(RunFinishedSuccessOutcome(), exchange.reply)
        elif exchange.status == "cancelled":
            yield self._finished(RunFinishedCancelledOutcome())
        else:
            why = exchange.problem or f"There is no reply: {exchange.status}."
            yield RunErrorEvent(message=why, code=exchange.status)

    def _finished(self, outcome: RunFinishedOutcome, result: str | None = None) -> BaseEvent:
        return RunFinishedEvent(thread_id=self._thread.name, run_id=self._run_id, outcome=outcome, result=result)
