-- What jobs print, in pieces of up to 64 KiB: `first` is how many bytes came before. Where one is missing, that was cut.
create table holdfast.job_logs (
    run uuid not null,
    job text not null,
    attempt integer not null,
    first bigint not null,
    written_at_ms bigint not null,
    content bytea not null,
    primary key (run, job, attempt, first)
);
