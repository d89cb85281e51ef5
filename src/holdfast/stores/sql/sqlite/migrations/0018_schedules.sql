-- What starts runs by the calendar: each as JSON, and when somebody must look at it.
create table schedules (
    tenant text not null,
    name text not null,
    revision integer not null,
    due_at_ms integer,
    body blob not null,
    primary key (tenant, name)
) strict, without rowid;
create index schedules_due on schedules (due_at_ms) where due_at_ms is not null;
