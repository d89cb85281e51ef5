-- The workflows by name and version: for each the graph of the code that was loaded last, and the JSON Schema of its input, so
-- that a process without the code can list them, hold an input against the schema and start a run. The definition is in
-- `graphs`, which runs of other definitions need as well.
create table workflows (
    name text not null,
    version integer not null,
    graph_hash text not null,
    input_schema blob,
    loaded_at_ms integer,
    primary key (name, version)
) strict, without rowid;

-- Of what was loaded before, what the newest run follows; its schema comes when it is loaded again.
insert into workflows (name, version, graph_hash)
select workflow, version, graph_hash from runs
where id in (select max(id) from runs join graphs using (graph_hash) group by workflow, version);
