"""The world outside of the victims: a model provider, a mail server and a server that tools call, each with a journal.

It lives in the process of the test, so no kill reaches it. What its journals say has happened, whatever Holdfast
believes. Never here: anything of a run.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import smtplib
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from holdfast.testing.journal_file import JournalFile, read_journal
from holdfast.testing.loopback_server import LOOPBACK
from holdfast.testing.mail_sink import MailRecord, MailSink, read_mail
from holdfast.testing.model_server import CallRecord, ModelServer, Rule, read_calls

PATIENCE_S = 60.0
DOMAIN = "crash.example"
STUTTER = "stutter"
"""The tool that is refused the first time."""


class _Server(ThreadingHTTPServer):
    """Knows what it is still at."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((LOOPBACK, 0), handler)
        self._busy = 0
        self._changing = threading.Condition()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            self._busy += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        super().process_request_thread(request, client_address)
        with self._changing:
            self._busy -= 1
            self._changing.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # else whoever asked was killed meanwhile

    def wait_until_idle(self) -> None:
        with self._changing:
            assert self._changing.wait_for(lambda: not self._busy, PATIENCE_S)


class ToolServer:
    """Does what it is asked, each key once, and writes down every request before it answers."""

    def __init__(self, journal: Path) -> None:
        self.journal = JournalFile(journal)
        self._known: dict[str, Any] = {}
        self._refused: set[str] = set()
        self._doing = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                body = self.rfile.read(size)
                if len(body) < size:
                    return  # whoever asked was killed before he had said it all
                asked = json.loads(body)
                answer = json.dumps(server.answer(asked)).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(Handler)
        self.port = self._server.server_port

    def answer(self, asked: dict[str, Any]) -> Any:
        with self._doing:
            key = asked["key"]
            if asked["lookup"]:
                return self._known.get(key)
            if asked["tool"] == STUTTER and key not in self._refused:
                self._refused.add(key)
                return None
            repeats = key in self._known
            answer = self._known.setdefault(key, {"done": asked["tool"], "with": asked["arguments"]})
            self.journal.append({**asked, "answer": answer, "repeats": repeats})
            return answer

    def catch_up(self) -> None:
        """Wait until everything is done that was asked before: connections are taken in their order."""
        Visit("", {"CRASH_MAIL_PORT": "0", "CRASH_TOOL_PORT": str(self.port)}).ask("", "", {}, lookup=True)
        self._server.wait_until_idle()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.journal.close()


class World:
    """All three servers, for all cases of a module. A case knows its own by its name, which every request carries."""

    def __init__(self, directory: Path, rules: Sequence[Rule]) -> None:
        self.directory = directory
        self.numbers = itertools.count(1)
        """Of its cases."""
        self._models = ModelServer(journal=directory / "models.jsonl", rules=rules)
        self._mails = MailSink(journal=directory / "mails.jsonl")
        self._tools = ToolServer(directory / "tools.jsonl")
        self._open = ExitStack()

    def __enter__(self) -> Self:
        for server in (self._models, self._mails, self._tools):
            self._open.enter_context(server)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def catch_up(self) -> None:
        """After a kill: what the dead process had sent has arrived, so that nobody is told too early that it has not."""
        self._tools.catch_up()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {
            **self._models.environment,
            "CRASH_WORLD": str(self.directory),
            "CRASH_MAIL_PORT": str(self._mails.port),
            "CRASH_TOOL_PORT": str(self._tools.port),
        }


class Visit:
    """The world as a process reaches it that works on one case."""

    def __init__(self, case: str, environment: Mapping[str, str] = os.environ) -> None:
        self.case = case
        self._mail_port = int(environment["CRASH_MAIL_PORT"])
        self._tool_port = int(environment["CRASH_TOOL_PORT"])

    def ask(self, tool: str, key: str, arguments: dict[str, Any], *, lookup: bool = False) -> Any:
        """What the tool server answers; with `lookup`, what it has answered to that key, None if nothing."""
        line = http.client.HTTPConnection(LOOPBACK, self._tool_port, timeout=PATIENCE_S)
        try:
            asked = {"case": self.case, "tool": tool, "key": key, "arguments": arguments, "lookup": lookup}
            line.request("POST", "/", json.dumps(asked))
            return json.loads(line.getresponse().read())
        finally:
            line.close()

    def mail(self, subject: str, body: str, key: str) -> None:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = f"flow@{DOMAIN}", f"{self.case}@{DOMAIN}", subject
        message["Idempotency-Key"] = key
        message.set_content(body)
        with smtplib.SMTP(LOOPBACK, self._mail_port, local_hostname="localhost", timeout=PATIENCE_S) as server:
            server.send_message(message)


class Seen:
    """What the journals hold of one case. Whoever is in the world's process reads it, or a person in any other."""

    def __init__(self, directory: Path, case: str) -> None:
        self.tools: list[dict[str, Any]] = [e for e in read_journal(directory / "tools.jsonl") if e["case"] == case]
        self.mails: list[MailRecord] = [e for e in read_mail(directory / "mails.jsonl") if e.to == (f"{case}@{DOMAIN}",)]
        self.calls: list[CallRecord] = [e for e in read_calls(directory / "models.jsonl") if e.user.startswith(f"{case}:")]

    @property
    def keys(self) -> list[str]:
        """The key of every effect that arrived, as often as it did."""
        return [entry["key"] for entry in self.tools] + [mail.key or "" for mail in self.mails]

    @property
    def asked(self) -> list[tuple[str, int]]:
        """Every request to the model that arrived: the prompt, and which turn of the conversation."""
        return [(call.user, call.turn) for call in self.calls]

    def answer(self, key: str) -> Any:
        """What came of an effect: None if it never arrived."""
        answers = [entry["answer"] for entry in self.tools if entry["key"] == key]
        return answers[0] if answers else {"sent": True} if any(mail.key == key for mail in self.mails) else None
