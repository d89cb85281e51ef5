-- Workflows whose files were submitted, by tenant, name and version: they are a tenant's own, and stand beside those of code, which
-- are in `workflows`. A name that code has is never one of these. Names are in one order in every database.
create table holdfast.submitted_workflows (
    tenant text not null,
    name text collate "C" not null,
    version bigint not null,
    graph_hash text not null,
    input_schema bytea,
    loaded_at_ms bigint,
    primary key (tenant, name, version)
);

-- Files stood among the code before, for whoever came. One that runs scripts, and whose runs are of one tenant, is that tenant's. Where
-- a process loads it as its own, it is code again.
insert into holdfast.submitted_workflows (tenant, name, version, graph_hash, input_schema, loaded_at_ms)
select min(r.tenant), w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
from holdfast.workflows w join holdfast.graphs g on g.graph_hash = w.graph_hash join holdfast.runs r on r.graph_hash = w.graph_hash
where position('"holdfast.shell"'::bytea in definition) > 0
group by w.name, w.version, w.graph_hash, w.input_schema, w.loaded_at_ms
having count(distinct r.tenant) = 1;
delete from holdfast.workflows
where exists (
    select 1 from holdfast.submitted_workflows s
    where s.name = holdfast.workflows.name and s.version = holdfast.workflows.version
);
