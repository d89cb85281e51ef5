"""The settings of a semantic cache: answers that a model has given are given again to questions that mean the same.

Never here: looking an answer up, keeping one (engine.operations.semantic_cache).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from holdfast.authoring.agents.embedder import Embedder
from holdfast.errors import UsageError

THRESHOLD: Final = 0.95
MOST_CACHED: Final = 1_000
_MOST_ALLOWED: Final = 10_000


class SemanticCache(NamedTuple):
    """Answers of one tenant, to one prompt in one `version`, by one model. A question whose meaning is at least as near as
    `threshold` to one that was answered (the cosine of their vectors, by the `embedder`) gets that answer; without an embedder
    only the same question does. An answer older than `max_age_s` is none; of more than `most` of them the least recently used
    goes.
    """

    embedder: Embedder | None = None
    threshold: float = THRESHOLD
    version: str = "1"
    max_age_s: float | None = None
    most: int = MOST_CACHED

    @property
    def identity(self) -> list[Any]:
        """The part of it that belongs to the identity of a workflow."""
        embedder = self.embedder
        return [None if embedder is None else [embedder.name, embedder.dimension], self.threshold, self.version, self.max_age_s]


def expect_cache(given: Any, *, answers_alone: bool) -> SemanticCache | None:
    """Return the setting of `cache=`; `answers_alone`: one model is asked one question, and has nothing to ask for. Raises
    UsageError."""
    if given is None:
        return None
    if not isinstance(given, SemanticCache):
        raise UsageError(f"cache={given!r:.80}: it is a SemanticCache.")
    if not answers_alone:
        raise UsageError(
            "cache: what a model answers that has tools or skills, goes on with a conversation, or was chosen by a Router does"
            " not follow from the question alone. Leave the cache out, or ask without these."
        )
    if not 0 < given.threshold <= 1:
        raise UsageError(f"cache: threshold={given.threshold!r:.80} is a likeness, above 0 to 1.")
    if given.max_age_s is not None and not given.max_age_s > 0:
        raise UsageError(f"cache: max_age_s={given.max_age_s!r:.80} is a time in seconds, above 0.")
    if not 1 <= given.most <= _MOST_ALLOWED:
        raise UsageError(f"cache: most={given.most!r:.80} is a number of answers from 1 to {_MOST_ALLOWED}.")
    return given
