-- Values that are found by their words or their meaning. All of a space are together: their ids have the same first half.
create table shared_entries (
    id integer primary key,
    tenant text not null,
    space text not null,
    key text not null,
    uses integer not null default 0,
    used_at_ms integer not null default 0,
    unique (tenant, space, key)
) strict;
-- Their words, each behind the first half of its entry's id, so that a search in one space meets no other's.
create virtual table shared_words using fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);
-- Their vectors, of length one, as numbers of 32 bits, with the name of who made them.
create table shared_vectors (
    id integer primary key,
    model text not null,
    vector blob not null
) strict;
