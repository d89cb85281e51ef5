"""Skills: which folders are some, what a model is told of them, and what they can never give it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, Workflow, flow, llm_node, tool
from holdfast.authoring.agents import skill as skills
from holdfast.authoring.agents.skill import Skill, introduced, tools_of
from holdfast.core.facts.events import EffectCompleted, EffectIntended
from holdfast.errors import UsageError
from holdfast.models.providers import Providers
from holdfast.testing.model_rule import Fault, ToolCall
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.history import events_of

HAIKU = "claude-haiku-4-5"
HEAD = "---\nname: refunds\ndescription: How money is paid back.\nallowed-tools: pay Bash(git:*)\n---\n"
BODY = "First find the receipt.\n"

Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes the folder of a skill."""

    def write(head: str = HEAD, name: str = "refunds", **files: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "SKILL.md").write_text(head + BODY)
        for path, content in files.items():
            (folder / f"{path}.md").write_text(content)
        return folder

    return write


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(journal=tmp_path / "model-calls.jsonl") as running:
        yield running


def test_a_folder_is_read_once_and_known_by_all_that_is_in_it(written: Written) -> None:
    found = Skill.read(written(limits="At most 100."))
    assert found[:3] == ("refunds", "How money is paid back.", BODY.strip())
    assert (found.files, found.allowed_tools) == ({"limits.md": b"At most 100."}, ("pay", "Bash(git:*)"))
    assert Skill.read(written(limits="At most 100.")).hash == found.hash
    assert Skill.read(written(limits="At most 999.")).hash != found.hash


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("", "has to begin with a head"),
        ("---\nname: [\n---\n", "is no YAML"),
        ("---\n- a\n---\n", "has to name things"),
        (HEAD.replace("refunds", "returns"), "the name is that of its folder"),
        (HEAD.replace("refunds", "Re Funds"), "the name is that of its folder"),
        ("---\nname: refunds\n---\n", "needs a description"),
        (f"---\nname: refunds\ndescription: {'x' * 1025}\n---\n", "needs a description of 1 to 1024"),
        ("---\na: &a [1, 1]\nallowed-tools: [*a, *a]\n---\n", r"Write out what .* names by an alias"),
    ],
)
def test_a_head_that_says_too_little_is_refused_in_words(written: Written, head: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Skill.read(written(head))


def test_what_is_no_folder_of_a_skill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is no folder"):
        Skill.read(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"there is no SKILL\.md in it"):
        Skill.read(tmp_path)


@pytest.mark.parametrize("where", ["file", "folder", "head", "root"])
def test_no_link_is_followed(written: Written, tmp_path: Path, where: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.md").write_text("hunter2")
    folder = written()
    if where == "file":
        (folder / "key.md").symlink_to(tmp_path / "secret" / "key.md")
    elif where == "folder":
        (folder / "more").symlink_to(tmp_path / "secret")
    elif where == "head":
        (folder / "SKILL.md").rename(tmp_path / "elsewhere.md")
        (folder / "SKILL.md").symlink_to(tmp_path / "elsewhere.md")
    else:
        (tmp_path / "linked").symlink_to(folder)
        folder = tmp_path / "linked"
    with pytest.raises(UsageError, match="link"):
        Skill.read(folder)


def test_what_would_wait_for_ever_is_no_file(written: Written) -> None:
    folder = written()
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match="no file"):
        Skill.read(folder)


def test_a_folder_has_a_bound(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skills, "MAX_FILES", 2)
    with pytest.raises(UsageError, match="holds too much"):
        Skill.read(written(a="1", b="2"))
    monkeypatch.setattr(skills, "MAX_FILES", 200)
    monkeypatch.setattr(skills, "MAX_BYTES", 100)
    with pytest.raises(UsageError, match="holds too much"):
        Skill.read(written(a="1" * 101))


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "limits", "SKILL.md", ""])
def test_a_model_reads_files_that_are_in_the_folder_and_no_others(written: Written, path: str) -> None:
    _, read = tools_of([Skill.read(written(limits="At most 100."))])
    assert read.function("refunds", "limits.md") == "At most 100."
    with pytest.raises(ValueError, match=r"it has limits\.md"):
        read.function("refunds", path)


def test_what_a_model_is_sent_is_bounded_and_names_what_there_is(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Skill.read(written(limits="At most 100."))
    load, read = tools_of([found])
    assert load.function("refunds") == (
        f"refunds, sha256 {found.hash}\n\n{BODY.strip()}\n\nFiles, for read_skill_file:\n- limits.md"
    )
    with pytest.raises(ValueError, match="the skills are refunds"):
        load.function("returns")
    monkeypatch.setattr(skills, "MAX_READ", 4)
    assert read.function("refunds", "limits.md") == "At m\n[cut here: 12 characters]"
    assert introduced([]) == ""
    assert tools_of([]) == ()


# --- In a run ---------------------------------------------------------------------------------------------------------


@tool(effect="idempotent")
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def clerk(folder: Any) -> Workflow:
    wf = Workflow("clerk", cost_limit_usd=1)

    @wf.node("answer")
    @llm_node(model=HAIKU, max_tokens=100, tools=[pay], skills=[folder])
    def answer(state: Any) -> dict[str, str]:
        return {"system": "You are kind.", "user": "Pay it back."}

    return wf


async def test_a_model_learns_what_it_asks_for_and_the_run_has_the_hash_of_it(
    store: str, written: Written, server: ModelServer
) -> None:
    server.script.add(
        Rule(system="- refunds: How money is paid back.", turn=1, tool_calls=(ToolCall("load_skill", {"name": "refunds"}),)),
        Rule(turn=2, text="Where is the receipt?"),
    )
    folder = written()
    wf = clerk(folder)
    async with Engine.open(store, model=Providers(environment=server.environment)) as engine:
        run = await engine.start(wf)
        assert await run.result() == "Where is the receipt?"
        (called,) = await events_of(run, EffectIntended)
        (told,) = await events_of(run, EffectCompleted)
    assert called.tool == "load_skill"
    assert Skill.read(folder).hash in bytes(told.response.json).decode()
    assert wf.graph.nodes["answer"].options["skills"] == [["refunds", Skill.read(folder).hash]]
    assert clerk(written(more="x")).hash != wf.hash


async def test_a_skill_gives_no_tool_that_its_node_has_not(store: str, written: Written, server: ModelServer) -> None:
    server.script.add(Rule(turn=1, fault=Fault("unknown_tool")), Rule(turn=2, text="I cannot."))
    wf = clerk(written())
    assert wf.warnings() == [
        "node 'answer': the skill 'refunds' counts on the tool 'Bash(git:*)', which the node does not have; the model is not"
        " given it"
    ]
    async with Engine.open(store, model=Providers(environment=server.environment)) as engine:
        run = await engine.start(wf)
        assert await run.result() == "I cannot."
        assert not await events_of(run, EffectIntended)
    assert list(wf.nodes["answer"].tools) == ["pay", "load_skill", "read_skill_file"]


async def test_a_flow_has_skills_too(store: str, written: Written, server: ModelServer) -> None:
    folder = written()
    server.script.add(
        Rule(system="- refunds: How money is paid back.", turn=1, tool_calls=(ToolCall("load_skill", {"name": "refunds"}),)),
        Rule(turn=2, text="Done."),
    )

    @flow(cost_limit_usd=1)
    async def desk(ctx: Context) -> str:
        return await ctx.agent(HAIKU, "Pay it back.", max_tokens=100, skills=[folder])

    @flow
    async def wrong(ctx: Context) -> str:
        return await ctx.agent(HAIKU, "Pay it back.", skills=["nowhere"])

    async with Engine.open(store, model=Providers(environment=server.environment)) as engine:
        assert await (await engine.start(desk)).result() == "Done."
        failed = await engine.start(wrong)
        with pytest.raises(Exception, match="nowhere is no skill"):
            await failed.result()


@pytest.mark.parametrize(
    ("given", "words"), [("skills", "give a list of folders"), (["x"] * 33, "more than a model can choose")]
)
def test_wrong_lists_of_skills_are_refused_where_the_node_is_defined(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        llm_node(model=HAIKU, skills=given)


def test_two_of_one_name_are_refused(written: Written) -> None:
    found = Skill.read(written())
    with pytest.raises(UsageError, match="two skills called 'refunds'"):
        llm_node(model=HAIKU, skills=[found, found])


def test_a_tool_may_not_be_called_as_what_skills_are_asked_for_with(written: Written) -> None:
    @tool(name="load_skill", effect="read")
    def mine() -> str:
        return ""

    with pytest.raises(UsageError, match="'load_skill'"):
        llm_node(model=HAIKU, tools=[mine], skills=[Skill.read(written())])
