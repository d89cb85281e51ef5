-- Steps that have failed for good. Open ones stay until somebody says what is to become of them, the others three days longer.
create table dead_letters (
    run text not null,
    step text not null,
    tenant text not null,
    workflow text not null,
    node text not null,
    error_class text not null,
    message text not null,
    attempts integer not null,
    first_at_ms integer not null,
    last_at_ms integer not null,
    asked integer not null,
    edited integer not null,
    resolved_at_ms integer,
    primary key (run, step)
) strict, without rowid;
create index dead_letters_resolved on dead_letters (resolved_at_ms);
