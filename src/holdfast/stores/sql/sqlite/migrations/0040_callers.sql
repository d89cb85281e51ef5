-- Who calls from outside: keys of services, what was done and by whom, and answers under idempotency keys.
create table api_keys (
    name text primary key,
    hash text not null unique,
    tenant text,
    key text not null
) strict, without rowid;

create table audit (
    number integer primary key,
    tenant text not null,
    hash text not null,
    entry text not null
) strict;
create index audit_of_tenant on audit (tenant, number);

create table replies (
    name text primary key,
    digest text not null,
    begun_at_ms integer not null,
    reply blob
) strict, without rowid;
create index replies_by_age on replies (begun_at_ms);
