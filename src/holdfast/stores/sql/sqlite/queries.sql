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
    proposed_action, workflow, title, evidence_ids, state
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')

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

-- name: close_effect_key
-- The effect of a key has happened.
update effect_keys set response = ? where effect_key = ?

-- name: free_effect_key
-- The effect of a key has not happened, or was undone.
delete from effect_keys where effect_key = ?

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
where substr(limits.family, 1, length(?1)) = ?1 order by limits.family

-- name: limits
-- The limits of the families that begin with a text.
select family, amount from limits where substr(family, 1, length(?1)) = ?1 order by family

-- name: waiting
-- Who waits in the scopes of a list, longest first, and what is left there.
select waiters.run, waiters.scope, wanted, amount - settled - held - in_doubt
from waiters left join scopes using (scope) left join limits using (family)
where waiters.scope in (select value from json_each(?1))
order by waiters.id limit ?2

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
order by id limit ?1

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

-- --- The tail --------------------------------------------------------------------------------------------------------

-- name: tail
-- Events after a place in the order of commits.
select id, run, seq, at_ms, payload, trace_id from events where id > ? and seq > 0 order by id limit ?

-- name: runs_of_tail
-- The runs of the events after a place in the order of commits, with the places.
select id, run from events where id > ? and seq > 0 order by id limit ?

-- name: tail_gap
-- The last place in the order of commits whose event has left with its month; 0 for none.
select coalesce(max(id), 0) from events where run = '' and seq = -1

-- name: tail_end
-- The last place in the order of commits.
select coalesce(max(id), 0) from events

-- --- Sessions --------------------------------------------------------------------------------------------------------

-- name: open_session
-- A process begins to hold a lease.
insert into sessions (session, label, pid, hashes, opened_at_ms, lease_ms, renewed_boot_ms, described)
values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: renew_session
-- A lease is extended, unless somebody has found its session dead: says who is still alive.
update sessions set renewed_boot_ms = ? where session = ? and dead_at_ms is null returning session

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

-- name: close_session
-- A session dies because its process says so. It is not lost, so nothing is left to show of it.
update sessions set dead_at_ms = :now_ms, described = null where session = :session and dead_at_ms is null

-- name: end_session
-- A session dies because its lock is free.
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

-- --- Archives --------------------------------------------------------------------------------------------------------
-- Lists of runs, of hashes, are JSON.

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

-- name: effects_to_archive
-- The ledger of some runs.
select
    run, call, step, tool, policy, effect_key, request, intended_at_ms, state, updated_at_ms, response, error, resolved_by
from effects where run in (select value from json_each(?)) order by run, id

-- name: put_archives
-- An archive that was read back and found whole; one of more events stays.
insert into archives (run, tenant, seq, sha256, stored_bytes, archived_at_ms) values (?, ?, ?, ?, ?, ?)
on conflict (run) do update set
    seq = excluded.seq, sha256 = excluded.sha256, stored_bytes = excluded.stored_bytes,
    archived_at_ms = excluded.archived_at_ms
where excluded.seq > archives.seq

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

-- name: first_in_tables
-- The first run of a time whose history has not left the tables.
select run, status from runs where run = (select run from events where run > '' and run < ? order by run limit 1)

-- name: large_responses
-- Outcomes of tenant-wide effects that may be in blobs, after a key.
select effect_key, response from effect_keys
where effect_key > ? and instr(response, '"blob":') > 0
order by effect_key limit ?

-- name: messages_with_parts
-- Messages that may have something attached, or are encrypted, after one.
select tenant, name, part, body from record_parts
where kind = ? and (tenant, name, part) > (?, ?, ?) and (instr(body, '"parts":') > 0 or instr(body, '"hf1:') = 1)
order by tenant, name, part limit ?

-- name: label_counts
-- How many of the newest runs, of all or of a tenant or else of a workflow, have a label and a status, after one of these and up
-- to a key.
with newest as (
    select * from (
        select run, workflow, status from runs where ?2 is null and ?3 is null order by id desc limit ?9
    ) as every
    union all
    select * from (
        select run, workflow, status from runs where tenant = ?2 order by id desc limit ?9
    ) as of_tenant
    where ?3 is null or workflow = ?3
    union all
    select * from (
        select run, workflow, status from runs where ?2 is null and workflow = ?3 order by id desc limit ?9
    ) as of_workflow
)
select l.key, l.value, r.workflow, r.status, count(*)
from newest r cross join run_labels l on l.run = r.run  -- in this order
where l.key <= ?1 and (l.key, l.value, r.workflow, r.status) > (?4, ?5, ?6, ?7)
group by l.key, l.value, r.workflow, r.status
order by l.key, l.value, r.workflow, r.status limit ?8

-- name: insert_label
-- A label by which people find a run, or a tag.
insert into run_labels (run, key, value) values (?, ?, ?)

-- name: delete_labels
-- All of a run, before those that it has from now on.
delete from run_labels where run = ?

-- --- Standing --------------------------------------------------------------------------------------------------------

-- name: month
-- The runs of a month: how many, how many have not ended, their events, how many runs those were read of, how many are archived to
-- the end, how many of those are removed for good, what the archives take; and whether anything of it is in the tables. Where there
-- are many runs, the events of all are taken to be like those of the first and the last ?3.
with every as (select count(*) as runs from runs where run >= ?1 and run < ?2),
ends as (
    select count(*) as read, coalesce(sum(seq), 0) as events from (
        select * from (select run, seq from runs where run >= ?1 and run < ?2 order by run limit ?3)
        union
        select * from (select run, seq from runs where run >= ?1 and run < ?2 order by run desc limit ?3)
    )
),
gone as (
    select
        count(*) filter (where archives.seq >= runs.seq) as archived, count(*) filter (where sha256 is null) as pruned,
        coalesce(sum(stored_bytes) filter (where sha256 is not null), 0) as stored_bytes
    from archives cross join runs on runs.run = archives.run where archives.run >= ?1 and archives.run < ?2
)
select
    runs,
    case
        when runs <= ?3 then (select count(*) from runs where ended_at_ms is null and run >= ?1 and run < ?2)
        else (select count(*) from runs where ended_at_ms is null and +run >= ?1 and +run < ?2)  -- by the index of these
    end,
    runs * events / max(read, 1), read, archived, pruned, stored_bytes,
    exists (select 1 from events where run >= ?1 and run < ?2)
from every, ends, gone

-- name: living_sessions
-- Sessions that nobody has found dead, oldest first.
select session, label, opened_at_ms from sessions where dead_at_ms is null order by opened_at_ms

-- name: leases
-- Sessions that nobody has found dead, with how long their leases are, and when they were renewed last.
select label, lease_ms, renewed_boot_ms from sessions where dead_at_ms is null order by renewed_boot_ms limit 1000

-- name: index_names
-- The indexes that there are.
select name from sqlite_master where type = 'index'

-- --- Pools above steps -----------------------------------------------------------------------------------------------

-- name: lent_pools
-- The pools, or those of a list: [[pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms], ...].
select pool, kind, amount, per_s, burst, counts, counts_of, level, level_at_ms, closed_ms from lent_pools
where :pools is null or pool in (select value from json_each(:pools)) order by pool

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

-- name: estimate
-- What steps of one node have taken of one pool.
select workflow, node, pool, amount_m, samples from pool_estimates where workflow = ? and node = ? and pool = ?

-- name: put_estimate
-- What steps of one node are thought to take.
insert into pool_estimates (workflow, node, pool, amount_m, samples) values (?, ?, ?, ?, ?)
on conflict (workflow, node, pool) do update set amount_m = excluded.amount_m, samples = excluded.samples

-- --- What models are like in practice ---------------------------------------------------------------------------------

-- name: model_estimates_of
-- What replies of one model to one node were like.
select * from model_estimates where workflow = ? and node = ? and model = ?

-- name: put_model_estimates
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

-- name: forget_streams
-- A stream of which all stands in its run's history by now.
delete from streams where run = ? and stream = ?

-- name: forget_chunks
-- Its pieces.
delete from chunks where run = ? and stream = ?

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

-- --- Shared values ---------------------------------------------------------------------------------------------------

-- name: drop_shared_waits
-- A run waits for no shared value any more.
delete from shared_waits where run = ?

-- name: put_shared_wait
-- It waits for one.
insert into shared_waits (run, step, path, tenant, space, key, after) values (?, ?, ?, ?, ?, ?, ?)

-- name: take_shared_lock
-- Nobody has the word on a value, or his time is over, or it is his own: with the number that goes with it.
insert into shared_locks (tenant, space, key, holder, fence, expires_at_ms) values (?1, ?2, ?3, ?4, 1, ?5 + ?6)
on conflict (tenant, space, key) do update
    set holder = excluded.holder, fence = fence + 1, expires_at_ms = excluded.expires_at_ms
    where expires_at_ms <= ?5
returning fence

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

-- name: drop_shared_value
-- All versions of a value go.
delete from shared_values where tenant = ? and space = ? and key = ?

-- --- Who calls -------------------------------------------------------------------------------------------------------

-- name: forget_sign_ins
-- Those that are over, so many at a time.
delete from sign_ins where hash in (select hash from sign_ins where expires_at_ms <= ? order by expires_at_ms limit 100)

-- name: trim_sign_ins
-- Those of one caller beyond so many newest.
delete from sign_ins where hash in (
    select hash from sign_ins where owner = ? order by expires_at_ms desc, hash limit 100 offset ?
)

-- name: forget_replies
-- What nobody may ask for again goes, so much at a time.
delete from replies where name in (select name from replies where begun_at_ms < ? order by begun_at_ms limit 100)

-- --- Notifications --------------------------------------------------------------------------------------------------

-- name: delivery_heads
-- Due messages of a channel that nobody sends now, each the first of its line that waits; none to some addresses. Each address is
-- read by itself, so that what waits for one is not read for another.
select id, tenant, line, place, heads.address, bundle, attempts, claimed_until_ms, message
from channels cross join deliveries as heads
where channels.channel = ?1 and channels.address not in (select value from json_each(?3)) and heads.id in (
    select mine.id from deliveries as mine
    where mine.channel = channels.channel and mine.address = channels.address and state = 'waiting' and part_of is null
        and due_at_ms <= ?2 and claimed_until_ms <= ?2 and not exists (
            select 1 from deliveries as earlier
            where earlier.line = mine.line and earlier.state = 'waiting'
                and (earlier.place, earlier.bundle, earlier.id) < (mine.place, mine.bundle, mine.id)
                and (earlier.part_of is null or earlier.part_of <> mine.id)
        )
    order by due_at_ms, place, id limit ?5
)
order by due_at_ms, place, id limit ?4
