-- Scores of runs, by people and by code: all that were given, in their order. Nothing is overwritten.
create table holdfast.scores (
    run uuid not null,
    number bigint not null,
    name text not null,
    value double precision not null,
    given_by text not null,
    source text not null,
    comment text not null,
    at_ms bigint not null,
    os_user text not null,
    client text not null,
    primary key (run, number)
);
