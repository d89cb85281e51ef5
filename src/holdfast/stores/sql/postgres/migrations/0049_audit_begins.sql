-- The audit log has a head before its first entry, and it moves forward only: where there is none, it was taken away.
insert into holdfast.audit_head (number, hash, signature)
select 0, repeat('0', 64), '' where not exists (select from holdfast.audit_head);

create trigger audit_keeps_its_head before delete on holdfast.audit_head
for each row execute function holdfast.keep_audit();
create trigger audit_head_moves_forward before update on holdfast.audit_head
for each row when (new.number <= old.number) execute function holdfast.keep_audit();
create trigger audit_head_is_not_emptied before truncate on holdfast.audit_head
for each statement execute function holdfast.keep_audit();
