-- What stands above runs and has a limit of its own: tenants' and teams' days and months, and active runs.
-- The books of a scope. `family` is what its limit is set for: all days of a tenant have one. A busy row is updated in
-- each flush and has no other index, so its next version fits beside the last.
create table holdfast.scopes (
    scope text primary key,
    family text not null,
    settled bigint not null,
    held bigint not null,
    in_doubt bigint not null
) with (fillfactor = 50);

create table holdfast.limits (
    family text primary key,
    amount bigint not null
);

-- Runs that wait for room in a scope; `place` is the order in which they came.
create table holdfast.waiters (
    place bigint generated always as identity,
    scope text not null,
    run uuid not null,
    wanted bigint not null,
    primary key (scope, run)
);

create index waiters_by_run on holdfast.waiters (run);
