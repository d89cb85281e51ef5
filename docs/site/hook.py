"""What mkdocs is told besides its file: pages that are written anew, and links that leave the pages.

Never here: what a page says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import reference  # noqa: E402 - it stands beside this file, which is no package

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the checkout that the site has too."""


def on_files(files: Files, config: Any) -> Files:
    """Add what is written from the program, and the pages that stand beside docs/."""
    written = {
        "reference/python.md": reference.python(),
        "reference/commands.md": reference.commands(),
        "reference/settings.md": reference.settings_(),
    }
    for source, page in _PAGES.items():
        written[page] = (ROOT / source).read_text(encoding="utf-8")
    for page, text in written.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Marks of blocks (`file=NAME`) are for the tests; a link to a file of the checkout names it, for the site has none."""
    markdown = re.sub(r"^```(\w+) [^\n]+$", r"```\1", markdown, flags=re.MULTILINE)
    beside = {value: key for key, value in _PAGES.items()}.get(page.file.src_uri)
    here = ROOT if beside is not None else ROOT / "docs" / Path(page.file.src_uri).parent

    def there(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if "://" in target or not target:
            return match[0]
        try:
            path = (here / target).resolve().relative_to(ROOT)
        except ValueError:
            return match[0]
        known = _PAGES.get(str(path)) or (str(path.relative_to("docs")) if path.parts[0] == "docs" else None)
        if known is None:
            return f"{match['text']} (`{path}`)"
        up = "../" * len(Path(page.file.src_uri).parent.parts)
        return f"[{match['text']}]({up}{known}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(there, markdown)
