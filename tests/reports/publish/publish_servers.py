"""Servers on loopback: one for the webhook, and one that answers as W&B's would, which cannot be had in tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def sent(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


@contextmanager
def serving(handler: type[Quiet]) -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_address[1]}"
        finally:
            httpd.shutdown()
            thread.join()


@dataclass
class Server:
    """`answers` are codes to give in turn, then 204; "slow" keeps the client waiting."""

    url: str = ""
    answers: list[int | str] = field(default_factory=list)
    received: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)


@contextmanager
def web_server() -> Iterator[Server]:
    told, ended = Server(), Event()

    class Handler(Quiet):
        def do_POST(self) -> None:
            sent = json.loads(self.sent())
            answer = told.answers.pop(0) if told.answers else 204
            if isinstance(answer, str):
                ended.wait(5)
                return
            told.received.append((dict(self.headers), sent))
            self.send_response(answer)
            if answer == 302:
                self.send_header("Location", f"{told.url}/elsewhere")
            self.end_headers()

    with serving(Handler) as address:
        told.url = f"{address}/hook"
        try:
            yield told
        finally:
            ended.set()


VIEWER = {"id": "u", "entity": "team", "username": "ada", "email": "", "flags": "{}", "teams": {"edges": []}}
RUN = {
    "id": "B", "name": "abc123", "displayName": "n", "description": None, "tags": [], "config": "{}", "sweepName": None,
    "systemMetrics": "{}", "state": "running", "group": None, "jobType": None, "commit": None, "readOnly": False,
    "createdAt": "2026-01-01T00:00:00Z", "heartbeatAt": "2026-01-01T00:00:00Z", "historyLineCount": 1, "projectId": "1",
    "user": {"name": "ada", "username": "ada"}, "historyKeys": {},
}  # fmt: skip


class WandbServer:
    """What the online client asks, answered from one run as it stands; `changes` are requests that changed it."""

    def __init__(self, url: str) -> None:
        self.url, self.changes = url, 0
        self.run: dict[str, Any] = {**RUN, "notes": "my own words", "summaryMetrics": '{"loss": 1}'}

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            self.changes += 1
            self.run |= {name: variables[name] for name in ("notes", "summaryMetrics") if name in variables}
            return {"upsertBucket": {"bucket": self.run}}
        if "query Run(" in query:
            asked = tuple(variables[name] for name in ("entity", "project", "name"))
            return {"project": {"run": self.run if asked == ("team", "llm", "abc123") else None}}
        return {"viewer": VIEWER}


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    class Handler(Quiet):
        def do_POST(self) -> None:
            sent, data = self.sent(), {}
            if self.path == "/graphql":
                asked = json.loads(sent)
                data = told.answer(asked["query"], asked.get("variables") or {})
            answer = json.dumps({"data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with serving(Handler) as address:
        told = WandbServer(address)
        yield told
