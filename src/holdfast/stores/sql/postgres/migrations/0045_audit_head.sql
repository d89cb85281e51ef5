-- The audit log says where it ends, and its entries may be signed. Nothing in it is changed or taken out: the owner of the table would
-- have to take these triggers away first, and the role that works, where it is another, cannot.
alter table holdfast.audit add column signature text not null default '';

create table holdfast.audit_head (
    is_head boolean primary key default true check (is_head),
    number bigint not null,
    hash text not null,
    signature text not null
);
insert into holdfast.audit_head (number, hash, signature)
select number, hash, '' from holdfast.audit order by number desc limit 1;

create or replace function holdfast.keep_audit() returns trigger language plpgsql as $$
begin
    raise exception 'The audit log is insert-only.' using errcode = 'insufficient_privilege';
end
$$;
create trigger audit_keeps_entries before update or delete on holdfast.audit
for each row execute function holdfast.keep_audit();
create trigger audit_is_not_emptied before truncate on holdfast.audit
for each statement execute function holdfast.keep_audit();
