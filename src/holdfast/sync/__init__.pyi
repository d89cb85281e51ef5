"""Written by `make reference` from the classes that await; a test holds it current."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, Unpack, overload

from holdfast.authoring.agents.router import Router
from holdfast.authoring.signal import Signal
from holdfast.authoring.workflow import Output_co, Workflow
from holdfast.compose.engine import Environment
from holdfast.core.capacity.estimates import Estimate
from holdfast.core.capacity.lending import DeclaredPool, RateUnit, Share
from holdfast.core.facts.costs import Cost
from holdfast.core.facts.events import Recorded
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import State
from holdfast.core.facts.streams import StreamEvent
from holdfast.core.nouns.client_tools import ClientContext, ClientTool
from holdfast.core.nouns.conversations import Conversation, ConversationTurn, OnBusy
from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult, VersionResult
from holdfast.core.nouns.labels import Pair
from holdfast.core.nouns.memory import Memory
from holdfast.core.nouns.routing import Complexity, Quote
from holdfast.core.nouns.schedules import Overlap, Schedule
from holdfast.core.nouns.scores import Score, ScoreMean, Source
from holdfast.core.nouns.shared_values import SharedValue
from holdfast.core.nouns.supervision import Accepted, Dashboard, Rejected
from holdfast.core.nouns.supervision import Supervisor as supervision_Supervisor
from holdfast.core.nouns.team_budgets import Dashboard as team_budgets_Dashboard
from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.core.nouns.tool_policy import StandingApproval, When
from holdfast.core.rules.forking import Fork
from holdfast.core.values.actor import Actor
from holdfast.core.values.demand import Resources
from holdfast.core.values.ids import GateId, RunId
from holdfast.core.values.scopes import OwnerOfBudget, Period, ScopeRow, ScopeWaiter
from holdfast.core.views.attempts import AttemptRow
from holdfast.core.views.model_calls import ModelCallRow
from holdfast.core.views.notifications import Delivery, DeliveryState, Occasion, Rule
from holdfast.core.views.operations import OperationRow
from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.views.selection import LetterCriteria
from holdfast.core.views.span_parts import Span
from holdfast.core.views.spending import SpendingRow
from holdfast.core.views.trajectory import TraceEvent, Trajectory
from holdfast.engine.background.doubt import Doubt
from holdfast.engine.background.notifying import DeclaredChannel
from holdfast.engine.background.stuck import StuckRun
from holdfast.engine.capacity.diagnosis import PoolUsers, WaitReason
from holdfast.engine.fleet.idleness import StrandedRun
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.platform.own_loop import timeout
from holdfast.ports import (
    ChannelFigures,
    CostFilter,
    DeadLettered,
    EffectFilter,
    GateFilter,
    Letter,
    LetterCount,
    LetterState,
    LogPiece,
    LogPlace,
    Model,
    Observer,
    Queue,
    Report,
    RunFilter,
    ScoreFilter,
    SharedEntry,
    Store,
    WorkerGateway,
    WorkflowRecord,
)
from holdfast.scheduling.job import Strategy
from holdfast.service.control.bulk import BulkAction, BulkOutcome, LetterAction
from holdfast.service.control.command import AskedTogether, GateDecision, Input, Output, StartOptions, WithoutInput
from holdfast.service.control.conversation import MessageText, Thread
from holdfast.service.control.gate import Gate
from holdfast.service.control.handle import ItemPage
from holdfast.service.control.routing import RoutingReport
from holdfast.service.control.schedule import BackfilledRun
from holdfast.service.control.supervisor import TaskResult, WorkerAgent
from holdfast.service.control.tree import Tree
from holdfast.settings import Settings

__all__ = ["Control", "Engine", "Run", "Supervisor", "open", "timeout"]

class Run(Generic[Output_co]):
    @property
    def id(self) -> str: ...
    def events(self, after: int = 0, limit: int | None = None) -> Sequence[Recorded]: ...
    def is_idle(self, state: State) -> bool: ...
    def is_settled(self, state: State) -> bool: ...
    def items(self, map_: str, after: int = 0, limit: int = 100) -> ItemPage: ...
    def needs_somebody(self, state: State) -> bool: ...
    def result(self) -> Output_co: ...
    def settled(self) -> State: ...
    def state(self) -> State: ...
    def status(self) -> str: ...
    def until(self, met: Callable[[State], bool]) -> State: ...

class Supervisor:
    @property
    def name(self) -> str: ...
    def dashboard(self) -> Dashboard: ...
    def declaration(self) -> supervision_Supervisor: ...
    def result(self, task_id: str) -> TaskResult: ...
    def submit(
        self,
        task_type: str,
        payload: Any = None,
        *,
        priority: int = 0,
        task_id: str | None = None,
        timeout_s: float | None = None,
        by: str | Actor | None = None,
    ) -> Accepted | Rejected: ...
    def wait(self, task_id: str) -> TaskResult: ...

class Control:
    def admission(self, tenant: str | None = None) -> ScopeRow: ...
    def asked_together(self, gate_id: str) -> AskedTogether: ...
    def attempts(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[AttemptRow]: ...
    def backfill_schedule(
        self, name: str, since_ms: int, until_ms: int, *, tenant: str = ..., by: str | Actor | None = None
    ) -> Sequence[BackfilledRun]: ...
    def budget_limits(
        self, tenant: str | None = None, *, after: str | None = None, limit: int
    ) -> Sequence[tuple[str, OwnerOfBudget, ScopeRow]]: ...
    def budgets(self, tenant: str, *, team: str | None = None, tokens: bool = False) -> Mapping[Period, ScopeRow]: ...
    def bulk(
        self,
        action: BulkAction,
        *,
        step: str | None = None,
        fork_key: str | None = None,
        reason: str = "cancelled",
        repeat_effects: bool = False,
        dry_run: bool = False,
        by: str | Actor | None = None,
        **filters: Unpack[RunFilter],
    ) -> Sequence[BulkOutcome]: ...
    def bulk_dead_letters(
        self,
        action: LetterAction,
        output: Any = ...,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        by: str | Actor | None = None,
        **criteria: Unpack[LetterCriteria],
    ) -> Sequence[BulkOutcome]: ...
    def cancel(self, run_id: str, *, reason: str = "cancelled", by: str | Actor | None = None) -> None: ...
    def channel_figures(self) -> Sequence[ChannelFigures]: ...
    def channels(self) -> Mapping[str, DeclaredChannel]: ...
    def conversation(self, name: str, *, tenant: str = ...) -> Thread: ...
    def conversations(
        self, *, tenant: str | None = None, after: tuple[str, str] | None = None, limit: int = ...
    ) -> Sequence[Conversation]: ...
    def costs(self, first_day: str, last_day: str, **filters: Unpack[CostFilter]) -> Sequence[Cost]: ...
    def dead_letter(self, letter: str | Letter) -> tuple[Letter, State]: ...
    def dead_letter_counts(self, tenant: str | None = None) -> Sequence[LetterCount]: ...
    def dead_letters(self, *, state: LetterState | None = "open", **criteria: Unpack[LetterCriteria]) -> Sequence[Letter]: ...
    def decide(
        self,
        gate_id: str,
        decision: str = "approve",
        data: Any = ...,
        *,
        by: str | Actor | None = None,
        roles: Sequence[str] = (),
        reason: str | None = None,
        shown_hash: str | None = None,
    ) -> None: ...
    def decide_together(
        self,
        decisions: Mapping[str, GateDecision | str],
        *,
        by: str | Actor | None = None,
        roles: Sequence[str] = (),
        shown_hash: str | None = None,
    ) -> None: ...
    def delegate(
        self,
        gate_id: str,
        to: Sequence[str],
        *,
        by: str | Actor | None = None,
        roles: Sequence[str] = (),
        reason: str | None = None,
    ) -> None: ...
    def delete_conversation(self, name: str, *, tenant: str = ...) -> None: ...
    def deliveries(
        self,
        tenant: str | None = None,
        *,
        run_id: str | None = None,
        channel: str | None = None,
        state: DeliveryState | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = ...,
    ) -> Sequence[Delivery]: ...
    def delivery(self, delivery: str) -> Delivery: ...
    def doubts(
        self,
        *,
        run_id: str | None = None,
        tenant: str | None = None,
        until_ms: int | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Sequence[Doubt]: ...
    def edit_dead_letter(
        self, letter: str | Letter, input: Any = ..., *, arguments: Any = ..., by: str | Actor | None = None
    ) -> None: ...
    def effects(
        self, run_id: str | None = None, **filters: Unpack[EffectFilter]
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]: ...
    def enable_channel(self, channel: str, *, address: str = "") -> None: ...
    def evaluation(self, id_: str) -> tuple[Evaluation, Sequence[ScenarioResult]]: ...
    def evaluation_versions(
        self, *, tenant: str | None = None, workflow: str | None = None, suite: str | None = None, limit: int = ...
    ) -> Sequence[VersionResult]: ...
    def evaluations(
        self, *, tenant: str | None = None, workflow: str | None = None, before: str | None = None, limit: int = ...
    ) -> Sequence[Evaluation]: ...
    def extend(self, run_id: str, limit: str, value: int, *, by: str | Actor | None = None) -> None: ...
    def find(self, run_id: str) -> RunRow: ...
    def forget_cached_answer(self, space: str, key: str, *, tenant: str = ...) -> None: ...
    def fork(
        self,
        run_id: str,
        step: str,
        *,
        input: Any = ...,
        output: Any = ...,
        state: Mapping[str, Any] | None = None,
        repeat_effects: bool = False,
        cost_limit_usd: float | str | Decimal | None = None,
        key: str | None = None,
        by: str | Actor | None = None,
        queue: bool = False,
    ) -> Run: ...
    def fork_plan(
        self,
        run_id: str,
        step: str,
        *,
        input: Any = ...,
        output: Any = ...,
        state: Mapping[str, Any] | None = None,
        repeat_effects: bool = False,
        by: str | Actor | None = None,
    ) -> Fork: ...
    def gate(self, gate_id: str) -> Gate: ...
    def gate_about(self, call: str) -> GateId: ...
    def gates(
        self, run_id: str | None = None, **filters: Unpack[GateFilter]
    ) -> Sequence[tuple[GateRow, GateChange | None]]: ...
    def grant_approval(
        self,
        tool: str,
        *,
        for_s: float,
        by: str | Actor,
        max_calls: int | None = None,
        when: Sequence[When] = (),
        workflow: str | None = None,
        run_id: str | None = None,
        roles: Sequence[str] = (),
        reason: str = "",
        tenant: str = ...,
    ) -> str: ...
    def graph_of(self, graph_hash: str) -> Graph: ...
    def job_log(self, place: LogPlace) -> bytes: ...
    def job_logs(self, run: RunId) -> Sequence[LogPiece]: ...
    def keep_evaluation(
        self,
        suite: str,
        workflow: Workflow,
        results: Sequence[ScenarioResult],
        *,
        min_passed: float,
        by: str | Actor | None = None,
        tenant: str = ...,
    ) -> Evaluation: ...
    def label_run(self, run_id: str, labels: Mapping[str, str | None], *, by: str | Actor | None = None) -> None: ...
    def labels_of(self, rows: Sequence[RunRow]) -> Mapping[RunId, Sequence[Pair]]: ...
    def memories(
        self, agent: str, user: str | None = None, *, tenant: str = ..., words: str | None = None
    ) -> Sequence[Memory]: ...
    def migrate(self, run_id: str, workflow: Workflow | StoredWorkflow, *, by: str | Actor | None = None) -> None: ...
    def model_calls(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[ModelCallRow]: ...
    def notification_rule(self, name: str, *, tenant: str | None = None) -> Rule: ...
    def notification_rules(
        self, tenant: str | None = None, *, after: tuple[str, str] | None = None, limit: int = ...
    ) -> Sequence[Rule]: ...
    def now_ms(self) -> int: ...
    def open_conversation(
        self,
        name: str,
        workflow: Workflow | str,
        *,
        on_busy: OnBusy = "enqueue",
        cost_limit_usd: float | str | Decimal | None = None,
        max_tokens: int | None = None,
        tenant: str = ...,
        team: str | None = None,
        team_budget: str | None = None,
        agent: str | None = None,
        by: str | Actor | None = None,
        private: bool = False,
    ) -> Conversation: ...
    def operations(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[OperationRow]: ...
    def output(self, state: State) -> Any: ...
    def pause(self, run_id: str, *, by: str | Actor | None = None) -> None: ...
    def pause_schedule(self, name: str, *, tenant: str = ...) -> Schedule: ...
    def pool(self, name: str) -> DeclaredPool: ...
    def pool_estimates(self, name: str) -> Sequence[Estimate]: ...
    def pool_shares(self, name: str) -> Sequence[Share]: ...
    def pool_users(self, name: str) -> PoolUsers: ...
    def pools(self) -> Sequence[DeclaredPool]: ...
    def quote_route(
        self,
        router: Router,
        user: str,
        *,
        system: str = "",
        max_tokens: int = ...,
        complexity: Complexity | int | None = None,
        max_latency_s: float | None = None,
        workflow: str = "",
        node: str = "",
    ) -> Sequence[Quote]: ...
    def raise_budget(self, run_id: str, limit_usd: float | str | Decimal, *, by: str | Actor | None = None) -> None: ...
    def reassign(
        self, gate_id: str, to: Sequence[str], *, by: str | Actor | None = None, reason: str | None = None
    ) -> None: ...
    def reconcile(self, call: str, cost_usd: float | str | Decimal, *, by: str | Actor | None = None) -> None: ...
    def remove_notification_rule(self, name: str, *, tenant: str | None = None) -> None: ...
    def remove_pool(self, name: str) -> None: ...
    def remove_schedule(self, name: str, *, tenant: str = ...) -> None: ...
    def remove_supervisor(self, name: str, *, tenant: str = ...) -> None: ...
    def remove_team_budget(self, name: str, *, tenant: str = ...) -> None: ...
    def replay_delivery(self, delivery: str) -> Delivery: ...
    def reply(self, name: str, number: int, *, tenant: str = ...) -> ConversationTurn: ...
    def reports(self) -> Sequence[Report]: ...
    def resolve_dead_letter(
        self, letter: str | Letter, output: Any = ..., *, reason: str | None = None, by: str | Actor | None = None
    ) -> None: ...
    def resolve_effect(
        self,
        call: str,
        decision: str,
        response: Any = ...,
        *,
        by: str | Actor | None = None,
        reason: str | None = None,
        shown_hash: str | None = None,
    ) -> None: ...
    def resume(self, run_id: str, *, by: str | Actor | None = None) -> None: ...
    def resume_schedule(self, name: str, *, tenant: str = ...) -> Schedule: ...
    def retry(self, run_id: str, *, by: str | Actor | None = None) -> None: ...
    def retry_dead_letter(self, letter: str | Letter, *, by: str | Actor | None = None) -> None: ...
    def revoke_approval(self, id_: str, *, by: str | Actor, tenant: str = ...) -> None: ...
    def roll_up_costs(self, within_s: float = ...) -> bool: ...
    def routing_report(self, router: Router, first_day: str, last_day: str, *, tenant: str | None = None) -> RoutingReport: ...
    def run(self, run_id: str) -> Run[Any]: ...
    def runs(self, **filters: Unpack[RunFilter]) -> Sequence[RunRow]: ...
    def schedule(self, name: str, *, tenant: str = ...) -> Schedule: ...
    def schedules(
        self, tenant: str | None = None, *, after: tuple[str, str] | None = None, limit: int = ...
    ) -> Sequence[Schedule]: ...
    def score(
        self, run_id: str, name: str, value: float, *, by: str | Actor, source: Source = "code", comment: str = ""
    ) -> Score: ...
    def score_means(self, **filters: Unpack[ScoreFilter]) -> Sequence[ScoreMean]: ...
    def scores(self, run_id: str, *, every: bool = False) -> Sequence[Score]: ...
    def send_message(
        self,
        name: str | Conversation,
        text: MessageText,
        *,
        tenant: str = ...,
        after: int | None = None,
        on_busy: OnBusy | None = None,
        key: str | None = None,
        by: str | Actor | None = None,
        tools: Sequence[ClientTool] = (),
        context: Sequence[ClientContext] = (),
    ) -> ConversationTurn: ...
    def sensitive(self, tenant: str = ...) -> AbstractContextManager[None]: ...
    def set_admission(self, runs: int | None, *, tenant: str | None = None) -> None: ...
    def set_budget(
        self,
        tenant: str,
        period: Period,
        limit_usd: float | str | Decimal | None = ...,
        *,
        max_tokens: int | None = ...,
        team: str | None = None,
    ) -> None: ...
    def set_conversation_budget(
        self, name: str, limit_usd: float | str | Decimal | None = ..., *, max_tokens: int | None = ..., tenant: str = ...
    ) -> None: ...
    def set_notification_rule(
        self,
        name: str,
        occasions: Sequence[Occasion],
        channel: str,
        *,
        to: Sequence[str] = (),
        workflows: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        teams: Sequence[str] = (),
        children: bool = False,
        digest_s: float = 10.0,
        title: str | None = None,
        details: bool = False,
        tenant: str | None = None,
        by: str | Actor | None = None,
    ) -> Rule: ...
    def set_pool(
        self,
        name: str,
        *,
        slots: int | None = None,
        rate: int | None = None,
        per_s: int | None = None,
        burst: int | None = None,
        counts: RateUnit | None = None,
        of: str | None = None,
    ) -> DeclaredPool: ...
    def set_schedule(
        self,
        name: str,
        workflow: Workflow | StoredWorkflow | str,
        cron: str,
        *,
        timezone: str = "UTC",
        input: Any = None,
        time_field: str | None = None,
        version: int | None = None,
        tenant: str = ...,
        team: str | None = None,
        team_budget: str | None = None,
        agent: str | None = None,
        cost_limit_usd: float | str | Decimal | None = None,
        jitter_s: float = 0,
        overlap: Overlap = "skip",
        catch_up_s: float = 3600,
        by: str | Actor | None = None,
    ) -> Schedule: ...
    def set_supervisor(
        self,
        name: str,
        workers: Sequence[WorkerAgent],
        *,
        max_queue: int = ...,
        threshold: float | None = ...,
        cool_down_s: float = ...,
        tenant: str = ...,
        team: str | None = None,
        team_budget: str | None = None,
    ) -> Supervisor: ...
    def set_team_budget(
        self,
        name: str,
        agents: Mapping[str, TeamAgent | float],
        *,
        total_usd: float | str | Decimal | None = None,
        total_tokens: int | None = None,
        tenant: str = ...,
    ) -> None: ...
    def shared_values(
        self,
        tenant: str | None = None,
        space: str | None = None,
        *,
        after: tuple[str, str, str] | None = None,
        limit: int = ...,
    ) -> Sequence[SharedEntry]: ...
    def shared_versions(self, space: str, key: str, *, tenant: str = ...) -> Sequence[SharedValue]: ...
    @overload
    def signal(
        self, run_id: str, name: Signal[Output], data: Output, *, key: str | None = None, by: str | Actor | None = None
    ) -> None: ...
    @overload
    def signal(
        self, run_id: str, name: str, data: Any = None, *, key: str | None = None, by: str | Actor | None = None
    ) -> None: ...
    def spans(self, run_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[Span]: ...
    def spending(self, run_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[SpendingRow]: ...
    def standing_approvals(self, *, tenant: str = ...) -> Mapping[str, StandingApproval]: ...
    @overload
    def start(
        self,
        workflow: WithoutInput[Output] | Workflow[[], Output] | StoredWorkflow | str,
        input: None = None,
        **options: Unpack[StartOptions],
    ) -> Run[Output]: ...
    @overload
    def start(
        self, workflow: Workflow[[Input], Output] | StoredWorkflow | str, input: Input, **options: Unpack[StartOptions]
    ) -> Run[Output]: ...
    @overload
    def start(
        self, workflow: Workflow[..., Output], input: Mapping[str, Any], **options: Unpack[StartOptions]
    ) -> Run[Output]: ...
    def stop_reply(self, name: str, *, tenant: str = ...) -> RunId | None: ...
    def stuck_runs(self) -> tuple[Sequence[StuckRun], int]: ...
    def supervisor(self, name: str, *, tenant: str = ...) -> Supervisor: ...
    def supervisors(
        self, tenant: str | None = None, *, after: tuple[str, str] | None = None, limit: int = ...
    ) -> Sequence[supervision_Supervisor]: ...
    def team_budgets(self, *, tenant: str = ...) -> Sequence[str]: ...
    def team_dashboard(self, name: str, *, tenant: str = ...) -> team_budgets_Dashboard: ...
    def test_notification_rule(self, name: str, *, tenant: str | None = None) -> Delivery: ...
    def trace(self, run_id: str, *, after: int = 0, limit: int | None = None) -> Sequence[TraceEvent]: ...
    def traced(self, traceparent: str | None) -> Control: ...
    def trajectory(self, run_id: str) -> Trajectory: ...
    def tree(self, run_id: str) -> Tree: ...
    def waiting(self, scopes: Sequence[str]) -> Sequence[ScopeWaiter]: ...
    def wake_stuck_runs(self) -> Sequence[StuckRun]: ...
    def watch_stream(
        self, run_id: str, name: str | None = None, *, since: str | int = ..., follow: bool = True
    ) -> Iterator[StreamEvent]: ...
    def why(self, run_id: str, step: str | None = None) -> Sequence[WaitReason]: ...
    def workers_of(self, workflow: Workflow | StoredWorkflow) -> int: ...
    def workflow(self, name: str, version: int | None = None, *, tenant: str = ...) -> StoredWorkflow: ...
    def workflows(
        self, *, tenant: str = ..., after: tuple[str, int] | None = None, limit: int = ...
    ) -> Sequence[WorkflowRecord]: ...
    def write_shared_value(
        self,
        space: str,
        key: str,
        value: Any,
        *,
        expected_version: int | None = None,
        tenant: str = ...,
        by: str | Actor | None = None,
    ) -> SharedValue: ...

class Engine(Control):
    @property
    def broken(self) -> BaseException | None: ...
    def idle(self) -> list[StrandedRun]: ...
    @property
    def working(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

def open(
    store: str | Path | Store,
    *,
    workflows: Sequence[Workflow] = (),
    slots: int = ...,
    execute: bool = True,
    model: Model | None = None,
    settings: Settings | None = None,
    queue: Queue | None = None,
    grace_s: float = 0.0,
    call_grace_s: float = ...,
    labels: Collection[str] = (),
    resources: Resources | None = None,
    strategy: Strategy | None = None,
    lane: str = ...,
    yaml: bool = False,
    workers: WorkerGateway | None = None,
    shell: bool = True,
    observers: Sequence[Observer] = (),
    on_dead_letter: Callable[[DeadLettered], None] | None = None,
    environment: Environment | None = None,
) -> Engine: ...
