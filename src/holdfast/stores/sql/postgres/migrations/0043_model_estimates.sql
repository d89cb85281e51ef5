-- What models are like in practice, by workflow, node and model; where the first two are empty, in all of them.
create table holdfast.model_estimates (
    workflow text not null,
    node text not null,
    model text not null,
    output_tokens_m bigint not null,
    tokens_per_s_m bigint not null,
    price_part_m bigint not null,
    samples bigint not null,
    at_ms bigint not null,
    primary key (workflow, node, model)
);
