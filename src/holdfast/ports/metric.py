"""A metric, and what was measured of it, between those who count and those who show or send it.

Never here: a metric by name (observe.metrics has all, telemetry.names those of a convention), a format.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

MetricKind = Literal["counter", "gauge", "histogram"]
"""- `counter`: only grows, from the start of its process
- `gauge`: goes up and down
- `histogram`: how many measurements were at most each of some bounds, and their sum
"""


class Metric(NamedTuple):
    """A metric. `bounds` are the upper bounds of a histogram's buckets, without the last, which has none."""

    name: str
    kind: MetricKind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


class Distribution(NamedTuple):
    """The measurements of a histogram: the number in each bucket, the last of which has no bound, and their sum."""

    counts: tuple[int, ...]
    total: float


class Sample(NamedTuple):
    """A metric's value for one combination of its labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution
