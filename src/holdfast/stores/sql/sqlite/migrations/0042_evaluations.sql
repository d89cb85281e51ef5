-- What suites of scenarios came to, with their runs: all that were kept, the newest with the highest id. Nothing is overwritten.
create table evaluations (
    id text primary key,
    tenant text not null,
    workflow text not null,
    evaluation text not null,
    judged text not null
) strict, without rowid;
create index evaluations_of_tenant on evaluations (tenant, id);
