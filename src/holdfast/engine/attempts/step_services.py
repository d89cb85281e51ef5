"""The parts of its process and of the world outside that an attempt at a step may use.

Never here: anything that changes while the process lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.core.values.trace import Propagation
from holdfast.engine.attempts.kept_requests import RequestKeeping
from holdfast.engine.attempts.residents import Residents
from holdfast.engine.attempts.value_turn import ValueTurns
from holdfast.engine.background.notifying import Notifications
from holdfast.engine.background.supervising import Supervising
from holdfast.engine.capacity.call_pools import CallPools
from holdfast.engine.capacity.model_knowledge import ModelKnowledge
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.engine.runs.blocked_runs import BlockedRuns
from holdfast.engine.runs.content import Contents
from holdfast.engine.runs.job_log import JobLogWriter
from holdfast.engine.runs.outside_calls import OutsideCalls
from holdfast.engine.runs.payloads import Payloads
from holdfast.engine.runs.runtime import Runtime
from holdfast.engine.runs.stream_hub import StreamHub
from holdfast.engine.runs.stream_writer import StreamWriter
from holdfast.models.gateway import Gateway
from holdfast.ports import ProgramGateway, ReplayResponder, Threads, WorkerGateway
from holdfast.settings import ScriptLimits, Secrets
from holdfast.tools.executor import ToolExecutor


@dataclass(frozen=True)
class StepServices:
    """The services of one process."""

    runtime: Runtime
    payloads: Payloads
    contents: Contents
    secrets: Secrets
    gateway: Gateway
    programs: ProgramGateway
    """The gateway of programs that steps run."""
    requests: RequestKeeping
    tools: ToolExecutor
    threads: Threads
    workers: WorkerGateway | None
    """Workers that are connected to this process, if it takes connections."""
    pool_client: PoolClient
    call_pools: CallPools
    models: ModelKnowledge
    value_turns: ValueTurns
    hindrances: BlockedRuns
    calls: OutsideCalls
    job_logs: JobLogWriter
    streams: StreamWriter
    listening: StreamHub
    """Those who watch what runs say."""
    supervising: Supervising
    residents: Residents[Any]
    """The flows that wait, and are kept in memory."""
    stand_in: ReplayResponder | None
    """Who answers in the place of the world, where recorded runs are replayed."""
    script_limits: ScriptLimits
    """How far a script of a workflow file may go."""
    notifications: Notifications
    """Channels and rules of the settings, for rules of tenants and for starts that name a channel."""
    propagation: Propagation
    """Rules for passing on the place of runs in their traces."""
