"""The services that the machine needs from outside, as short promises. Adapters that do not know one another keep them.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

from holdfast.core.views.selection import LetterFilter, LetterState, RunFilter
from holdfast.ports.administration import Administration, Holder, MonthStatus, RemovedData, SessionStatus, StoreStatus
from holdfast.ports.beside_runs import (
    RESOLVED_FOR_MS,
    ChildLink,
    Children,
    DeadLetters,
    JobLogs,
    Letter,
    LetterCount,
    LogPiece,
    LogPlace,
)
from holdfast.ports.blob import BlobPlace, Blobs
from holdfast.ports.caller import (
    ApiKey,
    Audit,
    AuditFilter,
    Keys,
    Opens,
    PendingRequest,
    Replies,
    Reply,
    SignIn,
    SignIns,
    ToDecide,
)
from holdfast.ports.codec import OF_NONE, Codec, TenantKey, TenantKeys
from holdfast.ports.environment import Clock, Ids, Threads
from holdfast.ports.figures import CostFilter, Costs, CostSumFilter, ModelEstimates, ScoreFilter, Scores
from holdfast.ports.graph import Graphs, WorkflowRecord
from holdfast.ports.journal import CacheUse, EditedCall, Journal, RateLimiter, Recall
from holdfast.ports.lending import Lending, Reservation
from holdfast.ports.log import Append, History, Log, SnapshotRecord
from holdfast.ports.model import (
    AnswerSpec,
    EmbeddingReply,
    EmbeddingRequest,
    Model,
    ModelDelta,
    ModelReply,
    ModelRequest,
    ModelTurn,
    TextDelta,
    ThinkingDelta,
    ToolDelta,
    ToolReply,
    ToolRequest,
    ToolSpec,
    ToolTurn,
    Turn,
    Usage,
    UsageDelta,
    UserTurn,
)
from holdfast.ports.observer import (
    AppendsFlushed,
    CallBegan,
    CallEnded,
    DeadLettered,
    EventsCommitted,
    GateBegan,
    GateEnded,
    Observation,
    Observer,
    PoolWaited,
    RunBegan,
    RunEnded,
    StepBegan,
    StepEnded,
    StepPlaced,
)
from holdfast.ports.queue import DeliveredJob, Job, PlacedStep, Queue, Report, Stall, WaitingCall
from holdfast.ports.records import Conversations, Evaluations, KeptSchedule, Schedules, Supervisors
from holdfast.ports.replay_responder import RecordedAttempt, RecordedCall, ReplayRequest, ReplayResponder
from holdfast.ports.scope import Scopes
from holdfast.ports.session import ANY_YAML, Leadership, Sessions
from holdfast.ports.shared_value import SharedArrival, SharedEntry, SharedFound, SharedValues
from holdfast.ports.store import Store, StoreClock, Upkeep
from holdfast.ports.stream import Chunk, Piece, StreamName, Streams, StreamUpdate
from holdfast.ports.tail import CommittedEvent, FollowerRow, Followers, Sink, SinkUnavailable, Tail, TailEvent, Watch
from holdfast.ports.view import MAX_LISTED, DueRun, EffectFilter, GateFilter, UnplacedRun, Views
from holdfast.ports.worker import JOB_LOG, Calls, Work, WorkerGateway

__all__ = [
    "ANY_YAML",
    "JOB_LOG",
    "MAX_LISTED",
    "OF_NONE",
    "RESOLVED_FOR_MS",
    "Administration",
    "AnswerSpec",
    "ApiKey",
    "Append",
    "AppendsFlushed",
    "Audit",
    "AuditFilter",
    "BlobPlace",
    "Blobs",
    "CacheUse",
    "CallBegan",
    "CallEnded",
    "Calls",
    "ChildLink",
    "Children",
    "Chunk",
    "Clock",
    "Codec",
    "CommittedEvent",
    "Conversations",
    "CostFilter",
    "CostSumFilter",
    "Costs",
    "DeadLettered",
    "DeadLetters",
    "DeliveredJob",
    "DueRun",
    "EditedCall",
    "EffectFilter",
    "EmbeddingReply",
    "EmbeddingRequest",
    "Evaluations",
    "EventsCommitted",
    "FollowerRow",
    "Followers",
    "GateBegan",
    "GateEnded",
    "GateFilter",
    "Graphs",
    "History",
    "Holder",
    "Ids",
    "Job",
    "JobLogs",
    "Journal",
    "KeptSchedule",
    "Keys",
    "Leadership",
    "Lending",
    "Letter",
    "LetterCount",
    "LetterFilter",
    "LetterState",
    "Log",
    "LogPiece",
    "LogPlace",
    "Model",
    "ModelDelta",
    "ModelEstimates",
    "ModelReply",
    "ModelRequest",
    "ModelTurn",
    "MonthStatus",
    "Observation",
    "Observer",
    "Opens",
    "PendingRequest",
    "Piece",
    "PlacedStep",
    "PoolWaited",
    "Queue",
    "RateLimiter",
    "Recall",
    "RecordedAttempt",
    "RecordedCall",
    "RemovedData",
    "ReplayRequest",
    "ReplayResponder",
    "Replies",
    "Reply",
    "Report",
    "Reservation",
    "RunBegan",
    "RunEnded",
    "RunFilter",
    "Schedules",
    "Scopes",
    "ScoreFilter",
    "Scores",
    "SessionStatus",
    "Sessions",
    "SharedArrival",
    "SharedEntry",
    "SharedFound",
    "SharedValues",
    "SignIn",
    "SignIns",
    "Sink",
    "SinkUnavailable",
    "SnapshotRecord",
    "Stall",
    "StepBegan",
    "StepEnded",
    "StepPlaced",
    "Store",
    "StoreClock",
    "StoreStatus",
    "StreamName",
    "StreamUpdate",
    "Streams",
    "Supervisors",
    "Tail",
    "TailEvent",
    "TenantKey",
    "TenantKeys",
    "TextDelta",
    "ThinkingDelta",
    "Threads",
    "ToDecide",
    "ToolDelta",
    "ToolReply",
    "ToolRequest",
    "ToolSpec",
    "ToolTurn",
    "Turn",
    "UnplacedRun",
    "Upkeep",
    "Usage",
    "UsageDelta",
    "UserTurn",
    "Views",
    "WaitingCall",
    "Watch",
    "Work",
    "WorkerGateway",
    "WorkflowRecord",
]

_RENAMED: Final = {
    "Asked": "ReplayRequest",
    "Committed": "EventsCommitted",
    "Edited": "EditedCall",
    "Ended": "RecordedAttempt",
    "Flushed": "AppendsFlushed",
    "Freed": "RemovedData",
    "Handed": "DeliveredJob",
    "Hindered": "Stall",
    "Made": "RecordedCall",
    "MonthStanding": "MonthStatus",
    "Pace": "RateLimiter",
    "Pending": "PendingRequest",
    "SessionStanding": "SessionStatus",
    "StandIn": "ReplayResponder",
    "StoreStanding": "StoreStatus",
    "StreamNews": "StreamUpdate",
    "Unplaced": "UnplacedRun",
}
"""Each name of 0.1.0 that has become another one."""


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module 'holdfast.ports' has no attribute {name!r}")
    new = _RENAMED[name]
    warnings.warn(f"holdfast.ports.{name} has become {new}, and will be removed in 0.3.", DeprecationWarning, stacklevel=2)
    return globals()[new]
