"""The shim and stand-ins for NVIDIA's libraries, compiled once; each test loads copies, since their state is global."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
SOURCE = HERE.parents[2] / "recorder" / "native" / "shim.c"
CC = os.environ.get("TRACELAKE_SHIM_CC", "cc").split()
BUILDS: dict[str, tuple[Path, list[str]]] = {
    "shim": (SOURCE, ["-Wall", "-Wextra", "-Werror"]),
    "cupti": (HERE / "fake_cupti.c", []),
    "old_cupti": (HERE / "fake_cupti.c", ["-DOLD"]),
    "cuda": (HERE / "fake_cuda.c", []),
}


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which(CC[0]) is None:
        pytest.skip(f"no C compiler ({CC[0]})")
    folder = tmp_path_factory.mktemp("native")
    for name, (source, flags) in BUILDS.items():
        command = [*CC, "-O2", "-std=gnu11", "-fPIC", "-shared", *flags, str(source), "-o", str(folder / f"{name}.so")]
        subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return folder


@pytest.fixture
def copy(compiled: Path, tmp_path: Path) -> Callable[[str], Path]:
    """`copy("shim")`: a library of this test's own."""

    def place(name: str) -> Path:
        path = tmp_path / f"{name}.so"
        # Never written again: it may be loaded by now.
        return path if path.exists() else Path(shutil.copy(compiled / path.name, path))

    return place


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
