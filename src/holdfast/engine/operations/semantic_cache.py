"""Answers that a model has given, for questions that mean the same: looked up before it is asked, kept when it has answered.

They are shared values of a space of their own for each prompt, model and version, found by key or by meaning. A lookup is an
operation of the step: what it found, or that it found nothing, stands in the journal. Never here: which question may be
answered so (authoring.cache), what fits a schema (conversation).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.authoring.agents.cache import SemanticCache
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import SHARED_USE
from holdfast.core.nouns.shared_values import CACHE, SharedIndex, SharedValue
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import digest, inline
from holdfast.engine.attempts.cursor import cursor
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.operations import embedding
from holdfast.engine.operations.shared_lock import SharedLocks
from holdfast.engine.operations.shared_space import LatestValue, SharedSpace
from holdfast.ports import ModelReply, ModelRequest, UserTurn

_DIGITS: Final = 20
_MAX_LOOKED_AT: Final = 20
"""Of the likest answers, of which some may be too old."""


class CacheHit(msgspec.Struct, frozen=True):
    """An answer that was found: its entry's `key`, the `question` to which it was given in `run`, how like that one is
    (`likeness`, 1 for the same), and what the model had cost (`saved_nanousd`)."""

    key: str
    question: str
    likeness: float
    saved_nanousd: int
    run: str | None
    reply: dict[str, Any]


class CachedAnswers:
    """The cached answers to one prompt, of one model."""

    def __init__(self, journal: StepJournal, locks: SharedLocks, cache: SemanticCache, request: ModelRequest) -> None:
        self._journal = journal
        self._cache = cache
        self._request = request
        (asked,) = request.turns
        assert isinstance(asked, UserTurn)
        payloads = journal.attempt.services.payloads
        self._question: str = msgspec.json.decode(payloads.clean(asked.text))
        self._key = digest([self._question])[:_DIGITS]
        self._at = Path("")
        """Where the vector of the question is recorded."""
        embedder = None if cache.embedder is None else [cache.embedder.name, cache.embedder.dimension]
        prompt = [msgspec.to_builtins(msgspec.structs.replace(request, turns=())), cache.version, embedder]
        self._space = SharedSpace(journal, locks, f"{CACHE}/{digest(prompt)[:_DIGITS]}", None)

    async def find(self) -> ModelReply | None:
        """The answer to this question, or to one that means the same; None where the model is to be asked."""
        args_hash = digest([self._key, *self._cache.identity])
        with cursor().place() as path:
            self._at = Path(f"{path}.embedding")
            known = self._journal.find(path, SHARED_USE, self._space.name, args_hash)
            if known is not None and known.outcome is not None:
                hits = msgspec.json.decode(known.outcome.json, type=list[CacheHit])
            else:
                found = await self._find_match()
                hits = [] if found is None else [self._hit(*found)]
                kept, by = inline(msgspec.to_builtins(hits)), () if found is None else found[1].authors
                self._journal.note(cmd.Value(path, SHARED_USE, None, kept, self._space.name, args_hash, by))
        return msgspec.convert(hits[0].reply, ModelReply) if hits else None

    async def keep(self, reply: ModelReply) -> None:
        """Keep what the model has answered; the least recently used answer goes where there are too many."""
        cost_nanousd = self._journal.attempt.services.gateway.cost_nanousd(self._request.model, reply.usage)
        value = {"question": self._question, "reply": msgspec.to_builtins(reply), "cost_nanousd": cost_nanousd}
        plain = msgspec.json.decode(self._journal.attempt.services.payloads.clean(value))
        await self._space.keep(self._key, LatestValue(plain, await self._index(), self._crowded_out))

    async def _find_match(self) -> tuple[str, SharedValue, float] | None:
        """The one answer that is found, if there is one: that to the same question, or else to the likest."""
        same = await self._space.latest(self._key)
        if same is not None and not same.gone and self._is_young(same):
            return self._key, same, 1.0
        if self._cache.embedder is None:
            return None
        found = await self._space.search(await self._index(), _MAX_LOOKED_AT)
        near = (each for each in found if each.likeness >= self._cache.threshold and self._is_young(each.latest))
        return next(((each.key, each.latest, each.likeness) for each in near), None)

    def _hit(self, key: str, entry: SharedValue, likeness: float) -> CacheHit:
        value = entry.value
        return CacheHit(key, value["question"], round(likeness, 4), value["cost_nanousd"], entry.run, value["reply"])

    def _is_young(self, entry: SharedValue) -> bool:
        age_ms = self._journal.attempt.services.runtime.store.clock.now_ms() - entry.at_ms
        return self._cache.max_age_s is None or age_ms <= self._cache.max_age_s * 1000

    async def _index(self) -> SharedIndex:
        """By what the question is found: its meaning, or nothing where there is no embedder."""
        embedder = self._cache.embedder
        if embedder is None:
            return SharedIndex()
        return SharedIndex(
            model=embedder.name, vector=await embedding.vector(self._journal, self._at, embedder, self._question)
        )

    async def _crowded_out(self) -> tuple[str, ...]:
        """The least recently used of the others, where there are too many."""
        others = [each for each in await self._space.search(None, self._cache.most + 1) if each.key != self._key]
        others.sort(key=lambda each: max(each.used_at_ms, each.latest.at_ms))
        return tuple(each.key for each in others[: max(0, len(others) + 1 - self._cache.most)])
