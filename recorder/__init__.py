"""The recorder: what a training script imports. Light to import; everything is loaded when first named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelake.recorder.api import Config, Profiler, annotate, annotation_begin, annotation_end, record

__all__ = ["Config", "Profiler", "annotate", "annotation_begin", "annotation_end", "record"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tracelake.recorder import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
