-- What both stores say to their databases, in PostgreSQL's words: `statement` has them read by SQLite. Every name is
-- qualified: a connection behind a pooler keeps nothing between transactions, no search path either.

-- --- Scopes ---------------------------------------------------------------------------------------------------------

-- name: put_waiter
-- A run waits for room in a scope; if it does already, it keeps its turn.
insert into holdfast.waiters (scope, run, wanted, graph) values ($1, $2::uuid, $3, $4)
on conflict (scope, run) do update set wanted = excluded.wanted, graph = excluded.graph

-- name: set_limit
-- A limit of a family of scopes.
insert into holdfast.limits (family, amount) values ($1, $2)
on conflict (family) do update set amount = excluded.amount

-- name: delete_limit
-- A family of scopes has no limit any more.
delete from holdfast.limits where family = $1

-- --- Tenant-wide effect keys ----------------------------------------------------------------------------------------

-- name: effect_keys
-- Who has keys.
select effect_key, run::text, call, args_hash, response from holdfast.effect_keys where effect_key = any($1::text[])

-- name: claim_effect_key
-- A call takes a key: a free one, or the one that another call of its run had.
insert into holdfast.effect_keys (effect_key, tenant, run, call, args_hash) values ($1, $2, $3::uuid, $4, $5)
on conflict (effect_key) do update set call = excluded.call, args_hash = excluded.args_hash, response = null

-- --- Children -------------------------------------------------------------------------------------------------------

-- name: settle_child
-- Somebody has seen to what was to be done about a child, if nothing more has come since.
update holdfast.children set
    state = case state when 'requested' then 'running' when 'ended' then 'told' else state end, heeded = ordered
where child = $1::uuid and state = $2 and ordered = $3
returning child

-- name: pending_children
-- What somebody has to see to since a moment or longer, longest first.
select child::text, parent::text, root::text, state, ordered, heeded from holdfast.children
where (state in ('requested', 'ended') or (state = 'running' and ordered > heeded)) and changed_at_ms <= $1
order by changed_at_ms limit $2

-- name: child
-- What links a run to its parent.
select child::text, parent::text, root::text, state, ordered, heeded from holdfast.children where child = $1::uuid

-- name: family
-- The links of a whole tree, oldest first, after a child.
select child::text, parent::text, root::text, state, ordered, heeded from holdfast.children
where root = $1::uuid and ($2::uuid is null or child > $2::uuid) order by child limit $3

-- --- Costs ----------------------------------------------------------------------------------------------------------

-- name: cost_progress
-- How far the roll-up of costs has come.
select cursor, before_run from holdfast.cost_progress

-- name: move_cost_progress
-- It has come further, if it was where it is named to be.
insert into holdfast.cost_progress (cursor, before_run) values ($3, $4)
on conflict (is_row) do update set cursor = excluded.cursor, before_run = excluded.before_run
where cost_progress.cursor = $1 and cost_progress.before_run is not distinct from $2
returning cursor

-- name: uncounted
-- Those of some runs that have events that are not in the roll-up of costs, and up to where they are; without those whose
-- histories were removed for good.
select runs.run::text, runs.seq, coalesce(counted.seq, 0)
from holdfast.runs left join holdfast.counted on counted.run = runs.run
where runs.run = any($1::uuid[]) and runs.seq > coalesce(counted.seq, 0)
    and not exists (select 1 from holdfast.archives where archives.run = runs.run and archives.sha256 is null)
order by runs.run

-- name: put_counted
-- A run is in the roll-up up to another event, if it was up to the one that is named.
insert into holdfast.counted (run, seq, cost_nanousd) select $1::uuid, $3::integer, $4::bigint
where $2::integer = 0 or exists (select 1 from holdfast.counted where run = $1::uuid)
on conflict (run) do update set seq = excluded.seq, cost_nanousd = excluded.cost_nanousd where counted.seq = $2::integer
returning seq

-- name: add_cost
-- More calls of a kind, and what they cost.
insert into holdfast.costs (day, tenant, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (day, tenant, workflow, node, model) do update set
    calls = costs.calls + excluded.calls, input_tokens = costs.input_tokens + excluded.input_tokens,
    output_tokens = costs.output_tokens + excluded.output_tokens,
    cost_nanousd = costs.cost_nanousd + excluded.cost_nanousd

-- name: add_hour_of_cost
-- The same by hour and team.
insert into holdfast.costs_by_hour (hour, tenant, team, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (hour, tenant, team, workflow, node, model) do update set
    calls = costs_by_hour.calls + excluded.calls, input_tokens = costs_by_hour.input_tokens + excluded.input_tokens,
    output_tokens = costs_by_hour.output_tokens + excluded.output_tokens,
    cost_nanousd = costs_by_hour.cost_nanousd + excluded.cost_nanousd

-- name: costs
-- The roll-up of some days, of one tenant or of all, after a row; null for no limit.
select day, tenant, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd from holdfast.costs
where day between $1 and $2 and ($3::text is null or tenant = $3::text)
    and (day, tenant, workflow, node, model) > ($4, $5, $6, $7, $8)
order by day, tenant, workflow, node, model limit $9

-- name: workflows_of_costs
-- The workflows in the roll-up of some days, of one tenant or of all.
select distinct workflow from holdfast.costs
where day between $1 and $2 and ($3::text is null or tenant = $3::text) order by workflow limit $4

-- name: cost_sums
-- Sums of the roll-up of some days by the fields that are named between commas in $1. Where an hour or a team is asked for, what
-- only `costs` has comes without one. All but the $8 largest of what is not a time are one sum of the rest.
with counted as (
    select day, '' as hour, tenant, '' as team, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd
    from holdfast.costs where $5::text is null
    union all
    select substr(hour, 1, 10), hour, tenant, team, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd
    from holdfast.costs_by_hour where $7::boolean
    union all
    select substr(hour, 1, 10), '', tenant, '', workflow, node, model, -calls, -input_tokens, -output_tokens, -cost_nanousd
    from holdfast.costs_by_hour where $7::boolean and $5::text is null
), picked as (
    select
        case when strpos($1, ',month,') > 0 then substr(day, 1, 7) else '' end as month,
        case when strpos($1, ',day,') > 0 then day else '' end as day,
        case when strpos($1, ',hour,') > 0 then hour else '' end as hour,
        case when strpos($1, ',tenant,') > 0 then tenant else '' end as tenant,
        case when strpos($1, ',team,') > 0 then team else '' end as team,
        case when strpos($1, ',workflow,') > 0 then workflow else '' end as workflow,
        case when strpos($1, ',node,') > 0 then node else '' end as node,
        case when strpos($1, ',model,') > 0 then model else '' end as model,
        calls, input_tokens, output_tokens, cost_nanousd
    from counted
    where day between $2 and $3 and ($4::text is null or tenant = $4::text) and ($5::text is null or team = $5::text)
        and ($6::text[] is null or workflow = any($6::text[]))
), sums as (
    select
        month, day, hour, tenant, team, workflow, node, model, sum(calls) as calls, sum(input_tokens) as input_tokens,
        sum(output_tokens) as output_tokens, sum(cost_nanousd) as cost_nanousd
    from picked group by month, day, hour, tenant, team, workflow, node, model
    having sum(calls) <> 0 or sum(cost_nanousd) <> 0
), places as (
    select
        tenant, team, workflow, node, model,
        row_number() over (order by sum(cost_nanousd) desc, tenant, team, workflow, node, model) > $8 as is_rest
    from sums group by tenant, team, workflow, node, model
), shown as (
    select
        month, day, hour, case when is_rest then '' else tenant end as tenant, case when is_rest then '' else team end as team,
        case when is_rest then '' else workflow end as workflow, case when is_rest then '' else node end as node,
        case when is_rest then '' else model end as model, is_rest, calls, input_tokens, output_tokens, cost_nanousd
    from sums join places using (tenant, team, workflow, node, model)
)
select
    month, day, hour, tenant, team, workflow, node, model, is_rest, sum(calls)::bigint, sum(input_tokens)::bigint,
    sum(output_tokens)::bigint, sum(cost_nanousd)::bigint
from shown group by month, day, hour, tenant, team, workflow, node, model, is_rest
order by
    case when $9::boolean then is_rest else false end, case when $9::boolean then sum(cost_nanousd) else 0 end desc,
    month, day, hour, tenant, team, workflow, node, model, is_rest
limit $10 offset $11

-- name: add_extra_cost
-- More of what a better course would have avoided, or a cache has saved.
insert into holdfast.extra_costs (day, tenant, team, workflow, node, model, cause, calls, tokens, cost_nanousd)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (day, tenant, team, workflow, node, model, cause) do update set
    calls = extra_costs.calls + excluded.calls, tokens = extra_costs.tokens + excluded.tokens,
    cost_nanousd = extra_costs.cost_nanousd + excluded.cost_nanousd

-- name: extra_costs
-- Their sums over some days, by cause and the fields that are named between commas in $1, the largest first.
select
    cause, case when strpos($1, ',day,') > 0 then day else '' end as day,
    case when strpos($1, ',tenant,') > 0 then tenant else '' end as tenant,
    case when strpos($1, ',team,') > 0 then team else '' end as team,
    case when strpos($1, ',workflow,') > 0 then workflow else '' end as workflow,
    case when strpos($1, ',node,') > 0 then node else '' end as node,
    case when strpos($1, ',model,') > 0 then model else '' end as model,
    sum(calls)::bigint, sum(tokens)::bigint, sum(cost_nanousd)::bigint
from holdfast.extra_costs
where day between $2 and $3 and ($4::text is null or tenant = $4::text)
    and ($5::text[] is null or workflow = any($5::text[]))
group by 1, 2, 3, 4, 5, 6, 7 order by 10 desc, 1, 2, 3, 4, 5, 6, 7 limit $6 offset $7

-- name: dearest_runs
-- All runs by what they have cost: read in that order, as far as is asked for.
select
    counted.run::text, tenant, workflow, version, status, started_at_ms, ended_at_ms, cost_nanousd, in_doubt_nanousd
from holdfast.counted join holdfast.runs on runs.run = counted.run
where cost_nanousd > 0 and ($1::text is null or tenant = $1::text) and ($2::text[] is null or workflow = any($2::text[]))
order by cost_nanousd desc, counted.run desc limit $3 offset $4

-- name: dearest_runs_of_time
-- Those that began in a time: read in the order of their ids, of which the first and the last possible ones are given, and sorted.
select
    counted.run::text, tenant, workflow, version, status, started_at_ms, ended_at_ms, cost_nanousd, in_doubt_nanousd
from holdfast.counted join holdfast.runs on runs.run = counted.run
where counted.run >= $1::uuid and counted.run < $2::uuid and started_at_ms >= $3 and started_at_ms < $4
    and ($5::text is null or tenant = $5::text) and ($6::text[] is null or workflow = any($6::text[]))
    and coalesce(cost_nanousd, 0) > 0
order by coalesce(cost_nanousd, 0) desc, counted.run desc limit $7 offset $8

-- name: label_costs
-- What the runs with each value of a label have cost that began in a time, the largest first.
select value, count(*), sum(settled_nanousd)::bigint, sum(in_doubt_nanousd)::bigint
from holdfast.run_labels join holdfast.runs on runs.run = run_labels.run
where key = $1 and run_labels.run >= $2::uuid and run_labels.run < $3::uuid and started_at_ms >= $4 and started_at_ms < $5
    and ($6::text is null or tenant = $6::text) and ($7::text[] is null or workflow = any($7::text[]))
group by value order by 3 desc, 1 limit $8 offset $9

-- --- Workflows and their graphs -------------------------------------------------------------------------------------

-- name: is_workflow_known
-- Whether a workflow is there as it was loaded.
select exists (
    select 1 from holdfast.workflows join holdfast.graphs using (graph_hash)
    where name = $1 and version = $2 and graph_hash = $3 and input_schema is not distinct from $4
)

-- name: put_workflow
-- What was loaded last under a name and version.
insert into holdfast.workflows as known (name, version, graph_hash, input_schema, loaded_at_ms)
values ($1, $2, $3, $4, $5)
on conflict (name, version) do update
set graph_hash = excluded.graph_hash, input_schema = excluded.input_schema, loaded_at_ms = excluded.loaded_at_ms
where (known.graph_hash, known.input_schema) is distinct from (excluded.graph_hash, excluded.input_schema)

-- name: code_called
-- The graphs of the code of a name.
select graph_hash from holdfast.workflows where name = $1

-- name: submit_workflow
-- What a tenant has submitted last under a name and version.
insert into holdfast.submitted_workflows as known (name, version, graph_hash, input_schema, loaded_at_ms, tenant)
values ($1, $2, $3, $4, $5, $6)
on conflict (tenant, name, version) do update
set graph_hash = excluded.graph_hash, input_schema = excluded.input_schema, loaded_at_ms = excluded.loaded_at_ms
where (known.graph_hash, known.input_schema) is distinct from (excluded.graph_hash, excluded.input_schema)

-- name: workflow
-- A workflow of one version, or of the highest: the code of that name, and only where there is none what the tenant has
-- submitted.
select name, version, graph_hash, input_schema, loaded_at_ms, null::text as tenant from holdfast.workflows
where name = $1 and version = coalesce($2, version)
union all
select name, version, graph_hash, input_schema, loaded_at_ms, tenant from holdfast.submitted_workflows
where tenant = $3 and name = $1 and version = coalesce($2, version)
    and not exists (select 1 from holdfast.workflows where name = $1)
order by version desc limit 1

-- name: workflows
-- Workflows by name, the highest version first, after a place in that order: code, and what the tenant has submitted.
select name, version, graph_hash, input_schema, loaded_at_ms, null::text as tenant from holdfast.workflows
where name > $1 or (name = $1 and version < $2)
union all
select name, version, graph_hash, input_schema, loaded_at_ms, tenant from holdfast.submitted_workflows s
where tenant = $4 and (name > $1 or (name = $1 and version < $2))
    and not exists (select 1 from holdfast.workflows w where w.name = s.name)
order by name, version desc limit $3

-- name: put_graph
-- A workflow's graph, once.
insert into holdfast.graphs (graph_hash, definition) values ($1, $2) on conflict do nothing

-- name: graph
-- A workflow's graph by its hash.
select definition from holdfast.graphs where graph_hash = $1

-- name: archive
-- Where a run's archive is, or that it was removed.
select tenant, sha256, pruned_at_ms from holdfast.archives where run = $1

-- --- Blobs ----------------------------------------------------------------------------------------------------------

-- name: put_blob
-- Content, once.
insert into holdfast.blobs (sha256, content) values ($1, $2) on conflict do nothing

-- name: put_blob_home
-- A tenant and a month for which content is kept.
insert into holdfast.blob_homes (tenant, month, sha256) values ($1, $2, $3) on conflict do nothing

-- name: blob
-- Content by its hash, for a tenant for whom it is kept. A history from before payloads named their month names none.
select content from holdfast.blobs
where sha256 = $3 and exists (
    select 1 from holdfast.blob_homes where tenant = $1 and $2 in (month, '') and blob_homes.sha256 = blobs.sha256
)

-- --- Sessions -------------------------------------------------------------------------------------------------------

-- name: widen_session
-- A session can run other workflows than before.
update holdfast.sessions set hashes = $2 where session = $1

-- name: describe_session
-- What a session says of itself.
update holdfast.sessions set described = $2 where session = $1

-- name: described
-- What all say of themselves that are not known to be dead.
select described from holdfast.sessions where dead_at_ms is null and described is not null order by session

-- name: lost_sessions
-- What sessions said of themselves that were found dead after a moment, and when; one that was closed says nothing any more.
select described, dead_at_ms from holdfast.sessions
where dead_at_ms >= $1 and described is not null order by dead_at_ms desc, session limit $2

-- --- Lanes ----------------------------------------------------------------------------------------------------------

-- name: session_labels
-- What the processes of some sessions are called.
select session, label from holdfast.sessions where session = any($1::text[])

-- --- Views ----------------------------------------------------------------------------------------------------------

-- name: runs
-- Runs, newest first; the store adds the conditions and the order.
select
    run::text, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
    due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by
from holdfast.runs

-- name: gates
-- Gates with the latest that became of them; the store adds the conditions and the order.
select
    gate, run::text, step, reason, subject, opened_at_ms, due_at_ms, reviewers, expires_at_ms, coalesce(quorum, 1),
    risk_level, proposed_action, coalesce(workflow, ''), title, evidence_ids,
    gate, state, changed_at_ms, reminders, decision, decided_by, approved_by
from holdfast.gates

-- name: effects
-- The ledger with the latest that became of each line; the store adds the conditions and the order.
select
    call, run::text, step, tool, policy, effect_key, request, intended_at_ms,
    call, state, updated_at_ms, response, error, resolved_by
from holdfast.effects

-- --- Retention ------------------------------------------------------------------------------------------------------

-- name: unarchived
-- Runs of a month that have more events than their archive, after one of them; with the archive that they have.
select runs.run::text, runs.tenant, runs.seq, archives.sha256
from holdfast.runs left join holdfast.archives using (run)
where runs.run > $1 and runs.run < $2 and (archives.run is null or archives.seq < runs.seq)
order by runs.run limit $3

-- name: events_to_archive
-- The histories of some runs, as far as the tables hold them.
select run::text, seq, at_ms, append_id, type, payload, trace_id
from holdfast.events where run = any($1::uuid[]) order by run, seq

-- name: archived_of
-- What is archived of a month.
select count(*) as runs, coalesce(sum(seq), 0) as events, coalesce(sum(stored_bytes), 0) as stored_bytes
from holdfast.archives where run >= $1 and run < $2

-- name: first_unarchived
-- The first run of a time that has no archive.
select run::text, status from holdfast.runs
where run < $1 and not exists (
    select 1 from holdfast.archives where archives.run = runs.run and archives.seq >= runs.seq
)
order by run limit 1

-- name: prune_archives
-- Some archives of a time are gone for good from now on.
update holdfast.archives set sha256 = null, pruned_at_ms = $2
where run in (select run from holdfast.archives where run < $1 and sha256 is not null order by run limit $3)
returning seq

-- name: delete_homes
-- Some blobs are no longer kept for the months before one, but for those of a list.
delete from holdfast.blob_homes where (tenant, month, sha256) in (
    select tenant, month, sha256 from holdfast.blob_homes where month < $1 and sha256 <> all($3::text[]) limit $2
)
returning sha256

-- name: delete_homeless
-- Those of some blobs that are kept for nobody any more.
delete from holdfast.blobs
where sha256 = any($1::text[])
    and not exists (select 1 from holdfast.blob_homes where blob_homes.sha256 = blobs.sha256)
returning length(content) as stored_bytes

-- --- Standing -------------------------------------------------------------------------------------------------------

-- name: first_run_from
-- The first run from an id on: months with runs are found by stepping from each to the next.
select run::text from holdfast.runs where run >= $1 order by run limit 1

-- name: blobs_kept
-- How many blobs there are, and their size.
select count(*) as blobs, coalesce(sum(length(content)), 0) as stored_bytes from holdfast.blobs

-- --- Counts ----------------------------------------------------------------------------------------------------------

-- name: count_runs
-- How many runs have a status, up to so many.
select count(*) from (select 1 from holdfast.runs where status = $1 limit $2) as found

-- name: waits_of_runs
-- What some runs of a status wait for.
select waiting_for from holdfast.runs where status = $1 limit $2

-- name: count_running
-- Of the runs that are under way, up to so many: how many are due, and the money that their calls hold.
select count(*) filter (where due_at_ms <= $1), coalesce(sum(held_nanousd), 0)::bigint
from (select due_at_ms, held_nanousd from holdfast.runs where status = 'running' limit $2) as found

-- name: count_waiters
-- How many runs, up to so many, stand in line for a place, for money, for tokens or for an effect of another run.
select kind, count(*) from (
    select case
        when scope = 'placement' then 'worker' when scope like '%/runs' then 'admission'
        when scope like 'effect/%' then 'effect' when scope like 'tokens/%' then 'tokens' else 'money'
    end as kind
    from holdfast.waiters limit $1
) as found group by kind

-- name: count_gates
-- How many gates are open, up to so many, by reason and age, and when the first of them was opened.
select reason, age, count(*), min(opened_at_ms) from (
    select reason, opened_at_ms, case
        when opened_at_ms > $1::bigint - 3600000 then 'under_1h' when opened_at_ms > $1::bigint - 86400000 then 'under_1d'
        when opened_at_ms > $1::bigint - 345600000 then 'under_4d' else 'over_4d'
    end as age
    from holdfast.gates where state in ('open', 'escalated') limit $2
) as found group by reason, age

-- name: count_doubts
-- How many runs, up to so many, have calls of models in doubt, and how much money that is.
select count(*), coalesce(sum(in_doubt_nanousd), 0)::bigint
from (select in_doubt_nanousd from holdfast.runs where in_doubt_nanousd > 0 limit $1) as found

-- name: count_effects
-- How many calls of tools, up to so many, are in doubt.
select count(*) from (select 1 from holdfast.effects where state = 'in_doubt' limit $1) as found

-- name: count_letters
-- How many dead letters are open, up to so many.
select count(*) from (select 1 from holdfast.dead_letters where resolved_at_ms is null limit $1) as found

-- --- Pools above steps ----------------------------------------------------------------------------------------------

-- name: put_lent_pool
-- A pool as it is declared now.
insert into holdfast.lent_pools (pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (pool) do update set
    kind = excluded.kind, amount = excluded.amount, per_s = excluded.per_s, burst = excluded.burst,
    counts = excluded.counts, counts_of = excluded.counts_of, level = excluded.level, level_at_ms = excluded.level_at_ms,
    closed_ms = excluded.closed_ms

-- name: add_lent_pool
-- A pool, if there is none of its name: says that there was none.
insert into holdfast.lent_pools (pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (pool) do nothing returning pool

-- name: delete_lent_pool
-- A pool is no more: says that it was.
delete from holdfast.lent_pools where pool = $1 returning pool

-- name: estimates
-- What steps have taken, of one workflow, of one pool, or of all.
select workflow, node, pool, amount_m, samples from holdfast.pool_estimates
where ($1::text is null or workflow = $1) and ($2::text is null or pool = $2) order by workflow, node, pool

-- --- What models are like in practice -------------------------------------------------------------------------------

-- name: model_estimates
-- What replies to one workflow and to all of them were like, the latest of each.
select * from (
    select * from holdfast.model_estimates where workflow = $1 order by at_ms desc, node, model limit $2
) as of_one
union
select * from (
    select * from holdfast.model_estimates where workflow = '' order by at_ms desc, node, model limit $2
) as of_all

-- --- What jobs print ------------------------------------------------------------------------------------------------

-- name: job_logs
-- What there is of a run's jobs, with its first bytes, in the order in which the jobs began to print.
select job, attempt, first, substr(content, 1, 20), length(content), written_at_ms from holdfast.job_logs where run = $1
order by min(written_at_ms) over (partition by job, attempt), job, attempt, first

-- name: job_log
-- What one piece says.
select content from holdfast.job_logs where run = $1 and job = $2 and attempt = $3 and first = $4

-- name: drop_job_logs
-- What the jobs of some months' runs have printed goes with their histories, so much at a time.
delete from holdfast.job_logs where (run, job, attempt, first) in (
    select run, job, attempt, first from holdfast.job_logs where run >= $1 and run < $2 limit $3
)
returning attempt

-- --- What runs say meanwhile ----------------------------------------------------------------------------------------

-- name: drop_chunks
-- What some months' runs have said meanwhile goes with their histories, so much at a time.
delete from holdfast.chunks where (run, stream, first) in (
    select run, stream, first from holdfast.chunks where run >= $1 and run < $2 limit $3
)
returning first

-- name: drop_streams
-- The same of their streams.
delete from holdfast.streams where (run, stream) in (
    select run, stream from holdfast.streams where run >= $1 and run < $2 limit $3
)
returning stream

-- --- Dead letters ---------------------------------------------------------------------------------------------------

-- name: letters
-- Dead letters, as lists show them.
select run::text, step, tenant, workflow, node, error_class, message, attempts, first_at_ms, last_at_ms, asked, edited,
    resolved_at_ms
from holdfast.dead_letters

-- name: letter_counts
-- How many there are of each kind, of a tenant or of all.
select workflow, node, error_class, count(*) filter (where resolved_at_ms is null), count(resolved_at_ms),
    min(last_at_ms) filter (where resolved_at_ms is null) as oldest
from holdfast.dead_letters where $1::text is null or tenant = $1
group by workflow, node, error_class order by oldest nulls last, workflow, node, error_class

-- name: any_old_letter
-- Whether there is one that was resolved so long ago.
select 1 from holdfast.dead_letters where resolved_at_ms < $1 limit 1

-- name: forget_letters
-- Those that were resolved some time ago.
delete from holdfast.dead_letters where resolved_at_ms < $1 returning step

-- --- Records --------------------------------------------------------------------------------------------------------

-- name: add_record
-- A new one; nothing where there is one of its name.
insert into holdfast.records (kind, tenant, name, due_at_ms, run, is_pending, changed_at_ms, body, revision)
values ($1, $2, $3, $4, $5::uuid, $6, $7, $8, 1)
on conflict do nothing returning revision

-- name: replace_record
-- One that has changed, in the place of the revision from which it was made.
update holdfast.records set
    revision = revision + 1, due_at_ms = $4, run = $5::uuid, is_pending = $6, changed_at_ms = $7, body = $8
where kind = $1 and tenant = $2 and name = $3 and revision = $9 returning revision

-- name: remove_record
-- One, as it was seen, or whatever it is; one at which nobody is.
delete from holdfast.records
where kind = $1 and tenant = $2 and name = $3 and ($4::bigint is null or revision = $4) and run is null and not is_pending
returning revision

-- name: discard_record
-- One that nobody can read, whatever goes on in it.
delete from holdfast.records where kind = $1 and tenant = $2 and name = $3 returning revision

-- name: record
-- One by its name.
select body, revision from holdfast.records where kind = $1 and tenant = $2 and name = $3

-- name: records
-- All of a kind, or a tenant's, that come after a name.
select body, revision from holdfast.records
where kind = $1 and ($2::text is null or tenant = $2) and (tenant, name) > ($3::text, $4::text)
order by tenant, name limit $5

-- name: records_due
-- Those of a kind at which somebody must look.
select body, revision from holdfast.records where kind = $1 and due_at_ms <= $2 order by due_at_ms limit $3

-- name: next_record
-- When somebody must look at one next.
select min(due_at_ms) from holdfast.records where kind = $1

-- name: records_idle
-- Those at which nobody is, and that have not changed for long.
select body, revision from holdfast.records
where kind = $1 and changed_at_ms < $2 and run is null and not is_pending order by changed_at_ms limit $3

-- name: records_of_ended_runs
-- Those whose run has ended, or is still to be started or cancelled.
select body, revision from holdfast.records where kind = $1 and is_pending
union all
select body, revision from holdfast.records c join holdfast.runs r on r.run = c.run
where c.kind = $1 and c.run is not null and not c.is_pending and r.ended_at_ms is not null
limit $2

-- name: put_part
-- A part of one, as it stands now.
insert into holdfast.record_parts (kind, tenant, name, part, run, ended_at_ms, body) values ($1, $2, $3, $4, $5::uuid, $6, $7)
on conflict (kind, tenant, name, part) do update set run = excluded.run, ended_at_ms = excluded.ended_at_ms, body = excluded.body

-- name: part
-- A part of one.
select body from holdfast.record_parts where kind = $1 and tenant = $2 and name = $3 and part = $4

-- name: parts
-- All parts of one.
select body from holdfast.record_parts where kind = $1 and tenant = $2 and name = $3 order by part

-- name: records_of_ended_parts
-- Those at which somebody must look by now, and those with a part at work whose run has ended.
select tenant, name from holdfast.records where kind = $1 and due_at_ms <= $2
union
select t.tenant, t.name from holdfast.record_parts t join holdfast.runs r on r.run = t.run
where t.kind = $1 and t.run is not null and t.ended_at_ms is null and r.ended_at_ms is not null
limit $3

-- name: forget_parts
-- Those of one that have ended long ago.
delete from holdfast.record_parts where kind = $1 and tenant = $2 and name = $3 and ended_at_ms < $4

-- name: remove_parts
-- Its parts.
delete from holdfast.record_parts where kind = $1 and tenant = $2 and name = $3

-- --- Shared values --------------------------------------------------------------------------------------------------

-- name: shared_value
-- The latest version of a value.
select version, body from holdfast.shared_values
where tenant = $1 and space = $2 and key = $3 order by version desc limit 1

-- name: shared_versions
-- All versions of a value that are kept.
select body from holdfast.shared_values where tenant = $1 and space = $2 and key = $3 order by version

-- name: shared_values
-- The latest versions of values, of all spaces or one, that come after a tenant, a space and a key.
select tenant, space, key, body from holdfast.shared_values v
where ($1::text is null or tenant = $1) and ($2::text is null or space = $2) and (tenant, space, key) > ($3, $4, $5)
    and version = (
        select max(version) from holdfast.shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key)
    )
order by tenant, space, key limit $6

-- name: put_shared_value
-- A value has a new version.
insert into holdfast.shared_values (tenant, space, key, version, body) values ($1, $2, $3, $4, $5)

-- name: prune_shared_value
-- Old versions of it go.
delete from holdfast.shared_values where tenant = $1 and space = $2 and key = $3 and version <= $4

-- name: shared_arrivals
-- Waits that are over, for all values or one, with the version that is there.
select w.run::text, w.step, w.path, v.body
from holdfast.shared_waits w
    join holdfast.shared_values v on (v.tenant, v.space, v.key) = (w.tenant, w.space, w.key)
where ($1::text is null or (w.tenant, w.space, w.key) = ($1, $2::text, $3::text)) and v.version > w.after
    and v.version = (
        select max(version) from holdfast.shared_values l where (l.tenant, l.space, l.key) = (w.tenant, w.space, w.key)
    )
limit $4

-- name: free_shared_lock
-- He gives it back.
update holdfast.shared_locks set expires_at_ms = 0 where tenant = $1 and space = $2 and key = $3 and fence = $4

-- name: list_shared_entries
-- The entries of a space, the latest first.
select e.key, v.body, 0.0::float8, e.uses, e.used_at_ms
from holdfast.shared_entries e
    join holdfast.shared_values v on (v.tenant, v.space, v.key) = (e.tenant, e.space, e.key)
where e.tenant = $1 and e.space = $2
    and v.version = (
        select max(version) from holdfast.shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key)
    )
order by e.id desc limit $3

-- --- Evaluations ----------------------------------------------------------------------------------------------------

-- name: add_evaluation
-- One more, unless it is there.
insert into holdfast.evaluations (id, tenant, workflow, evaluation, judged) values ($1, $2, $3, $4, $5) on conflict do nothing

-- name: evaluation
-- The one of an id, with its runs.
select evaluation, judged from holdfast.evaluations where id = $1

-- name: evaluations
-- The newest first, without their runs.
select evaluation from holdfast.evaluations
where ($1::text is null or tenant = $1) and ($2::text is null or workflow = $2) and ($3::text is null or id < $3)
order by id desc limit $4

-- --- Scores ---------------------------------------------------------------------------------------------------------

-- name: add_score
-- One more of a run, unless it has so many.
insert into holdfast.scores (run, number, name, value, given_by, source, comment, at_ms, os_user, client)
select $1::uuid, count(*) + 1, $3::text, $4::float8, $5::text, $6::text, $7::text, $8::bigint, $9::text, $10::text
from holdfast.scores where run = $1::uuid having count(*) < $2::bigint
returning number

-- name: scores
-- What was said of a run, in its order.
select name, value, given_by, source, comment, at_ms, os_user, client from holdfast.scores where run = $1 order by number

-- name: score_means
-- What runs were worth, by version of their workflow: of each run the latest score of each name and giver.
select r.workflow, r.version, s.name, count(*), avg(s.value), max(s.at_ms)
from holdfast.scores s join holdfast.runs r on r.run = s.run
where ($1::text is null or r.tenant = $1) and ($2::text is null or s.name = $2) and ($3::text is null or r.workflow = $3)
    and s.at_ms >= $4 and not exists (
        select 1 from holdfast.scores later where later.run = s.run and later.number > s.number
            and later.name = s.name and later.given_by = s.given_by
    )
group by r.workflow, r.version, s.name order by r.workflow, s.name collate "C", r.version desc limit $5

-- name: labels
-- Those of some runs, and their tags.
select run::text, key, value from holdfast.run_labels where run = any ($1::uuid[]) order by run, key, value

-- name: drop_labels
-- Those of runs that are removed for good, so much at a time.
delete from holdfast.run_labels where (run, key, value) in (
    select run, key, value from holdfast.run_labels where run >= $1 and run < $2 limit $3
)
returning value

-- name: drop_scores
-- What was said of runs goes when they are removed for good, so much at a time.
delete from holdfast.scores where (run, number) in (
    select run, number from holdfast.scores where run >= $1 and run < $2 limit $3
)
returning number

-- --- Who calls ------------------------------------------------------------------------------------------------------

-- name: add_key
-- A new key, unless its tenant has one of its name, or the fleet has; one of the fleet, unless anybody has.
insert into holdfast.api_keys (name, hash, tenant, key)
select $1::text, $2::text, $3::text, $4::text
where not exists (select 1 from holdfast.api_keys where name = $1 and (tenant is null or $3 is null))
on conflict do nothing returning name

-- name: replace_key
-- In the place of one that is still as it was seen.
update holdfast.api_keys set hash = $2, key = $4
where name = $1 and tenant is not distinct from $3::text and hash = $5 returning name

-- name: key_of_hash
-- The key that somebody comes with.
select key from holdfast.api_keys where hash = $1

-- name: keys_of_name
-- The keys of a name: the fleet's, or those of tenants.
select key from holdfast.api_keys where name = $1 and ($2::text is null or tenant = $2) order by tenant limit $3

-- name: keys
-- Keys by name and tenant.
select key from holdfast.api_keys
where ($1::text is null or tenant = $1) and (name, coalesce(tenant, '')) > ($2::text, $3::text)
order by name, coalesce(tenant, '') limit $4

-- name: cursor_key
-- With what cursors are sealed.
select secret from holdfast.cursor_keys

-- name: audit_ends
-- How the log ends: its head, its last row, and the hash of the entry that this process knows as the last.
select head.number, head.hash, head.signature, last.number, last.hash, last.signature, known.hash
from (select 1) as one
left join holdfast.audit_head as head on true
left join (select number, hash, signature from holdfast.audit order by number desc limit 1) as last on true
left join holdfast.audit as known on known.number = $1::bigint

-- name: add_link
-- One more entry, chained to the last.
insert into holdfast.audit (number, tenant, hash, entry, signature) values ($1, $2, $3, $4, $5)

-- name: move_audit_head
-- Which entry is the last.
insert into holdfast.audit_head (number, hash, signature) values ($1, $2, $3)
on conflict (is_head) do update set number = excluded.number, hash = excluded.hash, signature = excluded.signature

-- name: audit_head
-- The same, to compare.
select number, hash, signature from holdfast.audit_head

-- name: audit
-- Entries; the store adds the conditions and the order.
select number, entry, hash, tenant, signature from holdfast.audit

-- name: begin_reply
-- A request under a key, unless it was begun.
insert into holdfast.replies (name, digest, begun_at_ms) values ($1, $2, $3) on conflict do nothing returning name

-- name: reply
-- How a request under a key stands.
select digest, begun_at_ms, reply from holdfast.replies where name = $1

-- name: finish_reply
-- What was answered to it.
update holdfast.replies set reply = $2 where name = $1 returning name

-- name: drop_reply
-- Nothing was done, so the key is free.
delete from holdfast.replies where name = $1 and reply is null returning name

-- name: add_sign_in
-- A browser has signed in.
insert into holdfast.sign_ins (hash, owner, expires_at_ms, sign_in) values ($1, $2, $3, $4)

-- name: sign_in
-- The sign-in of a cookie.
select sign_in from holdfast.sign_ins where hash = $1

-- name: sign_ins
-- Sign-ins; the store adds the conditions and the order.
select sign_in from holdfast.sign_ins

-- name: end_sign_ins
-- All browsers of one caller are signed out.
delete from holdfast.sign_ins
where name = $1 and ($2::text is null or tenant = $2) and expires_at_ms > $3 returning hash

-- name: end_sign_in
-- A browser has signed out.
delete from holdfast.sign_ins where hash = $1 returning hash

-- name: canaries
-- With which keys what users store is sealed.
select sealed, encrypts from holdfast.canaries

-- name: add_canary
-- One more key, or that all payloads are encrypted from now on.
insert into holdfast.canaries (sealed, encrypts) values ($1, $2)
on conflict (sealed) do update set encrypts = holdfast.canaries.encrypts or excluded.encrypts

-- name: forget_canaries
-- None of the keys counts any more.
delete from holdfast.canaries where sealed <> '' returning sealed

-- name: has_runs
-- Whether anything was stored.
select exists (select 1 from holdfast.runs)

-- --- Followers of the tail ------------------------------------------------------------------------------------------

-- name: hold_follower
-- A process takes the turn to feed a sink, or keeps it, unless another's is not over.
insert into holdfast.followers (name, had_all_at_ms, holder, until_ms) values ($1, $3, $2, $4)
on conflict (name) do update set holder = excluded.holder, until_ms = excluded.until_ms
where holdfast.followers.holder = excluded.holder or holdfast.followers.until_ms <= excluded.had_all_at_ms
returning name, cursor, had_all_at_ms, waiting_since_ms, taken, dropped, problem, holder, until_ms

-- name: begin_follower
-- Where a sink begins, unless that is known.
insert into holdfast.followers (name, cursor, had_all_at_ms, holder, until_ms) values ($1, $2, $3, '', 0)
on conflict (name) do update set cursor = excluded.cursor where holdfast.followers.cursor is null

-- name: move_follower
-- How far it has come, as its holder says.
update holdfast.followers
set cursor = $3, had_all_at_ms = $4, waiting_since_ms = $5, taken = $6, dropped = $7, problem = $8
where name = $1 and holder = $2 returning name

-- name: release_follower
-- Its holder leaves it to others.
update holdfast.followers set holder = '', until_ms = 0 where name = $1 and holder = $2 returning name

-- name: archived_since
-- The runs that were archived after another one, up to a time; without those that were removed for good.
select run::text, seq, archived_at_ms from holdfast.archives
where (archived_at_ms > $1 or (archived_at_ms = $1 and run > $2::uuid)) and archived_at_ms <= $3 and sha256 is not null
order by archived_at_ms, run limit $4

-- name: followers
-- All of them.
select name, cursor, had_all_at_ms, waiting_since_ms, taken, dropped, problem, holder, until_ms from holdfast.followers
order by name limit $1

-- --- Notifications --------------------------------------------------------------------------------------------------

-- name: add_delivery
-- A message on its way, unless it is there.
insert into holdfast.deliveries (
    id, tenant, run, line, place, occasion, rule, channel, address, bundle, created_at_ms, due_at_ms, message,
    state, attempts, claimed_until_ms
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'waiting', 0, 0)
on conflict (id) do nothing returning id

-- name: delivery_mates
-- Others of a bundle that nobody has tried yet, and that nothing keeps waiting but other bundles about what is in this one too. Of
-- those that wait only the first so many are looked at: one that is left out goes in a later message.
select id, message from (
    select id, line, place, bundle, message from holdfast.deliveries
    where bundle = $1 and bundle <> '' and state = 'waiting' and part_of is null and claimed_until_ms = 0
    order by place, id limit $4
) as mates
where id <> $2 and not exists (
    select 1 from holdfast.deliveries as earlier
    where earlier.line = mates.line and earlier.state = 'waiting'
        and (earlier.place, earlier.bundle, earlier.id) < (mates.place, mates.bundle, mates.id)
        and (earlier.bundle = '' or earlier.claimed_until_ms <> 0 or earlier.part_of is not null or not exists (
            select 1 from holdfast.deliveries as own
            where own.line = earlier.line and own.state in ('waiting', 'sent', 'dead') and own.place = earlier.place
                and own.bundle = mates.bundle
        ))
)
order by place, id limit $3

-- name: bundle_deliveries
-- Messages become part of another.
update holdfast.deliveries set part_of = $2 where id = any($1::text[])

-- name: lost_before
-- How many earlier ones of a line were given up.
select count(*) from holdfast.deliveries where line = $1 and state = 'dead' and (place, bundle, id) < ($2, $3, $4)

-- name: claim_delivery
-- A process is about to send a message: the try counts.
update holdfast.deliveries set attempts = attempts + 1, claimed_until_ms = $3, message = $4
where id = $1 and attempts = $2 and state = 'waiting' returning attempts

-- name: end_delivery
-- A message is sent or given up, if no later try has begun.
update holdfast.deliveries set state = $3, ended_at_ms = $4, problem = $5, claimed_until_ms = 1
where id = $1 and attempts = $2 and state = 'waiting' returning address

-- name: end_parts
-- So are those that are part of it.
update holdfast.deliveries set state = $2, ended_at_ms = $3, problem = $4, claimed_until_ms = 1
where part_of = $1 and state = 'waiting' returning id

-- name: retry_delivery
-- A try failed: there is another one later.
update holdfast.deliveries set due_at_ms = $3, problem = $4, claimed_until_ms = 1
where id = $1 and attempts = $2 and state = 'waiting' returning address, line

-- name: postpone_line
-- What waits behind a message is not looked at before that is due.
update holdfast.deliveries set due_at_ms = $2 where line = $1 and state = 'waiting' and due_at_ms < $2

-- name: replay_delivery
-- A message that was given up is sent again, with its parts.
update holdfast.deliveries set state = 'waiting', attempts = 0, due_at_ms = $2, ended_at_ms = null
where (id = $1 or part_of = $1) and state = 'dead' returning id

-- name: know_channel
-- An address of a channel is used.
insert into holdfast.channels (channel, address, sent, failed, dead) values ($1, $2, 0, 0, 0) on conflict do nothing

-- name: count_delivery
-- What came of a message.
update holdfast.channels set sent = sent + $3, failed = failed + $4, dead = dead + $5 where channel = $1 and address = $2

-- name: disable_channel
-- An address wants no more.
update holdfast.channels set disabled_at_ms = $3, problem = $4 where channel = $1 and address = $2 and disabled_at_ms is null

-- name: enable_channel
-- It is used again.
update holdfast.channels set disabled_at_ms = null, problem = null
where channel = $1 and address = $2 and disabled_at_ms is not null returning channel

-- name: disabled_addresses
-- The addresses of a channel that want no more.
select address, problem from holdfast.channels where channel = $1 and disabled_at_ms is not null limit $2

-- name: channel_figures
-- The state of each address.
select channels.channel, channels.address, sent, failed, dead, coalesce(waiting.count, 0), waiting.since_ms, disabled_at_ms, problem
from holdfast.channels left join (
    select channel, address, count(*) as count, min(created_at_ms) as since_ms from holdfast.deliveries
    where state = 'waiting' and part_of is null group by channel, address
) as waiting on waiting.channel = channels.channel and waiting.address = channels.address
order by channels.channel, channels.address limit $1

-- name: delivery_problem
-- Why the latest message to an address that is in a state could not be sent; nothing if none was tried.
select problem from holdfast.deliveries
where channel = $1 and address = $2 and state = $3 and part_of is null and problem is not null
order by coalesce(ended_at_ms, due_at_ms) desc, id limit 1

-- name: delivery
-- One by its id.
select id, tenant, run, line, place, occasion, rule, channel, address, bundle, state, part_of, attempts, created_at_ms, due_at_ms,
    ended_at_ms, problem, message
from holdfast.deliveries where id = $1

-- name: deliveries
-- Deliveries; the store adds the conditions and the order.
select id, tenant, run, line, place, occasion, rule, channel, address, bundle, state, part_of, attempts, created_at_ms, due_at_ms,
    ended_at_ms, problem, message
from holdfast.deliveries

-- name: forget_deliveries
-- Messages that were sent or given up long ago go. Those about no run stay for 400 days: what they tell is looked at again.
delete from holdfast.deliveries where id in (
    select id from holdfast.deliveries
    where ended_at_ms is not null and ((state = 'sent' and ended_at_ms < $1) or (state = 'dead' and ended_at_ms < $2))
        and (run <> '' or ended_at_ms < $1 - 34560000000) limit $3
) returning id
