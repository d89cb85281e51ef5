-- What a visit to the provider pools says to PostgreSQL, in one short transaction.

-- name: begin
-- A visitor that freezes in the middle must not keep the others out; both settings end with the transaction.
begin; set local idle_in_transaction_session_timeout = '5s'; set local lock_timeout = '5s'

-- name: add_pools
-- Pools that were never lent from, in the order in which they are locked. They start full: this record is not lost.
insert into holdfast.pools (pool, empty_at_us, closed_until_us)
select pool, 0, 0 from unnest($1::text[]) as pool order by pool
on conflict do nothing

-- name: lock_pools
-- From here on nobody else lends.
select pool, empty_at_us, closed_until_us from holdfast.pools order by pool for update

-- name: arrive
-- The time, which is asked for after the lock (now() is the transaction's start), and whether the visitor is known.
select
    (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us,
    (select seen_until_us from holdfast.pool_holders where holder = $1) as seen_until_us

-- name: greet
-- Believe that the visitor waits until then.
insert into holdfast.pool_holders (holder, seen_until_us) values ($1, $2)
on conflict (holder) do update set seen_until_us = excluded.seen_until_us

-- name: bury
-- The places of processes that have been silent for too long.
delete from holdfast.pool_holders where seen_until_us <= $1 and holder <> $2

-- name: lapse
-- Shares whose calls can no longer be running.
delete from holdfast.pool_shares where until_us <= $1

-- name: take_back
-- What was lent to these tickets.
delete from holdfast.pool_shares where ticket = any($1::text[]) returning ticket, content

-- name: leave
-- Places in line that nobody needs any more.
delete from holdfast.pool_tickets where ticket = any($1::text[])

-- name: hear
-- Grants that need not be told again.
update holdfast.pool_shares set heard = true where ticket = any($1::text[])

-- name: lengths
-- How many wait in these lines.
select line, count(*) as length from holdfast.pool_tickets where line = any($1::text[]) group by line

-- name: join
-- New places in line; who stands there already, or was granted what he wanted, keeps what he has.
insert into holdfast.pool_tickets (ticket, holder, line, priority, joined_us, content)
select ticket, $1, line, priority, joined_us, content
from unnest($2::text[], $3::text[], $4::integer[], $5::bigint[], $6::bytea[])
    as joins (ticket, line, priority, joined_us, content)
where not exists (select from holdfast.pool_shares as share where share.ticket = joins.ticket)
on conflict do nothing

-- name: heads
-- The first of every line, in order.
select head.holder, head.joined_us, head.content
from (select distinct line from holdfast.pool_tickets) as lines
cross join lateral (
    select holder, joined_us, priority, ticket, content from holdfast.pool_tickets
    where line = lines.line order by priority desc, joined_us, ticket limit $1
) as head
order by head.priority desc, head.joined_us, head.ticket

-- name: slots
-- Of which pools slots are taken, how many, and when the first of them lapses.
select pool, count(*) as taken, min(until_us) as next_free_us
from holdfast.pool_shares cross join lateral unnest(slots) as pool group by pool

-- name: lend
-- What is granted now.
insert into holdfast.pool_shares (ticket, holder, until_us, slots, content)
select ticket, holder, until_us, array(select jsonb_array_elements_text(slots::jsonb)), content
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
    as shares (ticket, holder, until_us, slots, content)

-- name: keep
-- How the pools stand after this visit.
update holdfast.pools set empty_at_us = kept.empty_at_us, closed_until_us = kept.closed_until_us
from unnest($1::text[], $2::bigint[], $3::bigint[]) as kept (pool, empty_at_us, closed_until_us)
where pools.pool = kept.pool

-- name: granted
-- What the visitor has not heard of yet.
select ticket, until_us from holdfast.pool_shares where holder = $1 and not heard

-- name: standings
-- How these pools stand, for whoever asks; nothing is locked.
select
    pool,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us,
    empty_at_us,
    closed_until_us,
    (
        select count(*) from holdfast.pool_shares
        where pool = any(slots) and until_us > extract(epoch from clock_timestamp()) * 1000000
    ) as taken,
    (
        select count(*) from holdfast.pool_tickets where pool = any(string_to_array(line, E'\n'))
    ) as waiting
from holdfast.pools where pool = any($1::text[])
