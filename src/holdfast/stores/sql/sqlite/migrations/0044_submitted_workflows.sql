-- Workflows whose files were submitted, by tenant, name and version: they are a tenant's own, and stand beside those of code, which
-- are in `workflows`. A name that code has is never one of these.
create table submitted_workflows (
    tenant text not null,
    name text not null,
    version integer not null,
    graph_hash text not null,
    input_schema blob,
    loaded_at_ms integer,
    primary key (tenant, name, version)
) strict, without rowid;

-- Files stood among the code before, for whoever came. One that runs scripts, and whose runs are of one tenant, is that tenant's. Where
-- a process loads it as its own, it is code again.
insert into submitted_workflows (tenant, name, version, graph_hash, input_schema, loaded_at_ms)
select min(r.tenant), w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
from workflows w join graphs g on g.graph_hash = w.graph_hash join runs r on r.graph_hash = w.graph_hash
where instr(cast(definition as text), '"holdfast.shell"') > 0
group by w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
having count(distinct r.tenant) = 1;
delete from workflows
where exists (
    select 1 from submitted_workflows s
    where s.name = workflows.name and s.version = workflows.version
);
