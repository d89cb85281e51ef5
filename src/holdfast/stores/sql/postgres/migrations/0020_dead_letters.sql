-- Steps that have failed for good. Open ones stay until somebody says what is to become of them, the others three days longer.
create table holdfast.dead_letters (
    run uuid not null,
    step text not null,
    tenant text not null,
    workflow text not null,
    node text not null,
    error_class text not null,
    message text not null,
    attempts bigint not null,
    first_at_ms bigint not null,
    last_at_ms bigint not null,
    asked boolean not null,
    edited boolean not null,
    resolved_at_ms bigint,
    primary key (run, step)
);
create index dead_letters_resolved on holdfast.dead_letters (resolved_at_ms);
