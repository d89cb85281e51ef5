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
