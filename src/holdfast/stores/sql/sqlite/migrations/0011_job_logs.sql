-- What jobs print, in pieces of up to 64 KiB: `first` is how many bytes came before. Where one is missing, that was cut.
create table job_logs (
    run text not null,
    job text not null,
    attempt integer not null,
    first integer not null,
    written_at_ms integer not null,
    content blob not null,
    primary key (run, job, attempt, first)
) strict, without rowid;
