"""What the machine needs from outside, as short promises; each is kept by adapters that do not know one another.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from holdfast.ports.administration import Administration, Freed, Holder, MonthStanding, SessionStanding, StoreStanding
from holdfast.ports.blob import BlobPlace, Blobs
from holdfast.ports.caller import ApiKey, Audit, Keys, Opens, Pending, Replies, Reply, ToDecide
from holdfast.ports.child import ChildLink, Children
from holdfast.ports.codec import OF_NONE, Codec, TenantKey, TenantKeys
from holdfast.ports.conversation import Conversations
from holdfast.ports.cost import Costs
from holdfast.ports.dead_letter import RESOLVED_FOR_MS, DeadLetters, Letter, LetterCount, LetterFilter, LetterState
from holdfast.ports.environment import Clock, Ids, Threads
from holdfast.ports.evaluation import Evaluations
from holdfast.ports.graph import Graphs, WorkflowRecord
from holdfast.ports.job_log import JobLogs, LogPiece, LogPlace
from holdfast.ports.journal import Edited, Journal, Pace, Recall
from holdfast.ports.lane import Leadership
from holdfast.ports.lending import Lending
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
from holdfast.ports.model_estimate import ModelEstimates
from holdfast.ports.observer import (
    CallBegan,
    CallEnded,
    Committed,
    DeadLettered,
    Flushed,
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
from holdfast.ports.pool import Reservation
from holdfast.ports.queue import Handed, Hindered, Job, PlacedStep, Queue, Report
from holdfast.ports.schedule import KeptSchedule, Schedules
from holdfast.ports.scope import Scopes
from holdfast.ports.score import Scores
from holdfast.ports.session import ANY_YAML, Sessions
from holdfast.ports.shared_value import SharedArrival, SharedEntry, SharedFound, SharedValues
from holdfast.ports.stand_in import Asked, Ended, Made, StandIn
from holdfast.ports.store import Store, StoreClock, Upkeep
from holdfast.ports.stream import Chunk, Piece, StreamName, StreamNews, Streams
from holdfast.ports.supervisor import Supervisors
from holdfast.ports.tail import Tail, TailEvent, Watch
from holdfast.ports.view import MOST_LISTED, DueRun, RunFilter, Unplaced, Views
from holdfast.ports.worker import JOB_LOG, Calls, Work, WorkerGateway

__all__ = [
    "ANY_YAML",
    "JOB_LOG",
    "MOST_LISTED",
    "OF_NONE",
    "RESOLVED_FOR_MS",
    "Administration",
    "AnswerSpec",
    "ApiKey",
    "Append",
    "Asked",
    "Audit",
    "BlobPlace",
    "Blobs",
    "CallBegan",
    "CallEnded",
    "Calls",
    "ChildLink",
    "Children",
    "Chunk",
    "Clock",
    "Codec",
    "Committed",
    "Conversations",
    "Costs",
    "DeadLettered",
    "DeadLetters",
    "DueRun",
    "Edited",
    "EmbeddingReply",
    "EmbeddingRequest",
    "Ended",
    "Evaluations",
    "Flushed",
    "Freed",
    "GateBegan",
    "GateEnded",
    "Graphs",
    "Handed",
    "Hindered",
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
    "Made",
    "Model",
    "ModelDelta",
    "ModelEstimates",
    "ModelReply",
    "ModelRequest",
    "ModelTurn",
    "MonthStanding",
    "Observation",
    "Observer",
    "Opens",
    "Pace",
    "Pending",
    "Piece",
    "PlacedStep",
    "PoolWaited",
    "Queue",
    "Recall",
    "Replies",
    "Reply",
    "Report",
    "Reservation",
    "RunBegan",
    "RunEnded",
    "RunFilter",
    "Schedules",
    "Scopes",
    "Scores",
    "SessionStanding",
    "Sessions",
    "SharedArrival",
    "SharedEntry",
    "SharedFound",
    "SharedValues",
    "SnapshotRecord",
    "StandIn",
    "StepBegan",
    "StepEnded",
    "StepPlaced",
    "Store",
    "StoreClock",
    "StoreStanding",
    "StreamName",
    "StreamNews",
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
    "Unplaced",
    "Upkeep",
    "Usage",
    "UsageDelta",
    "UserTurn",
    "Views",
    "Watch",
    "Work",
    "WorkerGateway",
    "WorkflowRecord",
]
