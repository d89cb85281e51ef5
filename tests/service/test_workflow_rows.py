"""Workflows as rows: with which of them one can talk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import Chat, Context, Engine, Workflow, flow
from holdfast.service.declarations import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service


class Letters(BaseModel):
    """An input with messages of another kind."""

    messages: list[int]


@flow
async def agent(ctx: Context, chat: Chat) -> str:
    return chat.text


@flow
async def counts(ctx: Context, letters: Letters) -> int:
    return len(letters.messages)


@flow
async def anything(ctx: Context, given: Any) -> Any:
    return given


async def test_a_workflow_says_whether_one_can_talk_to_it(tmp_path: Path) -> None:
    workflows: list[Workflow[..., Any]] = [agent, counts, anything]
    async with Engine.open(str(tmp_path / "runs.db"), workflows=workflows) as engine:
        service = Service(engine, workflows)
        rows = (await service.query(Principal("ops"), query.Workflows())).rows
        assert {row["workflow"]: row["talks"] for row in rows} == {"agent": True, "counts": False, "anything": False}
