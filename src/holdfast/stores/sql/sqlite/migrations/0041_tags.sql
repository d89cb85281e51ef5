-- Words by which people find runs, as they were given at a run's start.
create table run_tags (
    run text not null,
    tag text not null,
    primary key (run, tag)
) strict, without rowid;
create index run_tags_by_tag on run_tags (tag, run);
