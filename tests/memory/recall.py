"""How much of what answers a question is among the first five that are recalled.

Never here: a promise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import wordllama

from holdfast.core.nouns.shared_values import SharedIndex, SharedValue, packed
from holdfast.core.views.projection import SharedChange
from holdfast.ports import SharedFound, Store
from tests.memory.labelled import MEMORIES, QUESTIONS

MODEL: Final = "wordllama"
_FIRST: Final = 5
_SPACE: Final = ("default", "!memory/planner/")

Ask = Callable[[str], Awaitable[Sequence[SharedFound]]]


def opened() -> Any:
    """The embedder. Its wheel carries the weights, beside which it looks for the rest only when it is told to."""
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


async def measured(store: Store, embedder: Any) -> dict[str, float]:
    """Recall at five by words, by meaning, and of the list of what is newest."""
    for (key, text), vector in zip(MEMORIES.items(), embedder.embed(list(MEMORIES.values())), strict=True):
        body = msgspec.json.encode(SharedValue({"text": text}, 1, 1, "ann"))
        index = SharedIndex(text, MODEL, packed(vector.tolist()))
        await store.shared_values.put(SharedChange(*_SPACE, key, 0, body, index=index, keep=1))

    async def by_words(question: str) -> Sequence[SharedFound]:
        return await store.shared_values.search(*_SPACE, SharedIndex(question), _FIRST)

    async def by_meaning(question: str) -> Sequence[SharedFound]:
        vector = packed(embedder.embed([question])[0].tolist())
        return await store.shared_values.search(*_SPACE, SharedIndex(model=MODEL, vector=vector), _FIRST)

    async def newest(question: str) -> Sequence[SharedFound]:
        return await store.shared_values.search(*_SPACE, None, _FIRST)

    asked: dict[str, Ask] = {"words": by_words, "meaning": by_meaning, "newest": newest}
    return {name: await _recall(ask) for name, ask in asked.items()}


async def _recall(ask: Ask) -> float:
    shares = [len(answers & {each.key for each in await ask(question)}) / len(answers) for question, answers in QUESTIONS]
    return sum(shares) / len(shares)
