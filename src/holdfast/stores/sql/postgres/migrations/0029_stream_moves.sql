-- The transaction by which a stream has grown last: who watches is told which have since he looked, however many runs he watches.
alter table holdfast.streams add column xid xid8 not null default '0';
create index streams_xid on holdfast.streams (xid);
