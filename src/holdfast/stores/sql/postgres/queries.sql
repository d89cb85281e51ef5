-- What the PostgreSQL store says to its database. Every name is qualified: a connection behind a pooler keeps nothing
-- between transactions, no search path either. Many rows go in as one array for each column, or, where they are many in each
-- flush, as one array of rows.

-- --- The log ---------------------------------------------------------------------------------------------------------

-- name: append
-- Appends of many runs, at most one of each: those whose run is where they expect it are written whole, the others not
-- at all. Rows of runs are locked in the order of their ids before anything of them is changed, start keys in theirs, and
-- last the scopes that are charged. Nothing at all is written where one of some families has a limit: who may go on is
-- then decided before, under the locks of their scopes.
-- Answers with the time, the runs that were written, and whether there was no limit.
with
free as materialized (
    select not exists (select 1 from holdfast.limits where family = any($4::text[])) as is_free
),
given as materialized (
    select * from unnest($1::holdfast.given_run[]) where (select is_free from free)
),
locked as materialized (
    select run, seq, sessions from holdfast.runs
    where run in (select run from unnest($1::holdfast.given_run[])) order by run for update
),
keyed as (
    insert into holdfast.start_keys (tenant, start_key, run, input_digest)
    select tenant, start_key, run, input_digest
    from unnest($6::text[], $7::text[], $8::uuid[], $9::text[]) with ordinality
        as given (tenant, start_key, run, input_digest, place)
    where (select is_free from free)
    order by tenant, start_key, place
    on conflict do nothing
    returning run
),
updated as (
    update holdfast.runs set
        seq = given.seq, version = given.version, graph_hash = given.graph_hash, status = given.status,
        updated_at_ms = given.updated_at_ms, ended_at_ms = given.ended_at_ms, due_at_ms = given.due_at_ms,
        limit_nanousd = given.limit_nanousd, settled_nanousd = given.settled_nanousd,
        held_nanousd = given.held_nanousd, in_doubt_nanousd = given.in_doubt_nanousd,
        waiting_for = given.waiting_for, started_by = given.started_by, sessions = given.sessions
    from given join locked using (run)
    where runs.run = given.run and locked.seq = given.expected
    returning runs.run
),
inserted as (
    insert into holdfast.runs (
        run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
        due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by, sessions
    )
    select
        run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
        due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by, sessions
    from given
    where expected = 0 and (run <> all($8::uuid[]) or run in (select run from keyed))
    order by run
    on conflict do nothing
    returning run
),
written as materialized (
    select run from updated union all select run from inserted
),
history as (
    insert into holdfast.events (run, seq, append_id, at_ms, type, payload, trace_id)
    select run, seq, append_id, at_ms, type, payload, trace_id from unnest($2::holdfast.given_event[])
    where run in (select run from written)
),
moved as materialized (
    select given.run, coalesce(locked.sessions, '{}') as before, given.sessions as now
    from given left join locked using (run)
    where given.run in (select run from written) and coalesce(locked.sessions, '{}') <> given.sessions
),
landed as (
    delete from holdfast.flights using moved
    where flights.run = moved.run and session = any(moved.before) and session <> all(moved.now)
),
begun as (
    insert into holdfast.flights (session, run)
    select session, run from moved, unnest(moved.now) as session where session <> all(moved.before)
    on conflict do nothing
),
told as (
    insert into holdfast.commits (xid, process, runs, firsts, seqs)
    select pg_current_xact_id(), $5::uuid, array_agg(run), array_agg(expected + 1), array_agg(seq)
    from given where run in (select run from written)
    having count(*) > 0
    on conflict (xid) do update set
        runs = commits.runs || excluded.runs, firsts = commits.firsts || excluded.firsts,
        seqs = commits.seqs || excluded.seqs
),
waiting as (
    select run, scope, wanted, graph_hash
    from unnest($10::uuid[], $11::text[], $12::bigint[]) as waiting (run, scope, wanted) join given using (run)
),
left_line as (
    delete from holdfast.waiters
    where waiters.run in (select run from written)
        and not exists (
            select 1 from waiting where waiting.run = waiters.run and waiting.scope = waiters.scope
        )
),
in_line as (
    insert into holdfast.waiters (scope, run, wanted, graph)
    select scope, run, wanted, graph_hash from waiting where run in (select run from written)
    on conflict (scope, run) do update set wanted = excluded.wanted, graph = excluded.graph
),
charged as (
    insert into holdfast.scopes (scope, family, settled, held, in_doubt, moved_at_ms)
    select scope, min(family), sum(settled), sum(held), sum(in_doubt), max(updated_at_ms)
    from unnest($3::holdfast.given_charge[]) join given using (run)
    where run in (select run from written)
    group by scope order by scope
    on conflict (scope) do update set
        settled = scopes.settled + excluded.settled, held = scopes.held + excluded.held,
        in_doubt = scopes.in_doubt + excluded.in_doubt, moved_at_ms = greatest(scopes.moved_at_ms, excluded.moved_at_ms)
)
select holdfast.now_ms() as now_ms, array(select run::text from written) as written, is_free from free

-- name: append_one
-- The same for one run alone that brings no start key and waits in no line from now on, in half the time: a flush of one is
-- what somebody waits for. Writes nothing where the run is not where it is expected, or one of some families has a limit.
-- Answers with the time, and whether it was written.
with
free as materialized (
    select not exists (select 1 from holdfast.limits where family = any($4::text[])) as is_free
),
given as materialized (
    select ($1::holdfast.given_run).* from free where is_free
),
locked as materialized (
    select run, runs.sessions from holdfast.runs join given using (run) where runs.seq = expected for update of runs
),
updated as (
    update holdfast.runs set
        seq = given.seq, version = given.version, graph_hash = given.graph_hash, status = given.status,
        updated_at_ms = given.updated_at_ms, ended_at_ms = given.ended_at_ms, due_at_ms = given.due_at_ms,
        limit_nanousd = given.limit_nanousd, settled_nanousd = given.settled_nanousd,
        held_nanousd = given.held_nanousd, in_doubt_nanousd = given.in_doubt_nanousd,
        waiting_for = given.waiting_for, started_by = given.started_by, sessions = given.sessions
    from given join locked using (run)
    where runs.run = given.run
    returning runs.run
),
inserted as (
    insert into holdfast.runs (
        run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
        due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by, sessions
    )
    select
        run, seq, tenant, workflow, version, graph_hash, status, start_key, started_at_ms, updated_at_ms, ended_at_ms,
        due_at_ms, limit_nanousd, settled_nanousd, held_nanousd, in_doubt_nanousd, waiting_for, started_by, sessions
    from given where expected = 0
    on conflict do nothing
    returning run
),
written as materialized (
    select run from updated union all select run from inserted
),
history as (
    insert into holdfast.events (run, seq, append_id, at_ms, type, payload, trace_id)
    select run, seq, append_id, at_ms, type, payload, trace_id from written join unnest($2::holdfast.given_event[]) using (run)
),
landed as (
    delete from holdfast.flights using given join locked using (run)
    where flights.run = locked.run and session = any(locked.sessions) and session <> all(given.sessions)
),
begun as (
    insert into holdfast.flights (session, run)
    select session, run
    from written join given using (run) left join locked using (run), unnest(given.sessions) as session
    where session <> all(coalesce(locked.sessions, '{}'))
    on conflict do nothing
),
told as (
    insert into holdfast.commits (xid, process, runs, firsts, seqs)
    select pg_current_xact_id(), $5::uuid, array[run], array[expected + 1], array[seq] from written join given using (run)
),
left_line as (
    delete from holdfast.waiters using written where waiters.run = written.run
),
charged as (
    insert into holdfast.scopes (scope, family, settled, held, in_doubt, moved_at_ms)
    select scope, family, settled, held, in_doubt, updated_at_ms
    from written join given using (run) join unnest($3::holdfast.given_charge[]) using (run)
    order by scope
    on conflict (scope) do update set
        settled = scopes.settled + excluded.settled, held = scopes.held + excluded.held,
        in_doubt = scopes.in_doubt + excluded.in_doubt, moved_at_ms = greatest(scopes.moved_at_ms, excluded.moved_at_ms)
)
select holdfast.now_ms() as now_ms, exists (select from written) as is_written

-- name: lock_runs
-- The rows of runs, locked in the order of their ids. It makes the transaction one whose commit is waited for as a
-- writer's is: what it then reads was committed before it, and is as durable as its own commit.
select run::text, seq from holdfast.runs where run = any($1::uuid[]) order by runs.run for update

-- name: lock_keys
-- The same for start keys, which may belong to runs that are in nobody's flush.
select run from holdfast.start_keys
where (tenant, start_key) in (select * from unnest($1::text[], $2::text[]))
order by tenant, start_key for key share

-- name: standings
-- Why appends were not written: where each run is, which append wrote the event at its place, and who has its start key.
select given.run::text, coalesce(runs.seq, 0) as seq, events.append_id, start_keys.run::text as owner
from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[]) as given (run, expected, tenant, start_key)
left join holdfast.runs on runs.run = given.run
left join holdfast.events on events.run = given.run and events.seq = given.expected + 1
left join holdfast.start_keys
    on given.expected = 0 and start_keys.tenant = given.tenant and start_keys.start_key = given.start_key

-- name: put_gates
-- Gates are opened; nothing has become of them, even if some of their names were there before.
insert into holdfast.gates (
    gate, run, step, reason, subject, opened_at_ms, due_at_ms, reviewers, expires_at_ms, quorum, risk_level,
    proposed_action, workflow, title, evidence_ids, state
)
select
    gate, run, step, reason, subject, opened_at_ms, due_at_ms, reviewers, expires_at_ms, quorum, risk_level,
    proposed_action, workflow, title, evidence_ids, 'open'
from unnest(
    $1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[],
    $10::integer[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[]
) with ordinality as given (
    gate, run, step, reason, subject, opened_at_ms, due_at_ms, reviewers, expires_at_ms, quorum, risk_level,
    proposed_action, workflow, title, evidence_ids, place
)
order by place
on conflict (gate) do update set
    place = excluded.place, run = excluded.run, step = excluded.step, reason = excluded.reason,
    subject = excluded.subject, opened_at_ms = excluded.opened_at_ms, due_at_ms = excluded.due_at_ms,
    reviewers = excluded.reviewers, expires_at_ms = excluded.expires_at_ms, quorum = excluded.quorum,
    risk_level = excluded.risk_level, proposed_action = excluded.proposed_action, workflow = excluded.workflow,
    title = excluded.title, evidence_ids = excluded.evidence_ids,
    state = excluded.state, changed_at_ms = null, reminders = null, decision = null, decided_by = null, approved_by = null

-- name: change_gates
-- The latest that became of gates, each of them once; whom they ask changes where that is said.
update holdfast.gates set
    state = given.state, changed_at_ms = given.changed_at_ms, reminders = given.reminders,
    decision = given.decision, decided_by = given.decided_by, reviewers = coalesce(given.reviewers, gates.reviewers),
    approved_by = coalesce(given.approved_by, gates.approved_by)
from unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::text[])
    as given (gate, state, changed_at_ms, reminders, decision, decided_by, reviewers, approved_by)
where gates.gate = given.gate

-- name: put_effects
-- Calls of tools are about to be made.
insert into holdfast.effects (call, run, step, tool, policy, effect_key, request, intended_at_ms, state)
select call, run, step, tool, policy, effect_key, request, intended_at_ms, 'intended'
from unnest(
    $1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bigint[]
) with ordinality as given (call, run, step, tool, policy, effect_key, request, intended_at_ms, place)
order by place

-- name: change_effects
-- The latest that became of calls, each of them once.
update holdfast.effects set
    state = given.state, updated_at_ms = given.updated_at_ms, response = given.response, error = given.error,
    resolved_by = given.resolved_by
from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::text[], $7::text[])
    as given (run, call, state, updated_at_ms, response, error, resolved_by)
where effects.run = given.run and effects.call = given.call

-- name: events
-- A run's events after a seq, in order.
select seq, at_ms, payload, trace_id from holdfast.events where run = $1 and seq > $2 order by seq limit $3

-- name: histories
-- Of each run that is asked for, by its place among them, its snapshot, if it is of this fold and no seq is given; and the
-- first events after that, or after the seq, in any order.
with
asked as materialized (
    select * from unnest($1::uuid[], $2::integer[], $3::integer[]) with ordinality as asked (run, after, fold_version, place)
),
snapshot as materialized (
    select place, snapshots.seq, state from asked join holdfast.snapshots using (run, fold_version) where after is null
)
select place, true as is_snapshot, seq, null::bigint as at_ms, state as payload, null::text as trace_id from snapshot
union all
select place, false, event.seq, at_ms, payload, trace_id
from asked left join snapshot using (place)
cross join lateral (
    select events.seq, at_ms, payload, trace_id from holdfast.events
    where events.run = asked.run and events.seq > coalesce(asked.after, snapshot.seq, 0)
    order by events.seq limit $4
) as event

-- name: seqs
-- Where the runs of a list are, or those of them that have ended.
select run::text, seq from holdfast.runs where run = any($1::uuid[]) and (ended_at_ms is not null or not $2::boolean)

-- name: run_of_key
-- The run that was started under a key, and the digest of its input.
select run::text, input_digest from holdfast.start_keys where tenant = $1 and start_key = $2 for key share

-- name: put_snapshots
-- The snapshots of many runs, each in the place of an older one or of one of another fold.
insert into holdfast.snapshots (run, seq, fold_version, state)
select run, seq, fold_version, state
from unnest($1::uuid[], $2::integer[], $3::integer[], $4::bytea[]) with ordinality
    as given (run, seq, fold_version, state, place)
order by place
on conflict (run) do update set seq = excluded.seq, fold_version = excluded.fold_version, state = excluded.state
where excluded.seq > snapshots.seq or excluded.fold_version <> snapshots.fold_version

-- --- Scopes -----------------------------------------------------------------------------------------------------------

-- name: make_scopes
-- Rows for scopes in which nothing was ever charged, in the order of their keys.
insert into holdfast.scopes (scope, family, settled, held, in_doubt)
select scope, family, 0, 0, 0 from unnest($1::text[], $2::text[]) as given (scope, family) order by scope
on conflict do nothing

-- name: lock_scopes
-- The books of scopes with their limits, their rows locked in the order of their keys.
select scopes.scope, limits.amount, settled, held, in_doubt
from holdfast.scopes left join holdfast.limits using (family)
where scope = any($1::text[]) order by scope for update of scopes

-- name: move_scopes
-- What a flush moves, one update a scope.
update holdfast.scopes set
    settled = scopes.settled + moved.settled, held = scopes.held + moved.held,
    in_doubt = scopes.in_doubt + moved.in_doubt, moved_at_ms = greatest(scopes.moved_at_ms, moved.at_ms)
from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
    as moved (scope, settled, held, in_doubt, at_ms)
where scopes.scope = moved.scope

-- name: wanted_ahead
-- What runs want that wait in a scope before one of them, or at all if that one does not; without those of a list.
select coalesce(sum(wanted), 0) from holdfast.waiters
where scope = $1::text and run <> $2::uuid and run <> all($3::uuid[])
    and place < coalesce(
        (select place from holdfast.waiters where scope = $1::text and run = $2::uuid), 9223372036854775807
    )

-- name: balances
-- The books of scopes with the limits of their families; zeros where nothing was ever charged.
select asked.scope, limits.amount, coalesce(settled, 0), coalesce(held, 0), coalesce(in_doubt, 0)
from unnest($1::text[], $2::text[]) with ordinality as asked (scope, family, place)
left join holdfast.scopes on scopes.scope = asked.scope
left join holdfast.limits on limits.family = asked.family
order by asked.place

-- name: change_limits
-- Of limits something is lent, or to them.
update holdfast.limits set amount = limits.amount + changed.amount
from unnest($1::text[], $2::bigint[]) as changed (family, amount) where limits.family = changed.family

-- name: allot
-- What the agents of a team budget are allotted.
insert into holdfast.limits (family, amount, priority)
select * from unnest($1::text[], $2::bigint[], $3::double precision[])
on conflict (family) do update set amount = excluded.amount, priority = excluded.priority

-- name: agents
-- The books of the agents of a team budget whose scopes begin with a text.
select limits.family, amount, coalesce(settled, 0), coalesce(held, 0), coalesce(in_doubt, 0), priority, coalesce(moved_at_ms, 0)
from holdfast.limits left join holdfast.scopes on scope = limits.family
where starts_with(limits.family, $1) order by limits.family

-- name: limits
-- The limits of the families that begin with a text.
select family, amount from holdfast.limits where starts_with(family, $1) order by family

-- name: waiting
-- Who waits in some scopes, longest first, and what is left there.
select run::text, waiters.scope, wanted, amount - settled - held - in_doubt
from holdfast.waiters left join holdfast.scopes using (scope) left join holdfast.limits using (family)
where waiters.scope = any($1::text[])
order by place limit $2

-- name: room
-- Who waits, longest first, in a scope that has room for it alone, and what is left there, with what other agents of its team
-- budget may lend; or for a tenant-wide effect that no other run has in flight any more. And who waits for calls in flight that
-- can leave no room any more, and is to be told: for money or tokens, in a run whose status does not say so yet.
select run::text, waiters.scope, wanted, amount - settled - held - in_doubt + lendable
from holdfast.waiters left join holdfast.scopes using (scope) left join holdfast.limits using (family)
cross join lateral (
    select
        coalesce(sum(greatest(l.amount - coalesce(s.settled + s.held + s.in_doubt, 0), 0) / 2), 0)::bigint as lendable,
        coalesce(sum(s.held), 0)::bigint as in_flight
    from holdfast.limits as l left join holdfast.scopes as s on s.scope = l.family
    where waiters.scope ~ '^(tokens/)?agent/[^/]+/[^/]+/[^/]+$'
        and starts_with(l.family, regexp_replace(waiters.scope, '[^/]*$', '')) and l.family <> waiters.scope
) as team
where (
        amount is null or wanted <= amount - settled - held - in_doubt + lendable or (
            wanted > amount - settled - in_doubt + lendable + in_flight
            and family <> 'fleet/runs' and family not like 'tenant/%/runs'
            and (select status from holdfast.runs where runs.run = waiters.run) = 'waiting'
        )
    )
    and waiters.scope <> 'placement'
    and not exists (
        select 1 from holdfast.effect_keys
        where waiters.scope = 'effect/' || effect_key and effect_keys.run <> waiters.run and response is null
    )
order by place limit $1

-- --- Tenant-wide effect keys -------------------------------------------------------------------------------------------

-- name: lock_effect_keys
-- Locks keys until the transaction's end, in their order, whether somebody has them or not.
select pg_advisory_xact_lock(hashtextextended(effect_key, 0))
from unnest($1::text[]) with ordinality as given (effect_key, place) order by place

-- name: close_effect_key
-- The effect of a key has happened.
update holdfast.effect_keys set response = $3 where effect_key = $1 and call = $2

-- name: free_effect_key
-- The effect of a key has not happened, or was undone.
delete from holdfast.effect_keys where effect_key = $1 and call = $2

-- --- Children ---------------------------------------------------------------------------------------------------------

-- name: move_children
-- Children have come further. What becomes of one whose parent has heard of its end is told to nobody.
with locked as materialized (
    select child from holdfast.children where child = any($1::uuid[]) order by child for update
)
update holdfast.children set state = given.state, changed_at_ms = given.changed_at_ms
from unnest($1::uuid[], $2::text[], $3::bigint[]) as given (child, state, changed_at_ms) join locked using (child)
where children.child = given.child and children.state <> 'told'

-- name: put_children
-- Runs ask for children, or for their being taken up again.
insert into holdfast.children (child, parent, root, state, ordered, heeded, changed_at_ms)
select child, parent, root, 'requested', 0, 0, changed_at_ms
from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[]) as given (child, parent, root, changed_at_ms)
order by child
on conflict (child) do update set state = excluded.state, changed_at_ms = excluded.changed_at_ms

-- name: order_children
-- Children are to do as their parents do: one of a run, or every one of it.
with given as (
    select * from unnest($1::uuid[], $2::uuid[], $3::integer[], $4::bigint[]) as given (parent, child, ordered, changed_at_ms)
),
locked as materialized (
    select children.child, max(given.ordered) as ordered, max(given.changed_at_ms) as changed_at_ms
    from (
        select child, parent from holdfast.children
        where parent in (select parent from given) and state <> 'told' order by child for update
    ) as children
    join given on children.parent = given.parent and (given.child is null or given.child = children.child)
    group by children.child
)
update holdfast.children set ordered = locked.ordered, changed_at_ms = locked.changed_at_ms
from locked where children.child = locked.child

-- --- Sessions --------------------------------------------------------------------------------------------------------

-- name: open_session
-- A process begins to hold a lease.
insert into holdfast.sessions (session, label, version, hashes, opened_at_ms, lease_ms, expires_at_ms, described)
values ($1, $2, $3, $4, holdfast.now_ms(), $5, holdfast.now_ms() + $5, $6)

-- name: renew_sessions
-- Leases are extended, except of sessions that somebody has found dead: says whose.
update holdfast.sessions set expires_at_ms = holdfast.now_ms() + lease_ms
where session = any($1::text[]) and dead_at_ms is null
returning session

-- name: end_session
-- A session dies because its process says so. It is not lost, so nothing is left to show of it.
update holdfast.sessions set dead_at_ms = holdfast.now_ms(), described = null where session = $1 and dead_at_ms is null

-- name: forget_sessions
-- Sessions that have been dead for long and left nothing behind.
delete from holdfast.sessions
where dead_at_ms < holdfast.now_ms() - $1::bigint
    and not exists (select 1 from holdfast.flights where flights.session = sessions.session)

-- name: dead_in_flight
-- Dead sessions that still have work in flight; and whether there are any more to be found dead: whose lease is over,
-- or that have work in flight and no row, forgotten long after their death.
select
    array(
        select session from holdfast.sessions
        where dead_at_ms is not null and exists (select 1 from holdfast.flights where flights.session = sessions.session)
    ) as dead,
    exists (
        select 1 from holdfast.sessions
        where dead_at_ms is null and expires_at_ms <= holdfast.now_ms() and session <> all($1::text[])
    )
    or exists (
        select 1 from holdfast.flights where not exists (
            select 1 from holdfast.sessions where sessions.session = flights.session
        )
    ) as more

-- name: expire_sessions
-- Sessions die because their lease is over: unless they were renewed in the meantime. The time is read after the row's
-- lock was waited for.
update holdfast.sessions set dead_at_ms = holdfast.now_ms()
where session in (
    select session from holdfast.sessions
    where dead_at_ms is null and expires_at_ms <= holdfast.now_ms() and session <> all($1::text[])
    order by session for update
)
and dead_at_ms is null and expires_at_ms <= holdfast.now_ms()

-- name: expire_other_sessions
-- Rows for sessions that have work in flight and no row, so that the dead are all in one place.
insert into holdfast.sessions (session, label, version, hashes, opened_at_ms, lease_ms, expires_at_ms, dead_at_ms)
select distinct session, 'unknown', 0, '{}'::text[], holdfast.now_ms(), 0, 0, holdfast.now_ms() from holdfast.flights
where not exists (select 1 from holdfast.sessions where sessions.session = flights.session)
on conflict do nothing

-- --- Lanes -----------------------------------------------------------------------------------------------------------

-- name: lead
-- A living session takes a lane that is nobody's, its own, or a dead one's; says whether it has it.
insert into holdfast.lanes (lane, session)
select $1::text, $2::text
where exists (select 1 from holdfast.sessions where session = $2 and dead_at_ms is null)
on conflict (lane) do update set session = excluded.session
where lanes.session = excluded.session
    or not exists (select 1 from holdfast.sessions where sessions.session = lanes.session and dead_at_ms is null)
returning session

-- name: expire_leader
-- The leader of a lane dies because its lease is over.
update holdfast.sessions set dead_at_ms = holdfast.now_ms()
where session = (select session from holdfast.lanes where lane = $1)
    and dead_at_ms is null and expires_at_ms <= holdfast.now_ms()

-- name: is_led
-- Whether a lane has a leader whose lease is not over.
select exists (
    select 1 from holdfast.lanes join holdfast.sessions using (session)
    where lane = $1 and dead_at_ms is null and expires_at_ms > holdfast.now_ms()
)

-- name: able
-- How many sessions whose lease is not over can run one of some workflows.
select count(*) from holdfast.sessions
where dead_at_ms is null and expires_at_ms > holdfast.now_ms() and hashes && $1::text[]

-- name: able_until_ms
-- When the latest of the dead sessions died that could run one of some workflows.
select max(dead_at_ms) from holdfast.sessions where hashes && $1::text[]

-- name: unended_hashes
-- Workflows with runs that have not ended, or have work in flight. Those of the first kind are stepped through one by
-- one: the index has many rows of few hashes.
with recursive unended (hash) as (
    (select graph_hash from holdfast.runs where ended_at_ms is null order by graph_hash limit 1)
    union all
    select (
        select graph_hash from holdfast.runs
        where ended_at_ms is null and graph_hash > unended.hash order by graph_hash limit 1
    )
    from unended where unended.hash is not null
)
select hash from unended where hash is not null
union
select distinct graph_hash from holdfast.flights join holdfast.runs using (run)

-- --- Views -----------------------------------------------------------------------------------------------------------

-- name: due_runs
-- Runs of these workflows that are due, or have work in flight in dead sessions (ended ones among them, whose money may
-- have outlived them), those that have waited longest first; with the dead sessions of each.
with
dead as materialized (
    select session, dead_at_ms from holdfast.sessions
    where dead_at_ms is not null and exists (select 1 from holdfast.flights where flights.session = sessions.session)
),
found as (
    (
        select run, graph_hash, due_at_ms, tenant, started_by from holdfast.runs
        where graph_hash = any($1::text[]) and due_at_ms <= $2 order by due_at_ms limit $3
    )
    union
    (
        select run, graph_hash, due_at_ms, tenant, started_by
        from dead join holdfast.flights using (session) join holdfast.runs using (run)
        where graph_hash = any($1::text[]) limit $3
    )
)
select
    run::text, graph_hash, due_at_ms, tenant, started_by, array_remove(array_agg(dead.session), null) as dead
from found left join holdfast.flights using (run) left join dead using (session)
group by run, graph_hash, due_at_ms, tenant, started_by
order by least(min(dead_at_ms), case when due_at_ms <= $2 then due_at_ms end), run
limit $3

-- name: stranded_runs
-- Runs that have been due, lost, or in line for a place with nothing happening since a moment, whose workflow no session
-- could run that lived after it, without those about which somebody is asked already; those that have waited longest
-- first, with the dead sessions of each. The workflows of those in line are stepped through one by one: the index has many
-- rows of few hashes.
with recursive
dead as materialized (
    select session, dead_at_ms from holdfast.sessions
    where dead_at_ms <= $1 and exists (select 1 from holdfast.flights where flights.session = sessions.session)
),
known as (
    select distinct unnest(hashes) as graph_hash from holdfast.sessions where dead_at_ms is null or dead_at_ms > $1
),
in_line (hash) as (
    (select graph from holdfast.waiters where scope = $4 order by graph limit 1)
    union all
    select (select graph from holdfast.waiters where scope = $4 and graph > in_line.hash order by graph limit 1)
    from in_line where in_line.hash is not null
),
found as (
    select run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms from holdfast.runs where due_at_ms <= $1
    union
    select run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms
    from dead join holdfast.flights using (session) join holdfast.runs using (run)
    union
    select waiting.* from in_line, lateral (
        select run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms
        from holdfast.waiters join holdfast.runs using (run)
        where scope = $4 and graph = in_line.hash and updated_at_ms <= $1
            and not exists (
                select 1 from holdfast.gates
                where gates.run = waiters.run and reason = $3 and state in ('open', 'escalated')
            )
        order by updated_at_ms limit $2
    ) as waiting
    where hash not in (select graph_hash from known)
)
select
    run::text, graph_hash, due_at_ms, tenant, started_by, array_remove(array_agg(dead.session), null) as dead
from found left join holdfast.flights using (run) left join dead using (session)
where graph_hash not in (select graph_hash from known)
    and not exists (
        select 1 from holdfast.gates
        where gates.run = found.run and reason = $3 and state in ('open', 'escalated')
    )
group by run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms
order by coalesce(least(min(dead_at_ms), case when due_at_ms <= $1 then due_at_ms end), updated_at_ms), run
limit $2

-- name: wanted_hashes
-- Workflows with runs that are due or lost, or have steps to be placed. The hashes with due runs are stepped through one
-- by one: the index has many rows of few hashes.
with recursive due (hash) as (
    (select graph_hash from holdfast.runs where due_at_ms is not null order by graph_hash limit 1)
    union all
    select (
        select graph_hash from holdfast.runs
        where due_at_ms is not null and graph_hash > due.hash order by graph_hash limit 1
    )
    from due where due.hash is not null
)
select hash from due
where hash is not null and exists (select 1 from holdfast.runs where graph_hash = hash and due_at_ms <= $1)
union
select graph_hash
from holdfast.sessions join holdfast.flights using (session) join holdfast.runs using (run)
where dead_at_ms is not null
union
select graph_hash from holdfast.waiters join holdfast.runs using (run) where scope = $2

-- name: next_due_ms
-- The earliest due time among the runs of these workflows.
select min(earliest) from unnest($1::text[]) as hash,
    lateral (select min(due_at_ms) as earliest from holdfast.runs where graph_hash = hash and due_at_ms is not null) as each

-- name: unplaced
-- Runs with steps that are to be placed, longest waiting first, after a place in line.
select place, run::text, tenant, workflow, graph_hash, waiting_for, started_by
from holdfast.waiters join holdfast.runs using (run)
where scope = $1 and place > $2
order by place limit $3

-- name: unended
-- How many runs of these workflows have not ended.
select count(*) from holdfast.runs where graph_hash = any($1::text[]) and ended_at_ms is null

-- --- The tail --------------------------------------------------------------------------------------------------------

-- name: tail_end
-- What is visible now, and in which line of this database: a failover begins another, in which numbers of transactions
-- may be given once more.
select
    pg_current_snapshot()::text as snapshot,
    (select system_identifier from pg_control_system()) || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8) as line

-- name: tail
-- What became visible between two snapshots, after a place in it, in the order of transactions: which events of which
-- runs. Always with the transaction at which the store's knowledge of this begins.
with
news as materialized (
    select xid, runs, firsts, seqs from holdfast.commits
    where xid >= pg_snapshot_xmin($1::text::pg_snapshot) and xid >= $3::text::xid8
        and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
        and pg_visible_in_snapshot(xid, $2::text::pg_snapshot)
    order by xid limit $6
),
spans as (
    select
        xid, place::integer, run, last,
        case when (xid, place) = ($3::text::xid8, $4::bigint) then $5::integer + 1 else first end as first
    from news, unnest(runs, firsts, seqs) with ordinality as span (run, first, last, place)
    where (xid, place) > ($3::text::xid8, $4::bigint) or (xid, place) = ($3::text::xid8, $4::bigint) and last > $5::integer
    order by xid, place limit $6
)
select begins::text, xid::text, place, run::text, first, last
from (select min(xid) as begins from holdfast.moments) as known left join spans on true
order by spans.xid, place

-- name: tail_begins
-- The transaction from which on the order of commits is known.
select min(xid)::text from holdfast.moments

-- name: events_of_spans
-- The events of many stretches of runs.
select span.place::integer, events.seq, events.at_ms, events.payload, events.trace_id
from unnest($1::uuid[], $2::integer[], $3::integer[]) with ordinality as span (run, first, last, place)
join holdfast.events on events.run = span.run and events.seq between span.first and span.last
order by span.place, events.seq

-- name: put_moment
-- How far transactions are now, unless it was written down a while ago.
insert into holdfast.moments (xid, at_ms)
select pg_snapshot_xmin(pg_current_snapshot()), holdfast.now_ms()
where not exists (select 1 from holdfast.moments where at_ms > holdfast.now_ms() - $1::bigint)
on conflict do nothing

-- name: move_beginning
-- The order of commits is known from the last moment on that is older than a while.
delete from holdfast.moments
where xid < (select max(xid) from holdfast.moments where at_ms <= holdfast.now_ms() - $1::bigint)

-- name: forget_commits
-- Commits from before that beginning, some of them.
delete from holdfast.commits where xid in (
    select xid from holdfast.commits where xid < (select min(xid) from holdfast.moments) order by xid limit $1
)

-- name: forget_strange_commits
-- Commits that can be seen and have not happened yet: of another server, out of whose dump this database was restored.
delete from holdfast.commits where xid >= pg_snapshot_xmax(pg_current_snapshot())

-- name: forget_strange_moments
-- Moments of that server's.
delete from holdfast.moments where xid > pg_snapshot_xmax(pg_current_snapshot())

-- --- Between processes -----------------------------------------------------------------------------------------------

-- name: changed
-- What is visible now, and whether any commit of another process became so since a snapshot.
select
    pg_current_snapshot()::text as snapshot,
    exists (
        select 1 from holdfast.commits
        where xid >= pg_snapshot_xmin($1::text::pg_snapshot)
            and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot) and process <> $2
    ) as changed

-- name: greet
-- What a process that connects must know: a name for it, the time, what is visible, and how safe a commit is.
select
    gen_random_uuid() as process, (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms,
    pg_current_snapshot()::text as snapshot, current_setting('synchronous_commit') as synchronous_commit,
    current_setting('synchronous_standby_names') as standbys, current_setting('transaction_isolation') as isolation,
    current_setting('fsync') as fsync, current_setting('server_version_num')::integer as version,
    pg_is_in_recovery() as is_standby, to_regclass('holdfast.migrations') is not null as is_store

-- name: newest_at_ms
-- The time of the newest events, roughly: of the runs that went on last.
select max(updated_at_ms) from (select updated_at_ms from holdfast.runs order by run desc limit 256) as newest

-- --- Retention -------------------------------------------------------------------------------------------------------

-- name: holders
-- Runs of a month that may still go on, or about which something may still be said, oldest first; with how many there are.
select
    run::text, tenant, workflow, status, started_at_ms,
    case
        when ended_at_ms is null then 'unended'
        when held_nanousd > 0 or in_doubt_nanousd > 0 then 'money'
        when sessions <> '{}' then 'call'
        else 'effect'
    end as why,
    count(*) over () as holders
from holdfast.runs
where run >= $1 and run < $2
    and (
        ended_at_ms is null or held_nanousd > 0 or in_doubt_nanousd > 0 or sessions <> '{}'
        or run in (
            select run from holdfast.effects where run >= $1 and run < $2 and state in ('intended', 'in_doubt')
        )
    )
order by run limit $3

-- name: effects_to_archive
-- The ledger of some runs.
select
    run::text, call, step, tool, policy, effect_key, request, intended_at_ms, state, updated_at_ms, response, error,
    resolved_by
from holdfast.effects where run = any($1::uuid[]) order by run, place

-- name: put_archives
-- Archives that were read back and found whole; one of more events stays.
insert into holdfast.archives (run, tenant, seq, sha256, stored_bytes, archived_at_ms)
select * from unnest($1::uuid[], $2::text[], $3::integer[], $4::text[], $5::bigint[], $6::bigint[])
on conflict (run) do update set
    seq = excluded.seq, sha256 = excluded.sha256, stored_bytes = excluded.stored_bytes,
    archived_at_ms = excluded.archived_at_ms
where excluded.seq > archives.seq

-- name: first_in_tables
-- The first run of a time whose history has not left the tables.
select run::text, status from holdfast.runs
where run = (select run from holdfast.events where run < $1 order by run limit 1)

-- name: lock_blobs
-- Nobody puts a blob until the end of the transaction: it could be one that is just found to be nobody's.
lock table holdfast.blobs in share row exclusive mode

-- name: large_responses
-- Outcomes of tenant-wide effects that may be in blobs, after a key.
select effect_key, response from holdfast.effect_keys
where effect_key > $1 and position('"blob":'::bytea in response) > 0
order by effect_key limit $2

-- name: messages_with_parts
-- Messages that may have something attached, or are encrypted, after one.
select tenant, name, part, body from holdfast.record_parts
where kind = $1 and (tenant, name, part) > ($2, $3, $4)
    and (position('"parts":'::bytea in body) > 0 or position('"hf1:'::bytea in body) = 1)
order by tenant, name, part limit $5

-- --- Standing --------------------------------------------------------------------------------------------------------

-- name: months
-- Runs by the months in which they were started. Where there are many, the events of all are taken to be like those of the first
-- and the last $3, which are read. Those that have not ended are read by the index of these.
with open as materialized (select run from holdfast.runs where ended_at_ms is null)
select
    place::integer, runs, unended, (runs * events / greatest(read, 1))::bigint as events, read, archived, pruned, archive_bytes
from unnest($1::uuid[], $2::uuid[]) with ordinality as month (first, next, place)
cross join lateral (
    select count(*) as runs from holdfast.runs where run >= month.first and run < month.next
) as every
cross join lateral (
    select count(*) as unended from open where run >= month.first and run < month.next
) as open_
cross join lateral (
    select count(*) as read, coalesce(sum(seq), 0) as events from (
        (select run, seq from holdfast.runs where run >= month.first and run < month.next order by run limit $3)
        union
        (select run, seq from holdfast.runs where run >= month.first and run < month.next order by run desc limit $3)
    ) as either
) as ends
cross join lateral (
    select
        count(*) filter (where archives.seq >= runs.seq) as archived, count(*) filter (where sha256 is null) as pruned,
        coalesce(sum(archives.stored_bytes) filter (where sha256 is not null), 0)::bigint as archive_bytes
    from holdfast.archives join holdfast.runs on runs.run = archives.run
    where archives.run >= month.first and archives.run < month.next
) as gone
order by place

-- name: partitions
-- The partitions of a table, and what each takes on the disk.
select relname as name, pg_total_relation_size(pg_class.oid) as stored_bytes
from pg_inherits join pg_class on pg_class.oid = inhrelid where inhparent = to_regclass($1)

-- name: living_sessions
-- Sessions whose lease is not over, oldest first.
select session, label, opened_at_ms, version from holdfast.sessions
where dead_at_ms is null and expires_at_ms > holdfast.now_ms() order by opened_at_ms limit $1

-- name: leases
-- Sessions that nobody has found dead, with what is left of their leases.
select label, expires_at_ms - holdfast.now_ms(), version from holdfast.sessions
where dead_at_ms is null order by expires_at_ms limit $1

-- --- The condition of the database ---------------------------------------------------------------------------------

-- name: database_now
-- The time of the database, and its size.
select (extract(epoch from clock_timestamp()) * 1000)::bigint, pg_database_size(current_database())

-- name: index_names
-- The indexes of a schema that are used.
select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and i.indisvalid

-- name: table_conditions
-- How many rows of each table count, and how many only take room, by the estimate of the database.
select relname::text, n_live_tup, n_dead_tup from pg_stat_user_tables where schemaname = $1 order by n_dead_tup desc limit 100

-- name: old_transactions
-- Transactions of this database that are older than so many seconds: whose, how old, and whether they have written.
select
    coalesce(nullif(application_name, ''), 'a process') || ' of ' || coalesce(usename, 'somebody') || ' (pid ' || pid || ')',
    (extract(epoch from clock_timestamp() - xact_start) * 1000)::bigint, backend_xid is not null
from pg_stat_activity
where datname = current_database() and xact_start < clock_timestamp() - make_interval(secs => $1) and pid <> pg_backend_pid()
order by xact_start limit 20

-- --- Pools above steps -----------------------------------------------------------------------------------------------

-- name: lent_pools
-- All pools.
select pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms from holdfast.lent_pools order by pool

-- name: lock_lent_pools
-- Some pools, their rows locked in the order of their names: from here on nobody else lends of them.
select pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms from holdfast.lent_pools
where pool = any($1::text[]) order by pool for update

-- name: tidy_shares
-- Shares of pools that are no more, whose holders are not either.
delete from holdfast.lent_shares as share
where not exists (select from holdfast.lent_pools as known where known.pool = share.pool)
    and not exists (select from holdfast.sessions where sessions.session = share.session and dead_at_ms is null)

-- name: keep_levels
-- What the parts of rates have that are not lent, and for how long the pools are closed.
update holdfast.lent_pools set level = kept.level, level_at_ms = kept.level_at_ms, closed_ms = kept.closed_ms
from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) as kept (pool, level, level_at_ms, closed_ms)
where lent_pools.pool = kept.pool

-- name: expire_holders
-- Sessions with shares of some pools die because their lease is over, all but one: as in expire_sessions.
update holdfast.sessions set dead_at_ms = holdfast.now_ms()
where session in (
    select session from holdfast.sessions
    where dead_at_ms is null and expires_at_ms <= holdfast.now_ms() and session <> $2
        and session in (select session from holdfast.lent_shares where pool = any($1::text[]))
    order by session for update
)
and dead_at_ms is null and expires_at_ms <= holdfast.now_ms()

-- name: now_ms
-- The time.
select holdfast.now_ms()

-- name: moment
-- The time, and whether a session lives.
select
    holdfast.now_ms() as now_ms,
    exists (
        select from holdfast.sessions where session = $1 and dead_at_ms is null and expires_at_ms > holdfast.now_ms()
    ) as lives

-- name: lent_shares
-- Who has how much of some pools, and whether his session lives. One that nobody knows has been dead for long.
-- Who found it dead may have had a clock that was ahead: its share is not held for the difference.
select
    pool, holder, session, granted, used, wanted, least, is_short, since_ms, number, outlives_ms,
    case
        when sessions.session is null then 'dead'
        when dead_at_ms is null then 'living'
        when abs(holdfast.now_ms() - dead_at_ms) < outlives_ms then 'lingering'
        else 'dead'
    end as life
from holdfast.lent_shares left join holdfast.sessions using (session)
where pool = any($1::text[]) order by pool, holder, session

-- name: put_shares
-- What a holder has of pools from now on.
insert into holdfast.lent_shares (
    pool, holder, session, granted, used, wanted, least, is_short, since_ms, number, outlives_ms
)
select pool, holder, session, granted, used, wanted, least, is_short, since_ms, number, outlives_ms
from unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[],
    $9::bigint[], $10::bigint[], $11::bigint[]
) as kept (pool, holder, session, granted, used, wanted, least, is_short, since_ms, number, outlives_ms)
on conflict (pool, holder, session) do update set
    granted = excluded.granted, used = excluded.used, wanted = excluded.wanted, least = excluded.least,
    is_short = excluded.is_short, since_ms = excluded.since_ms, number = excluded.number,
    outlives_ms = excluded.outlives_ms

-- name: delete_shares
-- Shares that are somebody else's now, or nobody's.
delete from holdfast.lent_shares
where (pool, holder, session) in (select * from unnest($1::text[], $2::text[], $3::text[]))

-- name: make_estimates
-- Rows for kinds of steps of which nothing is known, in the order in which they are locked.
insert into holdfast.pool_estimates (workflow, node, pool, amount_m, samples)
select workflow, node, pool, 0, 0 from unnest($1::text[], $2::text[], $3::text[]) as given (workflow, node, pool)
order by workflow, node, pool
on conflict do nothing

-- name: lock_estimates
-- What steps of some kinds have taken; from here on nobody else learns of them.
select workflow, node, pool, amount_m, samples from holdfast.pool_estimates
where (workflow, node, pool) in (select * from unnest($1::text[], $2::text[], $3::text[]))
order by workflow, node, pool for update

-- name: put_estimates
-- What steps of some kinds are thought to take.
update holdfast.pool_estimates set amount_m = kept.amount_m, samples = kept.samples
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
    as kept (workflow, node, pool, amount_m, samples)
where (pool_estimates.workflow, pool_estimates.node, pool_estimates.pool) = (kept.workflow, kept.node, kept.pool)

-- --- What models are like in practice ---------------------------------------------------------------------------------

-- name: make_model_estimates
-- Rows for models of which nothing is known, in the order in which they are locked.
insert into holdfast.model_estimates
select workflow, node, model, 0, 0, 0, 0, 0 from unnest($1::text[], $2::text[], $3::text[]) as given (workflow, node, model)
order by workflow, node, model
on conflict do nothing

-- name: model_estimates_of
-- What replies of some models were like; from here on nobody else learns of them.
select * from holdfast.model_estimates
where (workflow, node, model) in (select * from unnest($1::text[], $2::text[], $3::text[]))
order by workflow, node, model for update

-- name: put_model_estimates
-- What replies of some models are thought to be like.
update holdfast.model_estimates set
    output_tokens_m = kept.output_tokens_m, tokens_per_s_m = kept.tokens_per_s_m, price_part_m = kept.price_part_m,
    samples = kept.samples, at_ms = kept.at_ms
from unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]
) as kept (workflow, node, model, output_tokens_m, tokens_per_s_m, price_part_m, samples, at_ms)
where (model_estimates.workflow, model_estimates.node, model_estimates.model) = (kept.workflow, kept.node, kept.model)

-- name: forget_model_estimates
-- What was seen so long ago that nobody believes it, but for what somebody is just learning of.
delete from holdfast.model_estimates where (workflow, node, model) in (
    select workflow, node, model from holdfast.model_estimates where at_ms < $1 for update skip locked
)

-- --- What jobs print -------------------------------------------------------------------------------------------------

-- name: put_job_log
-- A piece of what a job has printed, or more of it.
insert into holdfast.job_logs (run, job, attempt, first, written_at_ms, content)
select * from unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::bytea[])
on conflict (run, job, attempt, first) do update set content = excluded.content

-- name: cut_job_log
-- Pieces that are too much.
delete from holdfast.job_logs using unnest($1::uuid[], $2::text[], $3::integer[], $4::bigint[]) as cut (run, job, attempt, first)
where (job_logs.run, job_logs.job, job_logs.attempt, job_logs.first) = (cut.run, cut.job, cut.attempt, cut.first)

-- --- What runs say meanwhile -----------------------------------------------------------------------------------------

-- name: append_chunks
-- What is not there yet goes to the end of its stream, in the order given. The stream's row is locked as it grows, and says where
-- that is: whoever waited for it goes behind. Of two who bring the same piece at the same moment one breaks the rule that a mark
-- is there once, and begins anew.
with given as (
    select * from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bytea[])
        with ordinality as given (run, stream, mark, size, content, place)
),
fresh as (
    select given.*, sum(size) over (partition by run, stream order by place) as reach,
        sum(size) over (partition by run, stream) as total
    from given where not exists (
        select from holdfast.chunks known where (known.run, known.stream, known.mark) = (given.run, given.stream, given.mark)
    )
),
grown as (
    insert into holdfast.streams (run, stream, size, xid)
    select run, stream, sum(size), pg_current_xact_id() from fresh group by run, stream order by run, stream
    on conflict (run, stream) do update set size = streams.size + excluded.size, xid = excluded.xid
    returning run, stream, size
)
insert into holdfast.chunks (run, stream, first, mark, size, written_at_ms, content)
select run, stream, grown.size - fresh.total + fresh.reach - fresh.size, mark, fresh.size, $6, content
from fresh join grown using (run, stream)

-- name: stream_chunks
-- What there is of some runs' streams, or of those of one name, beyond what is known of each, from the piece on that holds the
-- next of it; first what models think. Which streams have more is found first: mostly none.
with behind as materialized (
    select streams.run, streams.stream, coalesce(known.size, 0) as size
    from holdfast.streams left join unnest($2::uuid[], $3::text[], $4::bigint[]) as known (run, stream, size)
        on (known.run, known.stream) = (streams.run, streams.stream)
    where streams.run = any ($1::uuid[]) and streams.size > coalesce(known.size, 0)
        and ($6::text is null or streams.stream = $6)
)
select behind.run::text, behind.stream, chunks.first, chunks.size, chunks.content
from behind cross join lateral (
    select first, size, content from holdfast.chunks
    where chunks.run = behind.run and chunks.stream = behind.stream and first + size > behind.size and first >= (
        select first from holdfast.chunks begun
        where begun.run = behind.run and begun.stream = behind.stream and begun.first <= behind.size
        order by first desc limit 1
    )
    order by first limit $5
) as chunks
order by behind.stream not like '%:thinking', 1, 2, 3 limit $5

-- name: stream_news
-- What is visible now, and which streams and histories have grown since a snapshot.
select pg_current_snapshot()::text as mark, null::text as run, null::text as stream, null::bigint as size
union all
select null, run::text, stream, size from holdfast.streams
where xid >= pg_snapshot_xmin($1::text::pg_snapshot) and xid < pg_snapshot_xmax(pg_current_snapshot())
    and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
union all
select null, run::text, null, max(seq) from holdfast.commits, unnest(runs, seqs) as grown (run, seq)
where xid >= pg_snapshot_xmin($1::text::pg_snapshot) and xid < pg_snapshot_xmax(pg_current_snapshot())
    and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
group by run

-- name: stream_sizes
-- How much there is of each stream of some runs.
select run::text, stream, size from holdfast.streams where run = any ($1::uuid[])

-- name: forget_streams
-- Streams of which all stands in their runs' histories by now.
delete from holdfast.streams using unnest($1::uuid[], $2::text[]) as told (run, stream)
where (streams.run, streams.stream) = (told.run, told.stream)

-- name: forget_chunks
-- Their pieces.
delete from holdfast.chunks using unnest($1::uuid[], $2::text[]) as told (run, stream)
where (chunks.run, chunks.stream) = (told.run, told.stream)

-- --- Dead letters ----------------------------------------------------------------------------------------------------

-- name: resolve_letters
-- Those of some runs that are no more are resolved, at the times of their commits.
update holdfast.dead_letters set resolved_at_ms = given.at_ms
from unnest($1::uuid[], $2::bigint[], $3::text[]) as given (run, at_ms, steps)
where dead_letters.run = given.run and resolved_at_ms is null
    and not dead_letters.step = any (select jsonb_array_elements_text(given.steps::jsonb))

-- name: put_letters
-- Steps have failed for good, perhaps once more.
insert into holdfast.dead_letters as dead_letters (
    run, step, tenant, workflow, node, error_class, message, attempts, first_at_ms, last_at_ms, asked, edited
)
select * from unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[],
    $10::bigint[], $11::boolean[], $12::boolean[]
)
on conflict (run, step) do update set
    error_class = excluded.error_class, message = excluded.message, attempts = excluded.attempts,
    last_at_ms = excluded.last_at_ms, asked = excluded.asked, edited = excluded.edited, resolved_at_ms = null

-- --- Shared values ---------------------------------------------------------------------------------------------------

-- name: lock_shared_values
-- Locks values until the transaction's end, in their order, whether they are there or not.
select pg_advisory_xact_lock(hashtextextended(name, 1))
from unnest($1::text[]) with ordinality as given (name, place) order by place

-- name: latest_shared_values
-- Which version values have.
select tenant, space, key, max(version)
from unnest($1::text[], $2::text[], $3::text[]) as given (tenant, space, key)
    join holdfast.shared_values using (tenant, space, key)
group by tenant, space, key

-- name: drop_shared_waits
-- Runs wait for no shared values any more.
delete from holdfast.shared_waits where run = any($1::uuid[])

-- name: put_shared_waits
-- They wait for these.
insert into holdfast.shared_waits (run, step, path, tenant, space, key, after)
select * from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])

-- name: take_shared_lock
-- Nobody has the word on a value, or his time is over: with the number that goes with it.
insert into holdfast.shared_locks as known (tenant, space, key, holder, fence, expires_at_ms)
values ($1, $2, $3, $4, 1, holdfast.now_ms() + $5)
on conflict (tenant, space, key) do update
    set holder = excluded.holder, fence = known.fence + 1, expires_at_ms = excluded.expires_at_ms
    where known.expires_at_ms <= holdfast.now_ms()
returning fence

-- name: shared_lock
-- Who has the word, or had it last, and for how long still.
select holder, fence, expires_at_ms, holdfast.now_ms() from holdfast.shared_locks
where tenant = $1 and space = $2 and key = $3

-- name: drop_shared_entries
-- Values are not found any more.
delete from holdfast.shared_entries where tenant = $1 and space = $2 and key = any($3::text[])

-- name: drop_shared_values
-- All versions of values go.
delete from holdfast.shared_values where tenant = $1 and space = $2 and key = any($3::text[])

-- name: put_shared_entry
-- A value is found from now on, by its words, its meaning, or both.
insert into holdfast.shared_entries (tenant, space, key, words, model, vector)
values ($1, $2, $3, to_tsvector('english', $4), $5, $6)
on conflict (tenant, space, key) do update
    set words = excluded.words, model = excluded.model, vector = excluded.vector, id = excluded.id

-- name: use_shared_entries
-- Values were found and used.
update holdfast.shared_entries set uses = uses + 1, used_at_ms = greatest(used_at_ms, $4)
where tenant = $1 and space = $2 and key = any($3::text[])

-- name: search_shared_words
-- The entries of a space that answer a query best.
select e.key, v.body, ts_rank(e.words, query)::float8 as likeness, e.uses, e.used_at_ms
from to_tsquery('english', $3) query, holdfast.shared_entries e
    join holdfast.shared_values v on (v.tenant, v.space, v.key) = (e.tenant, e.space, e.key)
where e.tenant = $1 and e.space = $2 and e.words @@ query
    and v.version = (
        select max(version) from holdfast.shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key)
    )
order by likeness desc, e.id desc limit $4

-- name: vector_schema
-- Where the extension is that compares vectors, if this database has it.
select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'

-- name: make_vectors
-- Have it, where the server can.
create extension if not exists vector

-- name: search_shared_vectors
-- The entries of a space whose vectors are nearest, of the same model and length.
with nearest as materialized (
    select * from holdfast.shared_entries
    where tenant = $1 and space = $2 and model = $4 and cardinality(vector) = cardinality($3::real[])
)
select e.key, v.body, 1 - (e.vector::vectors.vector operator (vectors.<=>) $3::real[]::vectors.vector) as likeness,
    e.uses, e.used_at_ms
from nearest e join holdfast.shared_values v on (v.tenant, v.space, v.key) = (e.tenant, e.space, e.key)
where v.version = (
        select max(version) from holdfast.shared_values w where (w.tenant, w.space, w.key) = (v.tenant, v.space, v.key)
    )
order by likeness desc, e.id desc limit $5

-- --- Scores ----------------------------------------------------------------------------------------------------------

-- name: lock_scores
-- Whoever scores a run waits for those who do until their transactions end: each finds what the others have said.
select pg_advisory_xact_lock(hashtextextended($1, 2))

-- name: label_counts
-- How many of the newest runs, of all or of a tenant or else of a workflow, have a label and a status, after one of these and up
-- to a key.
with newest as (
    select * from (
        select run, workflow, status from holdfast.runs where $2::text is null and $3::text is null order by run desc limit $9
    ) as every
    union all
    select * from (
        select run, workflow, status from holdfast.runs where tenant = $2 order by run desc limit $9
    ) as of_tenant
    where $3::text is null or workflow = $3
    union all
    select * from (
        select run, workflow, status from holdfast.runs where $2::text is null and workflow = $3 order by run desc limit $9
    ) as of_workflow
)
select l.key, l.value, r.workflow, r.status, count(*)
from newest r cross join lateral (select key, value from holdfast.run_labels where run = r.run offset 0) l  -- in this order
where l.key <= $1 and (l.key, l.value, r.workflow collate "C", r.status collate "C") > ($4, $5, $6, $7)
group by l.key, l.value, r.workflow, r.status
order by l.key, l.value, r.workflow collate "C", r.status collate "C" limit $8

-- name: put_labels
-- All labels and tags that runs have from now on. One row of each run has no key, and stands for the run.
with given as (
    select run, key, value from unnest($1::uuid[], $2::text[], $3::text[]) as given (run, key, value)
), gone as (
    delete from holdfast.run_labels old
    where old.run in (select run from given) and not exists (
        select 1 from given where (given.run, given.key, given.value) = (old.run, old.key, old.value)
    )
)
insert into holdfast.run_labels (run, key, value)
select run, key, value from given where key is not null on conflict do nothing

-- --- Who calls -------------------------------------------------------------------------------------------------------

-- name: lock_api_keys
-- Of two who make a key of one name, a tenant and the fleet, one waits for the other.
select pg_advisory_xact_lock(hashtextextended('holdfast.api_keys', 4))

-- name: lock_audit
-- Each link follows from the one before: who adds one waits for those who do.
select pg_advisory_xact_lock(hashtextextended('holdfast.audit', 3))

-- name: forget_sign_ins
-- Those that are over, so many at a time.
delete from holdfast.sign_ins where hash in (
    select hash from holdfast.sign_ins where expires_at_ms <= $1 order by expires_at_ms limit 100 for update skip locked
)

-- name: trim_sign_ins
-- Those of one caller beyond so many newest.
delete from holdfast.sign_ins where hash in (
    select hash from holdfast.sign_ins where owner = $1 order by expires_at_ms desc, hash limit 100 offset $2
    for update skip locked
)

-- name: forget_replies
-- What nobody may ask for again goes, so much at a time.
delete from holdfast.replies where name in (
    select name from holdfast.replies where begun_at_ms < $1 order by begun_at_ms limit 100 for update skip locked
)

-- name: lock_canaries
-- Of two processes with different keys one is the first.
lock table holdfast.canaries in share row exclusive mode

-- --- Notifications --------------------------------------------------------------------------------------------------

-- name: lock_deliveries
-- Nobody else claims messages of a channel until the end of the transaction.
select pg_advisory_xact_lock(hashtextextended($1, 2))

-- name: delivery_heads
-- Due messages of a channel that nobody sends now, each the first of its line that waits; none to some addresses. Each address is
-- read by itself, so that what waits for one is not read for another.
select id, tenant, line, place, heads.address, bundle, attempts, claimed_until_ms, message
from holdfast.channels cross join lateral (
    select mine.id, tenant, line, place, mine.address, bundle, attempts, claimed_until_ms, message, due_at_ms
    from holdfast.deliveries as mine
    where mine.channel = channels.channel and mine.address = channels.address and state = 'waiting' and part_of is null
        and due_at_ms <= $2 and claimed_until_ms <= $2 and not exists (
            select 1 from holdfast.deliveries as earlier
            where earlier.line = mine.line and earlier.state = 'waiting'
                and (earlier.place, earlier.bundle, earlier.id) < (mine.place, mine.bundle, mine.id)
                and (earlier.part_of is null or earlier.part_of <> mine.id)
        )
    order by due_at_ms, place, id limit $5
) as heads
where channels.channel = $1 and channels.address <> all($3::text[])
order by due_at_ms, place, id limit $4
