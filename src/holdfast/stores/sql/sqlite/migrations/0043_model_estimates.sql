-- What models are like in practice, by workflow, node and model; where the first two are empty, in all of them.
create table model_estimates (
    workflow text not null,
    node text not null,
    model text not null,
    output_tokens_m integer not null,
    tokens_per_s_m integer not null,
    price_part_m integer not null,
    samples integer not null,
    at_ms integer not null,
    primary key (workflow, node, model)
) strict, without rowid;
