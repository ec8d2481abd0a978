"""Stands in for SageMaker Profiler's packages, `smppy` and its later name `smprof`, where they are not installed.

An annotated script runs unchanged:

    import smppy
    profiler = smppy.SMProfiler.instance()
    config = smppy.Config()
    config.profiler = {"EnableCuda": "1"}
    profiler.configure(config)
    profiler.start_profiling()
    with smppy.annotate("step_0"):
        ...
    profiler.stop_profiling()
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAMES = ("smppy", "smprof")


class _Loader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        from tracelake.recorder import api

        module.__doc__ = f"{module.__name__} as tracelake understands it; see tracelake.recorder.compat."
        offered = {name: getattr(api, name) for name in ("Config", "annotate", "annotation_begin", "annotation_end")}
        module.__dict__.update(offered, SMProfiler=api.Profiler, Profiler=api.Profiler)
        module.__dict__["__all__"] = [*offered, "Profiler", "SMProfiler"]


def spec(name: str) -> ModuleSpec:
    """How to import our stand-in for one of NAMES. Raises ValueError for any other name."""
    if name not in NAMES:
        raise ValueError(f"{name!r} is none of {', '.join(NAMES)}")
    return ModuleSpec(name, _Loader(), origin="tracelake.recorder.compat")


class Finder(MetaPathFinder):
    """Stands last, so that an installed original is found before it."""

    tracelake_compat = True

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec(name) if name in NAMES and path is None else None


def install() -> None:
    """Let `import smppy` and `import smprof` work, unless that is so already (the wheel's .pth adds TracelakeNames)."""
    for finder in sys.meta_path:
        if getattr(finder, "tracelake_compat", False) or getattr(finder, "__name__", "") == "TracelakeNames":
            return
    sys.meta_path.append(Finder())
