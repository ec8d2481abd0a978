"""Finds the driver, libcupti and our shim. The driver comes first: some versions of libcupti crash without one."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tracelake.recorder.capture import Unavailable

SHIM = "libtracelake_shim.so"
_NO_DEVICE = 100
_SONAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so")


def find_shim() -> Path:
    """Raises Unavailable (no_shim)."""
    path = Path(__file__).parents[1] / "native" / SHIM
    if path.is_file():
        return path
    text = f"this installation has no {SHIM}: install a platform wheel, or install again where a C compiler (cc) is"
    raise Unavailable("no_shim", text)


def driver(*, initialize: bool = False, name: str = "libcuda.so.1") -> ctypes.CDLL:
    """The CUDA driver; with `initialize` also cuInit, after which no forked child can use CUDA any more.

    Raises Unavailable: no_driver, no_gpu.
    """
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        text = f"no CUDA driver ({error}); install NVIDIA's driver, or start the container with its GPUs"
        raise Unavailable("no_driver", text) from error
    if not initialize:
        return library
    result = library.cuInit(0)
    if result == _NO_DEVICE:
        raise Unavailable("no_gpu", "the driver sees no GPU; check CUDA_VISIBLE_DEVICES and the container's GPUs")
    if result:
        text = f"cuInit failed with code {result}; check that nvidia-smi works here and that driver and CUDA match"
        raise Unavailable("no_driver", text)
    return library


def find_cupti() -> str:
    """Path or name of the libcupti to use; only after `driver`. Raises Unavailable (no_cupti).

    One that is in the process already comes first: a second copy would see nothing of the framework's work.
    """
    for candidate in _candidates():
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return candidate
    text = "no libcupti; install nvidia-cuda-cupti-cu12 (CUDA 12) or nvidia-cuda-cupti (CUDA 13), or import torch first"
    raise Unavailable("no_cupti", text)


def _candidates() -> Iterator[str]:
    yield from _loaded()
    yield from _pathfinder()
    yield from _wheels()
    yield from _SONAMES
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    yield str(toolkit / "extras" / "CUPTI" / "lib64" / "libcupti.so")


def _loaded() -> Iterator[str]:
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[-1]
        if "/libcupti.so" in path and not path.endswith(" (deleted)"):
            yield path


def _pathfinder() -> Iterator[str]:
    """NVIDIA's own finder, where a framework brought it; it knows wheels, conda and the toolkit."""
    try:
        finder = importlib.import_module("cuda.pathfinder")
    except ImportError:
        return
    try:
        yield str(finder.load_nvidia_dynamic_lib("cupti").abs_path)
    except Exception:  # noqa: BLE001 - its errors have changed from version to version; there are other candidates
        return


def _wheels() -> Iterator[str]:
    for folder in sys.path:
        for pattern in ("nvidia/cu1?/lib/libcupti.so.1?", "nvidia/cuda_cupti/lib/libcupti.so.1*"):
            yield from sorted((str(path) for path in Path(folder).glob(pattern)), reverse=True)
