-- What goes in many at a time, as one array of rows: the client would look at every value of an array for each column.
create type holdfast.given_run as (
    run uuid, expected integer, seq integer, tenant text, workflow text, version integer, graph_hash text, status text,
    start_key text, started_at_ms bigint, updated_at_ms bigint, ended_at_ms bigint, due_at_ms bigint, limit_nanousd bigint,
    settled_nanousd bigint, held_nanousd bigint, in_doubt_nanousd bigint, waiting_for bytea, started_by text, sessions text[]
);
create type holdfast.given_event as (
    run uuid, seq integer, append_id text, at_ms bigint, type text, payload bytea, trace_id text
);
create type holdfast.given_charge as (
    run uuid, scope text, family text, settled bigint, held bigint, in_doubt bigint
);
