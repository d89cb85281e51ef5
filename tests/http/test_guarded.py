"""Row-level security beneath a service: with its filters taken away, the database still shows one tenant's rows only.

Who works on the store here is no superuser, who would see everything whatever the policies say.
"""

from __future__ import annotations

import asyncio
import json
import re

import asyncpg
import pytest

from holdfast.errors import NotFound, StoreError, StoreUnreadable, TooMuch, UsageError
from holdfast.http.route import ROUTES
from holdfast.service.access.identity import Holder
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.stores.postgres import PostgresAdministration, PostgresStore, connection
from holdfast.stores.postgres.connection import Connections
from holdfast.stores.postgres.guard import GUARDED
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import say
from tests.http.kit import MAX_S, Asked, Port, known, served
from tests.http.test_tenants import ACME, GLOBEX, OPS, filled, path_of
from tests.stores.story import MONTH, Story, put

WORKER, READER = "holdfast_worker", "holdfast_reader"
ROLES = (
    f"do $$ begin if to_regrole('{WORKER}') is null then"
    f" create role {WORKER} login; create role {READER} nologin; grant {READER} to {WORKER};"
    " end if; end $$"
)
EVERYBODYS = ("/queue", "/workflows", "/pools", "/workers")
LISTS = {
    "/runs",
    "/runs/{parent}/children",
    "/scores",
    "/gates",
    "/effects",
    "/dead-letters",
    "/dead-letters/summary",
    "/conversations",
    "/conversations/{name}",
    "/schedules",
    "/schedules/{name}",
    "/state",
    "/state/{space}/{key}",
    "/costs",
    "/team-budgets",
    "/team-budgets/{name}",
    "/approvals",
    "/approvals/{approval}",
    "/supervisors",
    "/supervisors/{name}",
    "/budgets",
    "/budgets/days",
    "/budgets/burn-down",
    "/budgets/limits",
    "/admission",
    "/events",
    "/keys",
    "/audit",
    "/evals",
    "/evals/versions",
}
"""What a tenant may ask for that is not about one run of its own."""


@pytest.fixture
async def unguarded(postgres: PostgresServer, new_database: str) -> str:
    """A store whose tables the role that works has made."""
    say(postgres, f"{ROLES}; grant create on database postgres to {WORKER}")
    url = new_database.replace("//postgres@", f"//{WORKER}@")
    await (await PostgresStore.connect(url)).aclose()
    return url


@pytest.fixture
async def guarded(unguarded: str) -> str:
    """The same as a service has it that reads for tenants."""
    await guard(unguarded)
    return f"{unguarded}&read_role={READER}"


async def guard(url: str, *workers: str) -> list[str]:
    administration = await PostgresAdministration.connect(url)
    try:
        return [*await administration.guard(READER, workers)]
    finally:
        await administration.aclose()


async def of_acme(store: PostgresStore) -> Story:
    """A run that has ended, with something in most tables."""
    story = Story(tenant=ACME)
    await put(store, *story.whole())
    return story


# --- A service without its filters ------------------------------------------------------------------------------------


THEIRS = "7919"
"""The other tenant's limits: figures that stand in no date."""


class Blind(str):
    """A tenant's name that equals any other: whoever has it passes every comparison."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False


BLIND = known(
    acme=Holder("clients.acme", tenant=Blind(ACME)),
    globex=Holder("clients.globex", tenant=GLOBEX),
    opsops=Holder("clients.ops"),
)


def without_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comparison of tenants that is left holds for a `Blind`, and a list is of whom it is asked for, or of all."""
    monkeypatch.setattr(Principal, "of_tenant", lambda _, asked: asked)
    monkeypatch.setattr(Service, "_record", lambda *_: asyncio.sleep(0))  # such a name is no text that could be written down


async def something_of_everything(postgres: PostgresServer, url: str, port: Port, globex: Asked, ops: Asked) -> dict[str, str]:
    """What another tenant has, by the names that paths have for it."""
    theirs = await filled(globex, port.engine)
    await globex.post("/keys", {"name": "theirs"})
    await ops.post("/budgets", {"tenant": GLOBEX, "period": "day", "limit_usd": THEIRS})
    await ops.post("/admission", {"tenant": GLOBEX, "runs": int(THEIRS)})
    schema = url.partition("schema=")[2].partition("&")[0]
    run = theirs["run"]
    say(postgres, f"insert into {schema}.costs values ('2026-11-24', '{GLOBEX}', 'order', 'price', 'm', 1, 1, 1, 1)")
    say(postgres, f"insert into {schema}.children values (gen_random_uuid(), '{run}', '{run}', 'requested', 0, 0, 0)")
    say(postgres, f"update {schema}.children set child = '{theirs['broken']}'")
    say(
        postgres,
        f"insert into {schema}.effects (call, run, step, tool, policy, effect_key, request, intended_at_ms, state)"
        f" values ('{run}/call', '{run}', 'price#1', 'pay', 'once', 'k', '{{\"json\": 1}}', 0, 'intended')",
    )
    return theirs


async def leaking(acme: Asked, theirs: dict[str, str]) -> set[str]:
    """The queries that tell a client of a tenant that has nothing of what another has: of all there is, and of the other's
    things by their names."""
    found = set()
    for route in ROUTES:
        if route.method != "GET" or route.path.startswith(EVERYBODYS):
            continue
        whom = ({"tenant": GLOBEX}, {}) if "tenant" in route.elsewhere else ({},)
        for tenant in whom:
            said = tenant | ({"map": "x"} if "map" in route.elsewhere else {})
            answer = await acme.http.get(path_of(route, theirs), params=said)
            assert answer.status_code in (200, 400, 404, 422), (route.path, answer.text)
            told = answer.json()
            if answer.status_code != 200 or (
                route.path in ("/budgets", "/budgets/days", "/budgets/burn-down", "/admission") and THEIRS not in answer.text
            ):
                continue
            if [row for row in told.get("rows", [told]) if row.get("tenant") != ACME]:
                found.add(route.path)
    bulk = await acme.post("/runs/bulk", {"action": "cancel", "dry_run": True})
    return found | ({"/runs/bulk"} if theirs["run"] in json.dumps(bulk) else set())


async def test_a_service_whose_filters_are_gone_tells_nothing_of_another_tenant(
    postgres: PostgresServer, guarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        served(guarded, BLIND) as port,
        port.asked(GLOBEX * 4) as globex,
        port.asked(ACME * 4) as acme,
        port.asked(OPS * 4) as ops,
    ):
        theirs = await something_of_everything(postgres, guarded, port, globex, ops)
        without_filters(monkeypatch)
        assert await leaking(acme, theirs) == set()
        for path in ("/runs", "/gates", "/events", "/state", "/schedules", "/conversations", "/dead-letters"):
            assert await globex.rows(path, limit=1000) if path != "/events" else (await globex.get(path))["rows"], path
            assert (await ops.get(path))["rows"], path
        for part in ("events", "stream"):
            headers = {"accept": "text/event-stream", "last_event_id": "1"}
            assert await acme.refused("GET", f"/runs/{theirs['run']}/{part}", **headers) == (404, "not_found")
        for deed in ("pause", "cancel", "retry"):
            assert await acme.refused("POST", f"/runs/{theirs['run']}/{deed}") == (404, "not_found")
        assert (await acme.post("/runs/bulk", {"action": "cancel"}))["rows"] == []
        assert (await globex.get(f"/runs/{theirs['run']}"))["status"] == "waiting"


async def test_without_policies_each_of_these_lists_would_tell(
    postgres: PostgresServer, unguarded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test before would find: where nothing leaks here, it would show nothing."""
    async with (
        served(unguarded, BLIND) as port,
        port.asked(GLOBEX * 4) as globex,
        port.asked(ACME * 4) as acme,
        port.asked(OPS * 4) as ops,
    ):
        theirs = await something_of_everything(postgres, unguarded, port, globex, ops)
        without_filters(monkeypatch)
        leaks = await leaking(acme, theirs)
        assert leaks >= LISTS | {"/runs/bulk", "/runs/{run}", "/runs/{run}/events", "/gates/{gate}", "/evals/{evaluation}"}, (
            LISTS - leaks
        )


async def test_a_tenant_sees_all_that_is_its_own(postgres: PostgresServer, guarded: str) -> None:
    plain = guarded.partition("&")[0]
    async with (
        served(guarded, BLIND) as port,
        served(plain, BLIND, execute=False) as other,
        port.asked(GLOBEX * 4) as globex,
        port.asked(OPS * 4) as ops,
        other.asked(GLOBEX * 4) as same,
    ):
        theirs = await something_of_everything(postgres, guarded, port, globex, ops)
        for route in (each for each in ROUTES if each.method == "GET" and not each.path.startswith(EVERYBODYS)):
            said = {"map": "x"} if "map" in route.elsewhere else {}
            said |= {"tenant": GLOBEX} if "tenant" in route.elsewhere else {}
            answers = [await each.http.get(path_of(route, theirs), params=said) for each in (globex, same)]
            told, meant = (re.sub(r'"(trace_id|cursor|age_s|oldest_open_s)":[^,}]*', "", each.text) for each in answers)
            assert (answers[0].status_code, told) == (answers[1].status_code, meant), route.path
        assert (await globex.get("/queue", run=theirs["run"]))["rows"] == []
        asked = {"action": "fork", "step": "do#1", "workflow": "quick", "status": ["completed"]}
        assert [row["refused"] for row in (await globex.post("/runs/bulk", asked))["rows"]] == [None]
        assert len((await globex.post("/runs/bulk", {"action": "cancel"}))["rows"]) == 2
        assert (await globex.get(f"/runs/{theirs['run']}"))["status"] == "cancelled"


# --- The role ---------------------------------------------------------------------------------------------------------


async def test_the_role_sees_nothing_where_no_tenant_is_named_and_no_other_table_ever(
    postgres: PostgresServer, guarded: str
) -> None:
    schema = guarded.partition("schema=")[2].partition("&")[0]
    store = await PostgresStore.connect(guarded)
    await of_acme(store)
    await store.aclose()
    tables = set(
        say(
            postgres, f"select relname from pg_class where relnamespace = '{schema}'::regnamespace and relkind in ('r', 'p')"
        ).split()
    )
    assert tables > set(GUARDED)
    db = await asyncpg.connect(guarded.partition("?")[0])
    shown: set[str] = set()
    for table in tables:
        for named in ("", "set local holdfast.tenant = 'acme';", "set local holdfast.tenant = 'globex';"):
            await db.execute(f"begin; set local role {READER}; {named}")
            try:
                seen = await db.fetchval(f"select count(*) from {schema}.{table}")
                assert table in GUARDED, table
                assert seen == 0 or "acme" in named, (table, named)
                shown |= {table} if seen else set()
            except asyncpg.InsufficientPrivilegeError:
                assert table not in GUARDED
            await db.execute("rollback")
    assert shown >= {"runs", "events", "gates", "effects"}
    assert await db.fetchval(f"select count(*) from {schema}.runs") == 1, "who works sees all of them, and no setting stays"
    await db.close()


async def test_a_connection_comes_back_as_it_was_whatever_became_of_the_reading(guarded: str) -> None:
    store = await PostgresStore.connect(guarded, connections=6)
    whole = store.context.connections
    acme = whole.of_tenant("acme")

    async def standing(of: Connections) -> tuple[str, str]:
        ((role, tenant),) = await of.fetch("select current_user, coalesce(current_setting('holdfast.tenant', true), '')")
        return role, tenant

    reading = asyncio.ensure_future(acme.fetch("select pg_sleep(60)"))
    for _ in range(4):
        assert await standing(acme) == (READER, "acme")
        assert await standing(whole.of_tenant("o'acme; \\")) == (READER, "o'acme; \\")
        with pytest.raises(StoreError):
            await acme.fetch("select 1 / 0")
        with pytest.raises(StoreError, match="permission denied"):
            await acme.fetch("select * from pg_authid")
        with pytest.raises(StoreError, match="writes nothing"):
            await acme.execute("select 1")
        assert await standing(whole) == (WORKER, "")
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert [await standing(whole) for _ in range(4)] == [(WORKER, "")] * 4
    await store.aclose()


@pytest.mark.parametrize("of", ["acme", None], ids=["a tenant", "all"])
async def test_what_is_called_off_as_it_begins_is_not_gone_on_with_by_others(
    guarded: str, monkeypatch: pytest.MonkeyPatch, of: str | None
) -> None:
    store = await PostgresStore.connect(guarded)
    whole = store.context.connections
    words = f"{connection.BEGIN}; set local role {READER}; select pg_sleep(60)"

    async def read() -> None:
        if of is not None:
            monkeypatch.setattr(connection, "BEGIN", words)
            await whole.of_tenant(of).fetch("select 1")
        async with whole.acquire() as db, connection.transaction(db, words):
            pass

    reading = asyncio.ensure_future(read())
    async with asyncio.timeout(MAX_S):
        while not await whole.value("select count(*) from pg_stat_activity where wait_event = 'PgSleep'"):
            await asyncio.sleep(0.005)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert [await whole.value("select current_user") for _ in range(4)] == [WORKER] * 4
    await store.aclose()


SLEEPS = "select pg_sleep(60)"
IN_A_ROLE = pytest.mark.parametrize("role", [READER, None], ids=["role", "no role"])


@IN_A_ROLE
async def test_reads_of_a_tenant_leave_connections_for_those_of_others(guarded: str, role: str | None) -> None:
    store = await PostgresStore.connect(guarded if role else guarded.partition("&read_role")[0], connections=6)
    whole = store.context.connections
    of = {name: whole.of_tenant(name) for name in ("acme", "globex", None)}
    slow = [asyncio.ensure_future(of["acme"].fetch(SLEEPS)) for _ in range(8)]
    async with asyncio.timeout(MAX_S):
        while whole.reads.held_by(()) < 2:
            await asyncio.sleep(0.005)
        assert await of["globex"].value("select 1") == await of[None].value("select 1") == await whole.value("select 1")
        assert whole.reads.held_by(("acme",)) == 2
    for each in slow:
        each.cancel()
    await asyncio.wait(slow)
    assert whole.reads.held_by(()) == 0
    await store.aclose()


@IN_A_ROLE
async def test_a_slow_read_is_ended_at_the_database_and_costs_no_other_connection(
    guarded: str, role: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = f"{SLEEPS} -- {role}"
    store = await PostgresStore.connect(guarded if role else guarded.partition("&read_role")[0])
    whole = store.context.connections
    async with whole.reading() as db:
        before = await db.fetchval("select pg_backend_pid()")
        monkeypatch.setattr(connection, "READ_S", 0.2)
        with pytest.raises(TooMuch, match=r"took longer than 0\.2 s to find"):
            await whole.of_tenant("acme").fetch(sleeps)
        async with asyncio.timeout(MAX_S):
            while await db.fetchval("select count(*) from pg_stat_activity where state = 'active' and query = $1", sleeps):
                await asyncio.sleep(0.05)
    assert await whole.value("select pg_backend_pid()") == before
    await store.aclose()


async def test_a_pooler_lends_no_connection_with_another_s_tenant(
    postgres: PostgresServer, pooled_database: str, database: str
) -> None:
    """Behind it the connections of many are one; the superuser who works there is bound in the other role too."""
    await (await PostgresStore.connect(database)).aclose()
    say(postgres, ROLES)
    await guard(pooled_database)
    store = await PostgresStore.connect(f"{pooled_database}&read_role={READER}")
    await of_acme(store)
    tenants = ["acme", "globex"] * 10
    seen = await asyncio.gather(*(store.of_tenant(tenant).views.runs() for tenant in tenants))
    assert [len(rows) for rows in seen] == [1, 0] * 10
    assert len(await store.views.runs()) == 1
    await store.aclose()


async def test_what_works_goes_on_and_what_was_archived_is_read_by_its_own_tenant_only(guarded: str) -> None:
    store = await PostgresStore.connect(guarded)
    story = await of_acme(store)
    administration = await PostgresAdministration.connect(guarded)
    await administration.archive(MONTH)
    await store.upkeep.maintain()
    assert [*await store.of_tenant("acme").log.events(story.run)] == story.history
    assert [*await store.of_tenant("globex").log.events(story.run)] == []
    with pytest.raises(StoreError, match="writes nothing"):
        await store.of_tenant("globex").of_tenant("acme").views.runs()
    await administration.prune("2023-12")
    with pytest.raises(NotFound, match="removed for good"):
        await store.of_tenant("acme").log.events(story.run)
    await administration.aclose()
    await store.aclose()


async def test_a_dump_by_the_owner_of_guarded_tables_has_every_row(postgres: PostgresServer, guarded: str) -> None:
    store = await PostgresStore.connect(guarded)
    story = await of_acme(store)
    await store.aclose()
    dsn, _, words = guarded.partition("?")
    schema = words.partition("schema=")[2].partition("&")[0]
    dump = postgres.run("pg_dump", "--enable-row-security", f"--schema={schema}", f"--dbname={dsn}")
    assert story.run in dump


# --- What is refused --------------------------------------------------------------------------------------------------


async def test_a_store_that_is_not_guarded_as_it_says_is_not_opened(postgres: PostgresServer, guarded: str) -> None:
    schema = guarded.partition("schema=")[2].partition("&")[0]
    plain = guarded.partition("&")[0]
    say(
        postgres,
        f"do $$ begin if to_regrole('{WORKER}_2') is null then create role {WORKER}_2 login; end if; end $$;"
        f"grant usage on schema {schema} to {WORKER}_2; grant all on all tables in schema {schema} to {WORKER}_2",
    )
    spoilt = {
        f"drop policy holdfast_tenant on {schema}.gates": "sees no rows.*gates",
        f"alter table {schema}.events no force row level security": "not restricted to.*events",
        f"alter table {schema}.scores disable row level security": "not restricted to.*scores",
        f"create policy easy on {schema}.runs using (true)": "sees more than a tenant's rows in table runs",
        f"revoke select on {schema}.costs from {READER}": "sees no rows.*costs",
    }
    for spoils, says in spoilt.items():
        say(postgres, spoils)
        with pytest.raises(StoreUnreadable, match=says):
            await PostgresStore.connect(guarded)
        say(postgres, f"drop policy if exists easy on {schema}.runs")
        await guard(plain)
        await (await PostgresStore.connect(guarded)).aclose()
    with pytest.raises(StoreUnreadable, match="hides rows from this database user"):
        await PostgresStore.connect(plain.replace(WORKER, f"{WORKER}_2"))
    assert await guard(plain, f"{WORKER}_2") == [WORKER, f"{WORKER}_2"]
    await (await PostgresStore.connect(plain.replace(WORKER, f"{WORKER}_2"))).aclose()
    with pytest.raises(StoreUnreadable, match=f"may not take the role {READER}"):
        await PostgresStore.connect(guarded.replace(f"//{WORKER}@", f"//{WORKER}_2@"))
    with pytest.raises(StoreUnreadable, match="may not take the role nobody_s"):
        await PostgresStore.connect(f"{plain}&read_role=nobody_s")
    with pytest.raises(UsageError, match="no name of a role"):
        await PostgresStore.connect(f"{plain}&read_role=x;drop")


async def test_a_role_that_would_see_all_is_no_read_role(postgres: PostgresServer, unguarded: str) -> None:
    administration = await PostgresAdministration.connect(unguarded)
    for role, says in {"postgres": "superuser", "nobody_s": "create role nobody_s", WORKER: "has the rights of"}.items():
        with pytest.raises(UsageError, match=says):
            await administration.guard(role, [])
    await administration.aclose()
    with pytest.raises(StoreUnreadable, match="sees no rows, or is not restricted"):
        await PostgresStore.connect(f"{unguarded}&read_role={READER}")
    await (await PostgresStore.connect(unguarded)).aclose()
