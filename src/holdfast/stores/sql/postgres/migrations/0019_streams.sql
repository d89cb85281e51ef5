-- What runs say while they go on: each stream of a run is one sequence, of which `size` is what there is so far. Its row is locked
-- before it grows, so what is visible of it has no gaps.
create table holdfast.streams (
    run uuid not null,
    stream text not null,
    size bigint not null,
    primary key (run, stream)
);
-- Where the pieces stand in it. Whoever brings one again, under its mark, brings nothing.
create table holdfast.chunks (
    run uuid not null,
    stream text not null,
    first bigint not null,
    mark text not null,
    size bigint not null,
    written_at_ms bigint not null,
    content bytea not null,
    primary key (run, stream, first),
    unique (run, stream, mark)
);
