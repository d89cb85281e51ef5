-- The audit log says where it ends, and its entries may be signed. Nothing in it is changed or taken out: a hand that would has to
-- take these triggers away first.
alter table audit add column signature text not null default '';

create table audit_head (
    is_head integer primary key default 1 check (is_head = 1),
    number integer not null,
    hash text not null,
    signature text not null
) strict, without rowid;
insert into audit_head (number, hash, signature) select number, hash, '' from audit order by number desc limit 1;

create trigger audit_keeps_entries_unchanged before update on audit
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_keeps_entries before delete on audit
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_keeps_entries_in_place before insert on audit when exists (select 1 from audit where number = new.number)
begin select raise(abort, 'The audit log is insert-only.'); end;
