-- How long a pool is closed from `level_at_ms` on, because the provider behind it takes no more: a span and no moment, so that
-- a clock that was set back closes nothing.
alter table holdfast.lent_pools add column closed_ms bigint not null default 0;
