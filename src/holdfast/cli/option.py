"""The options that many commands share, each defined once."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from holdfast.cli import completion
from holdfast.core.capacity.lanes import DEFAULT as DEFAULT  # noqa: PLC0414

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Store = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="The store; by default HOLDFAST_STORE, else SQLite in holdfast.db.")
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Tenant; by default that of the token at a server, else `default`."),
]
OfTenant = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant; by default all that you reach.")
]
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Go on where the page before ended.")]
PageLimit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Maximum number of rows.")]
Who = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="WHO", help="Who is acting, unverified; by default the system's user, who is recorded besides."
    ),
]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="ROLE", help="A role in which you act, where one is asked; unverified. May be repeated."),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Reason, kept in the history.")]
Target = Annotated[
    str, typer.Argument(metavar="FILE.py:WORKFLOW", help="A workflow in a file, FILE.yaml, or PACKAGE.MODULE:NAME.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="LABEL", help="What this process has, for workflows that ask for it: gpu, zone=eu."),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Like --label, for steps that ask for tags.")]
CpuM = Annotated[
    int | None,
    typer.Option(
        "--cpu-m", metavar="N", min=0, help="Thousandths of cores that steps may take; by default all of this machine's."
    ),
]
MemoryMb = Annotated[
    int | None,
    typer.Option("--memory-mb", metavar="N", min=0, help="MiB that steps may take; by default all of this machine's."),
]
WaitS = Annotated[
    float,
    typer.Option(
        "--wait-s",
        metavar="SECONDS",
        min=0,
        max=86_400,
        help="How long to wait at the start for a store that is not there yet.",
    ),
]
Gpus = Annotated[int, typer.Option("--gpus", metavar="N", min=0, help="GPUs that steps may take.")]
Yaml = Annotated[
    bool, typer.Option("--yaml", help="Also every run of a workflow in YAML: its store says all of it, no file is needed.")
]
Lane = Annotated[
    str, typer.Option("--lane", metavar="NAME", help="The lane of the fleet that it belongs to; see holdfast.toml.")
]
TokenLimit = Annotated[
    int | None,
    typer.Option("--token-limit", metavar="N", min=0, help="How many tokens of models it may use, in and out together."),
]
TeamBudget = Annotated[
    str | None,
    typer.Option("--team-budget", metavar="NAME", help="Team budget in which what is spent counts too; requires --agent."),
]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Agent to charge there when a node does not name one.")
]
ModelCallLimit = Annotated[
    int | None, typer.Option("--model-calls", metavar="N", min=1, help="How many calls of models it may make.")
]
ToolCallLimit = Annotated[
    int | None, typer.Option("--tool-calls", metavar="N", min=1, help="How many calls of tools it may make.")
]
WallLimit = Annotated[
    float | None,
    typer.Option("--wall-s", metavar="SECONDS", min=0.001, help="How old it may become, its waits included, in seconds."),
]
AtLimit = Annotated[
    Literal["ask", "fail", "record"] | None,
    typer.Option(
        "--on-limit",
        metavar="HOW",
        help="What becomes of it at a limit: ask, fail or, as a dry run, record (it goes on and tells where it would have"
        " stopped).",
    ),
]
THIS_MACHINE: Final = "127.0.0.1"
HealthHost = Annotated[str, typer.Option("--host", metavar="HOST", help="Where the health and metrics port listens.")]
_HEALTH_PORT: Final = typer.Option(
    "--port", metavar="PORT", min=0, max=65535, help="The health and metrics port; 0 takes a free one."
)
HealthPort = Annotated[int, _HEALTH_PORT]
MaybeHealthPort = Annotated[int | None, _HEALTH_PORT]
MOST_LISTED: Final = 100
"""What a list has where nobody says how much he wants."""
ListLimit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Maximum number of rows.")]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's id, or as much of its beginning as no other has.", autocompletion=completion.runs
    ),
]
MaybeRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="A run's id, or as much of its beginning as no other has.", autocompletion=completion.runs
    ),
]
