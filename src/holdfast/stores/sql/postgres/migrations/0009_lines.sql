-- Which workflow's runs wait in each scope, so that those are found whose workflow is gone, however many others wait.
-- `graph` is a hash of `graphs`; as `graph_hash` older code could not tell it from that of `runs`, where it joins the two.
alter table holdfast.waiters add column graph text;

update holdfast.waiters set graph = (select graph_hash from holdfast.runs where runs.run = waiters.run);

create index waiters_by_graph on holdfast.waiters (scope, graph);
