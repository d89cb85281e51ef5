"""The options that many commands share, each defined once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from holdfast.cli import completion
from holdfast.cli.group import Group
from holdfast.cli.page.worker_labels import resources_of
from holdfast.core.capacity.lanes import DEFAULT as DEFAULT  # noqa: PLC0414

if TYPE_CHECKING:
    from holdfast.core.values.demand import Resources

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Store = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Store URL; by default HOLDFAST_STORE, else SQLite in holdfast.db.")
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Tenant; by default that of the token at a server, else `default`."),
]
OfTenant = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant; by default all that you can access.")
]
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Cursor that the previous page ended with.")]
PageLimit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Maximum number of rows.")]
Who = Annotated[
    str | None,
    typer.Option(
        "--as", metavar="WHO", help="Name to act under, unverified; by default the system's user, which is always recorded too."
    ),
]
Roles = Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="Role to act in, unverified. May be repeated.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Reason, kept in the history.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; only show what would be done.")]
Target = Annotated[
    str, typer.Argument(metavar="FILE.py:WORKFLOW", help="Workflow: FILE.py:NAME, FILE.yaml or PACKAGE.MODULE:NAME.")
]
WaitS = Annotated[
    float,
    typer.Option(
        "--wait-s", metavar="SECONDS", min=0, max=86_400, help="Maximum time to wait for the store at startup, in seconds."
    ),
]
Yaml = Annotated[
    bool, typer.Option("--yaml", help="Also execute runs of YAML workflows. The store keeps them, so no file is needed.")
]
Lane = Annotated[str, typer.Option("--lane", metavar="NAME", help="Lane of the fleet, as holdfast.toml defines it.")]
TokenLimit = Annotated[
    int | None, typer.Option("--token-limit", metavar="N", min=0, help="Maximum number of tokens, input and output together.")
]
TeamBudget = Annotated[
    str | None, typer.Option("--team-budget", metavar="NAME", help="Team budget in which costs also count; requires --agent.")
]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Agent of the team budget to charge when a node names none.")
]
THIS_MACHINE: Final = "127.0.0.1"
HealthHost = Annotated[str, typer.Option("--host", metavar="HOST", help="Host of the health and metrics port.")]


def health_port(name: str = "--port") -> Any:
    """Return the option for the health and metrics port, by a name that the command has free."""
    return typer.Option(name, metavar="PORT", min=0, max=65535, help="Health and metrics port; 0 picks a free one.")


HealthPort = Annotated[int, health_port()]
MaybeHealthPort = Annotated[int | None, health_port()]
SLOTS: Final = 100
MAX_LISTED: Final = 100
"""Default number of rows of a list."""
ListLimit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Maximum number of rows.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of the run. The beginning of an id is enough.", autocompletion=completion.runs)
]
MaybeRun = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help="Id of the run. The beginning of an id is enough.", autocompletion=completion.runs),
]


def slots_of(words: str) -> Any:
    """Return the option `--slots` in the words of a command."""
    return typer.Option("--slots", metavar="N", min=1, help=words)


def grace(words: str) -> Any:
    """Return the option `--grace-s` in the words of a command."""
    return typer.Option("--grace-s", metavar="SECONDS", min=0, max=3600, help=words)


# --- What a process that executes steps has ---------------------------------------------------------------------------

_Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="LABEL", help="Label of this process, for steps that require it: gpu, zone=eu. May be repeated."
    ),
]
_Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Tag of this process, for steps that require it. May be repeated."),
]
_CpuM = Annotated[
    int | None,
    typer.Option(
        "--cpu-m",
        metavar="N",
        min=0,
        help="CPU that steps may use, in thousandths of a core; by default all of this machine's.",
    ),
]
_MemoryMb = Annotated[
    int | None,
    typer.Option(
        "--memory-mb", metavar="N", min=0, help="Memory that steps may use, in MiB; by default all of this machine's."
    ),
]
_Gpus = Annotated[int, typer.Option("--gpus", metavar="N", min=0, help="Number of GPUs that steps may use.")]


class Process(NamedTuple):
    """The labels and the resources of a process that executes steps."""

    labels: tuple[str, ...]
    resources: Resources


def _own(label: Sequence[str] | None, tag: Sequence[str] | None, **value: Any) -> Process:
    return Process(tuple(label or ()), resources_of(tag or (), **value))


Own: TypeAlias = Annotated[
    Process,
    Group(_own, label=(_Labels, None), tag=(_Tags, None), cpu_m=(_CpuM, None), memory_mb=(_MemoryMb, None), gpus=(_Gpus, 0)),
]
