"""Real servers on loopback that keep what they get: a webhook, and SMTP in Airflow's environment."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from airflow_real import airflow_python, free_port


class Hook:
    """Takes JSON at any path; `got` has the bodies by path, `headers` those of the last request."""

    def __init__(self, code: int = 200) -> None:
        self.got: dict[str, list[dict[str, Any]]] = {}
        self.headers: dict[str, str] = {}
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.got.setdefault(self.path, []).append(body)
                hook.headers = dict(self.headers)
                self.send_response(code)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Hook:
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class MailServer:
    """aiosmtpd as a process; mails lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder / "mail", free_port()
        self._process = subprocess.Popen(
            [airflow_python(), "-m", "aiosmtpd", "-n", "-l", f"127.0.0.1:{self.port}",
             "-c", "aiosmtpd.handlers.Mailbox", str(self.folder)],
        )  # fmt: skip

    def __enter__(self) -> MailServer:
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            assert self._process.poll() is None and time.monotonic() < deadline, "the SMTP server does not start"
            time.sleep(0.1)

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def mails(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.folder / "new").iterdir())]
