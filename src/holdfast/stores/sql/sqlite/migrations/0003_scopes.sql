-- What stands above runs and has a limit of its own: tenants' and teams' days and months.

-- The books of a scope, in nano-dollars. `family` is what its limit is set for: all days of a tenant have one.
create table scopes (
    scope text primary key,
    family text not null,
    settled integer not null,
    held integer not null,
    in_doubt integer not null
) strict, without rowid;

create table limits (
    family text primary key,
    amount integer not null
) strict, without rowid;

-- Runs that wait for room in a scope; `id` is the order in which they came.
create table waiters (
    id integer primary key,
    scope text not null,
    run text not null,
    wanted integer not null,
    unique (scope, run)
) strict;

create index waiters_by_run on waiters (run);
