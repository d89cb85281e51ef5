"""Recall of a labelled set with real vectors, beside the list of what is newest."""

from __future__ import annotations

from pathlib import Path

from holdfast.stores.sqlite import SqliteStore
from tests.memory.labelled import MEMORIES, QUESTIONS
from tests.memory.recall import measured, opened


async def test_words_and_meaning_find_what_a_list_of_the_newest_does_not(tmp_path: Path) -> None:
    assert len(MEMORIES) == 60
    assert all(answers <= MEMORIES.keys() for _, answers in QUESTIONS)
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    try:
        recall = await measured(store, opened())
    finally:
        await store.aclose()
    assert recall["newest"] < 0.2
    assert recall["words"] > 0.5
    assert recall["meaning"] > 0.75
