-- With which keys what users store is sealed: a text that each process knows, sealed with each first key of the tenant `default`; and
-- whether all payloads are encrypted. A store that is empty here takes any keys, also one that was encrypted before.
create table canaries (
    sealed text primary key,
    encrypts integer not null
) strict, without rowid;
