-- What starts runs by the calendar: each as JSON, and when somebody must look at it.
create table holdfast.schedules (
    tenant text not null,
    name text not null,
    revision bigint not null,
    due_at_ms bigint,
    body bytea not null,
    primary key (tenant, name)
);
create index schedules_due on holdfast.schedules (due_at_ms) where due_at_ms is not null;
