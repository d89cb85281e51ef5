"""What the wheel gets beside the package: the console's build, with the licences of what it bundles.

An editable install reads the build where it is, and a wheel without one is whole but for the console. With
HOLDFAST_CONSOLE=required there is no wheel without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface[Any]):
    """Adds `console/dist` to a wheel as `holdfast/console_files`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include, before the wheel is written."""
        if version == "editable":
            return
        build = Path(self.root) / "console" / "dist"
        if (build / "index.html").is_file():
            build_data["force_include"][str(build)] = "holdfast/console_files"
        elif os.environ.get("HOLDFAST_CONSOLE") == "required":
            raise RuntimeError("The console is not built, and HOLDFAST_CONSOLE=required asks for it: run `make console`.")
