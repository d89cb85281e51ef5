"""Every metric, named once: name, kind, unit, meaning, labels.

A name is `holdfast_`, a noun and a unit. No label ever names a run or a person. Labels by users' names are bounded: the first
`MAX_VALUES` workflows, nodes, tools, models, tenants, pools and workers have a value of their own, the others are `other`.

Never here: counting (observe.meter), a look into a store (observe.store_look), a format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.ports.metric import Metric, MetricKind

OTHER: Final = "other"
"""The label of everything beyond the first values."""
MAX_CHARS: Final = 100
"""Length of a label's value; longer ones are cut."""
MAX_VALUES: Final[Mapping[str, int]] = {
    "workflow": 100,
    "node": 200,
    "tool": 100,
    "model": 50,
    "tenant": 50,
    "pool": 50,
    "worker": 200,
    "reason": 50,
}
"""The number of values of a label that stand alone, by label. With both, `model` and `tenant` make 2,500 series of a metric."""

_SHORT_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From a commit on a fast disk to a store that is away."""
_LONG_S: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 345_600.0, 1_209_600.0)
"""From a step without a call to a run that waits two weeks; 345,600 s are the four days of a gate."""
_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)

ALL: Final[dict[str, Metric]] = {}
"""All of them, by name, in the order in which they are named here."""


def _add(
    kind: MetricKind, name: str, help_: str, labels: tuple[str, ...] = (), unit: str = "1", bounds: tuple[float, ...] = ()
) -> Metric:
    metric = ALL[f"holdfast_{name}"] = Metric(f"holdfast_{name}", kind, unit, help_, labels, bounds)
    return metric


# --- Runs and steps, as a process commits them ------------------------------------------------------------------------

RUNS_STARTED: Final = _add("counter", "runs_started_total", "Runs that this process started.", ("workflow",))
RUN_START_DELAY: Final = _add(
    "histogram", "run_start_delay_seconds", "From the start of a run to its first step.", ("workflow",), "s", _LONG_S
)
RUN_DURATION: Final = _add(
    "histogram",
    "run_duration_seconds",
    "From the start of a run to its end, waits included, by its workflow.",
    ("workflow", "outcome"),
    "s",
    _LONG_S,
)
STEPS: Final = _add(
    "counter",
    "steps_total",
    "Steps and functions of flows that completed, failed for good, are tried again, were lost or left off.",
    ("workflow", "outcome"),
)
STEP_DURATION: Final = _add(
    "histogram",
    "step_duration_seconds",
    "From the first attempt of a step, or function of a flow, to its completion, waits included.",
    ("workflow", "node"),
    "s",
    _LONG_S,
)
STEP_WAIT: Final = _add(
    "histogram",
    "step_wait_seconds",
    "Waits of steps: for a slot of this process, a worker with a place, a pool. Steps that began at once are left out.",
    ("reason",),
    "s",
    _SHORT_S + _LONG_S[4:11],
)
RECOVERY: Final = _add(
    "histogram",
    "recovery_duration_seconds",
    "From the moment at which an attempt was found lost to the start of the next.",
    (),
    "s",
    _SHORT_S + _LONG_S[4:9],
)
DEAD_LETTERS: Final = _add("counter", "dead_letters_total", "Steps that failed for good.", ("workflow",))

# --- Calls, tokens, money ---------------------------------------------------------------------------------------------

MODEL_CALLS: Final = _add("counter", "model_calls_total", "Model calls, by their outcome.", ("model", "outcome"))
MODEL_DURATION: Final = _add(
    "histogram", "model_call_duration_seconds", "From the hold of a model call to its outcome.", ("model",), "s", _LONG_S[:9]
)
TOOL_CALLS: Final = _add("counter", "tool_calls_total", "Tool calls, by their outcome.", ("tool", "outcome"))
TOKENS: Final = _add("counter", "model_tokens_total", "Tokens that model calls used.", ("model", "tenant", "direction"))
COST: Final = _add(
    "counter",
    "cost_nanodollars_total",
    "Cost of model calls and priced tools, in nano-dollars.",
    ("model", "tenant"),
    "nanodollars",
)
HOLDS: Final = _add("counter", "holds_total", "Calls for which money was held, or that wait for it.", ("outcome",))
DOUBTS: Final = _add("counter", "doubts_total", "Calls whose outcome became unknown.", ("kind",))
POOL_WAITS: Final = _add("counter", "pool_waits_total", "Model calls that waited for a pool.", ("model",))

_DOUBLED_S: Final = tuple(0.01 * 2**n for n in range(14))
_FOURFOLD: Final = tuple(float(4**n) for n in range(14))
"""The bounds that conventions for generative AI recommend."""

CALL_DURATION: Final = Metric(
    "model_call_duration", "histogram", "s", "Duration of model calls.", ("model", "error"), _DOUBLED_S
)
CALL_TOKENS: Final = Metric("model_call_tokens", "histogram", "{token}", "Tokens of model calls.", ("model", "type"), _FOURFOLD)
"""Like the duration a measurement for which conventions have names (telemetry.names): Prometheus does not get it."""

# --- People -----------------------------------------------------------------------------------------------------------

GATES_OPENED: Final = _add("counter", "gates_opened_total", "Gates that were opened, by reason.", ("reason",))
GATES_CLOSED: Final = _add(
    "counter", "gates_closed_total", "Gates that were closed: decided, expired, withdrawn.", ("outcome",)
)

# --- Requests ---------------------------------------------------------------------------------------------------------

REQUESTS: Final = _add(
    "counter",
    "requests_total",
    "Requests over HTTP: `answered`, also with an error of the sender; `slow`: a command after 5 s; `limited`; `failed`.",
    ("kind", "outcome"),
)

# --- The store, as a process finds it ---------------------------------------------------------------------------------

COMMIT_DURATION: Final = _add(
    "histogram", "commit_duration_seconds", "From the decision of a group of appends to the store's answer.", (), "s", _SHORT_S
)
FLUSH_SIZE: Final = _add("histogram", "flush_size_appends", "Appends in one commit.", (), "appends", _SIZES)
APPENDS_REFUSED: Final = _add(
    "counter", "appends_refused_total", "Appends that the store refused, for a conflict or a limit; most are tried again."
)
LEASE_AGE: Final = _add("gauge", "lease_age_seconds", "Time since this process last knew that its lease is renewed.", unit="s")
SWEEP_AGE: Final = _add("gauge", "sweep_age_seconds", "Time since this process last finished a look for due runs.", unit="s")

# --- A look into the store, by one process ----------------------------------------------------------------------------

RUNS: Final = _add("gauge", "runs", "Runs that have not ended, by status, up to 100,000 of each.", ("status",))
RUNS_WAITING: Final = _add(
    "gauge",
    "runs_waiting",
    "Runs by the kind of what they wait for; estimated from 1,000 runs of each status where there are more.",
    ("reason",),
)
QUEUE_DEPTH: Final = _add(
    "gauge",
    "queue_depth",
    "Runs in line: for a slot, for a worker with a place, for admission, money, tokens, or an effect of another run.",
    ("reason",),
)
SWEEP_LAG: Final = _add(
    "gauge", "sweep_lag_seconds", "How long the run has been due that has been due for longest; 0 if none is.", unit="s"
)
GATES_OPEN: Final = _add("gauge", "gates_open", "Open gates, by reason and age, up to 100,000.", ("reason", "age"))
GATES_OLDEST: Final = _add("gauge", "gates_oldest_age_seconds", "Age of the oldest open gate, by reason.", ("reason",), "s")
HELD: Final = _add("gauge", "held_nanodollars", "Money that is held for calls in flight, in nano-dollars.", unit="nanodollars")
IN_DOUBT: Final = _add("gauge", "in_doubt_nanodollars", "Money of model calls in doubt, in nano-dollars.", unit="nanodollars")
DOUBTS_OPEN: Final = _add(
    "gauge", "doubts_open", "Runs with model calls in doubt, and effects in doubt, up to 100,000.", ("kind",)
)
LETTERS_OPEN: Final = _add("gauge", "dead_letters_open", "Dead letters that are open, up to 100,000.")
POOL_LIMIT: Final = _add("gauge", "pool_limit", "Limit of a pool.", ("pool",))
POOL_USED: Final = _add("gauge", "pool_used", "Amount of a pool that is in use.", ("pool",))
POOL_WANTED: Final = _add("gauge", "pool_wanted", "Amount of a pool that is in use or waited for.", ("pool",))
POOL_HEADROOM: Final = _add("gauge", "pool_headroom", "Amount of a pool that is left.", ("pool",))
UTILISATION: Final = _add(
    "gauge", "worker_utilization_ratio", "Part of a worker's slots that is in use, 0 to 1.", ("worker", "lane")
)
FOLLOWER_LAG: Final = _add(
    "gauge",
    "follower_lag_seconds",
    "Age of the oldest event that a sink has not taken; 0 if it has all. Absent while no process feeds it.",
    ("sink",),
    "s",
)
DROPPED: Final = _add("counter", "telemetry_dropped_total", "Events that a sink could do nothing with.", ("sink",))
OUTBOX_AGE: Final = _add(
    "gauge", "outbox_oldest_age_seconds", "Age of the oldest notification that a channel has not sent.", ("channel",), "s"
)
NOTIFICATIONS: Final = _add(
    "counter",
    "notifications_total",
    "Notifications that were sent or given up (dead), and tries that failed.",
    ("channel", "outcome"),
)
LOOK_AGE: Final = _add(
    "gauge", "metrics_look_age_seconds", "Age of the look into the store that these gauges are from.", unit="s"
)
LOOK_DURATION: Final = _add("gauge", "metrics_look_duration_seconds", "Time that this look took.", unit="s")

# --- One process ------------------------------------------------------------------------------------------------------

BUILD: Final = _add("gauge", "build_info", "1; the version of Holdfast is a label.", ("version",))
WORKER_SLOTS: Final = _add("gauge", "worker_slots", "Steps that this process can execute at once.")
WORKER_FREE: Final = _add("gauge", "worker_slots_free", "Slots of it that are free.")
WORKER_STEPS: Final = _add("gauge", "worker_steps", "Steps that it executes.")
WORKER_LINE: Final = _add("gauge", "worker_runs_waiting", "Runs with steps that wait for one of its slots.")
CONNECTED: Final = _add("gauge", "connected_workers", "Workers that are connected here.")
CONNECTED_SLOTS: Final = _add("gauge", "connected_slots", "Slots of those workers.")
CONNECTED_JOBS: Final = _add("gauge", "connected_jobs", "Jobs that those workers are at.")

# --- A leader ---------------------------------------------------------------------------------------------------------

LEADS: Final = _add("gauge", "leads", "Whether this process leads its lane.")
JOBS_WAITING: Final = _add("gauge", "jobs_waiting", "Jobs that wait for a worker with a free slot.")
WORKERS: Final = _add("gauge", "workers", "Workers that have spoken lately.")
SLOTS: Final = _add("gauge", "slots", "Slots of those workers.")
SLOTS_FREE: Final = _add("gauge", "slots_free", "Slots of those workers that are free.")
