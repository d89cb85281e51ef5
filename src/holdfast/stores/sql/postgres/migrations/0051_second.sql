-- The tables of 0.2.0, and what those of 0.1.0 had not.

-- With which text the store has had each migration: one that was edited afterwards is noticed. Older code writes none.
alter table holdfast.migrations add column sha256 text;

-- What jobs print, in pieces of up to 64 KiB: `first` is how many bytes came before. Where one is missing, that was cut.
create table holdfast.job_logs (
    run uuid not null,
    job text not null,
    attempt integer not null,
    first bigint not null,
    written_at_ms bigint not null,
    content bytea not null,
    primary key (run, job, attempt, first)
);

-- Runs with money in doubt are asked for once a minute where a rule settles it, and there are few of them.
create index runs_in_doubt on holdfast.runs (run) where in_doubt_nanousd > 0;

-- The workflows by name and version: for each the graph of the code that was loaded last, and the JSON Schema of its input, so
-- that a process without the code can list them, hold an input against the schema and start a run. The definition is in
-- `graphs`, which runs of other definitions need as well. Names are in one order in every database.
create table holdfast.workflows (
    name text collate "C" not null,
    version bigint not null,
    graph_hash text not null,
    input_schema bytea,
    loaded_at_ms bigint,
    primary key (name, version)
);

-- Of what was loaded before, what the newest run follows; its schema comes when it is loaded again.
insert into holdfast.workflows (name, version, graph_hash)
select distinct on (workflow, version) workflow, version, graph_hash
from holdfast.runs join holdfast.graphs using (graph_hash)
order by workflow, version, run desc;

-- The trace in which a request came that an event follows from, 32 hexadecimal digits (W3C Trace Context), so that whoever
-- looks on can tell what a request has caused. None where nobody named one, and in what was written before.
alter table holdfast.events add column trace_id text;

-- How long a pool is closed from `level_at_ms` on, because the provider behind it takes no more: a span and no moment, so that
-- a clock that was set back closes nothing.
alter table holdfast.lent_pools add column closed_ms bigint not null default 0;

-- What goes in many at a time, as one array of rows: the client would look at every value of an array for each column.
create type holdfast.given_run as (
    run uuid, expected integer, seq integer, tenant text, workflow text, version integer, graph_hash text, status text,
    start_key text, started_at_ms bigint, updated_at_ms bigint, ended_at_ms bigint, due_at_ms bigint, limit_nanousd bigint,
    settled_nanousd bigint, held_nanousd bigint, in_doubt_nanousd bigint, waiting_for bytea, started_by text, sessions text[]
);
create type holdfast.given_event as (
    run uuid, seq integer, append_id text, at_ms bigint, type text, payload bytea, trace_id text
);
create type holdfast.given_charge as (
    run uuid, scope text, family text, settled bigint, held bigint, in_doubt bigint
);

-- The runs that other runs have asked for, their children: `root` is the run at the top of their tree. `state` is how far the
-- child has come and whether its parent has heard of its end. `ordered` is the event of the parent's that says last what becomes
-- of the child too (a pause, its end, a cancelling), `heeded` the last to which the child was told to do so.
create table holdfast.children (
    child uuid primary key,
    parent uuid not null,
    root uuid not null,
    state text not null,
    ordered integer not null,
    heeded integer not null,
    changed_at_ms bigint not null
);

create index children_by_parent on holdfast.children (parent, child);
create index children_by_root on holdfast.children (root, child);
-- What somebody has to see to. A child that goes on is not among these, nor one that is over.
create index children_pending on holdfast.children (changed_at_ms)
where state in ('requested', 'ended') or (state = 'running' and ordered > heeded);

-- What runs say while they go on: each stream of a run is one sequence, of which `size` is what there is so far. Its row is locked
-- before it grows, so what is visible of it has no gaps.
create table holdfast.streams (
    run uuid not null,
    stream text not null,
    size bigint not null,
    xid xid8 not null,
    primary key (run, stream)
);
-- The transaction by which a stream has grown last: who watches is told which have since he looked, however many runs he watches.
create index streams_xid on holdfast.streams (xid);
-- Where the pieces stand in it. Whoever brings one again, under its mark, brings nothing.
create table holdfast.chunks (
    run uuid not null,
    stream text not null,
    first bigint not null,
    mark text not null,
    size bigint not null,
    written_at_ms bigint not null,
    content bytea not null,
    primary key (run, stream, first),
    unique (run, stream, mark)
);

-- Steps that have failed for good. Open ones stay until somebody says what is to become of them, the others three days longer.
create table holdfast.dead_letters (
    run uuid not null,
    step text not null,
    tenant text not null,
    workflow text not null,
    node text not null,
    error_class text not null,
    message text not null,
    attempts bigint not null,
    first_at_ms bigint not null,
    last_at_ms bigint not null,
    asked boolean not null,
    edited boolean not null,
    resolved_at_ms bigint,
    primary key (run, step)
);
create index dead_letters_resolved on holdfast.dead_letters (resolved_at_ms);

-- Records that tenants have under names, each as JSON: schedules, conversations, supervisors. When somebody must look at it, the run
-- that is at it, and whether somebody has something to do with it now, whatever that run does. `revision` counts its changes, so that
-- nobody overwrites what he has not seen.
create table holdfast.records (
    kind text collate "C" not null,
    tenant text collate "C" not null,
    name text collate "C" not null,
    revision bigint not null,
    due_at_ms bigint,
    run uuid,
    is_pending boolean not null,
    changed_at_ms bigint not null,
    body bytea not null,
    primary key (kind, tenant, name)
);
create index records_due on holdfast.records (kind, due_at_ms) where due_at_ms is not null;
create index records_active on holdfast.records (run) where run is not null;
create index records_pending on holdfast.records (kind, tenant) where is_pending;
create index records_idle on holdfast.records (kind, changed_at_ms) where run is null and not is_pending;
-- Their parts: messages with their replies; tasks with their runs, and when they ended.
create table holdfast.record_parts (
    kind text collate "C" not null,
    tenant text collate "C" not null,
    name text collate "C" not null,
    part text collate "C" not null,
    run uuid,
    ended_at_ms bigint,
    body bytea not null,
    primary key (kind, tenant, name, part)
);
create index record_parts_active on holdfast.record_parts (run) where run is not null and ended_at_ms is null;
create index record_parts_ended on holdfast.record_parts (kind, tenant, name, ended_at_ms) where ended_at_ms is not null;

-- Values that the runs and agents of a tenant share, the latest versions of each as JSON.
create table holdfast.shared_values (
    tenant text collate "C" not null,
    space text collate "C" not null,
    key text collate "C" not null,
    version bigint not null,
    body bytea not null,
    primary key (tenant, space, key, version)
);
-- Who waits for a later version of one.
create table holdfast.shared_waits (
    run uuid not null,
    step text collate "C" not null,
    path text collate "C" not null,
    tenant text collate "C" not null,
    space text collate "C" not null,
    key text collate "C" not null,
    after bigint not null,
    primary key (run, step, path)
);
create index shared_waits_of on holdfast.shared_waits (tenant, space, key);
-- Who has the word on one for a while, and how often the word was given: a writer shows the number that he was given.
create table holdfast.shared_locks (
    tenant text collate "C" not null,
    space text collate "C" not null,
    key text collate "C" not null,
    holder text not null,
    fence bigint not null,
    expires_at_ms bigint not null,
    primary key (tenant, space, key)
);

-- Values that are found by their words or their meaning; vectors are of length one.
create table holdfast.shared_entries (
    tenant text collate "C" not null,
    space text collate "C" not null,
    key text collate "C" not null,
    words tsvector not null,
    model text not null,
    vector real[] not null,
    uses bigint not null default 0,
    used_at_ms bigint not null default 0,
    id bigint not null generated by default as identity,
    primary key (tenant, space, key)
);
create index shared_entries_by_words on holdfast.shared_entries using gin (words);

-- Team budgets: the limits of agents have priorities, and of each scope it is known how long it is idle.
alter table holdfast.limits add column priority double precision not null default 1;
alter table holdfast.scopes add column moved_at_ms bigint not null default 0;

-- Scores of runs, by people and by code: all that were given, in their order. Nothing is overwritten.
create table holdfast.scores (
    run uuid not null,
    number bigint not null,
    name text not null,
    value double precision not null,
    given_by text not null,
    source text not null,
    comment text not null,
    at_ms bigint not null,
    os_user text not null,
    client text not null,
    primary key (run, number)
);

-- Who calls from outside: keys of services, what was done and by whom, and answers under idempotency keys.
-- Names of keys are their tenant's: a tenant cannot be told by one that another has it.
create table holdfast.api_keys (
    name text not null,
    hash text not null unique,
    tenant text,
    key text not null
);
create unique index api_keys_of_owner on holdfast.api_keys (coalesce(tenant, ''), name);

create table holdfast.audit (
    number bigint primary key,
    tenant text not null,
    hash text not null,
    entry text not null,
    signature text not null,
    at_ms bigint generated always as ((entry::jsonb ->> 0)::bigint) stored,
    action text collate "C" generated always as (entry::jsonb ->> 1) stored,
    about text collate "C" generated always as (entry::jsonb ->> 2) stored,
    name text collate "C" generated always as (entry::jsonb ->> 4) stored,
    client text collate "C" generated always as (entry::jsonb ->> 6) stored
);
create index audit_of_tenant on holdfast.audit (tenant, number);
create index audit_by_time on holdfast.audit (at_ms);
create index audit_by_action on holdfast.audit (action, number);
create index audit_by_about on holdfast.audit (about);
create index audit_by_name on holdfast.audit (name, number);
-- It says where it ends from its first entry on, and its end moves forward only; nothing in it is changed or taken out: the owner of
-- the tables would have to take these triggers away first, and the role that works, where it is another, cannot.
create table holdfast.audit_head (
    is_head boolean primary key default true check (is_head),
    number bigint not null,
    hash text not null,
    signature text not null
);
insert into holdfast.audit_head (number, hash, signature) values (0, repeat('0', 64), '');

create or replace function holdfast.keep_audit() returns trigger language plpgsql as $$
begin
    raise exception 'The audit log is insert-only.' using errcode = 'insufficient_privilege';
end
$$;
create trigger audit_keeps_entries before update or delete on holdfast.audit
for each row execute function holdfast.keep_audit();
create trigger audit_is_not_emptied before truncate on holdfast.audit
for each statement execute function holdfast.keep_audit();
create trigger audit_keeps_its_head before delete on holdfast.audit_head
for each row execute function holdfast.keep_audit();
create trigger audit_head_moves_forward before update on holdfast.audit_head
for each row when (new.number <= old.number) execute function holdfast.keep_audit();
create trigger audit_head_is_not_emptied before truncate on holdfast.audit_head
for each statement execute function holdfast.keep_audit();

create table holdfast.replies (
    name text primary key,
    digest text not null,
    begun_at_ms bigint not null,
    reply bytea
);
create index replies_by_age on holdfast.replies (begun_at_ms);

-- Browsers that have signed in, by the hash of their cookie.
create table holdfast.sign_ins (
    hash text primary key,
    owner text not null,
    expires_at_ms bigint not null,
    sign_in text not null,
    name text generated always as (sign_in::jsonb ->> 'name') stored,
    tenant text generated always as (sign_in::jsonb ->> 'tenant') stored
);
create index sign_ins_by_name on holdfast.sign_ins (name, expires_at_ms);
create index sign_ins_by_age on holdfast.sign_ins (expires_at_ms);
create index sign_ins_of_one on holdfast.sign_ins (owner, expires_at_ms);

-- Words by which people find runs: labels by their keys, and tags, of which the key is empty.
create table holdfast.run_labels (
    run uuid not null,
    key text collate "C" not null,
    value text collate "C" not null,
    primary key (run, key, value)
);
create index run_labels_by_value on holdfast.run_labels (key, value, run);

-- What suites of scenarios came to, with their runs: all that were kept, the newest with the highest id. Nothing is overwritten.
create table holdfast.evaluations (
    id text collate "C" primary key,
    tenant text not null,
    workflow text not null,
    evaluation text not null,
    judged text not null
);
create index evaluations_of_tenant on holdfast.evaluations (tenant, id);

-- What models are like in practice, by workflow, node and model; where the first two are empty, in all of them.
create table holdfast.model_estimates (
    workflow text not null,
    node text not null,
    model text not null,
    output_tokens_m bigint not null,
    tokens_per_s_m bigint not null,
    price_part_m bigint not null,
    samples bigint not null,
    at_ms bigint not null,
    primary key (workflow, node, model)
);

-- Workflows whose files were submitted, by tenant, name and version: they are a tenant's own, and stand beside those of code, which
-- are in `workflows`. A name that code has is never one of these. Names are in one order in every database.
create table holdfast.submitted_workflows (
    tenant text not null,
    name text collate "C" not null,
    version bigint not null,
    graph_hash text not null,
    input_schema bytea,
    loaded_at_ms bigint,
    primary key (tenant, name, version)
);

-- Files stood among the code before, for whoever came. One that runs scripts, and whose runs are of one tenant, is that tenant's. Where
-- a process loads it as its own, it is code again.
insert into holdfast.submitted_workflows (tenant, name, version, graph_hash, input_schema, loaded_at_ms)
select min(r.tenant), w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
from holdfast.workflows w join holdfast.graphs g on g.graph_hash = w.graph_hash join holdfast.runs r on r.graph_hash = w.graph_hash
where position('"holdfast.shell"'::bytea in definition) > 0
group by w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
having count(distinct r.tenant) = 1;
delete from holdfast.workflows
where exists (
    select 1 from holdfast.submitted_workflows s
    where s.name = holdfast.workflows.name and s.version = holdfast.workflows.version
);

-- What a question proposes, of how risky a kind, when it expires, and who of several have approved. A question that stood before says
-- all that in its history only.
alter table holdfast.gates add column expires_at_ms bigint;
alter table holdfast.gates add column quorum integer;
alter table holdfast.gates add column risk_level text;
alter table holdfast.gates add column proposed_action text;
alter table holdfast.gates add column evidence_ids text;
alter table holdfast.gates add column approved_by text;
alter table holdfast.gates add column workflow text;
alter table holdfast.gates add column title text;
update holdfast.gates set workflow = (select workflow from holdfast.runs where runs.run = gates.run);

-- With which keys what users store is sealed: a text that each process knows, sealed with each first key of the tenant `default`; and
-- whether all payloads are encrypted. A store that is empty here takes any keys, also one that was encrypted before.
create table holdfast.canaries (
    sealed text primary key,
    encrypts boolean not null
);

-- With what cursors of lists are sealed that hide rows: one secret for all processes, so that a list goes on at any of them.
create table holdfast.cursor_keys (
    is_key boolean primary key default true check (is_key),
    secret text not null
);
insert into holdfast.cursor_keys (secret) values (gen_random_uuid()::text || gen_random_uuid()::text);

-- The same costs by hour and team. What was counted without it, by 0.1.0, is in `costs` alone.
create table holdfast.costs_by_hour (
    hour text collate "C" not null,
    tenant text collate "C" not null,
    team text collate "C" not null,
    workflow text collate "C" not null,
    node text collate "C" not null,
    model text collate "C" not null,
    calls bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_nanousd bigint not null,
    primary key (hour, tenant, team, workflow, node, model)
);

-- What a better course would have avoided, or a cache has saved, by cause.
create table holdfast.extra_costs (
    day text collate "C" not null,
    tenant text collate "C" not null,
    team text collate "C" not null,
    workflow text collate "C" not null,
    node text collate "C" not null,
    model text collate "C" not null,
    cause text collate "C" not null,
    calls bigint not null,
    tokens bigint not null,
    cost_nanousd bigint not null,
    primary key (day, tenant, team, workflow, node, model, cause)
);

-- What each run has cost up to there. One that goes on is counted again.
alter table holdfast.counted add column cost_nanousd bigint;
update holdfast.counted set cost_nanousd = (
    select settled_nanousd from holdfast.runs where runs.run = counted.run and runs.seq = counted.seq
);
create index counted_by_cost on holdfast.counted (cost_nanousd, run) where cost_nanousd > 0;

-- Up to where in the order of commits all costs are counted; and before which run they are not, as long as all runs are looked at.
create table holdfast.cost_progress (
    is_row boolean primary key default true check (is_row),
    cursor text not null,
    before_run text
);

create index archives_by_time on holdfast.archives (archived_at_ms, run);

-- How far those have come that follow the tail, and who feeds each of them until when.
create table holdfast.followers (
    name text primary key,
    cursor text,
    had_all_at_ms bigint not null,
    waiting_since_ms bigint,
    taken bigint not null default 0,
    dropped bigint not null default 0,
    problem text not null default '',
    holder text not null,
    until_ms bigint not null
);

-- Messages on their way to channels. Those of a line go in the order of their places; those that became one message name it in
-- `part_of`. Until `claimed_until_ms` a process sends one; 0 means that nobody has tried yet.
create table holdfast.deliveries (
    id text collate "C" primary key,
    tenant text not null,
    run text not null,
    line text collate "C" not null,
    place bigint not null,
    occasion text not null,
    rule text not null,
    channel text collate "C" not null,
    address text collate "C" not null,
    bundle text collate "C" not null,
    state text not null,
    part_of text collate "C",
    attempts bigint not null,
    created_at_ms bigint not null,
    due_at_ms bigint not null,
    claimed_until_ms bigint not null,
    ended_at_ms bigint,
    problem text,
    message bytea not null
);
create index deliveries_waiting on holdfast.deliveries (channel, address, due_at_ms, place, id, created_at_ms)
where state = 'waiting' and part_of is null;
create index deliveries_in_line on holdfast.deliveries (line, state, place, bundle, id);
create index deliveries_bundled on holdfast.deliveries (bundle, place, id)
where state = 'waiting' and bundle <> '' and part_of is null and claimed_until_ms = 0;
create index deliveries_by_part on holdfast.deliveries (part_of) where part_of is not null;
create index deliveries_of_tenant on holdfast.deliveries (tenant, created_at_ms, id);
create index deliveries_ended on holdfast.deliveries (ended_at_ms) where ended_at_ms is not null;

-- What came of the messages to each address of a channel; its own address is empty. One that wants no more is disabled.
create table holdfast.channels (
    channel text collate "C" not null,
    address text collate "C" not null,
    sent bigint not null,
    failed bigint not null,
    dead bigint not null,
    disabled_at_ms bigint,
    problem text,
    primary key (channel, address)
);
