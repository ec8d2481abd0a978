"""A small driver of headless Chromium by the DevTools protocol over a pipe: real widths, events, the network."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BINARY = Path("/usr/bin/chromium")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
# The browser reads commands from descriptor 3 and writes answers to 4, whatever numbers the pipes have here.
_START = """
import fcntl, os, sys
moved = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for fd, at in zip(moved, (3, 4)):
    os.dup2(fd, at)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """One browser with one tab. Use it as a context manager; it ends the process that it started."""

    def __init__(self, zone: str = "UTC") -> None:
        self._profile = tempfile.mkdtemp(prefix="tracelake-chromium-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [str(BINARY), *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        start = [sys.executable, "-c", _START, str(to_browser), str(from_browser), *command]
        pipes, environment = (to_browser, from_browser), {**os.environ, "TZ": zone}
        self._process = subprocess.Popen(start, pass_fds=pipes, env=environment, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._ids, self._buffer, self.events = itertools.count(1), b"", list[dict[str, Any]]()
        self._session = ""
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(20)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser ended")
            self._buffer += chunk
        first, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(first))

    def run(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def open(self, page: Path, width: int = 1440, *, dark: bool = False, seconds: float = 60) -> None:
        """Load a page and wait until its charts are drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        end = time.monotonic() + seconds
        while self.run(f"location.href === {json.dumps(page.as_uri())} && document.body?.dataset.ready") != "1":
            if time.monotonic() > end:
                raise TimeoutError(f"{page.name}: charts were not drawn in {seconds} s; {self.messages()}")
            time.sleep(0.1)

    def messages(self) -> list[str]:
        """What the page complained about: exceptions, refused scripts, console errors."""
        found = []
        for e in self.events:
            if e.get("method") == "Runtime.exceptionThrown":
                found.append(str(e["params"]["exceptionDetails"].get("exception", e["params"]).get("description")))
            elif e.get("method") == "Log.entryAdded":
                found.append(str(e["params"]["entry"]["text"]))
            elif e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning"):
                found.append(str(e["params"]["args"]))
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for, but for its own and data in it."""
        sent = (e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [u for u in sent if not u.startswith(("file:", "data:", "about:"))]

    def screenshot(self, file: Path) -> None:
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))
