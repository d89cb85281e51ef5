-- What the SQLite store says to its database. `:names` are bound by name, `?` in order; where a statement inserts one
-- row, the store widens its `values` to as many as a commit has.
-- Reads that many rows may answer come back as one JSON document: each row would cost the reading thread the GIL anew.

-- --- The log ---------------------------------------------------------------------------------------------------------

-- name: standings
-- Where the runs of a list are, and which sessions they have in flight: [[run, seq, sessions], ...].
select json_group_array(json_array(run, seq, sessions)) from runs where run in (select value from json_each(?))

-- name: append_id_of
-- The append that wrote an event.
select append_id from events where run = ? and seq = ?

-- name: insert_event
-- The history grows. (run, seq) is unique; nothing ever updates or deletes.
insert into events (run, seq, append_id, at_ms, type, payload, trace_id) values (?, ?, ?, ?, ?, ?, ?)

-- name: put_run
-- A run's row: inserted by its first append, brought up to date by every other.
insert into runs (
    run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
    due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by, sessions
) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (run) do update set
    seq = excluded.seq, version = excluded.version, graph_hash = excluded.graph_hash, status = excluded.status,
    updated_at_ms = excluded.updated_at_ms, ended_at_ms = excluded.ended_at_ms, due_at_ms = excluded.due_at_ms,
    limit_nanousd = excluded.limit_nanousd, settled_nanousd = excluded.settled_nanousd,
    held_nanousd = excluded.held_nanousd, in_doubt_nanousd = excluded.in_doubt_nanousd,
    waiting_for = excluded.waiting_for, started_by = excluded.started_by, sessions = excluded.sessions

-- name: insert_start_key
-- A start's key, which no other run of the tenant can have.
insert into start_keys (tenant, start_key, run, input_digest) values (?, ?, ?, ?)

-- name: run_of_key
-- The run that was started under a key, and the digest of its input.
select run, input_digest from start_keys where tenant = ? and start_key = ?

-- name: insert_gate
-- A gate is opened; nothing has become of it, even if one of its name was there before.
insert or replace into gates (
    gate, run, step, reason, subject, opened_at_ms, due_at_ms, reviewers, expires_at_ms, quorum, risk_level,
    proposed_action, evidence_ids, state
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')

-- name: change_gate
-- The latest that became of a gate; whom it asks changes where that is said.
update gates set
    state = ?2, changed_at_ms = ?3, reminders = ?4, decision = ?5, decided_by = ?6, reviewers = coalesce(?7, reviewers),
    approved_by = coalesce(?8, approved_by)
where gate = ?1

-- name: insert_effect
-- A call of a tool is about to be made.
insert into effects (call, run, step, tool, policy, effect_key, request, intended_at_ms, state)
values (?, ?, ?, ?, ?, ?, ?, ?, 'intended')

-- name: change_effect
-- The latest that became of a call.
update effects set state = ?2, updated_at_ms = ?3, response = ?4, error = ?5, resolved_by = ?6 where call = ?1

-- name: insert_flight
-- A session has work in flight in a run.
insert into flights (session, run) values (?, ?) on conflict do nothing

-- name: delete_flight
-- A session has nothing in flight in a run any more.
delete from flights where session = ? and run = ?

-- name: events
-- A run's events after a seq, in order: [[seq, at_ms, bytes, trace id], ...] and their payloads end to end.
select
    json_group_array(json_array(seq, at_ms, length(payload), trace_id) order by seq),
    cast(coalesce(group_concat(payload, '' order by seq), '') as blob)
from (select seq, at_ms, payload, trace_id from events where run = :run and seq > :after order by seq limit :most)

-- name: seqs
-- Where the runs of a list are, or those of them that have ended: {run: seq, ...}.
select json_group_object(run, seq) from runs
where run in (select value from json_each(?)) and (ended_at_ms is not null or not ?)

-- name: put_snapshot
-- A run's snapshot, in the place of an older one or of one of another fold.
insert into snapshots (run, seq, fold_version, state) values (?, ?, ?, ?)
on conflict (run) do update set seq = excluded.seq, fold_version = excluded.fold_version, state = excluded.state
where excluded.seq > snapshots.seq or excluded.fold_version <> snapshots.fold_version

-- name: snapshot
-- A run's snapshot, if it is of this fold.
select seq, fold_version, state from snapshots where run = ? and fold_version = ?

-- name: newest_at_ms
-- The time of the newest events; those of one commit may differ a little.
select max(at_ms) from (select at_ms from events order by id desc limit 256)

-- --- Scopes -----------------------------------------------------------------------------------------------------------

-- name: balances
-- The books of the scopes of a list [[scope, family], ...], with their limits: [[scope, limit, settled, held, in_doubt],
-- ...], in the order of the list; zeros where nothing was ever charged.
select json_group_array(
    json_array(
        asked.value ->> 0, limits.amount, coalesce(settled, 0), coalesce(held, 0), coalesce(in_doubt, 0)
    ) order by asked.key
)
from json_each(?) as asked
left join scopes on scopes.scope = asked.value ->> 0
left join limits on limits.family = asked.value ->> 1

-- name: put_scope
-- The books of a scope after a commit.
insert into scopes (scope, family, settled, held, in_doubt, moved_at_ms) values (?, ?, ?, ?, ?, ?)
on conflict (scope) do update set
    settled = excluded.settled, held = excluded.held, in_doubt = excluded.in_doubt,
    moved_at_ms = max(moved_at_ms, excluded.moved_at_ms)

-- name: put_waiter
-- A run waits for room in a scope; if it does already, it keeps its turn.
insert into waiters (scope, run, wanted, graph) values (?, ?, ?, ?)
on conflict (scope, run) do update set wanted = excluded.wanted, graph = excluded.graph

-- name: delete_waiters
-- The runs of a list {run: [scope, ...]} wait for nothing else than that.
delete from waiters
where run in (select key from json_each(:runs))
    and scope not in (
        select scope.value from json_each(:runs) as run, json_each(run.value) as scope where run.key = waiters.run
    )

-- name: wanted_ahead
-- What runs want that wait in a scope before one of them, or at all if that one does not; without those of a list.
select coalesce(sum(wanted), 0) from waiters
where scope = :scope and run <> :run and run not in (select value from json_each(:admitted))
    and id < coalesce((select id from waiters where scope = :scope and run = :run), 9223372036854775807)

-- name: effect_keys
-- Who has the keys of a list.
select effect_key, run, call, args_hash, response from effect_keys
where effect_key in (select value from json_each(?))

-- name: claim_effect_key
-- A call takes a key: a free one, or the one that another call of its run had.
insert into effect_keys (effect_key, tenant, run, call, args_hash) values (?, ?, ?, ?, ?)
on conflict (effect_key) do update set call = excluded.call, args_hash = excluded.args_hash, response = null

-- name: close_effect_key
-- The effect of a key has happened.
update effect_keys set response = ? where effect_key = ?

-- name: free_effect_key
-- The effect of a key has not happened, or was undone.
delete from effect_keys where effect_key = ?

-- name: set_limit
-- A limit of a family of scopes.
insert into limits (family, amount) values (?, ?) on conflict (family) do update set amount = excluded.amount

-- name: change_limit
-- Of a limit something is lent, or to it.
update limits set amount = amount + ? where family = ?

-- name: allot
-- What an agent of a team budget is allotted.
insert into limits (family, amount, priority) values (?, ?, ?)
on conflict (family) do update set amount = excluded.amount, priority = excluded.priority

-- name: agents
-- The books of the agents of a team budget whose scopes begin with a text.
select limits.family, amount, coalesce(settled, 0), coalesce(held, 0), coalesce(in_doubt, 0), priority, coalesce(moved_at_ms, 0)
from limits left join scopes on scope = limits.family
where substr(limits.family, 1, length(:prefix)) = :prefix order by limits.family

-- name: delete_limit
-- A family of scopes has no limit any more.
delete from limits where family = ?

-- name: limits
-- The limits of the families that begin with a text.
select family, amount from limits where substr(family, 1, length(:family)) = :family order by family

-- name: waiting
-- Who waits in the scopes of a list, longest first, and what is left there.
select waiters.run, waiters.scope, wanted, amount - settled - held - in_doubt
from waiters left join scopes using (scope) left join limits using (family)
where waiters.scope in (select value from json_each(:scopes))
order by waiters.id limit :most

-- name: room
-- Who waits, longest first, in a scope that has room for it alone, and what is left there, with what other agents of its team
-- budget may lend; or for a tenant-wide effect that no other run has in flight any more. And who waits for calls in flight that
-- can leave no room any more, and is to be told: for money or tokens, in a run whose status does not say so yet.
with line as (
    select
        waiters.id, waiters.run, waiters.scope, wanted, family, amount - settled - held - in_doubt as own, held,
        waiters.scope glob 'agent/*/*/*' or waiters.scope glob 'tokens/agent/*/*/*' as has_team,
        rtrim(waiters.scope, replace(waiters.scope, '/', '')) || '*' as team
    from waiters left join scopes using (scope) left join limits using (family)
),
rooms as (
    select
        line.*,
        own + iif(has_team, (
            select coalesce(sum(max(amount - coalesce(s.settled + s.held + s.in_doubt, 0), 0) / 2), 0)
            from limits left join scopes as s on s.scope = limits.family
            where limits.family glob team and limits.family <> line.scope
        ), 0) as room,
        held + iif(has_team, (
            select coalesce(sum(s.held), 0) from scopes as s where s.scope glob team and s.scope <> line.scope
        ), 0) as in_flight
    from line
)
select run, scope, wanted, room from rooms
where (
        room is null or wanted <= room or (
            wanted > room + in_flight and family <> 'fleet/runs' and family not like 'tenant/%/runs'
            and (select status from runs where runs.run = rooms.run) = 'waiting'
        )
    )
    and scope <> 'placement'
    and not exists (
        select 1 from effect_keys
        where rooms.scope = 'effect/' || effect_key and effect_keys.run <> rooms.run and response is null
    )
order by id limit :most

-- --- Children ---------------------------------------------------------------------------------------------------------

-- name: put_child
-- A run asks for a child, or for its being taken up again.
insert into children (child, parent, root, state, ordered, heeded, changed_at_ms) values (?1, ?2, ?3, 'requested', 0, 0, ?4)
on conflict (child) do update set state = excluded.state, changed_at_ms = excluded.changed_at_ms

-- name: move_child
-- A child has come further. What becomes of one whose parent has heard of its end is told to nobody.
update children set state = ?2, changed_at_ms = ?3 where child = ?1 and state <> 'told'

-- name: order_child
-- A child is to do as its parent does.
update children set ordered = ?2, changed_at_ms = ?3 where child = ?1 and state <> 'told'

-- name: order_children
-- Every child of a run is.
update children set ordered = ?2, changed_at_ms = ?3 where parent = ?1 and state <> 'told'

-- name: settle_child
-- Somebody has seen to what was to be done about a child, if nothing more has come since.
update children set
    state = case state when 'requested' then 'running' when 'ended' then 'told' else state end, heeded = ordered
where child = ?1 and state = ?2 and ordered = ?3
returning child

-- name: pending_children
-- What somebody has to see to since a moment or longer, longest first.
select child, parent, root, state, ordered, heeded from children
where (state in ('requested', 'ended') or (state = 'running' and ordered > heeded)) and changed_at_ms <= ?1
order by changed_at_ms limit ?2

-- name: child
-- What links a run to its parent.
select child, parent, root, state, ordered, heeded from children where child = ?

-- name: family
-- The links of a whole tree, oldest first, after a child.
select child, parent, root, state, ordered, heeded from children where root = ?1 and child > ?2 order by child limit ?3

-- --- Costs ------------------------------------------------------------------------------------------------------------

-- name: uncounted
-- Runs with events that are not in the roll-up of costs, in the order of their names, and up to where they are; but for
-- those whose history was removed for good.
select run, runs.seq, coalesce(counted.seq, 0)
from runs left join counted using (run)
where run > :after and runs.seq > coalesce(counted.seq, 0) and started_at_ms < :before_ms
    and not exists (select 1 from archives where archives.run = runs.run and sha256 is null)
order by run limit :most

-- name: counted
-- Up to which event a run is in the roll-up.
select seq from counted where run = ?

-- name: put_counted
-- A run is in the roll-up up to an event.
insert into counted (run, seq) values (?, ?) on conflict (run) do update set seq = excluded.seq

-- name: add_cost
-- More calls of a kind, and what they cost.
insert into costs (day, tenant, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (day, tenant, workflow, node, model) do update set
    calls = calls + excluded.calls, input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens, cost_nanousd = cost_nanousd + excluded.cost_nanousd

-- name: costs
-- The roll-up of some days, of one tenant or of all, after a row; -1 for no limit.
select day, tenant, workflow, node, model, calls, input_tokens, output_tokens, cost_nanousd from costs
where day between ?1 and ?2 and (?3 is null or tenant = ?3)
    and (day, tenant, workflow, node, model) > (?4, ?5, ?6, ?7, ?8)
order by day, tenant, workflow, node, model limit ?9

-- --- Workflows and their graphs --------------------------------------------------------------------------------------

-- name: is_workflow_known
-- Whether a workflow is there as it was loaded.
select exists (
    select 1 from workflows join graphs using (graph_hash)
    where name = :name and version = :version and graph_hash = :graph_hash and input_schema is :input_schema
)

-- name: put_workflow
-- What was loaded last under a name and version.
insert into workflows (name, version, graph_hash, input_schema, loaded_at_ms)
values (:name, :version, :graph_hash, :input_schema, :loaded_at_ms)
on conflict do update
set graph_hash = excluded.graph_hash, input_schema = excluded.input_schema, loaded_at_ms = excluded.loaded_at_ms
where (graph_hash, input_schema) is not (excluded.graph_hash, excluded.input_schema)

-- name: code_called
-- The graphs of the code of a name.
select graph_hash from workflows where name = :name

-- name: submit_workflow
-- What a tenant has submitted last under a name and version.
insert into submitted_workflows (tenant, name, version, graph_hash, input_schema, loaded_at_ms)
values (:tenant, :name, :version, :graph_hash, :input_schema, :loaded_at_ms)
on conflict do update
set graph_hash = excluded.graph_hash, input_schema = excluded.input_schema, loaded_at_ms = excluded.loaded_at_ms
where (graph_hash, input_schema) is not (excluded.graph_hash, excluded.input_schema)

-- name: workflow
-- A workflow of one version, or of the highest: the code of that name, and only where there is none what the tenant has
-- submitted.
select name, version, graph_hash, input_schema, loaded_at_ms, null as tenant from workflows
where name = :name and version = coalesce(:version, version)
union all
select name, version, graph_hash, input_schema, loaded_at_ms, tenant from submitted_workflows
where tenant = :tenant and name = :name and version = coalesce(:version, version)
    and not exists (select 1 from workflows where name = :name)
order by version desc limit 1

-- name: workflows
-- Workflows by name, the highest version first, after a place in that order: code, and what the tenant has submitted.
select name, version, graph_hash, input_schema, loaded_at_ms, null as tenant from workflows
where name > :name or (name = :name and version < :version)
union all
select name, version, graph_hash, input_schema, loaded_at_ms, tenant from submitted_workflows s
where tenant = :tenant and (name > :name or (name = :name and version < :version))
    and not exists (select 1 from workflows where name = s.name)
order by name, version desc limit :most

-- name: put_graph
-- A workflow's graph, once.
insert into graphs (graph_hash, definition) values (?, ?) on conflict do nothing

-- name: graph
-- A workflow's graph by its hash.
select definition from graphs where graph_hash = ?

-- --- The tail --------------------------------------------------------------------------------------------------------

-- name: tail
-- Events after a place in the order of commits.
select id, run, seq, at_ms, payload, trace_id from events where id > ? and seq > 0 order by id limit ?

-- name: tail_gap
-- The last place in the order of commits whose event has left with its month; 0 for none.
select coalesce(max(id), 0) from events where run = '' and seq = -1

-- name: tail_end
-- The last place in the order of commits.
select coalesce(max(id), 0) from events

-- --- Blobs -----------------------------------------------------------------------------------------------------------

-- name: put_blob
-- Content, once.
insert into blobs (sha256, content) values (?, ?) on conflict do nothing

-- name: put_blob_home
-- A tenant and a month for which content is kept.
insert into blob_homes (tenant, month, sha256) values (?, ?, ?) on conflict do nothing

-- name: blob
-- Content by its hash, for a tenant for whom it is kept. A history from before payloads named their month names none.
select content from blobs
where sha256 = :sha256 and exists (
    select 1 from blob_homes where tenant = :tenant and :month in (month, '') and blob_homes.sha256 = blobs.sha256
)

-- --- Sessions --------------------------------------------------------------------------------------------------------

-- name: open_session
-- A process begins to hold a lease.
insert into sessions (session, label, pid, hashes, opened_at_ms, lease_ms, renewed_boot_ms, described)
values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: renew_session
-- A lease is extended, unless somebody has found its session dead: says who is still alive.
update sessions set renewed_boot_ms = ? where session = ? and dead_at_ms is null returning session

-- name: widen_session
-- A session can run other workflows than before.
update sessions set hashes = ? where session = ?

-- name: describe_session
-- What a session says of itself.
update sessions set described = ? where session = ?

-- name: described
-- What all say of themselves that are not known to be dead.
select described from sessions where dead_at_ms is null and described is not null order by session

-- name: session_labels
-- What the processes of some sessions are called.
select session, label from sessions where session in (select value from json_each(?))

-- name: able_sessions
-- Sessions that nobody has found dead yet, and can run one of some workflows.
select session, lease_ms, renewed_boot_ms from sessions
where dead_at_ms is null
    and exists (select 1 from json_each(hashes) as has where has.value in (select value from json_each(?)))

-- name: able_until_ms
-- When the latest of the dead sessions died that could run one of some workflows.
select max(dead_at_ms) from sessions
where exists (select 1 from json_each(hashes) as has where has.value in (select value from json_each(?)))

-- name: unburied_sessions
-- Sessions that nobody has found dead yet.
select session, lease_ms, renewed_boot_ms from sessions where dead_at_ms is null

-- name: end_session
-- A session dies because its process says so, or because its lock is free.
update sessions set dead_at_ms = :now_ms where session = :session and dead_at_ms is null

-- name: expire_session
-- A session dies because its lease is over: unless it was renewed in the meantime. A clock since boot that stands
-- before the last renewal has begun anew, and with it everything that ran.
update sessions set dead_at_ms = :now_ms
where session = :session and dead_at_ms is null
    and (:boot_ms >= renewed_boot_ms + lease_ms or :boot_ms < renewed_boot_ms)

-- name: strangers_in_flight
-- Sessions that have work in flight and no row: forgotten long after their death.
select distinct session from flights where session not in (select session from sessions)

-- name: expire_other_session
-- A row for a session that has none, so that the dead are all in one place.
insert into sessions (session, label, pid, hashes, opened_at_ms, lease_ms, renewed_boot_ms, dead_at_ms)
values (:session, 'unknown', 0, '[]', :now_ms, 0, 0, :now_ms) on conflict do nothing

-- name: dead_in_flight
-- Dead sessions that still have work in flight, and since when they are dead.
select session, dead_at_ms from sessions
where dead_at_ms is not null and exists (select 1 from flights where flights.session = sessions.session)

-- name: forget_sessions
-- Sessions that have been dead for long and left nothing behind.
delete from sessions
where dead_at_ms < ? and not exists (select 1 from flights where flights.session = sessions.session)

-- --- Views -----------------------------------------------------------------------------------------------------------

-- name: due_runs
-- Runs of one workflow that are due, longest first: [[run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions], ...].
select json_group_array(json_array(run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, json(sessions)))
from (
    select run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions from runs
    where graph_hash = :hash and due_at_ms <= :now_ms order by due_at_ms limit :most
)

-- name: lost_runs
-- Runs with work in flight in one of the sessions of a list, ended ones among them, whose money may have outlived them:
-- [[run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions], ...].
select json_group_array(json_array(run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, json(sessions)))
from (
    select distinct run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions from flights join runs using (run)
    where session in (select value from json_each(:dead)) and graph_hash in (select value from json_each(:hashes))
    limit :most
)

-- name: stranded_hashes
-- Workflows with runs that are due, lost or in line for a place, which no session could run that lived after a moment. The
-- hashes with runs that are due or in line are stepped through one by one: the indexes have many rows of few hashes.
with recursive due (hash) as (
    select min(graph_hash) from runs where due_at_ms is not null
    union all
    select (select min(graph_hash) from runs where due_at_ms is not null and graph_hash > due.hash)
    from due where due.hash is not null
),
in_line (hash) as (
    select min(graph) from waiters where scope = :scope
    union all
    select (select min(graph) from waiters where scope = :scope and graph > in_line.hash)
    from in_line where in_line.hash is not null
),
lost (hash) as (
    select distinct graph_hash from flights join runs using (run)
    where session in (select value from json_each(:dead))
),
known (hash) as (
    select json_each.value from sessions, json_each(sessions.hashes)
    where dead_at_ms is null or dead_at_ms > :before_ms
)
select hash from (select hash from due union select hash from in_line union select hash from lost)
where hash is not null and hash not in (select hash from known)

-- name: stranded_runs
-- Runs of one workflow that have been due, lost, or in line for a place with nothing happening since a moment, without
-- those about which somebody is asked already: [[run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions],
-- ...].
select json_group_array(json_array(run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, json(sessions)))
from (
    select run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions from runs
    where graph_hash = :hash
        and (
            due_at_ms <= :before_ms
            or run in (select run from flights where session in (select value from json_each(:dead)))
            or run in (select run from waiters where scope = :scope and graph = :hash) and updated_at_ms <= :before_ms
        )
        and not exists (
            select 1 from gates
            where gates.run = runs.run and reason = :reason and state in ('open', 'escalated')
        )
    order by due_at_ms is null desc, due_at_ms, updated_at_ms limit :most
)

-- name: wanted_hashes
-- Workflows with runs that are due or lost, or have steps to be placed. The hashes with due runs are stepped through one
-- by one: the index has many rows of few hashes.
with recursive due (hash) as (
    select min(graph_hash) from runs where due_at_ms is not null
    union all
    select (select min(graph_hash) from runs where due_at_ms is not null and graph_hash > due.hash)
    from due where due.hash is not null
)
select hash from due
where hash is not null and exists (select 1 from runs where graph_hash = hash and due_at_ms <= :before_ms)
union
select graph_hash from flights join runs using (run) where session in (select value from json_each(:dead))
union
select graph_hash from waiters join runs using (run) where scope = :scope

-- name: next_due_ms
-- The earliest due time among the runs of one workflow.
select min(due_at_ms) from runs where graph_hash = ? and due_at_ms is not null

-- name: unplaced
-- Runs with steps that are to be placed, longest waiting first, after a place in line.
select waiters.id, run, tenant, workflow, graph_hash, waiting_for, started_by
from waiters join runs using (run)
where scope = :scope and waiters.id > :after
order by waiters.id limit :most

-- name: unended
-- How many runs of one workflow have not ended.
select count(*) from runs where graph_hash = ? and ended_at_ms is null

-- name: runs
-- Runs, newest first; the store adds the conditions and the order.
select
    run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
    due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by
from runs

-- name: gates
-- Gates with the latest that became of them; the store adds the conditions and the order.
select
    gate, run, step, reason, subject, opened_at_ms, due_at_ms, reviewers, expires_at_ms, coalesce(quorum, 1),
    risk_level, proposed_action, evidence_ids,
    gate, state, changed_at_ms, reminders, decision, decided_by, approved_by
from gates

-- name: effects
-- The ledger with the latest that became of each line; the store adds the conditions and the order.
select
    call, run, step, tool, policy, effect_key, request, intended_at_ms,
    call, state, updated_at_ms, response, error, resolved_by
from effects

-- --- Archives --------------------------------------------------------------------------------------------------------
-- Lists of runs, of hashes, are JSON.

-- name: archive
-- Where a run's archive is, or that it was removed.
select tenant, sha256, pruned_at_ms from archives where run = ?

-- name: holders
-- Runs of a month that may still go on, or about which something may still be said, or that a tail may not have told;
-- oldest first, with how many there are.
select
    run, tenant, workflow, status, started_at_ms,
    case
        when ended_at_ms is null then 'unended'
        when held_nanousd > 0 or in_doubt_nanousd > 0 then 'money'
        when sessions <> '[]' then 'call'
        when updated_at_ms > ?4 then 'told'
        else 'effect'
    end,
    count(*) over ()
from runs
where run >= ?1 and run < ?2
    and (
        ended_at_ms is null or held_nanousd > 0 or in_doubt_nanousd > 0 or sessions <> '[]' or updated_at_ms > ?4
        or run in (select run from effects where state in ('intended', 'in_doubt'))
    )
order by run limit ?3

-- name: unarchived
-- Runs of a month that have more events than their archive, after one of them; with the archive that they have.
select runs.run, runs.tenant, runs.seq, sha256
from runs left join archives using (run)
where runs.run > ?1 and runs.run < ?2 and (archives.run is null or archives.seq < runs.seq)
order by runs.run limit ?3

-- name: events_to_archive
-- The histories of some runs, as far as the tables hold them.
select run, seq, at_ms, append_id, type, payload, trace_id from events
where run in (select value from json_each(?)) order by run, seq

-- name: effects_to_archive
-- The ledger of some runs.
select
    run, call, step, tool, policy, effect_key, request, intended_at_ms, state, updated_at_ms, response, error, resolved_by
from effects where run in (select value from json_each(?)) order by run, id

-- name: put_archive
-- An archive that was read back and found whole; one of more events stays.
insert into archives (run, tenant, seq, sha256, stored_bytes, archived_at_ms) values (?, ?, ?, ?, ?, ?)
on conflict (run) do update set
    seq = excluded.seq, sha256 = excluded.sha256, stored_bytes = excluded.stored_bytes,
    archived_at_ms = excluded.archived_at_ms
where excluded.seq > archives.seq

-- name: archived_of
-- What is archived of a month.
select count(*), coalesce(sum(seq), 0), coalesce(sum(stored_bytes), 0) from archives where run >= ? and run < ?

-- name: archived_in_tables
-- Runs of a month that are archived and have events in the tables, after one of them.
select run, seq from archives
where run > ?1 and run < ?2 and exists (select 1 from events where events.run = archives.run)
order by run limit ?3

-- name: archived_to_the_end
-- Those of some runs about which nothing was said since they were archived.
select run from runs join archives using (run)
where run in (select value from json_each(?)) and archives.seq >= runs.seq

-- name: delete_snapshots
-- The snapshots of some runs.
delete from snapshots where run in (select value from json_each(?))

-- name: delete_effects
-- The ledger of some runs.
delete from effects where run in (select value from json_each(?))

-- name: delete_events
-- The first events of some runs, so many at a time, and their places in the order of commits.
delete from events where id in (
    select id from events where run in (select value from json_each(?1)) order by run, seq limit ?2
)
returning id, at_ms

-- name: put_gap
-- Up to where the order of commits has gaps. The row stands for the last event that has gone.
insert into events (id, run, seq, append_id, at_ms, type, payload) values (?, '', -1, '', ?, '', x'')
on conflict (run, seq) do update set id = excluded.id, at_ms = max(at_ms, excluded.at_ms) where excluded.id > id

-- name: first_unarchived
-- The first run of a time that has no archive.
select run, status from runs
where run < ? and not exists (select 1 from archives where archives.run = runs.run and archives.seq >= runs.seq)
order by run limit 1

-- name: first_in_tables
-- The first run of a time whose history has not left the tables.
select run, status from runs where run = (select run from events where run > '' and run < ? order by run limit 1)

-- name: prune_archives
-- Some archives of a time are gone for good from now on.
update archives set sha256 = null, pruned_at_ms = ?2
where run in (select run from archives where run < ?1 and sha256 is not null order by run limit ?3)
returning seq

-- name: large_responses
-- Outcomes of tenant-wide effects that may be in blobs, after a key.
select effect_key, response from effect_keys
where effect_key > ? and instr(response, '"blob":') > 0
order by effect_key limit ?

-- name: messages_with_parts
-- Messages that may have something attached, or are encrypted, after one.
select tenant, conversation, number, body from exchanges
where (tenant, conversation, number) > (?, ?, ?) and (instr(body, '"parts":') > 0 or instr(body, '"hf1:') = 1)
order by tenant, conversation, number limit ?

-- name: homes
-- What is kept for the months before one, but for the hashes of a list, so much at a time.
select tenant, month, sha256 from blob_homes
where month < ?1 and sha256 not in (select value from json_each(?3)) limit ?2

-- name: delete_home
-- Content that is no longer kept for a tenant and a month.
delete from blob_homes where tenant = ? and month = ? and sha256 = ?

-- name: delete_homeless
-- Those of some blobs that are kept for nobody any more.
delete from blobs
where sha256 in (select value from json_each(?)) and not exists (select 1 from blob_homes where blob_homes.sha256 = blobs.sha256)
returning length(content)

-- name: drop_job_logs
-- What the jobs of some months' runs have printed goes with their histories, so much at a time.
delete from job_logs where (run, job, attempt, first) in (
    select run, job, attempt, first from job_logs where run >= ?1 and run < ?2 limit ?3
)
returning attempt

-- name: insert_tag
-- A word by which people find a run.
insert into run_tags (run, tag) values (?, ?)

-- name: tags
-- Those of some runs.
select run, tag from run_tags where run in (select value from json_each(?)) order by run, tag

-- name: drop_tags
-- Those of runs that are removed for good, so much at a time.
delete from run_tags where (run, tag) in (select run, tag from run_tags where run >= ?1 and run < ?2 limit ?3)
returning tag

-- name: drop_scores
-- What was said of runs goes when they are removed for good, so much at a time.
delete from scores where (run, number) in (select run, number from scores where run >= ?1 and run < ?2 limit ?3)
returning number

-- --- Standing --------------------------------------------------------------------------------------------------------

-- name: first_run_from
-- The first run from an id on: months with runs are found by stepping from each to the next.
select run from runs where run >= ? order by run limit 1

-- name: month
-- The runs of a month: how many, how many have not ended, their events, how many are archived to the end, how many of those
-- are removed for good, what the archives take; and whether anything of it is in the tables.
select
    count(*), sum(ended_at_ms is null), sum(runs.seq), count(*) filter (where archives.seq >= runs.seq),
    count(*) filter (where archives.run is not null and sha256 is null),
    coalesce(sum(stored_bytes) filter (where sha256 is not null), 0),
    exists (select 1 from events where run >= ?1 and run < ?2)
from runs left join archives using (run) where run >= ?1 and run < ?2

-- name: living_sessions
-- Sessions that nobody has found dead, oldest first.
select session, label, opened_at_ms from sessions where dead_at_ms is null order by opened_at_ms

-- name: blobs_kept
-- How many blobs there are, and their size.
select count(*), coalesce(sum(length(content)), 0) from blobs
-- --- Pools above steps -----------------------------------------------------------------------------------------------

-- name: lent_pools
-- The pools, or those of a list: [[pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms], ...].
select pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms from lent_pools
where :pools is null or pool in (select value from json_each(:pools)) order by pool

-- name: put_lent_pool
-- A pool as it is declared now.
insert into lent_pools (pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (pool) do update set
    kind = excluded.kind, amount = excluded.amount, per_s = excluded.per_s, burst = excluded.burst,
    counts = excluded.counts, counts_of = excluded.counts_of, level = excluded.level, level_at_ms = excluded.level_at_ms,
    closed_ms = excluded.closed_ms

-- name: add_lent_pool
-- A pool, if there is none of its name: says that there was none.
insert into lent_pools (pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (pool) do nothing returning pool

-- name: delete_lent_pool
-- A pool is no more: says that it was.
delete from lent_pools where pool = ? returning pool

-- name: tidy_shares
-- Shares of pools that are no more, whose holders are not either.
delete from lent_shares
where pool not in (select pool from lent_pools)
    and not exists (select 1 from sessions where sessions.session = lent_shares.session and dead_at_ms is null)

-- name: keep_level
-- What the part of a rate has that is not lent, and for how long the pool is closed.
update lent_pools set level = ?, level_at_ms = ?, closed_ms = ? where pool = ?

-- name: lent_shares
-- Who has how much of some pools, and whether his session lives. One that nobody knows has been dead for long.
-- Who found it dead may have had a clock that was ahead: its share is not held for the difference.
select
    pool, holder, lent_shares.session, granted, used, wanted, least, is_short, since_ms, number, outlives_ms,
    case
        when sessions.session is null then 'dead'
        when dead_at_ms is null then 'living'
        when abs(:now_ms - dead_at_ms) < outlives_ms then 'lingering'
        else 'dead'
    end as life
from lent_shares left join sessions using (session)
where pool in (select value from json_each(:pools)) order by pool, holder, lent_shares.session

-- name: lives
-- Whether nobody has found a session dead.
select 1 from sessions where session = ? and dead_at_ms is null

-- name: put_share
-- What a holder has of a pool from now on.
insert into lent_shares (
    pool, holder, session, granted, used, wanted, least, is_short, since_ms, number, outlives_ms
) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (pool, holder, session) do update set
    granted = excluded.granted, used = excluded.used, wanted = excluded.wanted, least = excluded.least,
    is_short = excluded.is_short, since_ms = excluded.since_ms, number = excluded.number,
    outlives_ms = excluded.outlives_ms

-- name: delete_share
-- A share that is somebody else's now, or nobody's.
delete from lent_shares where pool = ? and holder = ? and session = ?

-- name: estimates
-- What steps have taken, of one workflow, of one pool, or of all.
select workflow, node, pool, amount_m, samples from pool_estimates
where (:workflow is null or workflow = :workflow) and (:pool is null or pool = :pool) order by workflow, node, pool

-- name: estimate
-- What steps of one node have taken of one pool.
select workflow, node, pool, amount_m, samples from pool_estimates where workflow = ? and node = ? and pool = ?

-- name: put_estimate
-- What steps of one node are thought to take.
insert into pool_estimates (workflow, node, pool, amount_m, samples) values (?, ?, ?, ?, ?)
on conflict (workflow, node, pool) do update set amount_m = excluded.amount_m, samples = excluded.samples

-- --- What models are like in practice ---------------------------------------------------------------------------------

-- name: model_estimates
-- What replies to one workflow and to all of them were like, the latest of each.
select * from (select * from model_estimates where workflow = :workflow order by at_ms desc, node, model limit :limit)
union
select * from (select * from model_estimates where workflow = '' order by at_ms desc, node, model limit :limit)

-- name: model_estimate
-- What replies of one model to one node were like.
select * from model_estimates where workflow = ? and node = ? and model = ?

-- name: put_model_estimate
-- What replies of one model to one node are thought to be like.
insert into model_estimates values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (workflow, node, model) do update set
    output_tokens_m = excluded.output_tokens_m, tokens_per_s_m = excluded.tokens_per_s_m,
    price_part_m = excluded.price_part_m, samples = excluded.samples, at_ms = excluded.at_ms

-- name: forget_model_estimates
-- What was seen so long ago that nobody believes it.
delete from model_estimates where at_ms < ?

-- --- What jobs print -------------------------------------------------------------------------------------------------

-- name: put_job_log
-- A piece of what a job has printed, or more of it.
insert into job_logs (run, job, attempt, first, written_at_ms, content) values (?, ?, ?, ?, ?, ?)
on conflict do update set content = excluded.content

-- name: cut_job_log
-- A piece that is too much.
delete from job_logs where run = ? and job = ? and attempt = ? and first = ?

-- name: job_logs
-- What there is of a run's jobs, with its first bytes, in the order in which the jobs began to print.
select job, attempt, first, substr(content, 1, 20), length(content), written_at_ms from job_logs where run = ?
order by min(written_at_ms) over (partition by job, attempt), job, attempt, first

-- name: job_log
-- What one piece says.
select content from job_logs where run = ? and job = ? and attempt = ? and first = ?

-- --- What runs say meanwhile -----------------------------------------------------------------------------------------

-- name: stream_size
-- How much there is of a stream.
select size from streams where run = ? and stream = ?

-- name: put_chunk
-- A piece at the end of its stream, unless it is there already.
insert into chunks (run, stream, first, mark, size, written_at_ms, content) values (?, ?, ?, ?, ?, ?, ?)
on conflict (run, stream, mark) do nothing returning first

-- name: put_stream
-- How much there is of a stream now.
insert into streams (run, stream, size, moved) values (?, ?, ?, ?)
on conflict do update set size = excluded.size, moved = excluded.moved

-- name: move_streams
-- The next number in the order in which streams grow.
update stream_moves set last = last + 1 returning last

-- name: stream_news_end
-- Where news of streams and of histories ends.
select last, (select coalesce(max(id), 0) from events) from stream_moves

-- name: streams_moved
-- The streams that have grown since a number, and how much there is of each.
select run, stream, size from streams where moved > ?

-- name: runs_moved
-- The runs whose histories have grown since a place in the order of commits, and where they are.
select run, max(seq) from events where id > ? and seq > 0 group by run

-- name: stream_chunks
-- What there is of a stream from a place on, beginning with the piece that holds it.
select first, size, content from chunks
where run = ?1 and stream = ?2 and first + size > ?3 and first >= (
    select max(first) from chunks where run = ?1 and stream = ?2 and first <= ?3
)
order by first limit ?4

-- name: stream_sizes
-- How much there is of each stream of some runs; first of what models think.
select run, stream, size from streams where run in (select value from json_each(?))
order by stream not glob '*:thinking', run, stream

-- name: forget_stream
-- A stream of which all stands in its run's history by now.
delete from streams where run = ? and stream = ?

-- name: forget_chunks
-- Its pieces.
delete from chunks where run = ? and stream = ?

-- name: drop_chunks
-- What some months' runs have said meanwhile goes with their histories, so much at a time.
delete from chunks where (run, stream, first) in (
    select run, stream, first from chunks where run >= ?1 and run < ?2 limit ?3
)
returning first

-- name: drop_streams
-- The same of their streams.
delete from streams where (run, stream) in (
    select run, stream from streams where run >= ?1 and run < ?2 limit ?3
)
returning stream

-- --- What starts runs by the calendar -----------------------------------------------------------------------------------

-- name: add_schedule
-- A new one; nothing where there is one of its name.
insert into schedules (tenant, name, revision, due_at_ms, body) values (?1, ?2, 1, ?3, ?4)
on conflict do nothing returning revision

-- name: replace_schedule
-- One that has changed, in the place of the revision from which it was made.
update schedules set revision = revision + 1, due_at_ms = ?3, body = ?4
where tenant = ?1 and name = ?2 and revision = ?5 returning revision

-- name: remove_schedule
-- What it has started goes on.
delete from schedules where tenant = ?1 and name = ?2 returning revision

-- name: schedule
-- One by its name.
select body, revision from schedules where tenant = ?1 and name = ?2

-- name: schedules
-- All of them, or a tenant's, that come after a name.
select body, revision from schedules
where (?1 is null or tenant = ?1) and (tenant, name) > (?2, ?3)
order by tenant, name limit ?4

-- name: schedules_due
-- Those at which somebody must look.
select body, revision from schedules where due_at_ms <= ?1 order by due_at_ms limit ?2

-- name: next_schedule
-- When somebody must look at one next.
select min(due_at_ms) from schedules

-- --- Dead letters ----------------------------------------------------------------------------------------------------

-- name: resolve_letters
-- Those of a run that are no more are resolved.
update dead_letters set resolved_at_ms = ?2
where run = ?1 and resolved_at_ms is null and step not in (select value from json_each(?3))

-- name: put_letter
-- A step has failed for good, perhaps once more.
insert into dead_letters (run, step, tenant, workflow, node, error_class, message, attempts, first_at_ms, last_at_ms, asked, edited)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (run, step) do update set
    error_class = excluded.error_class, message = excluded.message, attempts = excluded.attempts,
    last_at_ms = excluded.last_at_ms, asked = excluded.asked, edited = excluded.edited, resolved_at_ms = null

-- name: letters
-- Dead letters, as lists show them.
select run, step, tenant, workflow, node, error_class, message, attempts, first_at_ms, last_at_ms, asked, edited,
    resolved_at_ms
from dead_letters

-- name: letter_counts
-- How many there are of each kind, of a tenant or of all.
select workflow, node, error_class, count(*) filter (where resolved_at_ms is null),
    count(resolved_at_ms), min(last_at_ms) filter (where resolved_at_ms is null) as oldest
from dead_letters where ?1 is null or tenant = ?1
group by workflow, node, error_class order by oldest is null, oldest, workflow, node, error_class

-- name: any_old_letter
-- Whether there is one that was resolved so long ago.
select 1 from dead_letters where resolved_at_ms < ? limit 1

-- name: forget_letters
-- Those that were resolved some time ago.
delete from dead_letters where resolved_at_ms < ? returning run

-- --- Conversations ---------------------------------------------------------------------------------------------------

-- name: add_conversation
-- A new one; nothing where there is one of its name.
insert into conversations (tenant, conversation, run, is_pending, body, changed_at_ms, revision) values (?, ?, ?, ?, ?, ?, 1)
on conflict do nothing returning revision

-- name: replace_conversation
-- One that has changed, in the place of the revision from which it was made.
update conversations set revision = revision + 1, run = ?3, is_pending = ?4, body = ?5, changed_at_ms = ?6
where tenant = ?1 and conversation = ?2 and revision = ?7 returning revision

-- name: put_exchange
-- A message, as it stands now.
insert into exchanges (tenant, conversation, number, body) values (?, ?, ?, ?)
on conflict (tenant, conversation, number) do update set body = excluded.body

-- name: conversation
-- One by its name.
select body, revision from conversations where tenant = ? and conversation = ?

-- name: conversations
-- All of them, or a tenant's, that come after a name.
select body, revision from conversations
where (?1 is null or tenant = ?1) and (tenant, conversation) > (?2, ?3)
order by tenant, conversation limit ?4

-- name: exchanges
-- What was said in one.
select body from exchanges where tenant = ? and conversation = ? order by number

-- name: remove_conversation
-- One at which nobody is, as it was seen.
delete from conversations where tenant = ?1 and conversation = ?2 and revision = ?3 and run is null and not is_pending
returning revision

-- name: remove_exchanges
-- What was said in it.
delete from exchanges where tenant = ?1 and conversation = ?2

-- name: conversations_idle
-- Those at which nobody is, and that have not changed for long.
select body, revision from conversations
where changed_at_ms < ? and run is null and not is_pending order by changed_at_ms limit ?

-- name: conversations_due
-- Those whose run has ended, or is still to be started or cancelled.
select body, revision from conversations where is_pending
union all
select body, revision from conversations c join runs r on r.run = c.run
where c.run is not null and not c.is_pending and r.ended_at_ms is not null
limit ?

-- --- Supervisors -----------------------------------------------------------------------------------------------------

-- name: add_supervisor
-- A new one; nothing where there is one of its name.
insert into supervisors (tenant, supervisor, due_at_ms, body, revision) values (?1, ?2, ?3, ?4, 1)
on conflict do nothing returning revision

-- name: replace_supervisor
-- One that has changed, in the place of the revision from which it was made.
update supervisors set revision = revision + 1, due_at_ms = ?3, body = ?4
where tenant = ?1 and supervisor = ?2 and revision = ?5 returning revision

-- name: put_task
-- A task, as it stands now.
insert into supervised_tasks (tenant, supervisor, task, run, ended_at_ms, body) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (tenant, supervisor, task) do update set run = excluded.run, ended_at_ms = excluded.ended_at_ms, body = excluded.body

-- name: forget_tasks
-- Those of one that have ended long ago.
delete from supervised_tasks where tenant = ?1 and supervisor = ?2 and ended_at_ms < ?3

-- name: supervisor
-- One by its name.
select body, revision from supervisors where tenant = ?1 and supervisor = ?2

-- name: task
-- A task of one.
select body from supervised_tasks where tenant = ?1 and supervisor = ?2 and task = ?3

-- name: supervisors
-- All of them, or a tenant's, that come after a name.
select body, revision from supervisors
where (?1 is null or tenant = ?1) and (tenant, supervisor) > (?2, ?3)
order by tenant, supervisor limit ?4

-- name: supervisors_due
-- Those at which somebody must look by now, and those with a task at work whose run has ended.
select tenant, supervisor from supervisors where due_at_ms <= ?1
union
select t.tenant, t.supervisor from supervised_tasks t join runs r on r.run = t.run
where t.run is not null and t.ended_at_ms is null and r.ended_at_ms is not null
limit ?2

-- name: remove_supervisor
-- One, as it was seen.
delete from supervisors where tenant = ?1 and supervisor = ?2 and revision = ?3 returning revision

-- name: remove_tasks
-- Its tasks.
delete from supervised_tasks where tenant = ?1 and supervisor = ?2

-- --- Shared values ---------------------------------------------------------------------------------------------------

-- name: shared_value
-- The latest version of a value.
select version, body from shared_values where tenant = ? and space = ? and key = ? order by version desc limit 1

-- name: shared_versions
-- All versions of a value that are kept.
select body from shared_values where tenant = ? and space = ? and key = ? order by version

-- name: shared_values
-- The latest versions of values, of all spaces or one, that come after a tenant, a space and a key.
select tenant, space, key, body from shared_values v
where (?1 is null or tenant = ?1) and (?2 is null or space = ?2) and (tenant, space, key) > (?3, ?4, ?5)
    and version = (select max(version) from shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key))
order by tenant, space, key limit ?6

-- name: put_shared_value
-- A value has a new version.
insert into shared_values (tenant, space, key, version, body) values (?, ?, ?, ?, ?)

-- name: prune_shared_value
-- Old versions of it go.
delete from shared_values where tenant = ? and space = ? and key = ? and version <= ?

-- name: drop_shared_waits
-- A run waits for no shared value any more.
delete from shared_waits where run = ?

-- name: put_shared_wait
-- It waits for one.
insert into shared_waits (run, step, path, tenant, space, key, after) values (?, ?, ?, ?, ?, ?, ?)

-- name: shared_arrivals
-- Waits that are over, for all values or one, with the version that is there.
select w.run, w.step, w.path, v.body
from shared_waits w join shared_values v on (v.tenant, v.space, v.key) = (w.tenant, w.space, w.key)
where (?1 is null or (w.tenant, w.space, w.key) = (?1, ?2, ?3)) and v.version > w.after
    and v.version = (select max(version) from shared_values l where (l.tenant, l.space, l.key) = (w.tenant, w.space, w.key))
limit ?4

-- name: take_shared_lock
-- Nobody has the word on a value, or his time is over, or it is his own: with the number that goes with it.
insert into shared_locks (tenant, space, key, holder, fence, expires_at_ms) values (?1, ?2, ?3, ?4, 1, ?5 + ?6)
on conflict (tenant, space, key) do update
    set holder = excluded.holder, fence = fence + 1, expires_at_ms = excluded.expires_at_ms
    where expires_at_ms <= ?5
returning fence

-- name: free_shared_lock
-- He gives it back.
update shared_locks set expires_at_ms = 0 where tenant = ? and space = ? and key = ? and fence = ?

-- name: shared_lock
-- Who has the word, or had it last, and until when.
select holder, fence, expires_at_ms from shared_locks where tenant = ? and space = ? and key = ?

-- name: drop_shared_entry
-- A value is not found any more; how often and when it was.
delete from shared_entries where tenant = ? and space = ? and key = ? returning id, uses, used_at_ms

-- name: drop_shared_words
-- Nor by its words.
delete from shared_words where rowid = ?

-- name: drop_shared_vector
-- Nor by its meaning.
delete from shared_vectors where id = ?

-- name: last_shared_entry
-- The latest entry of a space, or of all.
select max(id) from shared_entries where id between ? and ?

-- name: put_shared_entry
-- A value is found from now on.
insert into shared_entries (id, tenant, space, key, uses, used_at_ms) values (?, ?, ?, ?, ?, ?)

-- name: put_shared_words
-- By its words.
insert into shared_words (rowid, words) values (?, ?)

-- name: put_shared_vector
-- By its meaning.
insert into shared_vectors (id, model, vector) values (?, ?, ?)

-- name: use_shared_entry
-- A value was found and used.
update shared_entries set uses = uses + 1, used_at_ms = max(used_at_ms, ?4) where tenant = ?1 and space = ?2 and key = ?3

-- name: shared_home
-- An entry of a space, if it has any: the first half of its id is that of all.
select id from shared_entries where tenant = ? and space = ? limit 1

-- name: count_shared_words
-- How many entries have a word, up to a bound.
select count(*) from (select 1 from shared_words where shared_words match ? limit ?)

-- name: search_shared_words
-- The entries that answer a query best, among the last of those that answer it at all.
with found as (
    select rowid as id, -bm25(shared_words) as likeness from shared_words where shared_words match ? order by rowid desc limit ?
)
select e.key, v.body, likeness, e.uses, e.used_at_ms
from (select id, likeness from found order by likeness desc, id desc limit ?) join shared_entries e using (id)
    join shared_values v on (v.tenant, v.space, v.key) = (e.tenant, e.space, e.key)
where v.version = (select max(version) from shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key))
order by likeness desc, id desc

-- name: search_shared_vectors
-- The entries of a space whose vectors are nearest. Of two of length one, the distance says what their cosine is.
with nearest as (
    select id, vec_distance_l2(vector, ?3) as distance from shared_vectors
    where id between ?1 and ?2 and model = ?4 and length(vector) = length(?3)
    order by distance, id desc limit ?5
)
select e.key, v.body, 1 - distance * distance / 2, e.uses, e.used_at_ms
from nearest join shared_entries e using (id) join shared_values v on (v.tenant, v.space, v.key) = (e.tenant, e.space, e.key)
where v.version = (select max(version) from shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key))
order by distance, id desc

-- name: list_shared_entries
-- The entries of a space, the latest first.
select e.key, v.body, 0.0, e.uses, e.used_at_ms
from shared_entries e join shared_values v on (v.tenant, v.space, v.key) = (e.tenant, e.space, e.key)
where e.tenant = ?1 and e.space = ?2
    and v.version = (select max(version) from shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key))
order by e.id desc limit ?3

-- name: drop_shared_value
-- All versions of a value go.
delete from shared_values where tenant = ? and space = ? and key = ?

-- --- Evaluations -----------------------------------------------------------------------------------------------------

-- name: add_evaluation
-- One more, unless it is there.
insert into evaluations (id, tenant, workflow, evaluation, judged) values (?, ?, ?, ?, ?) on conflict do nothing

-- name: evaluation
-- The one of an id, with its runs.
select evaluation, judged from evaluations where id = ?

-- name: evaluations
-- The newest first, without their runs.
select evaluation from evaluations
where (?1 is null or tenant = ?1) and (?2 is null or workflow = ?2) and (?3 is null or id < ?3) order by id desc limit ?4

-- --- Scores ----------------------------------------------------------------------------------------------------------

-- name: add_score
-- One more of a run, unless it has so many.
insert into scores (run, number, name, value, given_by, source, comment, at_ms, os_user, client)
select ?1, count(*) + 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 from scores where run = ?1 having count(*) < ?2
returning number

-- name: scores
-- What was said of a run, in its order.
select name, value, given_by, source, comment, at_ms, os_user, client from scores where run = ? order by number

-- name: score_means
-- What runs were worth, by version of their workflow: of each run the latest score of each name and giver.
select r.workflow, r.version, s.name, count(*), avg(s.value), max(s.at_ms)
from scores s join runs r on r.run = s.run
where (?1 is null or r.tenant = ?1) and (?2 is null or s.name = ?2) and (?3 is null or r.workflow = ?3) and s.at_ms >= ?4
    and not exists (
        select 1 from scores later where later.run = s.run and later.number > s.number
            and later.name = s.name and later.given_by = s.given_by
    )
group by r.workflow, r.version, s.name order by r.workflow, s.name, r.version desc limit ?5

-- --- Who calls -------------------------------------------------------------------------------------------------------

-- name: add_key
-- A new key, unless its tenant has one of its name, or the fleet has; one of the fleet, unless anybody has.
insert into api_keys (name, hash, tenant, key)
select ?1, ?2, ?3, ?4
where not exists (select 1 from api_keys where name = ?1 and (tenant is null or ?3 is null))
on conflict do nothing returning name

-- name: replace_key
-- In the place of one that is still as it was seen.
update api_keys set hash = ?2, key = ?4 where name = ?1 and tenant is ?3 and hash = ?5 returning name

-- name: key_of_hash
-- The key that somebody comes with.
select key from api_keys where hash = ?

-- name: keys_of_name
-- The keys of a name: the fleet's, or those of tenants.
select key from api_keys where name = ?1 and (?2 is null or tenant = ?2) order by tenant limit ?3

-- name: keys
-- Keys by name and tenant.
select key from api_keys
where (?1 is null or tenant = ?1) and (name, coalesce(tenant, '')) > (?2, ?3)
order by name, coalesce(tenant, '') limit ?4

-- name: cursor_key
-- With what cursors are sealed.
select secret from cursor_keys

-- name: audit_ends
-- How the log ends: its head, its last row, and the hash of the entry that this process knows as the last.
select head.number, head.hash, head.signature, last.number, last.hash, last.signature, known.hash
from (select 1) as one
left join audit_head as head on true
left join (select number, hash, signature from audit order by number desc limit 1) as last on true
left join audit as known on known.number = ?1

-- name: add_link
-- One more entry, chained to the last.
insert into audit (number, tenant, hash, entry, signature) values (?, ?, ?, ?, ?)

-- name: move_audit_head
-- Which entry is the last.
insert into audit_head (number, hash, signature) values (?, ?, ?)
on conflict (is_head) do update set number = excluded.number, hash = excluded.hash, signature = excluded.signature

-- name: audit_head
-- The same, to compare.
select number, hash, signature from audit_head

-- name: links
-- Entries in their order.
select number, entry, hash, tenant, signature from audit where number > ?1 and (?2 is null or tenant = ?2) order by number limit ?3

-- name: forget_replies
-- What nobody may ask for again goes, so much at a time.
delete from replies where name in (select name from replies where begun_at_ms < ? order by begun_at_ms limit 100)

-- name: begin_reply
-- A request under a key, unless it was begun.
insert into replies (name, digest, begun_at_ms) values (?, ?, ?) on conflict do nothing returning name

-- name: reply
-- How a request under a key stands.
select digest, begun_at_ms, reply from replies where name = ?

-- name: finish_reply
-- What was answered to it.
update replies set reply = ?2 where name = ?1 returning name

-- name: drop_reply
-- Nothing was done, so the key is free.
delete from replies where name = ? and reply is null returning name

-- name: canaries
-- With which keys what users store is sealed.
select sealed, encrypts from canaries

-- name: add_canary
-- One more key, or that all payloads are encrypted from now on.
insert into canaries (sealed, encrypts) values (?, ?)
on conflict (sealed) do update set encrypts = canaries.encrypts or excluded.encrypts

-- name: has_runs
-- Whether anything was stored.
select exists (select 1 from runs)
