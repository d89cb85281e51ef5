"""Addresses in the console of a server, and a browser to show them.

Never here: the console itself (holdfast.http.console).
"""

from __future__ import annotations

import os
import sys

from holdfast.cli import variable
from holdfast.cli.page import terminal


def of_run(run: str, server: str | None = None) -> str | None:
    """Return the address of a run's page at a server, by default the one that HOLDFAST_URL names; None without any."""
    server = (server or os.environ.get(variable.SERVER, "")).rstrip("/").removesuffix("/api/v1")
    return f"{server}/runs/{run}" if server else None


def has_display() -> bool:
    """True if a person sits at this machine: a terminal, a display, and no job of a CI service."""
    if not terminal.is_live() or os.environ.get("CI"):
        return False
    return sys.platform in {"darwin", "win32"} or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def show(address: str) -> None:
    """Open the address in a browser."""
    import webbrowser

    webbrowser.open(address)
