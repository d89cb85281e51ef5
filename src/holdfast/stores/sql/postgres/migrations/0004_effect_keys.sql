-- Tenant-wide effect keys, which outlive the runs that took them. `response` is null until the call has its outcome.
create table holdfast.effect_keys (
    effect_key text primary key,
    tenant text not null,
    run uuid not null,
    call text not null,
    args_hash text not null,
    response bytea
);
