"""tracelake-record --doctor: what can be recorded on this machine, and what to do about the rest."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tracelake.recorder.capture import Unavailable
from tracelake.recorder.capture.libraries import driver, find_cupti, find_shim
from tracelake.recorder.capture.shim import Shim
from tracelake.recorder.settings import Settings


class Trouble(Exception):
    """A check that fails; the text says why and what to do."""


def examine(settings: Settings) -> int:
    """Print one line for each part; 1 where nothing could be delivered, else 0."""
    checks: dict[str, Callable[[], str]] = {
        "spool": lambda: _writable(settings.spool),
        "output": lambda: _output(settings),
        "GPU driver (libcuda)": _driver,
        "GPU events (shim)": lambda: str(find_shim()),
        "GPU events (libcupti)": _cupti,
        "GPU metrics (NVML)": _nvml,
        "CPU counters (perf)": _perf,
        "stalls (/proc/pressure)": _pressure,
    }
    works = {name: _examine(name, check) for name, check in checks.items()}
    return 0 if works["spool"] and works["output"] else 1


def _examine(name: str, check: Callable[[], str]) -> bool:
    try:
        found, mark = check(), "ok"
    except Exception as error:  # noqa: BLE001 -- a check that breaks is an answer too
        is_told = isinstance(error, (Trouble, Unavailable))
        found, mark = str(error) if is_told else f"{type(error).__name__}: {error}", "--"
    sys.stdout.write(f"{mark:3} {name:24} {found}\n")
    return mark == "ok"


def _writable(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            room = os.statvfs(folder)
    except OSError as error:
        raise Trouble(f"{folder} cannot be written: {error.strerror}; give another folder") from error
    return f"{folder}, {room.f_bavail * room.f_frsize / 2**30:.1f} GiB free"


def _output(settings: Settings) -> str:
    if not settings.output.startswith("s3://"):
        return _writable(Path(settings.output).absolute())
    try:
        boto3 = importlib.import_module("boto3")
    except ImportError:
        raise Trouble("boto3 is not installed; install tracelake[s3]") from None
    bucket = settings.output.removeprefix("s3://").partition("/")[0]
    client = boto3.client("s3", endpoint_url=settings.s3_endpoint_url, region_name=settings.s3_region)
    client.head_bucket(Bucket=bucket)
    return f"{settings.output}: the bucket answers (writing is not tried)"


def _driver() -> str:
    library = driver(initialize=True)
    version = _number(library.cuDriverGetVersion)
    return f"CUDA {version // 1000}.{version % 1000 // 10}, {_number(library.cuDeviceGetCount)} GPUs"


def _number(call: Callable[[object], int]) -> int:
    import ctypes

    value = ctypes.c_int()
    call(ctypes.byref(value))
    return value.value


def _cupti() -> str:
    driver(initialize=True)
    path = find_cupti()
    shim = Shim(find_shim())
    if problem := shim.load(path):
        raise Trouble(f"{path}: {problem}")
    if code := shim.subscribe():
        raise Trouble(f"{path}, API {shim.version()}: refused with code {code}; another profiler may have it")
    shim.unsubscribe()
    return f"{path}, API {shim.version()}"


def _nvml() -> str:
    from tracelake.recorder.samplers.nvml import Nvml

    sampler = Nvml(None)
    try:
        if sampler.state != "ok":
            raise Trouble(f"{sampler.state}; install NVIDIA's driver, or start the container with its GPUs")
        return f"{len(sampler.describe())} devices"
    finally:
        sampler.close()


def _perf() -> str:
    from tracelake.recorder.samplers.perf import Counters

    counters = Counters(os.getpid())
    try:
        counters.sample()
        readings = [reading for reading in counters.sample() if reading.entity_kind == "process"]
    finally:
        counters.close()
    works = sorted({reading.metric for reading in readings if reading.is_valid})
    failed = sorted({f"{reading.metric}: {reading.reason}" for reading in readings if not reading.is_valid})
    if not works:
        raise Trouble("; ".join(failed) or "no counter answers; see kernel.perf_event_paranoid")
    return f"{', '.join(works)} ({counters.scope})" + (f"; not {'; '.join(failed)}" if failed else "")


def _pressure() -> str:
    try:
        Path("/proc/pressure/cpu").read_text()
    except OSError as error:
        raise Trouble(f"{error.strerror}; the kernel needs CONFIG_PSI and psi=1") from error
    return "cpu, io, memory"
