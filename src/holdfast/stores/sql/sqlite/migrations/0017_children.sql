-- The runs that other runs have asked for, their children: `root` is the run at the top of their tree. `state` is how far the
-- child has come and whether its parent has heard of its end. `ordered` is the event of the parent's that says last what becomes
-- of the child too (a pause, its end, a cancelling), `heeded` the last to which the child was told to do so.
create table children (
    child text primary key,
    parent text not null,
    root text not null,
    state text not null,
    ordered integer not null,
    heeded integer not null,
    changed_at_ms integer not null
) strict, without rowid;

create index children_by_parent on children (parent, child);
create index children_by_root on children (root, child);
-- What somebody has to see to. A child that goes on is not among these, nor one that is over.
create index children_pending on children (changed_at_ms)
where state in ('requested', 'ended') or (state = 'running' and ordered > heeded);
