"""A queue of jobs with all that it waits for: pools, a group of workers, a strand.

Never here: whose turn it is (line).
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast.scheduling.line import Queue
from holdfast.scheduling.pool import Pool
from holdfast.scheduling.strand import Strand
from holdfast.scheduling.worker import Group

JobQueue: TypeAlias = Queue[Pool, Group, Strand]
"""Jobs that ask for the same, as whoever places them knows them."""
