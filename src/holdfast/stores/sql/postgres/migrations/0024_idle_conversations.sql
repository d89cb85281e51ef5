-- When each conversation was changed last, so that those can be forgotten with which nobody has talked for long.
alter table holdfast.conversations add column changed_at_ms bigint not null default 0;
update holdfast.conversations set changed_at_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint;
create index conversations_idle on holdfast.conversations (changed_at_ms) where run is null and not is_pending;
