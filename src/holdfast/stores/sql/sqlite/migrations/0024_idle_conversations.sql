-- When each conversation was changed last, so that those can be forgotten with which nobody has talked for long.
alter table conversations add column changed_at_ms integer not null default 0;
update conversations set changed_at_ms = unixepoch() * 1000;
create index conversations_idle on conversations (changed_at_ms) where run is null and not is_pending;
