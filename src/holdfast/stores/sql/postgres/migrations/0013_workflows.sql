-- The workflows by name and version: for each the graph of the code that was loaded last, and the JSON Schema of its input, so
-- that a process without the code can list them, hold an input against the schema and start a run. The definition is in
-- `graphs`, which runs of other definitions need as well. Names are in one order in every database.
create table holdfast.workflows (
    name text collate "C" not null,
    version bigint not null,
    graph_hash text not null,
    input_schema bytea,
    loaded_at_ms bigint,
    primary key (name, version)
);

-- Of what was loaded before, what the newest run follows; its schema comes when it is loaded again.
insert into holdfast.workflows (name, version, graph_hash)
select distinct on (workflow, version) workflow, version, graph_hash
from holdfast.runs join holdfast.graphs using (graph_hash)
order by workflow, version, run desc;
