-- The order in which streams have grown: who watches is told which have since he looked, however many runs he watches.
alter table streams add column moved integer not null default 0;
create index streams_moved on streams (moved);
-- The last number that was given, which stays when the stream goes that has it.
create table stream_moves (last integer not null) strict;
insert into stream_moves (last) values (0);
