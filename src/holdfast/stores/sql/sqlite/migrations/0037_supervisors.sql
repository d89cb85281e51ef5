-- Supervisors: each as JSON, with what it has taken and has not ended, and when somebody must look at it. `revision` counts its
-- changes, so that nobody overwrites what he has not seen.
create table supervisors (
    tenant text not null,
    supervisor text not null,
    revision integer not null,
    due_at_ms integer,
    body blob not null,
    primary key (tenant, supervisor)
) strict, without rowid;
create index supervisors_due on supervisors (due_at_ms) where due_at_ms is not null;
-- The tasks that they have taken, with their runs, and what became of those that have ended.
create table supervised_tasks (
    tenant text not null,
    supervisor text not null,
    task text not null,
    run text,
    ended_at_ms integer,
    body blob not null,
    primary key (tenant, supervisor, task)
) strict, without rowid;
create index supervised_tasks_active on supervised_tasks (run) where run is not null and ended_at_ms is null;
create index supervised_tasks_ended on supervised_tasks (tenant, supervisor, ended_at_ms) where ended_at_ms is not null;
