-- What model calls have cost, added up from the histories.
create table holdfast.costs (
    day text not null,
    tenant text not null,
    workflow text not null,
    node text not null,
    model text not null,
    calls bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_nanousd bigint not null,
    primary key (day, tenant, workflow, node, model)
);

-- Up to which event each run is in it.
create table holdfast.counted (
    run uuid primary key,
    seq integer not null
);
