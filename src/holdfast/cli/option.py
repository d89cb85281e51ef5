"""The options that many commands share, each defined once."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="The store; by default HOLDFAST_STORE, else sqlite:///holdfast.db."),
]
Who = Annotated[
    str | None,
    typer.Option("--as", metavar="WHO", help="Who is acting; by default HOLDFAST_USER, else the system's user."),
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the history.")]
Target = Annotated[
    str, typer.Argument(metavar="FILE.py:WORKFLOW", help="A workflow in a file, FILE.yaml, or PACKAGE.MODULE:NAME.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="LABEL", help="What this process has, for workflows that ask for it: gpu, zone=eu."
    ),
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id.")]
