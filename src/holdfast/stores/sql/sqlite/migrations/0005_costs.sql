-- What model calls have cost, added up from the histories.
create table costs (
    day text not null,
    tenant text not null,
    workflow text not null,
    node text not null,
    model text not null,
    calls integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    cost_nanousd integer not null,
    primary key (day, tenant, workflow, node, model)
) strict, without rowid;

-- Up to which event each run is in it.
create table counted (
    run text primary key,
    seq integer not null
) strict, without rowid;
