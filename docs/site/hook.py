"""The part of the site's build that mkdocs.yml cannot say: pages beside docs/, and links that leave the pages.

Never here: what a page says.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
_PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the checkout that the site has too."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand beside docs/."""
    for source, page in _PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
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
