-- Pools above steps, and what is lent of them. `level` is what the part of a rate that is not lent had at `level_at_ms`, in
-- units × milliseconds. (`pools` and `pool_shares` may be there already: they are the provider pools'.)
create table holdfast.lent_pools (
    pool text primary key,
    kind text not null,
    amount bigint not null,
    per_s bigint not null,
    burst bigint not null,
    counts text,
    counts_of text,
    level bigint not null,
    level_at_ms bigint not null
) with (fillfactor = 50);

-- What each holder has of a pool, and what it said last.
create table holdfast.lent_shares (
    pool text not null,
    holder text not null,
    session text not null,
    granted bigint not null,
    used bigint not null,
    wanted bigint not null,
    least bigint not null,
    is_short boolean not null,
    since_ms bigint not null,
    number bigint not null,
    outlives_ms bigint not null,
    primary key (pool, holder, session)
) with (fillfactor = 50);

-- What steps have taken of pools, biased high, in thousandths.
create table holdfast.pool_estimates (
    workflow text not null,
    node text not null,
    pool text not null,
    amount_m bigint not null,
    samples bigint not null,
    primary key (workflow, node, pool)
);
