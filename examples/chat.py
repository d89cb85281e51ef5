"""A chat agent: it calls a tool, streams its answer, and remembers the conversation.

Kill it during an answer, and start it again with the same name: the conversation and the answer continue.

    holdfast chat examples/chat.py:librarian --conversation evening --cost-limit 0.50
    holdfast conversations show evening
"""

from __future__ import annotations

from holdfast import Chat, Context, flow, tool

SHELVES = {"Moby-Dick": "fiction, shelf 12", "On Growth and Form": "biology, shelf 3", "Middlemarch": "fiction, shelf 9"}


@tool(effect="read")
def find_book(title: str) -> list[str]:
    """Where books stand whose titles have these words."""
    return [f"{name}: {place}" for name, place in SHELVES.items() if title.lower() in name.lower()]


@flow
async def librarian(ctx: Context, chat: Chat) -> str:
    return await ctx.agent(
        "claude-haiku-4-5",
        chat,
        tools=[find_book],
        system="You are a librarian. Answer in two sentences.",
        max_tokens=400,
        max_turns=5,
        stream=True,
    )
