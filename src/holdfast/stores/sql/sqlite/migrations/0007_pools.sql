-- Pools above steps, and what is lent of them. `level` is what the part of a rate that is not lent had at `level_at_ms`, in
-- units × milliseconds.
create table lent_pools (
    pool text primary key,
    kind text not null,
    amount integer not null,
    per_s integer not null,
    burst integer not null,
    counts text,
    counts_of text,
    level integer not null,
    level_at_ms integer not null
) strict, without rowid;

-- What each holder has of a pool, and what it said last.
create table lent_shares (
    pool text not null,
    holder text not null,
    session text not null,
    granted integer not null,
    used integer not null,
    wanted integer not null,
    least integer not null,
    is_short integer not null,
    since_ms integer not null,
    number integer not null,
    outlives_ms integer not null,
    primary key (pool, holder, session)
) strict, without rowid;

-- What steps have taken of pools, biased high, in thousandths.
create table pool_estimates (
    workflow text not null,
    node text not null,
    pool text not null,
    amount_m integer not null,
    samples integer not null,
    primary key (workflow, node, pool)
) strict, without rowid;
