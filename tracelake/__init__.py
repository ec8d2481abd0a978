"""tracelake: batch analytics over a data lake of training profiles.

In a training script: `import tracelake; with tracelake.annotate("step_1"): ...` (the names of tracelake.recorder,
loaded when first used).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelake.recorder import Config, Profiler, annotate, annotation_begin, annotation_end, record

__version__ = "0.1.0"
__all__ = ["Config", "Profiler", "__version__", "annotate", "annotation_begin", "annotation_end", "record"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tracelake.recorder import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
