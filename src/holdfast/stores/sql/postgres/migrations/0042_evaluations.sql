-- What suites of scenarios came to, with their runs: all that were kept, the newest with the highest id. Nothing is overwritten.
create table holdfast.evaluations (
    id text collate "C" primary key,
    tenant text not null,
    workflow text not null,
    evaluation text not null,
    judged text not null
);
create index evaluations_of_tenant on holdfast.evaluations (tenant, id);
