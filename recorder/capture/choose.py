"""The best way to capture GPU events that works in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracelake.recorder.capture import Capture, Unavailable

if TYPE_CHECKING:
    from tracelake.recorder.settings import Settings


def open_capture(folder: Path, settings: Settings) -> Capture:
    """CUPTI through the shim, else the PyTorch profiler's own records for short windows.

    Raises Unavailable with the first reason: it names what would have been best.
    """
    from tracelake.recorder.capture.cupti import Cupti

    try:
        return Cupti.open(
            folder,
            buffer_count=max(8, settings.memory_budget_bytes // 4 >> 18),
            reserve_bytes=settings.disk_reserve_bytes,
            period_ms=settings.flush_ms,
            graph_nodes=settings.graph_nodes,
        )
    except Unavailable as error:
        if error.code != "no_shim":
            raise
        from tracelake.recorder.capture.kineto import Kineto

        try:
            return Kineto.open(folder)
        except Unavailable:
            raise error from None
