-- Supervisors: each as JSON, with what it has taken and has not ended, and when somebody must look at it. `revision` counts its
-- changes, so that nobody overwrites what he has not seen.
create table holdfast.supervisors (
    tenant text collate "C" not null,
    supervisor text collate "C" not null,
    revision bigint not null,
    due_at_ms bigint,
    body bytea not null,
    primary key (tenant, supervisor)
);
create index supervisors_due on holdfast.supervisors (due_at_ms) where due_at_ms is not null;
-- The tasks that they have taken, with their runs, and what became of those that have ended.
create table holdfast.supervised_tasks (
    tenant text collate "C" not null,
    supervisor text collate "C" not null,
    task text collate "C" not null,
    run uuid,
    ended_at_ms bigint,
    body bytea not null,
    primary key (tenant, supervisor, task)
);
create index supervised_tasks_active on holdfast.supervised_tasks (run) where run is not null and ended_at_ms is null;
create index supervised_tasks_ended on holdfast.supervised_tasks (tenant, supervisor, ended_at_ms) where ended_at_ms is not null;
