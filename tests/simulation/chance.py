"""The only source of randomness of a simulation: streams of random numbers, each derived from the seed and a name.

A draw that is added in one place changes nothing in another. Never here: what is drawn, or what it means.
"""

from __future__ import annotations

import random
from functools import cache


class Chance:
    """The random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stream = cache(self._stream)

    def _stream(self, name: str) -> random.Random:
        # A text seeds through SHA-512, so the stream does not depend on how this process hashes texts.
        return random.Random(f"{self.seed}/{name}")


def odd(stream: random.Random, likelihood: float) -> bool:
    """True once in a while. One draw, whatever the likelihood, so that changing one leaves what follows alone."""
    return stream.random() < likelihood


def spread_s(stream: random.Random, shortest_s: float, longest_s: float) -> float:
    """A duration whose order of magnitude is random: microseconds are as likely as minutes."""
    drawn: float = shortest_s * (longest_s / shortest_s) ** stream.random()
    return drawn
