"""The directories in which a step may work: below the directory of its job.

Never here: a file system. Links are the runner's to look at.
"""

from __future__ import annotations


def problem(path: str) -> str | None:
    """Why a step must not work at `path`, if that is so; for a file when it is read, and for a value when it is known."""
    if path.startswith(("/", "~")) or "\\" in path:
        return "it must be a relative path with '/', below the job's own directory"
    if ".." in path.split("/"):
        return "it leaves the job's own directory; '..' is not allowed"
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in path):
        return "it has control characters in it"
    return None
