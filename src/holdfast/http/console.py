"""The console: files that a browser loads from the server that it asks. Everything it shows it reads from the API.

Its shell is public and holds no data. Never here: a page's content (console/), who may see what (service).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import holdfast

if TYPE_CHECKING:
    from fastapi import Request, Response

START: Final = "/runs"
"""The page at which a browser begins."""
_API: Final = "/api/"
_INDEX: Final = "index.html"
_SAFE: Final = re.compile(r"/[A-Za-z0-9._/-]*")
_LOADS: Final = frozenset({"GET", "HEAD"})
_ENCODINGS: Final = {"br": ".br", "gzip": ".gz"}
"""The encodings in which the build keeps its files, the smallest first."""
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_FOLDERS: Final = ("assets", ".vite")
_POLICY: Final = {  # that no browser guesses at types is every answer's (observe.listening)
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
MISSING: Final = (
    "The console is not built here: run `make console` in the checkout, or install a wheel that includes it."
    " The API is at /api/v1.\n"
)


class Console:
    """The files of a build, as a browser asks for them. Without a build, one sentence of how to get it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def is_built(self) -> bool:
        """True if there is a build."""
        return self._folder is not None and (self._folder / _INDEX).is_file()

    def answers(self, request: Request) -> bool:
        """Return True if this request is for a file, or a browser asks for a page."""
        path = request.scope["path"]
        if request.method not in _LOADS or path.startswith(_API):
            return False
        return _is_file(path) or "text/html" in request.headers.get("accept", "")

    def answer(self, request: Request) -> Response | None:
        """Return a file, or the shell for a page's path. None if there is no such file."""
        path: str = request.scope["path"]
        if self._folder is None or not self.is_built:
            if _is_file(path):
                return None
            headers = {"Cache-Control": "no-store", **_POLICY}
            return _response(MISSING.encode(), HTTPStatus.NOT_FOUND, headers, "text/plain; charset=utf-8")
        if not _is_file(path):
            return _file(self._folder / _INDEX, request, "no-cache")
        if not _SAFE.fullmatch(path) or ".." in path:
            return None
        file = self._folder / path.removeprefix("/")
        if not file.is_file():
            return None
        # The name of an asset has the hash of its content.
        is_hashed = path.startswith("/assets/")
        return _file(file, request, "public, max-age=31536000, immutable" if is_hashed else "no-cache")


def _is_file(path: str) -> bool:
    """Return True for the path of a file of the build. Deeper paths are pages: the ids in them may contain dots."""
    folder, _, name = path.removeprefix("/").rpartition("/")
    return bool(PurePosixPath(name).suffix) and (not folder or folder.partition("/")[0] in _FOLDERS)


def _file(file: Path, request: Request, caching: str) -> Response:
    accepted = request.headers.get("accept-encoding", "")
    headers: dict[str, str] = {"Cache-Control": caching, "Vary": "Accept-Encoding", **_POLICY}
    found = file
    for encoding, extension in _ENCODINGS.items():
        packed = file.with_name(file.name + extension)
        if encoding in accepted and packed.is_file():
            found = packed
            headers["Content-Encoding"] = encoding
            break
    media_type = _TYPES.get(file.suffix, "application/octet-stream")
    return _response(found.read_bytes(), HTTPStatus.OK, headers, media_type)


def _response(content: bytes, status: HTTPStatus, headers: Mapping[str, str], media_type: str) -> Response:
    from fastapi import Response  # noqa: PLC0415 - `dev` only looks for the build

    return Response(content, status, dict(headers), media_type)


def find() -> Console:
    """Return the console of this installation: beside the package's modules, or in a checkout beside `src`."""
    package = Path(holdfast.__file__).parent
    folders = [package / "console_files"]
    if package.parent.name == "src":
        folders.append(package.parents[1] / "console" / "dist")
    return Console(next((each for each in folders if (each / _INDEX).is_file()), folders[-1]))
