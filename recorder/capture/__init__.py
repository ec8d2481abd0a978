"""Ways to capture GPU events in the training process. Each writes native records into the spool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

NO_GPU = ("no_driver", "no_gpu", "no_cuda_work")
"""Codes that are no fault: there is no GPU, or nothing was done on it."""


class Unavailable(Exception):
    """GPU events cannot be captured; `code` goes into the data, the text says what to do."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Counts:
    """Events so far by group; produced = stored + dropped, exactly so once a window has stopped.

    Groups: kernel, memop, sync (what CUPTI says of waits), api (host calls: the sidecar tells launches from waits),
    overhead, other (what CUPTI itself lost, of unknown kind).
    """

    produced: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)


class Capture(Protocol):
    """A running way to capture. None of its calls raises once it is open, and none takes the interpreter lock twice."""

    name: str

    def start(self) -> None:
        """Let the tool produce events."""

    def stop(self) -> None:
        """Let it stop; when this returns, every event of the window is in the spool."""

    def counts(self) -> Counts: ...

    def position(self) -> tuple[int, int]:
        """(number of the events file, bytes of it) written so far."""

    def set_writing(self, on: bool) -> None:
        """Whether events go to the spool; while they do not, they are dropped and counted."""

    def pause(self) -> None:
        """Leave the tool to someone else."""

    def resume(self) -> bool:
        """Take it again; whether that worked."""

    def apis(self) -> dict[str, str]:
        """Names of the recorded calls by "domain:number"."""

    def devices(self) -> list[dict[str, Any]]:
        """The devices that the process sees: index, uuid, name, memory_bytes, sm_count, compute_capability."""

    def close(self) -> None: ...
