-- The first shape of a store. Times are the store's, in milliseconds since the epoch; no column has a default time.
-- `holdfast` is the schema's usual name; the store puts another in its place where it was opened with one.

create table holdfast.migrations (
    version integer not null,
    part text not null,
    primary key (version, part)
);

-- A run as lists show it. Run ids are UUIDv7, so their order is that of the starts. Room is left in each page: a run
-- that goes on changes no indexed column, and its next version fits beside the last (a heap-only tuple).
create table holdfast.runs (
    run uuid primary key,
    seq integer not null,
    tenant text not null,
    workflow text not null,
    version integer not null,
    graph_hash text not null,
    status text not null,
    start_key text,
    started_at_ms bigint not null,
    updated_at_ms bigint not null,
    ended_at_ms bigint,
    due_at_ms bigint,
    limit_nanousd bigint,
    settled_nanousd bigint not null,
    held_nanousd bigint not null,
    in_doubt_nanousd bigint not null,
    waiting_for bytea not null,
    sessions text[] not null
) with (fillfactor = 70);

create index runs_by_tenant on holdfast.runs (tenant, run);
create index runs_by_workflow on holdfast.runs (workflow, run);
create index runs_by_status on holdfast.runs (status, run);
-- A million runs that wait for people are not in this index: only what falls due by itself is.
create index runs_by_due on holdfast.runs (graph_hash, due_at_ms) where due_at_ms is not null;
create index runs_unended on holdfast.runs (graph_hash) where ended_at_ms is null;

-- The idempotency keys of starts. They outlive their runs.
create table holdfast.start_keys (
    tenant text not null,
    start_key text not null,
    run uuid not null,
    input_digest text not null,
    primary key (tenant, start_key)
);

-- The histories, by the month of their run's start: a run id begins with its time, so it tells the partition.
create table holdfast.events (
    run uuid not null,
    seq integer not null,
    append_id text not null,
    at_ms bigint not null,
    type text not null,
    payload bytea not null,
    primary key (run, seq)
) partition by range (run);

-- Who committed what, in one row a transaction: the tail of all events follows it. Which of its rows are news is told by
-- their transaction ids and two snapshots, never by a sequence: numbers are given before the commit, and out of its order.
create table holdfast.commits (
    xid xid8 primary key,
    process uuid not null,
    runs uuid[] not null,
    seqs integer[] not null
);

-- The latest snapshot of a run.
create table holdfast.snapshots (
    run uuid not null,
    seq integer not null,
    fold_version integer not null,
    state bytea not null,
    primary key (run)
) partition by range (run);

-- The order in which gates were opened and calls intended.
create sequence holdfast.places cache 1;

-- Questions to people. The columns from `state` on are the latest that became of them.
create table holdfast.gates (
    place bigint not null default nextval('holdfast.places'),
    gate text primary key,
    run uuid not null,
    step text,
    reason text not null,
    subject text,
    opened_at_ms bigint not null,
    due_at_ms bigint,
    reviewers text not null,
    state text not null,
    changed_at_ms bigint,
    reminders integer,
    decision text,
    decided_by text
);

create index gates_by_run on holdfast.gates (run, place);
create index gates_open on holdfast.gates (place) where state in ('open', 'escalated');

-- The ledger of tool calls. The columns from `state` on are the latest that became of them.
create table holdfast.effects (
    place bigint not null default nextval('holdfast.places'),
    call text not null,
    run uuid not null,
    step text not null,
    tool text not null,
    policy text not null,
    effect_key text not null,
    request bytea not null,
    intended_at_ms bigint not null,
    state text not null,
    updated_at_ms bigint,
    response bytea,
    error text,
    resolved_by text,
    primary key (run, call)
) partition by range (run);

create index effects_by_state on holdfast.effects (state, place);

-- The leases of processes, in store time. `hashes` are the workflows that a session can run.
create table holdfast.sessions (
    session text primary key,
    label text not null,
    hashes text[] not null,
    opened_at_ms bigint not null,
    lease_ms bigint not null,
    expires_at_ms bigint not null,
    dead_at_ms bigint
) with (fillfactor = 50);

-- Who leads a lane of the fleet: its session, for as long as that lives.
create table holdfast.lanes (
    lane text primary key,
    session text not null
);

-- A row while a session has attempts or calls in flight in a run.
create table holdfast.flights (
    session text not null,
    run uuid not null,
    primary key (session, run)
);

create index flights_by_run on holdfast.flights (run);

-- The graphs of workflows by hash, so that a process without the code can decide about their runs.
create table holdfast.graphs (
    graph_hash text primary key,
    definition bytea not null
);

-- Large payloads by the sha256 of their content, and the tenants and months that they are kept for.
create table holdfast.blobs (
    sha256 text primary key,
    content bytea not null
);

create table holdfast.blob_homes (
    tenant text not null,
    month text not null,
    sha256 text not null,
    primary key (tenant, month, sha256)
);

-- The time as every statement of the store reads it: of the clock on the wall, not of the transaction's start.
create function holdfast.now_ms() returns bigint
language sql volatile parallel safe
return (extract(epoch from clock_timestamp()) * 1000)::bigint;
