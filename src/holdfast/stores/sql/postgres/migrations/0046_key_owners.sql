-- Names of keys are their tenant's: a tenant cannot be told by one that another has it.
alter table holdfast.api_keys drop constraint api_keys_pkey;
create unique index api_keys_of_owner on holdfast.api_keys (coalesce(tenant, ''), name);
