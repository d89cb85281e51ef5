-- With what cursors of lists are sealed that hide rows: one secret for all processes, so that a list goes on at any of them.
create table holdfast.cursor_keys (
    is_key boolean primary key default true check (is_key),
    secret text not null
);
insert into holdfast.cursor_keys (secret) values (gen_random_uuid()::text || gen_random_uuid()::text);
