"""Names of submitted workflows are their tenant's: none stands for code, and none means anything for another tenant. A key hands
on no more than its maker holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast import Context, Engine, flow
from holdfast.core.values.access import Access
from holdfast.errors import Conflict, InvalidInput, KeyMissing, KeyReused, NotFound, NotPermitted
from holdfast.ports import ToDecide
from holdfast.service.access.identity import Identity, read_tokens
from holdfast.service.declarations import query
from holdfast.service.declarations.command import (
    Backfill,
    DeleteConversation,
    Fork,
    GrantApproval,
    MakeKey,
    MakeLink,
    OpenConversation,
    PauseSchedule,
    RemoveSchedule,
    RevokeKey,
    RotateKey,
    Say,
    SetSchedule,
    Start,
)
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.wire.submission import Submissions
from tests.engine.test_encryption import written
from tests.wire.test_refusals import private

ACME, GLOBEX = "acme", "globex"
MINUTE_MS = 60_000


@flow
async def quick(ctx: Context, given: Any) -> str:
    return "code"


@flow
async def hidden(ctx: Context, given: Any) -> str:
    return "code that nobody offers"


class World(NamedTuple):
    engine: Engine
    service: Service

    async def graph_of(self, run: Any) -> str:
        return (await self.engine.find(run)).graph_hash

    async def start(self, who: Principal, **what: Any) -> str:
        return await self.graph_of(await self.service.execute(who, Start(**what)))

    async def names(self, who: Principal) -> list[str]:
        return [row["workflow"] for row in (await self.service.query(who, query.Workflows())).rows]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[quick, hidden], yaml=True) as engine:
        take = Submissions("store", {}).take
        yield World(engine, Service(engine, [quick], take, has_shells_of=lambda tenant: tenant != "initech"))


def of(tenant: str, *may: Any, **access: Any) -> Principal:
    return Principal("ann", tenant, client="clients.ann", access=Access(may or ("admin",), **access))


def file(name: str, what: str) -> str:
    """One whose only job is skipped."""
    return f"name: {name}\njobs: {{{what}: {{if: '!inputs.x', runs-on: any, steps: [{{run: x}}]}}}}"


async def test_a_submitted_file_never_stands_for_code(world: World) -> None:
    for name in ("quick", "hidden"):
        with pytest.raises(Conflict, match="is the name of a workflow of this fleet"):
            await world.service.execute(of(GLOBEX), Start(yaml=file(name, "steal")))
    assert await world.start(of(ACME), workflow="quick") == quick.hash


async def test_code_that_comes_later_has_its_name(world: World) -> None:
    theirs = await world.start(of(GLOBEX), yaml=file("later", "a"), input={"x": True})

    @flow(name="later")
    async def later(ctx: Context, given: Any) -> str:
        return "code"

    await world.engine.runtime.catalog.add(later)
    for tenant in (ACME, GLOBEX):
        assert (await world.engine.workflow("later", tenant=tenant)).hash == later.hash != theirs
    with pytest.raises(Conflict, match="is the name of a workflow of this fleet"):
        await world.service.execute(of(GLOBEX), Start(yaml=file("later", "b")))


async def test_a_submitted_name_means_what_its_own_tenant_has_submitted(world: World) -> None:
    """Starts, schedules, conversations, forms and lists, whichever tenant was last."""
    theirs = await world.start(of(GLOBEX), yaml=file("build", "theirs"), input={"x": True})
    own = await world.start(of(ACME), yaml=file("build", "own"), input={"x": True})
    await world.start(of(GLOBEX), yaml=file("build", "theirs"), input={"x": True})
    assert own != theirs
    for tenant, meant in ((ACME, own), (GLOBEX, theirs)):
        who = of(tenant, "operator")
        assert await world.start(who, workflow="build", input={"x": True}) == meant
        ((row,), _) = await world.service.query(who, query.Workflow(name="build"))
        assert (row["graph_hash"], row["tenant"]) == (meant, tenant)
        assert await world.names(who) == ["build", "quick"]
        await world.service.execute(who, SetSchedule(name="nightly", workflow="build", cron="* * * * *", input={"x": True}))
        now_ms = world.engine.now_ms()
        past = Backfill("nightly", now_ms - 2 * MINUTE_MS, now_ms)
        runs = [row["run_id"] for row in (await world.service.execute(who, past)).rows]
        assert {await world.graph_of(run) for run in runs} == {meant}
    for asked in (
        Start(workflow="build"),
        SetSchedule(name="n", workflow="build", cron="* * * * *"),
        OpenConversation(name="n", workflow="build"),
    ):
        with pytest.raises(NotFound, match="There is no workflow 'build'"):
            await world.service.execute(of("initech"), asked)
    with pytest.raises(NotFound, match="There is no workflow 'build'"):
        await world.service.query(of("initech"), query.Workflow(name="build"))
    assert await world.names(of("initech")) == ["quick"]


async def test_a_tenant_submits_files_only_where_they_run_at_its_own_workers(world: World, tmp_path: Path) -> None:
    with pytest.raises(NotPermitted, match="takes no workflow files of the tenant 'initech'"):
        await world.service.execute(of("initech"), Start(yaml=file("build", "a")))
    own = f"[workers.acme]\ntoken = '{'w' * 32}'\ntenants = ['acme']\ntasks = "
    every = f"[workers.all]\ntoken = '{'e' * 32}'\ntenants = ['*']\ntasks = ['*']\n"
    for said, has in (
        (own + "['*']\n", True),
        (own + "['holdfast.shell']\n", True),
        (own + "['echo']\n", False),
        (own + "['*']\n" + every, False),
    ):
        (tmp_path / "tokens.toml").unlink(missing_ok=True)
        identity = Identity(tokens=read_tokens(private(tmp_path / "tokens.toml", said)))
        assert [identity.has_shells_of(tenant) for tenant in (ACME, GLOBEX)] == [has, False], said
    assert not Identity("one-token").has_shells_of(ACME)


async def test_a_key_reaches_no_workflow_that_its_maker_does_not(world: World) -> None:
    """However its pattern is spelled: what nobody offers is there for whom the fleet has named it, and nobody else."""
    await world.start(of(GLOBEX), yaml=file("globex-private", "a"), input={"x": True})
    for maker, seen in ((of(ACME), ["quick"]), (Principal("ops"), ["hidden", "quick"])):
        name = f"wide-{maker.tenant or 'ops'}"
        made = await world.service.execute(maker, MakeKey(name=name, may=("admin",), workflows=("hid*", "?*"), tenant=ACME))
        holder = await world.service.keys.holder(made["key"])
        assert holder is not None
        assert await world.names(holder.principal()) == seen
        for workflow in {"globex-private", "hidden"} - {*seen}:
            with pytest.raises(NotFound):
                await world.service.execute(holder.principal(), Start(workflow=workflow))
    named = of(ACME, workflows=("hidden",), unoffered=True)
    assert await world.start(named, workflow="hidden") == hidden.hash


async def test_a_key_is_in_the_hand_of_a_person_however_many_keys_are_between(world: World) -> None:
    """Four eyes and a quorum tell persons apart, and not their keys."""
    boss, other = (of(ACME)._replace(name=name) for name in ("boss", "other"))

    async def come_with(made: dict[str, Any]) -> Principal:
        holder = await world.service.keys.holder(made["key"])
        assert holder is not None
        return holder.principal()

    first = await come_with(await world.service.execute(boss, MakeKey(name="first", may=("admin",))))
    second = await come_with(await world.service.execute(first, MakeKey(name="second", may=("admin",))))
    as_zoe = second._replace(name="zoe")
    third = await come_with(await world.service.execute(as_zoe, MakeKey(name="third", may=("reviewer",))))
    assert [each.maker for each in (first, second, third)] == ["boss"] * 3
    await world.service.execute(other, MakeKey(name="theirs", may=("reviewer",)))
    rotated = await come_with(await world.service.execute(second, RotateKey("theirs")))
    assert (rotated.name, rotated.maker) == ("keys.theirs", "boss")
    link = await world.service.keys.link(second, ACME, ToDecide("run:gate", "hash", "ida"), 60)
    opened = await world.service.keys.opened(link["link"])
    assert opened is not None
    assert opened.maker == "boss"


async def test_a_program_that_acts_for_no_person_is_no_person_who_has_a_key_in_hand(world: World) -> None:
    """What it makes is in the hand of the key itself; what it makes for somebody in theirs."""
    ci, tell = Principal("clients.ci", ACME, client="clients.ci"), world.service.execute

    async def maker(made: dict[str, Any]) -> str | None:
        holder = await world.service.keys.holder(made["key"])
        assert holder is not None
        return holder.principal().maker

    for who, of_key in ((ci, "keys.bot"), (ci._replace(name="zoe"), "zoe"), (of(ACME)._replace(name="eve"), "eve")):
        assert await maker(await tell(who, MakeKey(name=of_key.removeprefix("keys.")))) == of_key
    first = await world.service.keys.holder((await tell(ci, MakeKey(name="first", may=("admin",))))["key"])
    assert first is not None
    assert await maker(await tell(first.principal(), MakeKey(name="second"))) == "keys.first"
    assert await maker(await tell(ci, RotateKey("zoe"))) == "keys.zoe"
    opens = ToDecide("run:gate", "hash", "ida")
    for who, of_link in ((ci, None), (first.principal(), "keys.first")):
        opened = await world.service.keys.opened((await world.service.keys.link(who, ACME, opens, 60))["link"])
        assert opened is not None
        assert opened.maker == of_link


async def test_who_made_a_link_takes_it_back_and_no_other(world: World) -> None:
    """An admin takes back any; others no key, and no link of others."""
    tell, keys = world.service.execute, world.service.keys
    run = await world.engine.start(quick, 1, tenant=ACME)
    await tell(of(ACME), MakeKey(name="bot"))
    ida = of(ACME, "operator", workflows=("quick",), tools=())._replace(client="ida", name="ida", is_person=True)
    for who in (ida, of(ACME, "operator")):
        made = await tell(who, MakeLink(run.id, "go"))
        others = (
            of(ACME, "reviewer")._replace(name="bob", client="clients.bob"),
            who._replace(client="clients.other"),
            who._replace(name="ida", client="keys.x", maker="ida", is_person=False),
            who._replace(tenant=GLOBEX),
            who._replace(access=Access(("operator",), ("other",))),
        )
        for other in others:
            with pytest.raises(NotFound, match="There is no key"):
                await tell(other, RevokeKey(made["name"]))
        with pytest.raises(NotFound, match="There is no key 'bot'"):
            await tell(who, RevokeKey("bot"))
        assert (await tell(who, RevokeKey(made["name"])))["revoked_at"] is not None
        opened = await keys.opened(made["link"])
        assert opened is not None
        assert opened.revoked_at_ms is not None
        again = await tell(who, MakeLink(run.id, "go"))
        await tell(of(ACME)._replace(name="boss"), RevokeKey(again["name"]))


async def test_a_key_hands_on_no_more_than_its_maker_holds(world: World) -> None:
    tell = world.service.execute
    await tell(of(ACME), MakeKey(name="all", may=("admin",)))
    await tell(of(ACME), MakeKey(name="part", may=("operator",), workflows=("quick",), tools=("mail_*",)))
    part = of(ACME, workflows=("quick",), tools=("mail_*",))
    for wider in (
        MakeKey(name="x"),
        MakeKey(name="x", workflows=("*",), tools=("mail_*",)),
        MakeKey(name="x", workflows=("quick",)),
        MakeKey(name="x", workflows=("quick",), tools=("pay",)),
    ):
        with pytest.raises(NotPermitted, match="grants no more"):
            await tell(part, wider)
    for deed in (RotateKey("all"), RevokeKey("all")):
        with pytest.raises(NotFound, match="There is no key 'all'"):
            await tell(part, deed)
    assert (await tell(part, RotateKey("part")))["key"].startswith("hfk_")
    with pytest.raises(NotPermitted, match="has no say about the tool"):
        await tell(of(ACME, workflows=("quick",), tools=("pay",)), RotateKey("part"))
    with pytest.raises(NotPermitted, match="has no say about the tool 'pay'"):
        await tell(part, GrantApproval(tool="pay", for_s=60, workflow="quick"))


async def test_a_key_acts_in_no_role_that_its_maker_has_not(world: World) -> None:
    """At creation, rotation and links; and neither does it say that somebody for whom it speaks acts in one."""
    tell, ops = world.service.execute, Principal("ops")
    ann = Principal("ann", ACME, ("legal",), client="ann", teams=("ops",), is_person=True, vouches=False)
    app = Principal("clients.app", ACME, ("legal",), client="clients.app")
    for who in (ann, app):
        for wider in (MakeKey(name="x", roles=("finance",)), MakeKey(name="x", teams=("legal", "finance"))):
            with pytest.raises(NotPermitted, match="does not act in the role 'finance'"):
                await tell(who, wider)
    made = await tell(ann, MakeKey(name="hers", may=("reviewer",), roles=("legal",), teams=("ops",)))
    hers, theirs = [
        await world.service.keys.holder(each["key"])
        for each in (made, await tell(app, MakeKey(name="theirs", may=("reviewer",))))
    ]
    assert hers is not None
    assert theirs is not None
    assert hers.principal("zoe", ("legal",)).acts_as == ("legal", "ops")
    with pytest.raises(NotPermitted, match="does not act in the role 'finance'"):
        hers.principal("zoe", ("finance",))
    assert theirs.principal("zoe", ("finance",)).acts_as == ("finance",), "a program says so of its users"
    with pytest.raises(NotPermitted, match="says in which roles others decide"):
        await tell(ann, RotateKey("theirs"))
    await tell(ops, MakeKey(name="fin", roles=("finance",), tenant=ACME))
    await tell(ops, MakeKey(name="reads", tenant=ACME))
    for who in (ann, app):
        with pytest.raises(NotPermitted, match="does not act in the role 'finance'"):
            await tell(who, RotateKey("fin"))
        await tell(who, RevokeKey("fin"))
        await tell(who, RotateKey("reads"))


async def test_a_principal_of_all_workflows_deletes_a_schedule_without_its_tenants_key(tmp_path: Path) -> None:
    store, keys = str(tmp_path / "runs.db"), tmp_path / "keys.toml"
    async with Engine.open(store, workflows=[quick], settings=written(keys, "default", ACME)) as engine:
        for name in ("nightly", "weekly"):
            await engine.set_schedule(name, quick, "0 3 * * *", tenant=ACME)
    async with Engine.open(store, workflows=[quick], settings=written(keys, "default")) as engine:
        service = Service(engine, [quick])
        for who in (of(GLOBEX), of(ACME, workflows=("quick",))):
            with pytest.raises(NotFound, match="There is no schedule 'nightly'"):
                await service.execute(who, RemoveSchedule("nightly"))
        with pytest.raises(KeyMissing):
            await service.execute(of(ACME), PauseSchedule("nightly"))
        await service.execute(of(ACME, "operator"), RemoveSchedule("nightly"))
        await service.execute(Principal("ops"), RemoveSchedule("weekly", ACME))
        with pytest.raises(NotFound, match="There is no schedule 'nightly'"):
            await service.execute(of(ACME), RemoveSchedule("nightly"))


async def test_the_name_of_a_key_tells_nothing_of_other_tenants_and_means_its_own_tenant_s(world: World) -> None:
    tell, ops, acme, globex = world.service.execute, Principal("ops"), of(ACME), of("globex")
    theirs = await tell(acme, MakeKey(name="shop"))
    mine = await tell(globex, MakeKey(name="shop"))
    with pytest.raises(Conflict, match="There is a key 'shop'"):
        await tell(globex, MakeKey(name="shop"))
    again = await tell(globex, RotateKey("shop"))
    with pytest.raises(InvalidInput, match="Several tenants have a key 'shop'"):
        await tell(ops, RevokeKey("shop"))
    assert await world.service.keys.holder(theirs["key"]) is not None
    await tell(ops, RevokeKey("shop", tenant=ACME))
    known = [await world.service.keys.holder(each["key"]) for each in (theirs, mine, again)]
    assert [each and each.tenant for each in known] == [None, None, "globex"]
    with pytest.raises(NotPermitted):
        await tell(acme, RotateKey("shop", tenant="globex"))
    await tell(ops, MakeKey(name="fleet"))
    for asked in (RotateKey("fleet"), RevokeKey("fleet")):
        with pytest.raises(NotFound, match="There is no key 'fleet'"):
            await tell(acme, asked)
    with pytest.raises(Conflict):
        await tell(acme, MakeKey(name="fleet"))
    pages = [await world.service.query(ops, query.Keys(limit=2))]
    pages.append(await world.service.query(ops, query.Keys(limit=2, cursor=pages[0].cursor)))
    assert [(row["name"], row["tenant"]) for page in pages for row in page.rows] == [
        ("fleet", None),
        ("shop", ACME),
        ("shop", "globex"),
    ]


async def test_a_key_is_rotated_only_by_who_could_make_it(world: World) -> None:
    """Patterns are compared by all that fits them, and code that no server offers is there for whom the fleet has named it."""
    tell, admin = world.service.execute, of(ACME)
    await tell(Principal("ops"), MakeKey(name="opskey", may=("operator",), workflows=("hidden",), tenant=ACME))
    for who, reaches in ((of(ACME, unoffered=True), True), (admin, False), (of(ACME, unoffered=True), False)):
        holder = await world.service.keys.holder((await tell(who, RotateKey("opskey")))["key"])
        assert holder is not None
        assert world.service.permission.is_startable(holder.principal(), "hidden") is reaches
    part = of(ACME, workflows=("qu???", "mail_*"), tools=("mail_*",))
    for name, workflows in (("star", ("quic*",)), ("other", ("qu*??",)), ("two", ("qui*?", "quick")), ("all", ("*",))):
        made = MakeKey(name=name, may=("operator",), workflows=workflows, tools=("mail_*",))
        with pytest.raises(NotPermitted, match="grants no more"):
            await tell(part, made)
        await tell(admin, made)
        for deed in (RotateKey(name), RevokeKey(name)):
            with pytest.raises(NotFound, match="There is no key"):
                await tell(part, deed)
    await tell(part, MakeKey(name="own", may=("operator",), workflows=("quick", "mail_out_*"), tools=("mail_out",)))
    assert (await tell(part, RotateKey("own")))["key"].startswith("hfk_")
    assert [row["name"] for row in (await world.service.query(part, query.Keys())).rows] == ["own"]
    with pytest.raises(NotPermitted, match="has no say about the tool"):
        await tell(of(ACME, workflows=part.access.workflows, tools=("mail_?",)), RotateKey("own"))


async def test_a_private_thread_is_no_program_s_that_speaks_for_its_owner(world: World) -> None:
    """Nor the owner's where a program has opened it in their name, nor any other program's."""
    may = Access(("operator",))
    ann = Principal("ann", ACME, client="ann", access=may, is_person=True)
    app, key = (ann._replace(client=client, is_person=False) for client in ("clients.app", "keys.k"))
    await world.service.execute(ann, OpenConversation(name="hers", workflow="quick"), private=True)
    await world.service.execute(app, OpenConversation(name="of-app", workflow="quick"), private=True)
    for own, others, thread in ((ann, (app, key, ann._replace(name="bob", client="bob")), "hers"), (app, (ann, key), "of-app")):
        for other in others:
            for asked in (query.Conversation(name=thread), query.Conversations()):
                with suppress(NotFound):
                    assert thread not in [row["name"] for row in (await world.service.query(other, asked)).rows]
            for deed in (DeleteConversation(thread), Say(conversation=thread, text="x")):
                with pytest.raises(NotFound, match="There is no conversation"):
                    await world.service.execute(other, deed)
        assert (await world.service.query(own, query.Conversation(name=thread))).rows[0]["private"]
        assert [row["name"] for row in (await world.service.query(own, query.Conversations())).rows] == [thread]
        assert (await world.service.query(Principal("ops"), query.Conversation(name=thread, tenant=ACME))).rows
    await world.service.execute(ann, DeleteConversation("hers"))


async def test_a_start_key_tells_nothing_of_a_run_that_its_caller_does_not_reach(world: World) -> None:
    run = await world.service.execute(of(ACME), Start(workflow="quick", input=1, key="k"))
    await world.engine.run(str(run)).result()
    others = of(ACME, "operator", workflows=("hidden",), unoffered=True)
    theirs = await world.service.execute(others, Start(workflow="hidden", input=2))
    await world.engine.run(str(theirs)).result()
    for deed in (Start(workflow="hidden", input=1, key="k"), Fork(run=str(theirs), step="flow#1", key="k")):
        with pytest.raises(KeyReused) as refused:
            await world.service.execute(others, deed)
        assert str(run) not in refused.value.message


@pytest.mark.parametrize("pattern", ["*", "**", "?*", "*?", "[!x]*", "*d*", "*en"])
async def test_a_pattern_that_begins_with_any_letter_names_no_code(world: World, pattern: str) -> None:
    """Code that no server offers is there for whom it was named, however a pattern for anything is spelled."""
    theirs = of(ACME, "operator", workflows=(pattern, "hid*"), unoffered=True)
    assert await world.service.execute(theirs, Start(workflow="hidden", input=1))
    anything = of(ACME, "operator", workflows=(pattern,), unoffered=True)
    with pytest.raises(NotFound, match="There is no workflow 'hidden'"):
        await world.service.execute(anything, Start(workflow="hidden", input=1))
    assert "hidden" in await world.names(theirs)
    assert "hidden" not in await world.names(anything)
