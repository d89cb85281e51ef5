from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("workflow", "yaml", "version", "input_json", "tenant", "key", "by", "cost_limit_usd", "team", "queue", "max_tokens", "max_model_calls", "max_tool_calls", "max_wall_s", "on_limit", "team_budget", "agent", "tags")
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
    def __init__(self, workflow: _Optional[str] = ..., yaml: _Optional[str] = ..., version: _Optional[int] = ..., input_json: _Optional[str] = ..., tenant: _Optional[str] = ..., key: _Optional[str] = ..., by: _Optional[str] = ..., cost_limit_usd: _Optional[str] = ..., team: _Optional[str] = ..., queue: _Optional[bool] = ..., max_tokens: _Optional[int] = ..., max_model_calls: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_wall_s: _Optional[float] = ..., on_limit: _Optional[str] = ..., team_budget: _Optional[str] = ..., agent: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

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
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunView]
    def __init__(self, runs: _Optional[_Iterable[_Union[RunView, _Mapping]]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("run", "reason", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    reason: str
    by: str
    def __init__(self, run: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

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

class DecideTogetherRequest(_message.Message):
    __slots__ = ("gate", "decisions_json", "shown_hash", "by", "roles")
    GATE_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    SHOWN_HASH_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    gate: str
    decisions_json: str
    shown_hash: str
    by: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gate: _Optional[str] = ..., decisions_json: _Optional[str] = ..., shown_hash: _Optional[str] = ..., by: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class DelegateRequest(_message.Message):
    __slots__ = ("gate", "to", "reason", "by", "roles")
    GATE_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    gate: str
    to: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    by: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gate: _Optional[str] = ..., to: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class ReassignRequest(_message.Message):
    __slots__ = ("gate", "to", "reason", "by")
    GATE_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    gate: str
    to: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    by: str
    def __init__(self, gate: _Optional[str] = ..., to: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

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

class PauseRequest(_message.Message):
    __slots__ = ("run", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    by: str
    def __init__(self, run: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("run", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    by: str
    def __init__(self, run: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class RetryRequest(_message.Message):
    __slots__ = ("run", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    by: str
    def __init__(self, run: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class MigrateRequest(_message.Message):
    __slots__ = ("run", "version", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    version: int
    by: str
    def __init__(self, run: _Optional[str] = ..., version: _Optional[int] = ..., by: _Optional[str] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("run", "limit", "value", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    limit: str
    value: int
    by: str
    def __init__(self, run: _Optional[str] = ..., limit: _Optional[str] = ..., value: _Optional[int] = ..., by: _Optional[str] = ...) -> None: ...

class RaiseBudgetRequest(_message.Message):
    __slots__ = ("run", "limit_usd", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    limit_usd: str
    by: str
    def __init__(self, run: _Optional[str] = ..., limit_usd: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ResolveRequest(_message.Message):
    __slots__ = ("call", "decision", "response_json", "reason", "by", "shown_hash", "roles")
    CALL_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_JSON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SHOWN_HASH_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    call: str
    decision: str
    response_json: str
    reason: str
    by: str
    shown_hash: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, call: _Optional[str] = ..., decision: _Optional[str] = ..., response_json: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., shown_hash: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class ReconcileRequest(_message.Message):
    __slots__ = ("call", "cost_usd", "by")
    CALL_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    call: str
    cost_usd: str
    by: str
    def __init__(self, call: _Optional[str] = ..., cost_usd: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class SetBudgetRequest(_message.Message):
    __slots__ = ("tenant", "period", "limit_usd", "team", "in_tokens", "max_tokens")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    IN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    period: str
    limit_usd: str
    team: str
    in_tokens: bool
    max_tokens: int
    def __init__(self, tenant: _Optional[str] = ..., period: _Optional[str] = ..., limit_usd: _Optional[str] = ..., team: _Optional[str] = ..., in_tokens: _Optional[bool] = ..., max_tokens: _Optional[int] = ...) -> None: ...

class SetAdmissionRequest(_message.Message):
    __slots__ = ("runs", "tenant")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    runs: int
    tenant: str
    def __init__(self, runs: _Optional[int] = ..., tenant: _Optional[str] = ...) -> None: ...

class SetPoolRequest(_message.Message):
    __slots__ = ("name", "slots", "rate", "per_s", "burst", "counts", "of")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    PER_S_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    name: str
    slots: int
    rate: int
    per_s: int
    burst: int
    counts: str
    of: str
    def __init__(self, name: _Optional[str] = ..., slots: _Optional[int] = ..., rate: _Optional[int] = ..., per_s: _Optional[int] = ..., burst: _Optional[int] = ..., counts: _Optional[str] = ..., of: _Optional[str] = ...) -> None: ...

class RemovePoolRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ForkRequest(_message.Message):
    __slots__ = ("run", "step", "input_json", "output_json", "state_json", "repeat_effects", "cost_limit_usd", "key", "queue", "by")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    STATE_JSON_FIELD_NUMBER: _ClassVar[int]
    REPEAT_EFFECTS_FIELD_NUMBER: _ClassVar[int]
    COST_LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    run: str
    step: str
    input_json: str
    output_json: str
    state_json: str
    repeat_effects: bool
    cost_limit_usd: str
    key: str
    queue: bool
    by: str
    def __init__(self, run: _Optional[str] = ..., step: _Optional[str] = ..., input_json: _Optional[str] = ..., output_json: _Optional[str] = ..., state_json: _Optional[str] = ..., repeat_effects: _Optional[bool] = ..., cost_limit_usd: _Optional[str] = ..., key: _Optional[str] = ..., queue: _Optional[bool] = ..., by: _Optional[str] = ...) -> None: ...

class EditDeadLetterRequest(_message.Message):
    __slots__ = ("letter", "input_json", "by", "arguments_json")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    letter: str
    input_json: str
    by: str
    arguments_json: str
    def __init__(self, letter: _Optional[str] = ..., input_json: _Optional[str] = ..., by: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class ReplayDeadLetterRequest(_message.Message):
    __slots__ = ("letter", "by")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    letter: str
    by: str
    def __init__(self, letter: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ResolveDeadLetterRequest(_message.Message):
    __slots__ = ("letter", "output_json", "reason", "by")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    letter: str
    output_json: str
    reason: str
    by: str
    def __init__(self, letter: _Optional[str] = ..., output_json: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class BulkRequest(_message.Message):
    __slots__ = ("deed", "step", "fork_key", "reason", "repeat_effects", "tenant", "workflow", "status", "key", "since_ms", "until_ms", "cursor", "limit", "dry_run", "by", "tag", "text", "min_cost_usd", "max_cost_usd")
    DEED_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    FORK_KEY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REPEAT_EFFECTS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MIN_COST_USD_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_USD_FIELD_NUMBER: _ClassVar[int]
    deed: str
    step: str
    fork_key: str
    reason: str
    repeat_effects: bool
    tenant: str
    workflow: str
    status: _containers.RepeatedScalarFieldContainer[str]
    key: str
    since_ms: int
    until_ms: int
    cursor: str
    limit: int
    dry_run: bool
    by: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    text: str
    min_cost_usd: str
    max_cost_usd: str
    def __init__(self, deed: _Optional[str] = ..., step: _Optional[str] = ..., fork_key: _Optional[str] = ..., reason: _Optional[str] = ..., repeat_effects: _Optional[bool] = ..., tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., status: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., dry_run: _Optional[bool] = ..., by: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ..., text: _Optional[str] = ..., min_cost_usd: _Optional[str] = ..., max_cost_usd: _Optional[str] = ...) -> None: ...

class BulkDeadLettersRequest(_message.Message):
    __slots__ = ("deed", "output_json", "reason", "run", "tenant", "workflow", "node", "error_class", "since_ms", "until_ms", "cursor", "limit", "dry_run", "by")
    DEED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    deed: str
    output_json: str
    reason: str
    run: str
    tenant: str
    workflow: str
    node: str
    error_class: str
    since_ms: int
    until_ms: int
    cursor: str
    limit: int
    dry_run: bool
    by: str
    def __init__(self, deed: _Optional[str] = ..., output_json: _Optional[str] = ..., reason: _Optional[str] = ..., run: _Optional[str] = ..., tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., node: _Optional[str] = ..., error_class: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., dry_run: _Optional[bool] = ..., by: _Optional[str] = ...) -> None: ...

class SetScheduleRequest(_message.Message):
    __slots__ = ("name", "workflow", "cron", "timezone", "input_json", "time_field", "version", "tenant", "team", "cost_limit_usd", "jitter_s", "overlap", "catch_up_s", "by", "team_budget", "agent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    COST_LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    JITTER_S_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_S_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TEAM_BUDGET_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    workflow: str
    cron: str
    timezone: str
    input_json: str
    time_field: str
    version: int
    tenant: str
    team: str
    cost_limit_usd: str
    jitter_s: float
    overlap: str
    catch_up_s: float
    by: str
    team_budget: str
    agent: str
    def __init__(self, name: _Optional[str] = ..., workflow: _Optional[str] = ..., cron: _Optional[str] = ..., timezone: _Optional[str] = ..., input_json: _Optional[str] = ..., time_field: _Optional[str] = ..., version: _Optional[int] = ..., tenant: _Optional[str] = ..., team: _Optional[str] = ..., cost_limit_usd: _Optional[str] = ..., jitter_s: _Optional[float] = ..., overlap: _Optional[str] = ..., catch_up_s: _Optional[float] = ..., by: _Optional[str] = ..., team_budget: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class OpenConversationRequest(_message.Message):
    __slots__ = ("name", "workflow", "on_busy", "tenant", "team", "cost_limit_usd", "by", "max_tokens", "team_budget", "agent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    ON_BUSY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    COST_LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEAM_BUDGET_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    workflow: str
    on_busy: str
    tenant: str
    team: str
    cost_limit_usd: str
    by: str
    max_tokens: int
    team_budget: str
    agent: str
    def __init__(self, name: _Optional[str] = ..., workflow: _Optional[str] = ..., on_busy: _Optional[str] = ..., tenant: _Optional[str] = ..., team: _Optional[str] = ..., cost_limit_usd: _Optional[str] = ..., by: _Optional[str] = ..., max_tokens: _Optional[int] = ..., team_budget: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class DeleteConversationRequest(_message.Message):
    __slots__ = ("name", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class SayRequest(_message.Message):
    __slots__ = ("conversation", "text", "after", "on_busy", "key", "tenant", "by", "parts_json")
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ON_BUSY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    PARTS_JSON_FIELD_NUMBER: _ClassVar[int]
    conversation: str
    text: str
    after: int
    on_busy: str
    key: str
    tenant: str
    by: str
    parts_json: str
    def __init__(self, conversation: _Optional[str] = ..., text: _Optional[str] = ..., after: _Optional[int] = ..., on_busy: _Optional[str] = ..., key: _Optional[str] = ..., tenant: _Optional[str] = ..., by: _Optional[str] = ..., parts_json: _Optional[str] = ...) -> None: ...

class PauseScheduleRequest(_message.Message):
    __slots__ = ("name", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class ResumeScheduleRequest(_message.Message):
    __slots__ = ("name", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class RemoveScheduleRequest(_message.Message):
    __slots__ = ("name", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class WriteSharedValueRequest(_message.Message):
    __slots__ = ("space", "key", "value_json", "expected_version", "tenant", "by")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    space: str
    key: str
    value_json: str
    expected_version: int
    tenant: str
    by: str
    def __init__(self, space: _Optional[str] = ..., key: _Optional[str] = ..., value_json: _Optional[str] = ..., expected_version: _Optional[int] = ..., tenant: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ForgetCachedAnswerRequest(_message.Message):
    __slots__ = ("space", "key", "tenant", "by")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    space: str
    key: str
    tenant: str
    by: str
    def __init__(self, space: _Optional[str] = ..., key: _Optional[str] = ..., tenant: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class BackfillRequest(_message.Message):
    __slots__ = ("name", "since_ms", "until_ms", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    since_ms: int
    until_ms: int
    tenant: str
    def __init__(self, name: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., tenant: _Optional[str] = ...) -> None: ...

class SetTeamBudgetRequest(_message.Message):
    __slots__ = ("name", "agents_json", "total_usd", "total_tokens", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AGENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOTAL_USD_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    agents_json: str
    total_usd: str
    total_tokens: int
    tenant: str
    def __init__(self, name: _Optional[str] = ..., agents_json: _Optional[str] = ..., total_usd: _Optional[str] = ..., total_tokens: _Optional[int] = ..., tenant: _Optional[str] = ...) -> None: ...

class RemoveTeamBudgetRequest(_message.Message):
    __slots__ = ("name", "tenant")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class GrantApprovalRequest(_message.Message):
    __slots__ = ("tool", "for_s", "most", "when_json", "workflow", "run", "reason", "tenant", "by", "roles")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    MOST_FIELD_NUMBER: _ClassVar[int]
    WHEN_JSON_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    tool: str
    for_s: float
    most: int
    when_json: str
    workflow: str
    run: str
    reason: str
    tenant: str
    by: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tool: _Optional[str] = ..., for_s: _Optional[float] = ..., most: _Optional[int] = ..., when_json: _Optional[str] = ..., workflow: _Optional[str] = ..., run: _Optional[str] = ..., reason: _Optional[str] = ..., tenant: _Optional[str] = ..., by: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class RevokeApprovalRequest(_message.Message):
    __slots__ = ("approval", "tenant", "by")
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    approval: str
    tenant: str
    by: str
    def __init__(self, approval: _Optional[str] = ..., tenant: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class RollUpCostsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RunsRequest(_message.Message):
    __slots__ = ("tenant", "workflow", "status", "key", "since_ms", "until_ms", "in_doubt", "cursor", "limit", "parent", "prefix", "tag", "text", "min_cost_usd", "max_cost_usd")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MIN_COST_USD_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_USD_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    workflow: str
    status: _containers.RepeatedScalarFieldContainer[str]
    key: str
    since_ms: int
    until_ms: int
    in_doubt: bool
    cursor: str
    limit: int
    parent: str
    prefix: str
    tag: _containers.RepeatedScalarFieldContainer[str]
    text: str
    min_cost_usd: str
    max_cost_usd: str
    def __init__(self, tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., status: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., in_doubt: _Optional[bool] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., parent: _Optional[str] = ..., prefix: _Optional[str] = ..., tag: _Optional[_Iterable[str]] = ..., text: _Optional[str] = ..., min_cost_usd: _Optional[str] = ..., max_cost_usd: _Optional[str] = ...) -> None: ...

class GatesRequest(_message.Message):
    __slots__ = ("run", "tenant", "all", "cursor", "limit", "mine", "risk_level")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    RISK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    run: str
    tenant: str
    all: bool
    cursor: str
    limit: int
    mine: bool
    risk_level: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run: _Optional[str] = ..., tenant: _Optional[str] = ..., all: _Optional[bool] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ..., mine: _Optional[bool] = ..., risk_level: _Optional[_Iterable[str]] = ...) -> None: ...

class GateRequest(_message.Message):
    __slots__ = ("gate",)
    GATE_FIELD_NUMBER: _ClassVar[int]
    gate: str
    def __init__(self, gate: _Optional[str] = ...) -> None: ...

class EffectsRequest(_message.Message):
    __slots__ = ("run", "tenant", "state", "cursor", "limit")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    tenant: str
    state: str
    cursor: str
    limit: int
    def __init__(self, run: _Optional[str] = ..., tenant: _Optional[str] = ..., state: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("run", "cursor", "limit")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    cursor: str
    limit: int
    def __init__(self, run: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class StreamsRequest(_message.Message):
    __slots__ = ("run", "name", "wait_s", "cursor", "limit")
    RUN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    name: str
    wait_s: float
    cursor: str
    limit: int
    def __init__(self, run: _Optional[str] = ..., name: _Optional[str] = ..., wait_s: _Optional[float] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class CostsRequest(_message.Message):
    __slots__ = ("first_day", "last_day", "tenant", "cursor", "limit")
    FIRST_DAY_FIELD_NUMBER: _ClassVar[int]
    LAST_DAY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    first_day: str
    last_day: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, first_day: _Optional[str] = ..., last_day: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class DoubtsRequest(_message.Message):
    __slots__ = ("run", "tenant", "cursor", "limit")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, run: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ItemsRequest(_message.Message):
    __slots__ = ("run", "map", "cursor", "limit")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run: str
    map: str
    cursor: str
    limit: int
    def __init__(self, run: _Optional[str] = ..., map: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class TreeRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class ForkQuoteRequest(_message.Message):
    __slots__ = ("run", "step", "output_json", "state_json", "cost_limit_usd")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    STATE_JSON_FIELD_NUMBER: _ClassVar[int]
    COST_LIMIT_USD_FIELD_NUMBER: _ClassVar[int]
    run: str
    step: str
    output_json: str
    state_json: str
    cost_limit_usd: str
    def __init__(self, run: _Optional[str] = ..., step: _Optional[str] = ..., output_json: _Optional[str] = ..., state_json: _Optional[str] = ..., cost_limit_usd: _Optional[str] = ...) -> None: ...

class DeadLettersRequest(_message.Message):
    __slots__ = ("letter", "run", "tenant", "workflow", "node", "error_class", "state", "since_ms", "until_ms", "cursor", "limit")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    letter: str
    run: str
    tenant: str
    workflow: str
    node: str
    error_class: str
    state: str
    since_ms: int
    until_ms: int
    cursor: str
    limit: int
    def __init__(self, letter: _Optional[str] = ..., run: _Optional[str] = ..., tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., node: _Optional[str] = ..., error_class: _Optional[str] = ..., state: _Optional[str] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class DeadLetterSummaryRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class ConversationsRequest(_message.Message):
    __slots__ = ("name", "tenant", "cursor", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class SchedulesRequest(_message.Message):
    __slots__ = ("name", "tenant", "cursor", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class SharedValuesRequest(_message.Message):
    __slots__ = ("space", "key", "tenant", "cursor", "limit")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    space: str
    key: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, space: _Optional[str] = ..., key: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class PoolsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class BudgetRequest(_message.Message):
    __slots__ = ("tenant", "team")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    team: str
    def __init__(self, tenant: _Optional[str] = ..., team: _Optional[str] = ...) -> None: ...

class AdmissionRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class WorkflowsRequest(_message.Message):
    __slots__ = ("name", "version", "cursor", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    cursor: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class QueueRequest(_message.Message):
    __slots__ = ("run", "step")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run: str
    step: str
    def __init__(self, run: _Optional[str] = ..., step: _Optional[str] = ...) -> None: ...

class EvaluationsRequest(_message.Message):
    __slots__ = ("tenant", "workflow", "cursor", "limit")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    workflow: str
    cursor: str
    limit: int
    def __init__(self, tenant: _Optional[str] = ..., workflow: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class EvaluationRequest(_message.Message):
    __slots__ = ("evaluation",)
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    evaluation: str
    def __init__(self, evaluation: _Optional[str] = ...) -> None: ...

class TeamBudgetsRequest(_message.Message):
    __slots__ = ("name", "tenant", "cursor", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ApprovalsRequest(_message.Message):
    __slots__ = ("approval", "tenant", "cursor", "limit")
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    approval: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, approval: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class SupervisorsRequest(_message.Message):
    __slots__ = ("name", "tenant", "cursor", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    cursor: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ("row_json", "cursor")
    ROW_JSON_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    row_json: _containers.RepeatedScalarFieldContainer[str]
    cursor: str
    def __init__(self, row_json: _Optional[_Iterable[str]] = ..., cursor: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("job", "task", "arguments_json", "timeout_s", "pools")
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
    job: str
    task: str
    arguments_json: str
    timeout_s: float
    pools: _containers.ScalarMap[str, int]
    def __init__(self, job: _Optional[str] = ..., task: _Optional[str] = ..., arguments_json: _Optional[str] = ..., timeout_s: _Optional[float] = ..., pools: _Optional[_Mapping[str, int]] = ...) -> None: ...

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
