"""Holdfast for code that does not await: scripts, Flask, Django views, notebooks.

`holdfast.sync.open(...)` takes what `Engine.open` takes, and has what an engine has; every call blocks its thread, and
`timeout(seconds)` bounds it.

Never here: a method of its own, a choice between blocking and awaiting.
"""

from holdfast.platform.own_loop import timeout
from holdfast.sync.facade import Control, Engine, Run, Supervisor
from holdfast.sync.facade import open_engine as open  # noqa: A004 - what it does, under the name of its module

__all__ = ["Control", "Engine", "Run", "Supervisor", "open", "timeout"]
