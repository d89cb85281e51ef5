-- Team budgets: the limits of agents have priorities, and of each scope it is known how long it is idle.
alter table limits add column priority real not null default 1;
alter table scopes add column moved_at_ms integer not null default 0;
