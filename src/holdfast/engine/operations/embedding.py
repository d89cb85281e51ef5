"""Vectors of texts in a step, recorded at their places, so that a replay compares what the step compared.

Never here: what the vectors are for, keeping them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

import msgspec

from holdfast.authoring.agents.embedder import Embedder, FunctionEmbedder, ModelEmbedder, expected
from holdfast.authoring.values.sensitive import as_kept
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import EMBEDDING
from holdfast.core.nouns.shared_values import unpacked
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import digest, inline
from holdfast.engine.attempts.journal import StepJournal
from holdfast.errors import InvalidInput
from holdfast.ports import EmbeddingRequest

MAX_TEXTS: Final = 256
"""In one call: what comes back of them stands in the history of the run."""
MAX_DIMENSIONS: Final = 8_192


async def vector(journal: StepJournal, path: Path, embedder: Embedder, text: str) -> bytes:
    """Return the embedder's vector of a text, or the one it made at this place. A plain function runs in a thread."""
    if isinstance(embedder, ModelEmbedder):
        asked = EmbeddingRequest(embedder.name, (text,), embedder.dimension)
        reply = await journal.attempt.services.gateway.embed(journal, path, asked)
        [found] = expected(embedder, [text], [unpacked(each) for each in reply.vectors])
        return found
    name, args_hash = embedder.name, digest([embedder.name, embedder.dimension, text])
    known = journal.find(path, EMBEDDING, name, args_hash)
    if known is not None and known.outcome is not None:
        return msgspec.json.decode(known.outcome.json, type=bytes)
    embed = cast(FunctionEmbedder, embedder).embed
    made = await journal.attempt.services.threads.run(partial(embed, [text]), {})
    [found] = expected(embedder, [text], made)
    journal.note(cmd.Value(path, EMBEDDING, None, inline(msgspec.to_builtins(found)), name, args_hash))
    return found


def build_request(texts: Sequence[str], model: str, dimensions: int | None) -> EmbeddingRequest:
    """Return the request of `ctx.embed`. Raises InvalidInput."""
    if isinstance(texts, str) or not 1 <= len(texts) <= MAX_TEXTS or not all(each for each in texts):
        raise InvalidInput(
            f"ctx.embed takes a list of 1 to {MAX_TEXTS:,} texts, none of them empty. Nothing was called: leave empty ones"
            " out, and make several calls of more."
        )
    if dimensions is not None and not 1 <= dimensions <= MAX_DIMENSIONS:
        raise InvalidInput(f"dimensions={dimensions!r}: a vector has 1 to {MAX_DIMENSIONS:,} numbers. Nothing was called.")
    return EmbeddingRequest(model, tuple(map(as_kept, texts)), dimensions)
