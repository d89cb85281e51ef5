-- The audit log has a head before its first entry, and it moves forward only: where there is none, it was taken away.
insert into audit_head (number, hash, signature)
select 0, '0000000000000000000000000000000000000000000000000000000000000000', ''
where not exists (select 1 from audit_head);

create trigger audit_keeps_its_head before delete on audit_head
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_head_moves_forward before update on audit_head when new.number <= old.number
begin select raise(abort, 'The audit log is insert-only.'); end;
create trigger audit_head_is_not_put_back before insert on audit_head
when exists (select 1 from audit_head where number >= new.number)
begin select raise(abort, 'The audit log is insert-only.'); end;
