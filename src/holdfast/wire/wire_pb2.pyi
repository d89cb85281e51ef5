from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("workflow", "yaml", "version", "input_json", "tenant", "key", "by", "cost_limit_usd", "team", "queue", "max_tokens", "max_model_calls", "max_tool_calls", "max_wall_s", "on_limit", "team_budget", "agent", "tags", "labels", "on_end")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    YAML_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    COST_LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_S_FIELD_NUMBER: _ClassVar[int]
    ON_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TEAM_BUDGET_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ON_END_FIELD_NUMBER: _ClassVar[int]
    workflow: str
    yaml: str
    version: int
    input_json: str
    tenant: str
    key: str
    by: str
    cost_limit_usd: str
    team: str
    queue: bool
    max_tokens: int
    max_model_calls: int
    max_tool_calls: int
    max_wall_s: float
    on_limit: str
    team_budget: str
    agent: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    on_end: str
    def __init__(self, workflow: _Optional[str] = ..., yaml: _Optional[str] = ..., version: _Optional[int] = ..., input_json: _Optional[str] = ..., tenant: _Optional[str] = ..., key: _Optional[str] = ..., by: _Optional[str] = ..., cost_limit_usd: _Optional[str] = ..., team: _Optional[str] = ..., queue: _Optional[bool] = ..., max_tokens: _Optional[int] = ..., max_model_calls: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_wall_s: _Optional[float] = ..., on_limit: _Optional[str] = ..., team_budget: _Optional[str] = ..., agent: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., on_end: _Optional[str] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("run", "after")
    RUN_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    run: str
    after: int
    def __init__(self, run: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class WatchReply(_message.Message):
    __slots__ = ("event", "view")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    event: Event
    view: RunView
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ..., view: _Optional[_Union[RunView, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "at_ms", "type", "event_json")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EVENT_JSON_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at_ms: int
    type: str
    event_json: str
    def __init__(self, seq: _Optional[int] = ..., at_ms: _Optional[int] = ..., type: _Optional[str] = ..., event_json: _Optional[str] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class RunView(_message.Message):
    __slots__ = ("run", "workflow", "version", "tenant", "status", "waiting_for_json", "seq", "output_json", "error_json")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_JSON_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_JSON_FIELD_NUMBER: _ClassVar[int]
    run: str
    workflow: str
    version: int
    tenant: str
    status: str
    waiting_for_json: str
    seq: int
    output_json: str
    error_json: str
    def __init__(self, run: _Optional[str] = ..., workflow: _Optional[str] = ..., version: _Optional[int] = ..., tenant: _Optional[str] = ..., status: _Optional[str] = ..., waiting_for_json: _Optional[str] = ..., seq: _Optional[int] = ..., output_json: _Optional[str] = ..., error_json: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("tenant", "workflow", "status", "before", "limit")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    workflow: str
    status: str
    before: str
    limit: int
    def __init__(self, tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., status: _Optional[str] = ..., before: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListReply(_message.Message):
    __slots__ = ("runs", "cursor")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunView]
    cursor: str
    def __init__(self, runs: _Optional[_Iterable[_Union[RunView, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("run", "reason", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    reason: str
    by: str
    def __init__(self, run: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class GateRequest(_message.Message):
    __slots__ = ("gate",)
    GATE_FIELD_NUMBER: _ClassVar[int]
    gate: str
    def __init__(self, gate: _Optional[str] = ...) -> None: ...

class GateView(_message.Message):
    __slots__ = ("gate", "run", "shown_hash", "gate_json")
    GATE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SHOWN_HASH_FIELD_NUMBER: _ClassVar[int]
    GATE_JSON_FIELD_NUMBER: _ClassVar[int]
    gate: str
    run: str
    shown_hash: str
    gate_json: str
    def __init__(self, gate: _Optional[str] = ..., run: _Optional[str] = ..., shown_hash: _Optional[str] = ..., gate_json: _Optional[str] = ...) -> None: ...

class DecideRequest(_message.Message):
    __slots__ = ("gate", "decision", "data_json", "by", "reason", "shown_hash", "roles")
    GATE_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SHOWN_HASH_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    gate: str
    decision: str
    data_json: str
    by: str
    reason: str
    shown_hash: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gate: _Optional[str] = ..., decision: _Optional[str] = ..., data_json: _Optional[str] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ..., shown_hash: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class SignalRequest(_message.Message):
    __slots__ = ("run", "name", "data_json", "by", "key")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    run: str
    name: str
    data_json: str
    by: str
    key: str
    def __init__(self, run: _Optional[str] = ..., name: _Optional[str] = ..., data_json: _Optional[str] = ..., by: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class FromWorker(_message.Message):
    __slots__ = ("register", "ack", "call", "progress", "result", "heartbeat", "drain", "more")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    register: Register
    ack: Ack
    call: Call
    progress: Progress
    result: Result
    heartbeat: Heartbeat
    drain: Drain
    more: _containers.RepeatedCompositeFieldContainer[FromWorker]
    def __init__(self, register: _Optional[_Union[Register, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., call: _Optional[_Union[Call, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., more: _Optional[_Iterable[_Union[FromWorker, _Mapping]]] = ...) -> None: ...

class ToWorker(_message.Message):
    __slots__ = ("registered", "refused", "assign", "answer", "taken", "cancel", "heartbeat", "drain", "more")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    registered: Registered
    refused: Refused
    assign: Assign
    answer: Answer
    taken: Taken
    cancel: Cancel
    heartbeat: Heartbeat
    drain: Drain
    more: _containers.RepeatedCompositeFieldContainer[ToWorker]
    def __init__(self, registered: _Optional[_Union[Registered, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., assign: _Optional[_Union[Assign, _Mapping]] = ..., answer: _Optional[_Union[Answer, _Mapping]] = ..., taken: _Optional[_Union[Taken, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., more: _Optional[_Iterable[_Union[ToWorker, _Mapping]]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("name", "instance", "tasks", "labels", "tags", "slots", "cpu_m", "memory_mb", "gpus", "jobs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CPU_M_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    name: str
    instance: str
    tasks: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    cpu_m: int
    memory_mb: int
    gpus: int
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ..., labels: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., cpu_m: _Optional[int] = ..., memory_mb: _Optional[int] = ..., gpus: _Optional[int] = ..., jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("lease_s", "heartbeat_s", "ack_s", "message_bytes")
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    ACK_S_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    lease_s: float
    heartbeat_s: float
    ack_s: float
    message_bytes: int
    def __init__(self, lease_s: _Optional[float] = ..., heartbeat_s: _Optional[float] = ..., ack_s: _Optional[float] = ..., message_bytes: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason", "again")
    REASON_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    reason: str
    again: bool
    def __init__(self, reason: _Optional[str] = ..., again: _Optional[bool] = ...) -> None: ...

class Assign(_message.Message):
    __slots__ = ("job", "task", "arguments_json", "timeout_s", "pools", "traceparent", "tenant", "workflow", "trace_id")
    class PoolsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    job: str
    task: str
    arguments_json: str
    timeout_s: float
    pools: _containers.ScalarMap[str, int]
    traceparent: str
    tenant: str
    workflow: str
    trace_id: str
    def __init__(self, job: _Optional[str] = ..., task: _Optional[str] = ..., arguments_json: _Optional[str] = ..., timeout_s: _Optional[float] = ..., pools: _Optional[_Mapping[str, int]] = ..., traceparent: _Optional[str] = ..., tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., trace_id: _Optional[str] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("job", "declined")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    job: str
    declined: str
    def __init__(self, job: _Optional[str] = ..., declined: _Optional[str] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("job", "number", "model", "tool", "next")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    job: str
    number: int
    model: ModelCall
    tool: ToolCall
    next: Next
    def __init__(self, job: _Optional[str] = ..., number: _Optional[int] = ..., model: _Optional[_Union[ModelCall, _Mapping]] = ..., tool: _Optional[_Union[ToolCall, _Mapping]] = ..., next: _Optional[_Union[Next, _Mapping]] = ...) -> None: ...

class Next(_message.Message):
    __slots__ = ("done_json",)
    DONE_JSON_FIELD_NUMBER: _ClassVar[int]
    done_json: str
    def __init__(self, done_json: _Optional[str] = ...) -> None: ...

class ModelCall(_message.Message):
    __slots__ = ("model", "system", "user_json", "max_tokens", "temperature")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    USER_JSON_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    model: str
    system: str
    user_json: str
    max_tokens: int
    temperature: float
    def __init__(self, model: _Optional[str] = ..., system: _Optional[str] = ..., user_json: _Optional[str] = ..., max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("name", "arguments_json", "key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments_json: str
    key: str
    def __init__(self, name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("job", "number", "value_json", "failure")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    job: str
    number: int
    value_json: str
    failure: Failure
    def __init__(self, job: _Optional[str] = ..., number: _Optional[int] = ..., value_json: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("error_class", "message", "retryable", "call")
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    error_class: str
    message: str
    retryable: bool
    call: int
    def __init__(self, error_class: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., call: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("job", "text")
    JOB_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    job: str
    text: str
    def __init__(self, job: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("job", "output_json", "failure")
    JOB_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    job: str
    output_json: str
    failure: Failure
    def __init__(self, job: _Optional[str] = ..., output_json: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("job", "reason", "number")
    JOB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    job: str
    reason: str
    number: int
    def __init__(self, job: _Optional[str] = ..., reason: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
