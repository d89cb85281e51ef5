-- Who calls from outside: keys of services, what was done and by whom, and answers under idempotency keys.
create table holdfast.api_keys (
    name text primary key,
    hash text not null unique,
    tenant text,
    key text not null
);

create table holdfast.audit (
    number bigint primary key,
    tenant text not null,
    hash text not null,
    entry text not null
);
create index audit_of_tenant on holdfast.audit (tenant, number);

create table holdfast.replies (
    name text primary key,
    digest text not null,
    begun_at_ms bigint not null,
    reply bytea
);
create index replies_by_age on holdfast.replies (begun_at_ms);
