-- Names of keys are their tenant's: a tenant cannot be told by one that another has it.
create table api_keys_by_owner (
    name text not null,
    hash text not null unique,
    tenant text,
    key text not null
) strict;
insert into api_keys_by_owner (name, hash, tenant, key) select name, hash, tenant, key from api_keys;
drop table api_keys;
alter table api_keys_by_owner rename to api_keys;
create unique index api_keys_of_owner on api_keys (coalesce(tenant, ''), name);
