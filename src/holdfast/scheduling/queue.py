"""A queue of jobs with all that it waits for: pools, a class of workers, a class of jobs.

Never here: whose turn it is (wait_queue).
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast.scheduling.job_class import JobClass
from holdfast.scheduling.pool import Pool
from holdfast.scheduling.wait_queue import Queue
from holdfast.scheduling.worker import WorkerClass

JobQueue: TypeAlias = Queue[Pool, WorkerClass, JobClass]
"""Jobs that ask for the same, as the placing process knows them."""
