-- Every event of every run, by its id: run and seq. An event that comes twice is one row as soon as parts are merged; until then
-- FINAL reads it as one. Money is in whole nano-dollars. A call's cost is in the event by which it became known.
create table if not exists events (
    tenant LowCardinality(String),
    workflow LowCardinality(String),
    version UInt32,
    run UUID,
    seq UInt32,
    at DateTime64(3, 'UTC'),
    type LowCardinality(String),
    team LowCardinality(String),
    step String,
    node LowCardinality(String),
    attempt UInt32,
    call String,
    model LowCardinality(String),
    outcome LowCardinality(String),
    error_class LowCardinality(String),
    hold_nanousd Int64,
    cost_nanousd Int64,
    input_tokens Int64,
    output_tokens Int64,
    cache_read_tokens Int64,
    cache_write_tokens Int64,
    cacheable_nanousd Int64,
    given_up Map(String, Int64),
    trace String,
    payload String
) engine = ReplacingMergeTree
partition by toYYYYMM(at)
order by (tenant, workflow, at, run, seq)
settings non_replicated_deduplication_window = 1000;

-- One row for each model call, and each call of a tool that has a price, when its parts are merged. All that is folded is the
-- same however often an event comes, so a repeated insert changes no sum: read it with FINAL, or through `call_costs`.
create table if not exists calls (
    run UUID,
    call String,
    tenant SimpleAggregateFunction(max, String),
    workflow SimpleAggregateFunction(max, String),
    node SimpleAggregateFunction(max, String),
    model SimpleAggregateFunction(max, String),
    began_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    ended_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    outcome AggregateFunction(argMax, String, UInt32),
    costs_something SimpleAggregateFunction(max, UInt8),
    hold_nanousd SimpleAggregateFunction(max, Int64),
    cost_nanousd SimpleAggregateFunction(max, Int64),
    input_tokens SimpleAggregateFunction(max, Int64),
    output_tokens SimpleAggregateFunction(max, Int64),
    cache_read_tokens SimpleAggregateFunction(max, Int64),
    cache_write_tokens SimpleAggregateFunction(max, Int64),
    cacheable_nanousd SimpleAggregateFunction(max, Int64)
) engine = AggregatingMergeTree
order by (run, call)
settings non_replicated_deduplication_window = 1000;

create materialized view if not exists calls_of_events to calls as
select
    e.run as run, e.call as call, e.tenant as tenant, e.workflow as workflow, e.node as node, e.model as model,
    if(e.type in ('ModelCallHeld', 'EffectIntended'), e.at, toDateTime64(0, 3, 'UTC')) as began_at,
    if(e.outcome = '', toDateTime64(0, 3, 'UTC'), e.at) as ended_at,
    argMaxState(toString(e.outcome), e.seq) as outcome,
    toUInt8(max(
        e.type in ('ModelCallSettled', 'ModelCallReconciled') or (e.type in ('EffectCompleted', 'EffectFailed') and e.cost_nanousd > 0)
    )) as costs_something,
    max(e.hold_nanousd) as hold_nanousd,
    max(if(e.type = 'EffectIntended', 0, e.cost_nanousd)) as cost_nanousd,
    max(e.input_tokens) as input_tokens,
    max(e.output_tokens) as output_tokens,
    max(e.cache_read_tokens) as cache_read_tokens,
    max(e.cache_write_tokens) as cache_write_tokens,
    max(e.cacheable_nanousd) as cacheable_nanousd
from events as e
where e.call != ''
group by e.run, e.call, e.tenant, e.workflow, e.node, e.model, e.type, e.outcome, e.at;

-- Calls that were given up and made again: each may have been billed, so its reservation counts.
create materialized view if not exists calls_given_up to calls as
select
    e.run as run, given.1 as call, e.tenant as tenant, e.workflow as workflow, e.node as node,
    '' as model,
    toDateTime64(0, 3, 'UTC') as began_at,
    max(e.at) as ended_at,
    argMaxState('given_up', e.seq) as outcome,
    toUInt8(1) as costs_something,
    toInt64(0) as hold_nanousd,
    max(given.2) as cost_nanousd,
    toInt64(0) as input_tokens,
    toInt64(0) as output_tokens,
    toInt64(0) as cache_read_tokens,
    toInt64(0) as cache_write_tokens,
    toInt64(0) as cacheable_nanousd
from events as e
array join arrayZip(mapKeys(e.given_up), mapValues(e.given_up)) as given
group by e.run, given.1, e.tenant, e.workflow, e.node;

-- One row for each run.
create table if not exists runs (
    run UUID,
    tenant SimpleAggregateFunction(max, String),
    team SimpleAggregateFunction(max, String),
    workflow SimpleAggregateFunction(max, String),
    version SimpleAggregateFunction(max, UInt32),
    started_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    status AggregateFunction(argMax, String, UInt32),
    changed_at AggregateFunction(argMax, DateTime64(3, 'UTC'), UInt32)
) engine = AggregatingMergeTree
order by run
settings non_replicated_deduplication_window = 1000;

create materialized view if not exists runs_of_events to runs as
select
    e.run as run, e.tenant as tenant, e.team as team, e.workflow as workflow, e.version as version,
    if(e.type = 'RunStarted', e.at, toDateTime64(0, 3, 'UTC')) as started_at,
    argMaxState(toString(e.outcome), e.seq) as status,
    argMaxState(e.at, e.seq) as changed_at
from events as e
where e.type in ('RunStarted', 'RunReopened', 'RunCompleted', 'RunFailed', 'RunCancelled')
group by e.run, e.tenant, e.team, e.workflow, e.version, e.type, e.at;

-- One row for each attempt of a step.
create table if not exists attempts (
    run UUID,
    step String,
    attempt UInt32,
    tenant SimpleAggregateFunction(max, String),
    workflow SimpleAggregateFunction(max, String),
    node SimpleAggregateFunction(max, String),
    began_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    ended_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')),
    outcome AggregateFunction(argMax, String, UInt32)
) engine = AggregatingMergeTree
order by (run, step, attempt)
settings non_replicated_deduplication_window = 1000;

create materialized view if not exists attempts_of_events to attempts as
select
    e.run as run, e.step as step, e.attempt as attempt, e.tenant as tenant, e.workflow as workflow, e.node as node,
    if(e.type = 'StepStarted', e.at, toDateTime64(0, 3, 'UTC')) as began_at,
    if(e.type = 'StepStarted', toDateTime64(0, 3, 'UTC'), e.at) as ended_at,
    argMaxState(toString(e.outcome), e.seq) as outcome
from events as e
where e.type in ('StepStarted', 'StepCompleted', 'StepSuspended', 'StepFailed', 'AttemptFailed', 'AttemptLost') and e.attempt > 0
group by e.run, e.step, e.attempt, e.tenant, e.workflow, e.node, e.type, e.at;

-- What calls have cost, by the hour in which they were made: the same as `GET /costs/summary` of the store.
create view if not exists call_costs as
select
    toStartOfHour(c.began_at) as hour, c.tenant as tenant, r.team as team, c.workflow as workflow, c.node as node, c.model as model,
    count() as calls,
    sum(c.input_tokens) as input_tokens,
    sum(c.output_tokens) as output_tokens,
    sum(c.cost_nanousd) as cost_nanousd
from (select * from calls final where costs_something = 1) as c
left join (select run, team from runs final) as r on r.run = c.run
group by hour, tenant, team, workflow, node, model;

-- How long runs took that have ended, by workflow and the day on which they began.
create view if not exists run_durations as
select
    day, tenant, workflow, status,
    count() as runs,
    quantile(0.5)(took_ms) as median_ms,
    quantile(0.95)(took_ms) as p95_ms,
    max(took_ms) as longest_ms
from (
    select
        toDate(max(started_at)) as day, max(tenant) as tenant, max(workflow) as workflow,
        argMaxMerge(status) as status,
        dateDiff('millisecond', max(started_at), argMaxMerge(changed_at)) as took_ms
    from runs group by run
)
where status != 'running'
group by day, tenant, workflow, status;

-- How long attempts of steps took, by node and the day on which they began.
create view if not exists step_durations as
select
    day, tenant, workflow, node, outcome,
    count() as attempts,
    quantile(0.5)(took_ms) as median_ms,
    quantile(0.95)(took_ms) as p95_ms,
    max(took_ms) as longest_ms
from (
    select
        toDate(max(began_at)) as day, max(tenant) as tenant, max(workflow) as workflow, max(node) as node,
        argMaxMerge(outcome) as outcome,
        dateDiff('millisecond', max(began_at), max(ended_at)) as took_ms,
        max(ended_at) > toDateTime64(0, 3, 'UTC') and max(began_at) > toDateTime64(0, 3, 'UTC') as is_over
    from attempts group by run, step, attempt
)
where is_over
group by day, tenant, workflow, node, outcome;
