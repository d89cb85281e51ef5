"""What an embedder makes of a text in a step, recorded at its place, so that a replay compares what the step compared.

Never here: what the vectors are for, keeping them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from holdfast.authoring.embedder import Embedder, expected
from holdfast.core import commands as cmd
from holdfast.core.ids import Path
from holdfast.core.payload import digest, inline
from holdfast.engine.journal import StepJournal

EMBEDDING: Final = "embedding"
"""The kind of a vector that an embedder has made."""


async def vector(journal: StepJournal, path: Path, embedder: Embedder, text: str) -> bytes:
    """What the embedder makes of a text, or had made of it at this place. A plain function runs in a thread."""
    name, args_hash = embedder.name, digest([embedder.name, embedder.dimension, text])
    known = journal.found(path, EMBEDDING, name, args_hash)
    if known is not None and known.outcome is not None:
        return msgspec.json.decode(known.outcome.json, type=bytes)
    made = await journal.attempt.services.threads.run(partial(embedder.embed, [text]), {})
    [found] = expected(embedder, [text], made)
    journal.note(cmd.Value(path, EMBEDDING, None, inline(msgspec.to_builtins(found)), name, args_hash))
    return found
