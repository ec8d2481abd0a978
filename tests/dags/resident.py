"""The lake's command line in a process that has Spark already: a night starts it three times, each for a minute.

As a program, what the connection's `command` names: `python resident.py SOCKET nightly --stage=run …`. It hands its
arguments over, prints what comes back, and ends with the command's code. Standard library only.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


class Resident:
    """Runs commands that programs hand over, one at a time, while the `with` block lasts."""

    def __init__(self, place: Path, run: Callable[[list[str]], tuple[int, str]]) -> None:
        """`run` takes a command's words and gives its code and what it printed."""
        self.command = [sys.executable, __file__, str(place)]
        self._run, self._server = run, socket.socket(socket.AF_UNIX)
        self._server.bind(str(place))
        self._server.listen()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Resident:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            with caller, caller.makefile("rw") as line:
                line.write(json.dumps(self._run(json.loads(line.readline()))) + "\n")


def main(place: str, words: Sequence[str]) -> Any:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(place)
        with server.makefile("rw") as line:
            line.write(json.dumps(list(words)) + "\n")
            line.flush()
            code, printed = json.loads(line.readline())
    print(printed, end="")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
