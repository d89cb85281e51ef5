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
