"""A recorder on the stand-in libcupti, and what its spool holds."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from tracelake.recorder.capture.cupti import Cupti

LAYOUT = Struct("<BBHIQQIIII")
LAUNCH = 211


class Record(NamedTuple):
    kind: int
    device: int
    stream: int
    name: int
    start_ns: int
    duration_ns: int
    correlation: int
    a: int
    b: int
    c: int


class Fake:
    """The stand-in and a recorder that is open on it."""

    def __init__(self, copy: Callable[[str], Path], folder: Path, cupti: str = "cupti", **settings: Any) -> None:
        path = copy(cupti)
        self.library = ctypes.CDLL(str(path))
        for name in ("fake_unzeroed", "fake_request_ns", "fake_registrations"):
            getattr(self.library, name).restype = ctypes.c_uint64
        self.library.fake_drop.argtypes = [ctypes.c_uint64]
        self.library.fake_launch.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32]
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._names: list[bytes | None] = []
        # The thread is held: it drains when it is asked to, unless a test says otherwise.
        self.capture = Cupti.open(
            folder, shim=copy("shim"), cupti=str(path), **{"period_ms": 3_600_000, "reserve_bytes": 0, **settings}
        )

    def launch(self, count: int, name: bytes | None = b"kernel", cbid: int = LAUNCH) -> None:
        self._names.append(name)  # read later, by the thread that drains
        self.library.fake_launch(count, name, cbid)

    def flush(self) -> None:
        assert self.capture._shim.flush(True, 10_000) == 0

    def dropped(self, kind: int) -> tuple[int, int, int]:
        """(produced, dropped for memory, dropped for want of space)."""
        return self.capture._shim.counts()[kind][:3]

    def balances(self) -> bool:
        """Whether produced = stored + dropped, kind by kind."""
        stored = Counter(record.kind for record in records(self.folder))
        rows = enumerate(self.capture._shim.counts())
        return all(made == stored[kind] + memory + space for kind, (made, memory, space, _) in rows)


def records(folder: Path, live: bool = False) -> list[Record]:
    """`live`: a write in progress shows page by page, so that the last record may be cut."""
    found = []
    for path in sorted(folder.glob("events-*.bin")):
        data = path.read_bytes()
        torn = len(data) % LAYOUT.size
        assert live or not torn, "a file ends within a record"
        data = data[: len(data) - torn]
        found += [Record(*values) for values in LAYOUT.iter_unpack(data)]
    return found


def names(folder: Path) -> dict[int, str]:
    lines = (folder / "names.tsv").read_text().splitlines()
    return {int(number): name for number, _, name in (line.partition("\t") for line in lines)}
