"""The settings of a semantic cache: answers that a model has given are given again to questions that mean the same.

Never here: looking an answer up, keeping one (engine.operations.semantic_cache).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from holdfast.authoring.agents.embedder import Embedder
from holdfast.errors import UsageError

THRESHOLD: Final = 0.95
MAX_CACHED: Final = 1_000
_MAX_ALLOWED: Final = 10_000


class SemanticCache(NamedTuple):
    """A cache of a model's answers, for one tenant, one prompt and one model. A question with nearly the meaning of an answered
    one gets that answer."""

    embedder: Embedder | None = None
    """Embedder that compares meanings; without one only the same question matches."""
    threshold: float = THRESHOLD
    """Least similarity of a match: the cosine of the two vectors."""
    version: str = "1"
    """Version of the prompt; another version has other answers."""
    max_age_s: float | None = None
    """Age in seconds from which an answer no longer counts; by default never."""
    most: int = MAX_CACHED
    """Maximum number of answers; the least recently used ones go first."""

    @property
    def identity(self) -> list[Any]:
        """Part of it that belongs to a workflow's identity."""
        embedder = self.embedder
        return [None if embedder is None else [embedder.name, embedder.dimension], self.threshold, self.version, self.max_age_s]


def expect_cache(value: Any, *, answers_alone: bool) -> SemanticCache | None:
    """Return the setting of `cache=`; `answers_alone`: one model is asked one question, and has nothing to ask for. Raises
    UsageError."""
    if value is None:
        return None
    if not isinstance(value, SemanticCache):
        raise UsageError(f"cache={value!r:.80}: it is a SemanticCache.")
    if not answers_alone:
        raise UsageError(
            "cache: what a model answers that has tools or skills, goes on with a conversation, or was chosen by a Router does"
            " not follow from the question alone. Leave the cache out, or ask without these."
        )
    if not 0 < value.threshold <= 1:
        raise UsageError(f"cache: threshold={value.threshold!r:.80} is a likeness, above 0 to 1.")
    if value.max_age_s is not None and not value.max_age_s > 0:
        raise UsageError(f"cache: max_age_s={value.max_age_s!r:.80} is a time in seconds, above 0.")
    if not 1 <= value.most <= _MAX_ALLOWED:
        raise UsageError(f"cache: most={value.most!r:.80} is a number of answers from 1 to {_MAX_ALLOWED}.")
    return value
