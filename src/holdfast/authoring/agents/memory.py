"""An agent's memory, as the code of a step has it, and as what a model may ask for.

Never here: keeping memories (engine.operations.memory), what is relevant (core.nouns.memory).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model

from holdfast.authoring.agents.embedder import Embedder
from holdfast.core.nouns.memory import (
    CONTEXT_TOKENS,
    IMPORTANCE,
    KINDS,
    MAX_ENTRIES,
    RECALLED,
    Kind,
    Memory,
    MemoryStats,
    namespace,
)

By: TypeAlias = Literal["words", "meaning"]
Verb: TypeAlias = Literal["remember", "recall", "forget"]
VERBS: Final[tuple[Verb, ...]] = ("remember", "recall", "forget")
_TOLD: Final[dict[Verb, str]] = {
    "remember": "Keep something for later conversations, in one or two sentences that can be understood alone.",
    "recall": "What you have kept that has to do with a question; without one, what matters most.",
    "forget": "Delete something that you have kept, by its id.",
}


class AgentMemory(Protocol):
    """The memory of an agent of one tenant, and of one user if you name one. What is kept and recalled is recorded: a replay
    sees what the step saw, and keeps nothing again."""

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
        """Store a text of at most 4,000 characters, in one commit with its event, and return its key. A memory with a `source`
        is not trusted unless you say so, and is no instruction: models see it as a quotation. If the memory is full, the least
        relevant one goes in the same commit. Raises InvalidInput."""
        ...

    async def recall(
        self,
        query: str | None = None,
        *,
        kinds: Sequence[Kind] | None = None,
        least_relevance: float = 0.0,
        limit: int = RECALLED,
        by: By | None = None,
    ) -> list[Memory]:
        """Return the entries: with a `query` those that are most like it, without one the most relevant. With an embedder the
        search is by meaning, and by words among entries that were kept without it; otherwise it is by words. Their use is
        counted in the step's next commit."""
        ...

    async def context(self, *, max_tokens: int = CONTEXT_TOKENS, query: str | None = None) -> str:
        """Return the text for a model, of the 50 that `recall` brings first: instructions, decisions, facts, conversations,
        results, and then what is not trusted, quoted as data."""
        ...

    async def forget(self, key: str) -> None:
        """Delete a memory; nothing happens where there is none of that key."""
        ...

    async def stats(self) -> MemoryStats:
        """Return the numbers of entries by kind and relevance, as of now: for people and reports."""
        ...

    def tools(self, *, trusted: bool = False) -> tuple[MemoryTool, ...]:
        """Return the tools of this memory that a model may be offered."""
        ...


class MemoryTool(NamedTuple):
    """A tool with which a model asks a memory. The code names the owner of the memory, and no argument can. Unless the model
    is `trusted` what it keeps is data, and it can keep no instruction."""

    name: Verb
    agent: str
    user: str | None
    trusted: bool
    embedder: Embedder | None = None
    most: int = MAX_ENTRIES

    @property
    def description(self) -> str:
        return _TOLD[self.name]

    @property
    def schema(self) -> dict[str, Any]:
        return self.arguments.model_json_schema()

    @property
    def arguments(self) -> type[BaseModel]:
        """The model of its arguments."""
        return _ARGUMENTS[self.name, self.trusted]

    @property
    def identity(self) -> str:
        """The part of it that matters to the workflow that offers it."""
        with_meaning = f" {self.embedder.name}" if self.embedder is not None else ""
        trust = "trusted" if self.trusted else "quoted"
        return f"{self.name} {namespace(self.agent, self.user)} {self.most} {trust}{with_meaning}"


def memory_tools(
    agent: str, *, user: str | None = None, trusted: bool = False, embedder: Embedder | None = None, most: int = MAX_ENTRIES
) -> tuple[MemoryTool, ...]:
    """Return the tools `remember`, `recall` and `forget` of an agent's memory, for the `tools` of a model.

    Args:
        agent: Name of the agent.
        user: User whose memories are kept apart; by default the agent's own memory.
        trusted: True to let the model keep instructions. By default what it keeps is quoted as data.
        embedder: Embedder with which memories are recalled by meaning; by default by words.
        most: Maximum number of entries, at most 10,000.

    Raises:
        InvalidInput: A name cannot be used.
    """
    namespace(agent, user)
    return tuple(MemoryTool(verb, agent, user, trusted, embedder, most) for verb in VERBS)


def _arguments(verb: Verb, trusted: bool) -> type[BaseModel]:
    fields: dict[Verb, dict[str, Any]] = {
        "remember": {
            "text": (str, Field(min_length=1)),
            "kind": (Literal[KINDS if trusted else tuple(kind for kind in KINDS if kind != "instruction")], "fact"),
            "importance": (float, Field(IMPORTANCE, ge=0, le=1)),
        },
        "recall": {"query": (str, ""), "limit": (int, Field(RECALLED, ge=1, le=RECALLED))},
        "forget": {"id": (str, ...)},
    }
    made: type[BaseModel] = create_model(verb, __config__=ConfigDict(extra="forbid"), **fields[verb])
    return made


_ARGUMENTS: Final = {(verb, trusted): _arguments(verb, trusted) for verb in VERBS for trusted in (False, True)}
