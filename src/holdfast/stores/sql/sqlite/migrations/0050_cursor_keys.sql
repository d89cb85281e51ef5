-- With what cursors of lists are sealed that hide rows: one secret for all processes, so that a list goes on at any of them.
create table cursor_keys (
    is_key integer primary key default 1 check (is_key = 1),
    secret text not null
) strict, without rowid;
insert into cursor_keys (secret) values (lower(hex(randomblob(32))));
