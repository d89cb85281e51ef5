-- The first shape of a store. Every table is strict: a value of another kind is refused, never converted.
-- Times are the store's, in milliseconds since the epoch, unless a column says otherwise; no column has a default time.

-- A run as lists show it; `id` is the order in which runs were started, `sessions` the JSON list of those in flight.
create table runs (
    id integer primary key,
    run text not null unique,
    seq integer not null,
    tenant text not null,
    workflow text not null,
    version integer not null,
    graph_hash text not null,
    status text not null,
    start_key text,
    started_at_ms integer not null,
    updated_at_ms integer not null,
    ended_at_ms integer,
    due_at_ms integer,
    limit_nanousd integer,
    settled_nanousd integer not null,
    held_nanousd integer not null,
    in_doubt_nanousd integer not null,
    waiting_for blob not null,
    sessions text not null
) strict;

create index runs_by_tenant on runs (tenant);
create index runs_by_workflow on runs (workflow);
create index runs_by_status on runs (status);
-- A million runs that wait for people are not in this index: only what falls due by itself is.
create index runs_by_due on runs (graph_hash, due_at_ms) where due_at_ms is not null;
create index runs_unended on runs (graph_hash) where ended_at_ms is null;

-- The idempotency keys of starts.
create table start_keys (
    tenant text not null,
    start_key text not null,
    run text not null,
    input_digest text not null,
    primary key (tenant, start_key)
) strict, without rowid;

-- The histories. `id` is the order of commits. A table with rowids, because rows of a kilobyte would overflow the
-- pages of a table without: that cost three and a half times the disk and three times the time of an append.
create table events (
    id integer primary key,
    run text not null,
    seq integer not null,
    append_id text not null,
    at_ms integer not null,
    type text not null,
    payload blob not null,
    unique (run, seq)
) strict;

-- The latest snapshot of a run.
create table snapshots (
    run text primary key,
    seq integer not null,
    fold_version integer not null,
    state blob not null
) strict;

-- Questions to people. The columns from `state` on are the latest that became of them.
create table gates (
    id integer primary key,
    gate text not null unique,
    run text not null,
    step text,
    reason text not null,
    subject text,
    opened_at_ms integer not null,
    due_at_ms integer,
    reviewers text not null,
    state text not null,
    changed_at_ms integer,
    reminders integer,
    decision text,
    decided_by text
) strict;

create index gates_by_run on gates (run);
create index gates_open on gates (id) where state in ('open', 'escalated');

-- The ledger of tool calls. The columns from `state` on are the latest that became of them.
create table effects (
    id integer primary key,
    call text not null unique,
    run text not null,
    step text not null,
    tool text not null,
    policy text not null,
    effect_key text not null,
    request blob not null,
    intended_at_ms integer not null,
    state text not null,
    updated_at_ms integer,
    response blob,
    error text,
    resolved_by text
) strict;

create index effects_by_run on effects (run);
create index effects_by_state on effects (state);

-- The leases of processes. `renewed_boot_ms` is on the machine's clock since boot, which no clock setting moves.
create table sessions (
    session text primary key,
    label text not null,
    pid integer not null,
    hashes text not null,
    opened_at_ms integer not null,
    lease_ms integer not null,
    renewed_boot_ms integer not null,
    dead_at_ms integer
) strict, without rowid;

-- A row while a session has attempts or calls in flight in a run.
create table flights (
    session text not null,
    run text not null,
    primary key (session, run)
) strict, without rowid;

-- Large payloads by the sha256 of their content, and the tenants and months that they are kept for.
create table blobs (
    sha256 text primary key,
    content blob not null
) strict;

create table blob_homes (
    tenant text not null,
    month text not null,
    sha256 text not null,
    primary key (tenant, month, sha256)
) strict, without rowid;
