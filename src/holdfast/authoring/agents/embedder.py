"""The function that makes a vector of a text, so that texts that mean alike are near each other.

Never here: calling it in a step (engine), keeping vectors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from holdfast.core.nouns.shared_values import packed
from holdfast.errors import InvalidInput

Vectors: TypeAlias = Sequence[Sequence[float]]


class Embedder(Protocol):
    """Vectors of one `name` are compared with each other only, and have `dimension` numbers."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...


class FunctionEmbedder(Embedder, Protocol):
    """One whose vectors code of this process makes."""

    @property
    def embed(self) -> Callable[[list[str]], Vectors | Awaitable[Vectors]]: ...


class LocalEmbedder(NamedTuple):
    """A function in this process, async or plain, that makes a vector of each text, at no cost."""

    name: str
    """Name of the embedder; vectors of another name are not compared."""
    embed: Callable[[list[str]], Vectors | Awaitable[Vectors]]
    """The function: it takes texts and returns a vector for each."""
    dimension: int
    """Numbers per vector."""


class ModelEmbedder(NamedTuple):
    """A provider's embedding model. Each call is reserved and paid like any other model call."""

    name: str
    """Name of the model, like `openai:text-embedding-3-small`."""
    dimension: int
    """Numbers per vector."""


def expected(embedder: Embedder, texts: Sequence[str], vectors: Vectors) -> list[bytes]:
    """Return the vectors of an embedder, as they are kept. Raises InvalidInput where it is not one vector of its length for
    each text."""
    lengths = {len(vector) for vector in vectors}
    if len(vectors) != len(texts) or lengths != {embedder.dimension}:
        raise InvalidInput(
            f"The embedder {embedder.name!r} made {len(vectors)} vectors of {', '.join(map(str, sorted(lengths))) or 'no'}"
            f" numbers of {len(texts)} texts, and not one of {embedder.dimension} of each. Nothing was kept: say the dimension"
            " that it has, and give another one another name."
        )
    return [packed([float(number) for number in vector]) for vector in vectors]
