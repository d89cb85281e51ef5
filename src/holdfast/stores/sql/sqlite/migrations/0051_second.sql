-- The tables of 0.2.0, and what those of 0.1.0 had not.

-- Which migrations the store has had, and with which text: one that was edited afterwards is noticed.
create table migrations (
    version integer primary key,
    name text not null,
    sha256 text not null
) strict;

-- What jobs print, in pieces of up to 64 KiB: `first` is how many bytes came before. Where one is missing, that was cut.
create table job_logs (
    run text not null,
    job text not null,
    attempt integer not null,
    first integer not null,
    written_at_ms integer not null,
    content blob not null,
    primary key (run, job, attempt, first)
) strict, without rowid;

-- Runs with money in doubt are asked for once a minute where a rule settles it, and there are few of them.
create index runs_in_doubt on runs (id) where in_doubt_nanousd > 0;

-- Where the history of a run is that has been archived: in a blob of its tenant and month, up to `seq`. Without a hash it
-- was removed for good. In `events` a row of the run '' and of seq -1 says up to where the order of commits has gaps, so that
-- its places are not given twice either.
create table archives (
    run text primary key,
    tenant text not null,
    seq integer not null,
    sha256 text,
    stored_bytes integer not null,
    archived_at_ms integer not null,
    pruned_at_ms integer
) strict, without rowid;

-- The workflows by name and version: for each the graph of the code that was loaded last, and the JSON Schema of its input, so
-- that a process without the code can list them, hold an input against the schema and start a run. The definition is in
-- `graphs`, which runs of other definitions need as well.
create table workflows (
    name text not null,
    version integer not null,
    graph_hash text not null,
    input_schema blob,
    loaded_at_ms integer,
    primary key (name, version)
) strict, without rowid;

-- Of what was loaded before, what the newest run follows; its schema comes when it is loaded again.
insert into workflows (name, version, graph_hash)
select workflow, version, graph_hash from runs
where id in (select max(id) from runs join graphs using (graph_hash) group by workflow, version);

-- The trace in which a request came that an event follows from, 32 hexadecimal digits (W3C Trace Context), so that whoever
-- looks on can tell what a request has caused. None where nobody named one, and in what was written before.
alter table events add column trace_id text;

-- How long a pool is closed from `level_at_ms` on, because the provider behind it takes no more: a span and no moment, so that
-- a clock that was set back closes nothing.
alter table lent_pools add column closed_ms integer not null default 0;

-- The runs that other runs have asked for, their children: `root` is the run at the top of their tree. `state` is how far the
-- child has come and whether its parent has heard of its end. `ordered` is the event of the parent's that says last what becomes
-- of the child too (a pause, its end, a cancelling), `heeded` the last to which the child was told to do so.
create table children (
    child text primary key,
    parent text not null,
    root text not null,
    state text not null,
    ordered integer not null,
    heeded integer not null,
    changed_at_ms integer not null
) strict, without rowid;

create index children_by_parent on children (parent, child);
create index children_by_root on children (root, child);
-- What somebody has to see to. A child that goes on is not among these, nor one that is over.
create index children_pending on children (changed_at_ms)
where state in ('requested', 'ended') or (state = 'running' and ordered > heeded);

-- What runs say while they go on: each stream of a run is one sequence, of which `size` is what there is so far.
create table streams (
    run text not null,
    stream text not null,
    size integer not null,
    moved integer not null,
    primary key (run, stream)
) strict, without rowid;
-- The order in which streams have grown: who watches is told which have since he looked, however many runs he watches.
create index streams_moved on streams (moved);
-- The last number that was given, which stays when the stream goes that has it.
create table stream_moves (last integer not null) strict;
insert into stream_moves (last) values (0);
-- Where the pieces stand in it. Whoever brings one again, under its mark, brings nothing.
create table chunks (
    run text not null,
    stream text not null,
    first integer not null,
    mark text not null,
    size integer not null,
    written_at_ms integer not null,
    content blob not null,
    primary key (run, stream, first),
    unique (run, stream, mark)
) strict, without rowid;

-- Steps that have failed for good. Open ones stay until somebody says what is to become of them, the others three days longer.
create table dead_letters (
    run text not null,
    step text not null,
    tenant text not null,
    workflow text not null,
    node text not null,
    error_class text not null,
    message text not null,
    attempts integer not null,
    first_at_ms integer not null,
    last_at_ms integer not null,
    asked integer not null,
    edited integer not null,
    resolved_at_ms integer,
    primary key (run, step)
) strict, without rowid;
create index dead_letters_resolved on dead_letters (resolved_at_ms);

-- Records that tenants have under names, each as JSON: schedules, conversations, supervisors. When somebody must look at it, the run
-- that is at it, and whether somebody has something to do with it now, whatever that run does. `revision` counts its changes, so that
-- nobody overwrites what he has not seen.
create table records (
    kind text not null,
    tenant text not null,
    name text not null,
    revision integer not null,
    due_at_ms integer,
    run text,
    is_pending integer not null,
    changed_at_ms integer not null,
    body blob not null,
    primary key (kind, tenant, name)
) strict, without rowid;
create index records_due on records (kind, due_at_ms) where due_at_ms is not null;
create index records_active on records (run) where run is not null;
create index records_pending on records (kind, tenant) where is_pending;
create index records_idle on records (kind, changed_at_ms) where run is null and not is_pending;
-- Their parts: messages with their replies; tasks with their runs, and when they ended.
create table record_parts (
    kind text not null,
    tenant text not null,
    name text not null,
    part text not null,
    run text,
    ended_at_ms integer,
    body blob not null,
    primary key (kind, tenant, name, part)
) strict, without rowid;
create index record_parts_active on record_parts (run) where run is not null and ended_at_ms is null;
create index record_parts_ended on record_parts (kind, tenant, name, ended_at_ms) where ended_at_ms is not null;

-- Values that the runs and agents of a tenant share, the latest versions of each as JSON.
create table shared_values (
    tenant text not null,
    space text not null,
    key text not null,
    version integer not null,
    body blob not null,
    primary key (tenant, space, key, version)
) strict, without rowid;
-- Who waits for a later version of one.
create table shared_waits (
    run text not null,
    step text not null,
    path text not null,
    tenant text not null,
    space text not null,
    key text not null,
    after integer not null,
    primary key (run, step, path)
) strict, without rowid;
create index shared_waits_of on shared_waits (tenant, space, key);
-- Who has the word on one for a while, and how often the word was given: a writer shows the number that he was given.
create table shared_locks (
    tenant text not null,
    space text not null,
    key text not null,
    holder text not null,
    fence integer not null,
    expires_at_ms integer not null,
    primary key (tenant, space, key)
) strict, without rowid;

-- Values that are found by their words or their meaning. All of a space are together: their ids have the same first half.
create table shared_entries (
    id integer primary key,
    tenant text not null,
    space text not null,
    key text not null,
    uses integer not null default 0,
    used_at_ms integer not null default 0,
    unique (tenant, space, key)
) strict;
-- Their words, each behind the first half of its entry's id, so that a search in one space meets no other's.
create virtual table shared_words using fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);
-- Their vectors, of length one, as numbers of 32 bits, with the name of who made them.
create table shared_vectors (
    id integer primary key,
    model text not null,
    vector blob not null
) strict;

-- Team budgets: the limits of agents have priorities, and of each scope it is known how long it is idle.
alter table limits add column priority real not null default 1;
alter table scopes add column moved_at_ms integer not null default 0;

-- Scores of runs, by people and by code: all that were given, in their order. Nothing is overwritten.
create table scores (
    run text not null,
    number integer not null,
    name text not null,
    value real not null,
    given_by text not null,
    source text not null,
    comment text not null,
    at_ms integer not null,
    os_user text not null,
    client text not null,
    primary key (run, number)
) strict, without rowid;

-- Who calls from outside: keys of services, what was done and by whom, and answers under idempotency keys.
-- Names of keys are their tenant's: a tenant cannot be told by one that another has it.
create table api_keys (
    name text not null,
    hash text not null unique,
    tenant text,
    key text not null
) strict;
create unique index api_keys_of_owner on api_keys (coalesce(tenant, ''), name);

create table audit (
    number integer primary key,
    tenant text not null,
    hash text not null,
    entry text not null,
    signature text not null,
    at_ms integer generated always as (iif(json_valid(entry), json_extract(entry, '$[0]'), null)) virtual,
    action text generated always as (iif(json_valid(entry), json_extract(entry, '$[1]'), null)) virtual,
    about text generated always as (iif(json_valid(entry), json_extract(entry, '$[2]'), null)) virtual,
    name text generated always as (iif(json_valid(entry), json_extract(entry, '$[4]'), null)) virtual,
    client text generated always as (iif(json_valid(entry), json_extract(entry, '$[6]'), null)) virtual
) strict;
create index audit_of_tenant on audit (tenant, number);
create index audit_by_time on audit (at_ms);
create index audit_by_action on audit (action, number);
create index audit_by_about on audit (about);
create index audit_by_name on audit (name, number);
-- It says where it ends from its first entry on, and its end moves forward only; nothing in it is changed or taken out: a hand that
-- would has to take these triggers away first.
create table audit_head (
    is_head integer primary key default 1 check (is_head = 1),
    number integer not null,
    hash text not null,
    signature text not null
) strict, without rowid;
insert into audit_head (number, hash, signature)
values (0, '0000000000000000000000000000000000000000000000000000000000000000', '');

create trigger audit_keeps_entries_unchanged before update on audit
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_keeps_entries before delete on audit
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_keeps_entries_in_place before insert on audit when exists (select 1 from audit where number = new.number)
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_keeps_its_head before delete on audit_head
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_head_moves_forward before update on audit_head when new.number <= old.number
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_head_is_not_put_back before insert on audit_head
when exists (select 1 from audit_head where number >= new.number)
begin select raise(abort, 'The audit log is insert-only.'); end;

create table replies (
    name text primary key,
    digest text not null,
    begun_at_ms integer not null,
    reply blob
) strict, without rowid;
create index replies_by_age on replies (begun_at_ms);

-- Browsers that have signed in, by the hash of their cookie.
create table sign_ins (
    hash text primary key,
    owner text not null,
    expires_at_ms integer not null,
    sign_in text not null,
    name text generated always as (json_extract(sign_in, '$.name')) virtual,
    tenant text generated always as (json_extract(sign_in, '$.tenant')) virtual
) strict, without rowid;
create index sign_ins_by_name on sign_ins (name, expires_at_ms);
create index sign_ins_by_age on sign_ins (expires_at_ms);
create index sign_ins_of_one on sign_ins (owner, expires_at_ms);

-- Words by which people find runs: labels by their keys, and tags, of which the key is empty.
create table run_labels (
    run text not null,
    key text not null,
    value text not null,
    primary key (run, key, value)
) strict, without rowid;
create index run_labels_by_value on run_labels (key, value, run);

-- What suites of scenarios came to, with their runs: all that were kept, the newest with the highest id. Nothing is overwritten.
create table evaluations (
    id text primary key,
    tenant text not null,
    workflow text not null,
    evaluation text not null,
    judged text not null
) strict, without rowid;
create index evaluations_of_tenant on evaluations (tenant, id);

-- What models are like in practice, by workflow, node and model; where the first two are empty, in all of them.
create table model_estimates (
    workflow text not null,
    node text not null,
    model text not null,
    output_tokens_m integer not null,
    tokens_per_s_m integer not null,
    price_part_m integer not null,
    samples integer not null,
    at_ms integer not null,
    primary key (workflow, node, model)
) strict, without rowid;

-- Workflows whose files were submitted, by tenant, name and version: they are a tenant's own, and stand beside those of code, which
-- are in `workflows`. A name that code has is never one of these.
create table submitted_workflows (
    tenant text not null,
    name text not null,
    version integer not null,
    graph_hash text not null,
    input_schema blob,
    loaded_at_ms integer,
    primary key (tenant, name, version)
) strict, without rowid;

-- Files stood among the code before, for whoever came. One that runs scripts, and whose runs are of one tenant, is that tenant's. Where
-- a process loads it as its own, it is code again.
insert into submitted_workflows (tenant, name, version, graph_hash, input_schema, loaded_at_ms)
select min(r.tenant), w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
from workflows w join graphs g on g.graph_hash = w.graph_hash join runs r on r.graph_hash = w.graph_hash
where instr(cast(definition as text), '"holdfast.shell"') > 0
group by w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
having count(distinct r.tenant) = 1;
delete from workflows
where exists (
    select 1 from submitted_workflows s
    where s.name = workflows.name and s.version = workflows.version
);

-- What a question proposes, of how risky a kind, when it expires, and who of several have approved. A question that stood before says
-- all that in its history only.
alter table gates add column expires_at_ms integer;
alter table gates add column quorum integer;
alter table gates add column risk_level text;
alter table gates add column proposed_action text;
alter table gates add column evidence_ids text;
alter table gates add column approved_by text;
alter table gates add column workflow text;
alter table gates add column title text;
update gates set workflow = (select workflow from runs where runs.run = gates.run);

-- With which keys what users store is sealed: a text that each process knows, sealed with each first key of the tenant `default`; and
-- whether all payloads are encrypted. A store that is empty here takes any keys, also one that was encrypted before.
create table canaries (
    sealed text primary key,
    encrypts integer not null
) strict, without rowid;

-- With what cursors of lists are sealed that hide rows: one secret for all processes, so that a list goes on at any of them.
create table cursor_keys (
    is_key integer primary key default 1 check (is_key = 1),
    secret text not null
) strict, without rowid;
insert into cursor_keys (secret) values (lower(hex(randomblob(32))));

-- The same costs by hour and team. What was counted without it, by 0.1.0, is in `costs` alone.
create table costs_by_hour (
    hour text not null,
    tenant text not null,
    team text not null,
    workflow text not null,
    node text not null,
    model text not null,
    calls integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    cost_nanousd integer not null,
    primary key (hour, tenant, team, workflow, node, model)
) strict, without rowid;

-- What a better course would have avoided, or a cache has saved, by cause.
create table extra_costs (
    day text not null,
    tenant text not null,
    team text not null,
    workflow text not null,
    node text not null,
    model text not null,
    cause text not null,
    calls integer not null,
    tokens integer not null,
    cost_nanousd integer not null,
    primary key (day, tenant, team, workflow, node, model, cause)
) strict, without rowid;

-- What each run has cost up to there. One that goes on is counted again.
alter table counted add column cost_nanousd integer;
update counted set cost_nanousd = (select settled_nanousd from runs where runs.run = counted.run and runs.seq = counted.seq);
create index counted_by_cost on counted (cost_nanousd, run) where cost_nanousd > 0;

-- Up to where in the order of commits all costs are counted; and before which run they are not, as long as all runs are looked at.
create table cost_progress (
    is_row integer primary key default 1 check (is_row = 1),
    cursor text not null,
    before_run text
) strict, without rowid;

create index archives_by_time on archives (archived_at_ms, run);

-- How far those have come that follow the tail, and who feeds each of them until when.
create table followers (
    name text primary key,
    cursor text,
    had_all_at_ms integer not null,
    waiting_since_ms integer,
    taken integer not null default 0,
    dropped integer not null default 0,
    problem text not null default '',
    holder text not null,
    until_ms integer not null
) strict, without rowid;

-- Messages on their way to channels. Those of a line go in the order of their places; those that became one message name it in
-- `part_of`. Until `claimed_until_ms` a process sends one; 0 means that nobody has tried yet.
create table deliveries (
    id text primary key,
    tenant text not null,
    run text not null,
    line text not null,
    place integer not null,
    occasion text not null,
    rule text not null,
    channel text not null,
    address text not null,
    bundle text not null,
    state text not null,
    part_of text,
    attempts integer not null,
    created_at_ms integer not null,
    due_at_ms integer not null,
    claimed_until_ms integer not null,
    ended_at_ms integer,
    problem text,
    message blob not null
) strict, without rowid;
create index deliveries_waiting on deliveries (channel, address, due_at_ms, place, id, created_at_ms)
where state = 'waiting' and part_of is null;
create index deliveries_in_line on deliveries (line, state, place, bundle, id);
create index deliveries_bundled on deliveries (bundle, place, id)
where state = 'waiting' and bundle <> '' and part_of is null and claimed_until_ms = 0;
create index deliveries_by_part on deliveries (part_of) where part_of is not null;
create index deliveries_of_tenant on deliveries (tenant, created_at_ms, id);
create index deliveries_ended on deliveries (ended_at_ms) where ended_at_ms is not null;

-- What came of the messages to each address of a channel; its own address is empty. One that wants no more is disabled.
create table channels (
    channel text not null,
    address text not null,
    sent integer not null,
    failed integer not null,
    dead integer not null,
    disabled_at_ms integer,
    problem text,
    primary key (channel, address)
) strict, without rowid;
