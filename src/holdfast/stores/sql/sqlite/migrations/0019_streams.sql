-- What runs say while they go on: each stream of a run is one sequence, of which `size` is what there is so far.
create table streams (
    run text not null,
    stream text not null,
    size integer not null,
    primary key (run, stream)
) strict, without rowid;
-- Where the pieces stand in it. Whoever brings one again, under its mark, brings nothing.
create table chunks (
    run text not null,
    stream text not null,
    first integer not null,
    mark text not null,
    size integer not null,
    written_at_ms integer not null,
    content blob not null,
    primary key (run, stream, first),
    unique (run, stream, mark)
) strict, without rowid;
