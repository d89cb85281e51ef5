"""Row-level security: which rows a read role sees, and whether a database keeps to that.

The role that works sees all rows by a policy of its own, for flush, sweep and leader carry the runs of all tenants. The read
role may select from the tables that are named here and from no others, and sees of these the rows of the tenant that its
transaction names, none where it names none. Every table is forced, so that its owner is bound by the policies too.
Never here: who asks for whom (service), setting the role (connection).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from holdfast.errors import StoreUnreadable, UsageError
from holdfast.stores.postgres.address import Address, expect_role
from holdfast.stores.postgres.connection import Connection, Connections
from holdfast.stores.postgres.schema import altered

_OWN: Final = "tenant = nullif(current_setting('holdfast.tenant', true), '')"
"""A setting that was set in an earlier transaction of a connection is an empty text afterwards, not nothing."""
_OF_OWN_RUN: Final = "exists (select from {{schema}}.runs where runs.run = {table}.run)"
"""The policy of `runs` holds in there too."""
_OF_OWN_PARENT: Final = "exists (select from {schema}.runs where runs.run = children.parent)"
_IN_OWN_HOME: Final = "exists (select from {schema}.blob_homes as home where home.sha256 = blobs.sha256)"
_OF_OWN_SCOPE: Final = (
    "split_part({column}, '/', case when starts_with({column}, 'tokens/') then 3 else 2 end)"
    " = nullif(current_setting('holdfast.tenant_in_scopes', true), '')"
    " and split_part({column}, '/', case when starts_with({column}, 'tokens/') then 2 else 1 end)"
    " in ('tenant', 'team', 'agent', 'conversation')"
)

GUARDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "runs",
                "archives",
                "blob_homes",
                "costs",
                "costs_by_hour",
                "extra_costs",
                "dead_letters",
                "records",
                "record_parts",
                "shared_values",
                "shared_entries",
                "api_keys",
                "audit",
                "evaluations",
                "sign_ins",
                "deliveries",
            ),
            _OWN,
        ),
        **{
            table: _OF_OWN_RUN.format(table=table)
            for table in (
                "events",
                "snapshots",
                "gates",
                "effects",
                "scores",
                "job_logs",
                "streams",
                "chunks",
                "waiters",
                "run_labels",
                "counted",
            )
        },
        "children": _OF_OWN_PARENT,
        "blobs": _IN_OWN_HOME,
        "scopes": _OF_OWN_SCOPE.format(column="scope"),
        "limits": _OF_OWN_SCOPE.format(column="family"),
        "audit_head": "false",  # it is of all tenants' entries
    }
)
"""What the read role sees of which table. All others are closed to it."""

WORK: Final = "holdfast_work"
TENANT: Final = "holdfast_tenant"
"""The policies."""

_ROLE: Final = """
select
    oid, rolsuper or rolbypassrls as sees_all,
    pg_has_role(oid, case when current_setting('server_version_num')::int < 160000 then 'MEMBER' else 'SET' end) as may_be_set
from pg_roles where rolname = $1
"""
_OWNERS: Final = "select distinct tableowner from pg_tables where schemaname = $1 and tablename = any($2::text[])"
_THERE: Final = "select rolname from pg_roles where rolname = any($1::text[])"
_STANDING: Final = f"""
select
    relname as table, relrowsecurity and relforcerowsecurity as is_forced,
    row_security_active(each.oid) and not exists (
        select from pg_policy, unnest(polroles) as role
        where polrelid = each.oid and polname = '{WORK}' and pg_has_role(role, 'USAGE')
    ) as is_blind,
    exists (
        select from pg_policy where polrelid = each.oid and polname = '{TENANT}' and polroles = array[$3::oid]
    ) and has_table_privilege($3::oid, each.oid, 'SELECT') as is_readable,
    exists (
        select from pg_policy, unnest(polroles) as role
        where polrelid = each.oid and polpermissive and polname <> '{TENANT}'
            and case role when 0 then true else pg_has_role($3::oid, role, 'USAGE') end
    ) as is_open
from pg_class as each join pg_namespace on pg_namespace.oid = relnamespace
where nspname = $1 and relname = any($2::text[]) order by relname
"""
"""Of each table: whether its policies bind its owner too, whether whoever asks is bound by them and no policy lets him work,
and of the read role whether it may see a tenant's rows, and whether some policy shows it more."""


async def guard(connections: Connections, read_role: str, work_roles: Collection[str]) -> list[str]:
    """Put the policies on the tables, in the place of the former ones: for `read_role`, and for those that work, the caller and
    the owner of the tables among them. Return those roles. Raises UsageError, StoreError."""
    for name in work_roles:
        expect_role(name)
    expect_role(read_role)
    return await altered(connections, lambda db: _guard(db, connections.address, read_role, work_roles))


async def _guard(db: Connection, address: Address, read_role: str, work_roles: Collection[str]) -> list[str]:
    owners = [row["tableowner"] for row in await db.fetch(_OWNERS, address.schema, [*GUARDED])]
    workers = sorted({await db.fetchval("select current_user"), *owners, *work_roles})
    there = {row["rolname"] for row in await db.fetch(_THERE, [*workers, read_role])}
    if missing := [name for name in (read_role, *workers) if name not in there]:
        raise UsageError(
            f"The role {missing[0]} does not exist in {address.shown}. Nothing was changed. Create it as a user that may create"
            f" roles (create role {missing[0]} nologin), and grant the read role to the roles that work (grant {read_role} to"
            " …)."
        )
    if (await db.fetchrow(_ROLE, read_role))["sees_all"]:
        raise UsageError(f"{_sees_all(read_role)} Nothing was changed.")
    for worker in workers:
        if await db.fetchval("select pg_has_role($1::name, $2::name, 'USAGE')", read_role, worker):
            raise UsageError(
                f"The role {read_role} has the rights of {worker}, which works and sees all rows. Nothing was changed. Name"
                f" another role, or remove it from that one (revoke {worker} from {read_role})."
            )
    schema, to = address.schema, ", ".join(map(_quoted, workers))
    await db.execute(f"revoke all on all tables in schema {schema} from {read_role}")
    await db.execute(f"grant usage on schema {schema} to {read_role}")
    for table, condition in GUARDED.items():
        name = f"{schema}.{table}"
        await db.execute(
            f"alter table {name} enable row level security;"
            f"alter table {name} force row level security;"
            f"drop policy if exists {WORK} on {name};"
            f"drop policy if exists {TENANT} on {name};"
            f"create policy {WORK} on {name} to {to} using (true) with check (true);"
            f"create policy {TENANT} on {name} for select to {read_role} using ({condition.format(schema=schema)});"
            f"grant select on {name} to {read_role}"
        )
    return workers


async def expect_kept(connections: Connections) -> None:
    """See that working roles see all rows, and that the read role of the store's URL, if it names one, sees those of one
    tenant. Raises StoreUnreadable."""
    address = connections.address
    where, again = f"the PostgreSQL store at {address.shown}", "Run `holdfast store guard` as the owner of the tables."
    async with connections.reading() as db:
        role = None if address.read_role is None else await db.fetchrow(_ROLE, address.read_role)
        tables = await db.fetch(_STANDING, address.schema, [*GUARDED], None if role is None else role["oid"])
    if blind := [row["table"] for row in tables if row["is_blind"]]:
        raise StoreUnreadable(
            f"Row-level security of {where} hides rows from this database user (table {blind[0]}), which works and must see all"
            " rows. Name its role when you guard the tables: `holdfast store guard READ_ROLE --work-role NAME`."
        )
    if address.read_role is None:
        return
    if role is None or not role["may_be_set"]:
        raise StoreUnreadable(
            f"The database user of {where} may not take the role {address.read_role}, with which it reads for tenants. Create"
            f" the role and grant it to this user (create role {address.read_role} nologin; grant {address.read_role} to …), or"
            " remove read_role= from the store's URL."
        )
    if role["sees_all"]:
        raise StoreUnreadable(_sees_all(address.read_role))
    for row in tables:
        if not (row["is_forced"] and row["is_readable"]) or row["is_open"]:
            how = "more than a tenant's rows" if row["is_open"] else "no rows, or is not restricted to a tenant's rows"
            raise StoreUnreadable(f"The role {address.read_role} sees {how} in table {row['table']} of {where}. {again}")


def _sees_all(role: str) -> str:
    return f"The role {role} is a superuser or has BYPASSRLS, so no policy restricts it."


def _quoted(role: str) -> str:
    """Return a role's name as the database has it: it may be anything."""
    return '"' + role.replace('"', '""') + '"'
