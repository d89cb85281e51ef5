"""A server that speaks ClickHouse's HTTP interface, as far as its driver uses it, before the real engine in this process.

It runs in an environment of its own, with nothing of Holdfast: `python front.py FOLDER`, which prints its port. The engine keeps
its files in FOLDER. With `--slow` it waits before each insert until a line comes on stdin, so that it can be killed there;
with `--deaf` it does the insert first, and waits before it answers.
"""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from chdb import session

ENGINE = session.Session(sys.argv[1])
ROWS = Path(sys.argv[1]) / "rows.native"
TURN = threading.Lock()
"""The engine answers one at a time."""
OF_THE_INTERFACE = {
    "query",
    "database",
    "query_id",
    "session_id",
    "client_protocol_version",
    "role",
    "user",
    "password",
    "compress",
}
MODE = sys.argv[2] if len(sys.argv) > 2 else ""


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, b"Ok.\n")

    def do_POST(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query))
        query = asked.get("query", "").encode() + self._body()
        said = b", ".join(f"{name}='{value}'".encode() for name, value in asked.items() if name not in OF_THE_INTERFACE)
        try:
            with TURN:
                if "database" in asked:
                    ENGINE.query(f"use {asked['database']}")
                if query.startswith(b"INSERT"):
                    head, _, rows = query.partition(b" FORMAT Native\n")
                    ROWS.write_bytes(rows)  # the engine reads no more than a part of what stands in a query
                    self._wait("--slow")
                    head += f" from infile '{ROWS}'".encode() + (b" settings " + said if said else b"")
                    answer = ENGINE.query(head + b" format Native").bytes()
                    self._wait("--deaf")
                else:
                    answer = ENGINE.query(query.decode(), "TabSeparated").bytes()
        except RuntimeError as problem:
            self._answer(500, str(problem).encode())
        else:
            self._answer(200, answer)

    def _wait(self, mode: str) -> None:
        if mode == MODE:
            print("waits", flush=True)
            sys.stdin.readline()

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        found = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status != 200:
            self.send_header("X-ClickHouse-Exception-Code", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    print(server.server_address[1], flush=True)
    server.serve_forever()
