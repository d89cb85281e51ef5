-- With which text the store has had each migration: one that was edited afterwards is noticed. Older code writes none.
alter table holdfast.migrations add column sha256 text;
