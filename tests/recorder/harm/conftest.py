"""A machine with a GPU, as far as a training process can tell: stand-ins for libcuda and libcupti."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[1] / "native"


@pytest.fixture(scope="session")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which a script that starts with recorded.GPU_PREAMBLE finds a GPU."""
    compiler = os.environ.get("TRACELAKE_SHIM_CC", "cc").split()
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no C compiler ({compiler[0]})")
    folder = tmp_path_factory.mktemp("gpu")
    for source, name in (("fake_cuda.c", "libcuda.so.1"), ("fake_cupti.c", "libcupti.so.13")):
        command = [*compiler, "-O2", "-std=gnu11", "-fPIC", "-shared", str(NATIVE / source), "-o", str(folder / name)]
        subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_CUPTI": str(folder / "libcupti.so.13")}
