-- Team budgets: the limits of agents have priorities, and of each scope it is known how long it is idle.
alter table holdfast.limits add column priority double precision not null default 1;
alter table holdfast.scopes add column moved_at_ms bigint not null default 0;
