"""An agent's memory in a step: what it keeps, recalls and forgets, each an operation of the step's journal.

Memories are shared values of a space of their own, found by their words and, with an embedder, by their meaning. Never here:
what is relevant, what a model is sent (core.nouns.memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from holdfast.authoring.agents.embedder import Embedder
from holdfast.authoring.agents.memory import By, MemoryTool, memory_tools
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.sensitive import as_kept
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import SHARED_USE
from holdfast.core.nouns import memory as rule
from holdfast.core.nouns.memory import CONTEXT_TOKENS, IMPORTANCE, MAX_ENTRIES, RECALLED, Kind, Memory, MemoryStats
from holdfast.core.nouns.shared_values import SharedIndex
from holdfast.core.values.payload import digest, inline
from holdfast.engine.attempts.cursor import cursor, note_calls
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.operations import embedding
from holdfast.engine.operations.shared_space import LatestValue, SharedSpace
from holdfast.errors import InvalidInput
from holdfast.ports import SharedFound, ToolReply, ToolRequest

_KEY: Final = "memory"
_KEY_DIGITS: Final = 20


class AgentMemory:
    """Of one agent of the step's tenant, or of it and one user. Keeps authoring.memory.AgentMemory."""

    def __init__(
        self, journal: StepJournal, space: SharedSpace, agent: str, user: str | None, embedder: Embedder | None, most: int
    ) -> None:
        if not 0 < most <= rule.MAX_ALLOWED:
            raise InvalidInput(f"A memory holds 1 to {rule.MAX_ALLOWED:,} entries, not {most!r}.")
        self._journal = journal
        self._space = space
        self._owner = agent, user
        self._embedder = embedder
        self._most = most

    async def remember(
        self,
        text: str,
        *,
        kind: Kind = "fact",
        importance: float = IMPORTANCE,
        metadata: dict[str, Any] | None = None,
        source: str = "",
        trusted: bool | None = None,
    ) -> str:
        """Keep a text; see authoring.memory.AgentMemory."""
        plain = msgspec.json.decode(self._journal.attempt.services.payloads.clean({"text": text, "more": metadata or {}}))
        vouched = not source if trusted is None else trusted
        memory = rule.checked(
            Memory(text=plain["text"], kind=kind, importance=importance, metadata=plain["more"], source=source, trusted=vouched)
        )
        index = SharedIndex(memory.text)
        if self._embedder is not None:
            index = SharedIndex(memory.text, self._embedder.name, await self._vector(self._embedder, memory.text))
        with cursor().place() as path:
            self._journal.find(path, _KEY, self._space.name)
        key = digest([self._journal.run, self._journal.step, path])[:_KEY_DIGITS]
        await self._space.keep(key, LatestValue(_as_kept(memory), index, lambda: self._crowded_out(key)))
        return key

    async def recall(
        self,
        query: str | None = None,
        *,
        kinds: Sequence[Kind] | None = None,
        least_relevance: float = 0.0,
        limit: int = RECALLED,
        by: By | None = None,
    ) -> list[Memory]:
        """Return memories; see authoring.memory.AgentMemory."""
        if not 0 < limit <= MAX_ENTRIES or by not in (None, "words", "meaning"):
            raise InvalidInput(
                f"limit={limit!r}, by={by!r}: a recall brings 1 to {MAX_ENTRIES} memories, by words or by meaning."
            )
        query = None if query is None else as_kept(query)
        asked = None if query is None else await self._query(query, by)
        args_hash = digest(["recall", query, list(kinds or []), least_relevance, limit, by])
        with cursor().place() as path:
            known = self._journal.find(path, SHARED_USE, self._space.name, args_hash)
            if known is not None and known.outcome is not None:
                return msgspec.json.decode(known.outcome.json, type=list[Memory])
            found = await self._space.search(asked, rule.MAX_ALLOWED)
            if query is not None and by is None and self._embedder is not None:
                found = _interleaved(found, await self._space.search(SharedIndex(query), rule.MAX_ALLOWED))
            chosen = rule.chosen(self._ordered(found, asked), kinds, least_relevance, limit)
            kept, keys = inline(msgspec.to_builtins(chosen)), {each.key for each in chosen}
            authors = tuple(dict.fromkeys(name for each in found if each.key in keys for name in each.latest.authors))
            self._journal.note(cmd.Value(path, SHARED_USE, None, kept, self._space.name, args_hash, authors))
        return chosen

    async def context(self, *, max_tokens: int = CONTEXT_TOKENS, query: str | None = None) -> str:
        """Return the memories for a model as text; see authoring.memory.AgentMemory."""
        return rule.context(await self.recall(query, limit=rule.IN_CONTEXT), max_tokens)

    async def forget(self, key: str) -> None:
        """Delete a memory."""
        await self._space.drop(key)

    async def stats(self) -> MemoryStats:
        """Return how many memories there are, and how relevant they are."""
        return rule.stats(await self._search(None), self._now_ms())

    def tools(self, *, trusted: bool = False) -> tuple[MemoryTool, ...]:
        """Return the tools of this memory that a model may be offered."""
        agent, user = self._owner
        return memory_tools(agent, user=user, trusted=trusted, embedder=self._embedder, most=self._most)

    async def _query(self, query: str, by: By | None) -> SharedIndex:
        if by == "words" or (by is None and self._embedder is None):
            return SharedIndex(query)
        if self._embedder is None:
            raise InvalidInput("A recall by meaning needs the embedder of the memory: ctx.memory(…, embedder=…).")
        return SharedIndex(model=self._embedder.name, vector=await self._vector(self._embedder, query))

    async def _vector(self, embedder: Embedder, text: str) -> bytes:
        with cursor().place() as path:
            return await embedding.vector(self._journal, path, embedder, text)

    async def _search(self, query: SharedIndex | None) -> list[Memory]:
        """All memories that answer, the likest first, or without a query the most relevant."""
        return self._ordered(await self._space.search(query, rule.MAX_ALLOWED), query)

    def _ordered(self, entries: Sequence[SharedFound], query: SharedIndex | None) -> list[Memory]:
        order = rule.ranked([recalled(each) for each in entries], self._now_ms())
        if query is None:
            return order
        scored = {each.key: each for each in order}
        return [scored[each.key] for each in entries]

    async def _crowded_out(self, key: str) -> tuple[str, ...]:
        others = [each for each in await self._search(None) if each.key != key]
        return tuple(rule.crowded_out(others, self._now_ms(), self._most))

    def _now_ms(self) -> int:
        return self._journal.attempt.services.runtime.store.clock.now_ms()


note_calls(AgentMemory, "memory", "remember", "recall", "context", "forget", "stats")


def _as_kept(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in ("text", "kind", "importance", "metadata", "source", "trusted")}


def _interleaved(by_meaning: Sequence[SharedFound], by_words: Sequence[SharedFound]) -> list[SharedFound]:
    """Return what a search by meaning has found, and between these what only one by words can: entries that were kept without
    the embedder have no vector, and their likeness compares with no other."""
    known = {each.key for each in by_meaning}
    others = [each for each in by_words if each.key not in known]
    return [each for pair in zip_longest(by_meaning, others) for each in pair if each is not None]


def recalled(entry: SharedFound) -> Memory:
    """A shared value that is a memory."""
    more = {"key": entry.key, "at_ms": entry.latest.at_ms, "uses": entry.uses, "used_at_ms": entry.used_at_ms}
    return msgspec.convert({**entry.latest.value, **more}, Memory)


async def reply(memory: AgentMemory, request: ToolRequest, tool: MemoryTool) -> ToolReply:
    """Return the reply to a model that asked a memory for something."""
    try:
        said: Any = tool.arguments.model_validate(request.arguments, strict=True)
        match tool.name:
            case "remember":
                told = "Kept as " + await memory.remember(
                    said.text, kind=said.kind, importance=said.importance, source="model", trusted=tool.trusted
                )
            case "recall":
                found = await memory.recall(said.query or None, limit=said.limit)
                told = "\n".join(map(_listed, found)) or "Nothing of that is remembered."
            case _:
                await memory.forget(said.id)
                told = "Forgotten."
    except ValidationError as problem:
        return ToolReply(request.id, request.name, describe(problem), is_error=True)
    except InvalidInput as problem:
        return ToolReply(request.id, request.name, problem.message, is_error=True)
    return ToolReply(request.id, request.name, told)


def _listed(memory: Memory) -> str:
    shown = {"id": memory.key, "kind": memory.kind, "from": memory.source, "trusted": memory.trusted, "text": memory.text}
    return msgspec.json.encode(shown).decode()
