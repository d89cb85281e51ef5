-- Words by which people find runs, as they were given at a run's start.
create table holdfast.run_tags (
    run uuid not null,
    tag text not null,
    primary key (run, tag)
);
create index run_tags_by_tag on holdfast.run_tags (tag, run);
