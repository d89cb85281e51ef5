-- The tables of provider pools in PostgreSQL. All times are microseconds since the epoch on the database's clock.
-- Made by whoever comes first; the lock lasts as long as the transaction, so it also works behind a pgbouncer.
select pg_advisory_xact_lock(hashtext('holdfast.pools'));
-- Whoever has waited for that lock may still remember that there are no such tables. To open a table is to hear of what
-- was changed meanwhile; to get an advisory lock is not.
select from pg_namespace limit 1;

create schema if not exists holdfast;

-- How each pool stands. Every visit locks all rows, in the order of their names: the rows are the authority.
create table if not exists holdfast.pools (
    pool text primary key,
    empty_at_us bigint not null,
    closed_until_us bigint not null
);

-- Processes that wait, and until when they are believed to.
create table if not exists holdfast.pool_holders (
    holder text primary key,
    seen_until_us bigint not null
);

-- Places in line; they go with the process that waits.
create table if not exists holdfast.pool_tickets (
    ticket text primary key,
    holder text not null references holdfast.pool_holders on delete cascade,
    line text not null,
    priority integer not null,
    joined_us bigint not null,
    content bytea not null
);
create index if not exists pool_tickets_in_line on holdfast.pool_tickets (line, priority desc, joined_us, ticket);
create index if not exists pool_tickets_of_holder on holdfast.pool_tickets (holder);

-- What is lent, and until when; `slots` are the pools of which it has a slot.
create table if not exists holdfast.pool_shares (
    ticket text primary key,
    holder text not null,
    until_us bigint not null,
    slots text[] not null,
    content bytea not null,
    heard boolean not null default false
);
create index if not exists pool_shares_unheard on holdfast.pool_shares (holder) where not heard;
create index if not exists pool_shares_lapsing on holdfast.pool_shares (until_us);
