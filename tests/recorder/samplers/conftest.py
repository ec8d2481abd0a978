"""A stand-in for NVML's library, compiled once, under the real binding."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]
import pytest


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in of libnvidia-ml.so.1")
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", path, source], check=True)
    return path


@pytest.fixture
def fake(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    stand_in = ctypes.CDLL(str(library))
    stand_in.fake_reset()
    monkeypatch.setattr(pynvml, "nvmlLib", stand_in)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield stand_in
    stand_in.fake_reset()
