"""How soon an agent's memory answers, on SQLite, and how much of what was asked for it finds.

    python -m bench.memory

Prints a JSON line for each: recall by words with 100,000 memories, in twenty namespaces and in one, by meaning with 10,000 in
one, and the recall at five of the labelled set of the tests.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from holdfast.core.nouns.shared_values import SharedIndex, SharedValue, packed
from holdfast.core.views.projection import SharedChange
from holdfast.stores.sqlite import SqliteStore, shared_value
from tests.memory.recall import measured, opened

_WORDS: Final = 20_000
"""That are used, the n-th of them 1/n as often as the first."""
_IN_A_MEMORY: Final = 14
_IN_A_QUESTION: Final = 6
_NUMBERS: Final = 256
_QUESTIONS: Final = 300


class Writer:
    """Says what nobody has said, in words that are as rare as words are."""

    def __init__(self) -> None:
        self._chance = random.Random(1)
        self._words = [f"{n * 7919:x}" for n in range(_WORDS)]
        self._up_to = list(itertools.accumulate(1 / (n + 2) for n in range(_WORDS)))

    def text(self, words: int) -> str:
        return " ".join(self._chance.choices(self._words, cum_weights=self._up_to, k=words))

    def vector(self) -> bytes:
        return packed([self._chance.gauss(0, 1) for _ in range(_NUMBERS)])


async def _filled(path: Path, changes: Iterator[SharedChange]) -> SqliteStore:
    await (await SqliteStore.connect(path)).aclose()
    store = await SqliteStore.connect(path)
    db = apsw.Connection(str(path))
    with db:
        shared_value.write(db, list(changes))
    db.close()
    return store


def _change(space: str, key: int, text: str, index: SharedIndex) -> SharedChange:
    value = {"text": text, "kind": "fact", "importance": 0.5, "metadata": {}, "source": "", "trusted": True}
    body = msgspec.json.encode(SharedValue(value, 1, 1, "ann"))
    return SharedChange("default", space, str(key), 0, body, index=index, keep=1)


async def _asked(store: SqliteStore, spaces: int, queries: Iterator[SharedIndex]) -> dict[str, float]:
    chance, took_ms = random.Random(2), []
    for query in queries:
        space = f"!memory/{chance.randrange(spaces)}/"
        begun = time.perf_counter()
        await store.shared_values.search("default", space, query, 20)
        took_ms.append((time.perf_counter() - begun) * 1000)
    took_ms.sort()
    return {"p50_ms": round(took_ms[len(took_ms) // 2], 1), "p95_ms": round(took_ms[int(len(took_ms) * 0.95)], 1)}


async def _by_words(path: Path, memories: int, spaces: int) -> dict[str, Any]:
    writer = Writer()
    texts = (writer.text(_IN_A_MEMORY) for _ in range(memories))
    changes = (_change(f"!memory/{n % spaces}/", n, text, SharedIndex(text)) for n, text in enumerate(texts))
    store = await _filled(path, changes)
    asked = (SharedIndex(writer.text(_IN_A_QUESTION)) for _ in range(_QUESTIONS))
    found = await _asked(store, spaces, asked)
    await store.aclose()
    return {"by": "words", "memories": memories, "namespaces": spaces, **found}


async def _by_meaning(path: Path, memories: int) -> dict[str, Any]:
    writer = Writer()
    changes = (
        _change("!memory/0/", n, writer.text(_IN_A_MEMORY), SharedIndex("", "m", writer.vector())) for n in range(memories)
    )
    store = await _filled(path, changes)
    asked = (SharedIndex(model="m", vector=writer.vector()) for _ in range(_QUESTIONS))
    found = await _asked(store, 1, asked)
    await store.aclose()
    return {"by": "meaning", "memories": memories, "namespaces": 1, "numbers": _NUMBERS, **found}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for spaces in (20, 1):
            print(json.dumps(await _by_words(place / f"words-{spaces}.db", 100_000, spaces)), flush=True)  # noqa: T201 - the line is what it is for
        print(json.dumps(await _by_meaning(place / "meaning.db", 10_000)), flush=True)  # noqa: T201 - the line is what it is for
        store = await SqliteStore.connect(place / "labelled.db")
        recall = await measured(store, opened())
        await store.aclose()
        print(json.dumps({"recall_at_5": {name: round(share, 3) for name, share in recall.items()}}))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    asyncio.run(main())
