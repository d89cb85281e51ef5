-- Scores of runs, by people and by code: all that were given, in their order. Nothing is overwritten.
create table scores (
    run text not null,
    number integer not null,
    name text not null,
    value real not null,
    given_by text not null,
    source text not null,
    comment text not null,
    at_ms integer not null,
    os_user text not null,
    client text not null,
    primary key (run, number)
) strict, without rowid;
