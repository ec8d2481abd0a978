"""Places in frameworks where the recorder learns what the script does not say: its steps, and when CUDA starts."""

from __future__ import annotations

from tracelake.recorder.hooks.cuda import CudaWatch, when_cuda_starts
from tracelake.recorder.hooks.importing import after_import

__all__ = ["CudaWatch", "after_import", "find_steps", "when_cuda_starts"]


def find_steps() -> None:
    """Annotate the steps that frameworks show, as long as the script marks none itself. May be called again."""
    from tracelake.recorder.hooks import steps, torch_steps, trainers

    steps.watch_script()
    if not _found:
        _found.append(True)
        torch_steps.find()
        trainers.find()


_found: list[bool] = []
