"""The command line. One module a subject; each command opens a store, asks or decides, and prints.

Never here: a rule, SQL, anything that a program could not do through `holdfast.Engine`. What is heavy is imported when
a command needs it, so that `holdfast --help` answers at once.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Final, NoReturn

from holdfast.cli.process.parent import WITH_PARENT, end_with_parent

_COLLECT_AFTER: Final = 200_000
"""Objects before garbage is looked for: loading makes a hundred thousand that stay, and to look once takes 0.02 s."""


def main() -> NoReturn:
    """The console script."""
    gc.set_threshold(_COLLECT_AFTER)
    try:
        if os.environ.pop(WITH_PARENT, None) is not None:
            end_with_parent()
        from holdfast.cli.app import main as begin

        begin()
    except KeyboardInterrupt:  # before any command has begun
        sys.exit(130)
