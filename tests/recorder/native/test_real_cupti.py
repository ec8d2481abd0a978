"""NVIDIA's own libcupti walks buffers that are made by hand; it needs neither a driver nor a GPU for that.

Each version runs in a process of its own. The sizes of its structures are asked of it; fields keep their offsets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
CACHE = ROOT / "build" / "cupti"
VERSIONS = {
    "nvidia-cuda-cupti-cu11==11.8.87": 18,
    "nvidia-cuda-cupti-cu12==12.4.127": 22,
    "nvidia-cuda-cupti-cu12==12.9.79": 28,
    "nvidia-cuda-cupti==13.0.85": 130001,
    "nvidia-cuda-cupti==13.1.115": 130101,
}

PARSE = """
import ctypes, json, struct, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from spool_files import LAYOUT
from tracelake.recorder.capture.shim import Shim
shim = Shim(Path(sys.argv[2]))
assert shim.load(sys.argv[3]) is None
walk = ctypes.CDLL(sys.argv[3]).cuptiActivityGetNextRecord

def size_of(kind):
    '''Asked of the library: where it sees the second of two records.'''
    data = ctypes.create_string_buffer(4096)
    at = ctypes.c_void_p()
    for offset in range(0, 1024, 8):
        struct.pack_into("<I", data, offset, kind)
    first = ctypes.addressof(data)
    walk.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    assert walk(first, 4096, ctypes.byref(at)) == 0 and at.value == first
    assert walk(first, 4096, ctypes.byref(at)) == 0
    return at.value - first

kernel_name = ctypes.create_string_buffer(b"_Z6kernelv")
whole, used, sizes = ctypes.create_string_buffer(8192), 0, {}
def put(kind, **fields):
    global used
    sizes[kind] = size_of(kind)
    struct.pack_into("<I", whole, used, kind)
    for field, value in fields.items():
        letter, offset = field[0], int(field[1:])
        struct.pack_into("<" + letter, whole, used + offset, value)
    used += sizes[kind]

shim.api(5, 211, True), shim.api(4, 652, True)
put(10, Q16=1000, Q24=1700, I40=3, I48=7, I156=9,
    I52=4, I56=2, I60=1, I64=128, I68=2, I72=1, I92=55, Q104=ctypes.addressof(kernel_name))
put(5, I4=211, Q8=900, Q16=905, I28=77, I32=55)
put(5, I4=17, Q8=906, Q16=907, I28=77, I32=56)
put(4, I4=652, Q8=910, Q16=920, I28=78, I32=57)
put(1, B4=1, B5=3, B6=2, Q8=1 << 33 | 5, Q16=2000, Q24=2500, I32=1, I40=7, I44=58)
put(22, B4=10, Q8=64, Q16=2100, Q24=2200, I32=1, I40=8, I44=2, I52=3, I60=59)
put(2, I4=255, Q8=4096, Q16=2600, Q24=2700, I32=1, I40=7, I44=60)
put(38, I4=3, Q8=3000, Q16=3900, I24=61, I28=1, I32=0xffffffff, I36=4)
put(17, I4=1 << 16, I8=2, I12=99, I16=1234, Q24=4000, Q32=4100)
put(39)
put(10, Q16=5000, Q24=4999, I52=0x7fffffff, I56=65535, I60=65535, I64=1, I68=1, I72=1, I92=62)
out = ctypes.create_string_buffer(64 * LAYOUT.size)
made = shim.library.tl_parse(ctypes.addressof(whole), used, out, 64)
apis = [shim.api_name(5, 211), shim.api_name(4, 307)]
print(json.dumps({"records": [LAYOUT.unpack_from(out, each * LAYOUT.size) for each in range(made)],
                  "version": shim.version(), "apis": apis, "sizes": sizes}))
"""

EXPECTED = [
    [10, 3, 7, 2, 1000, 700, 55, 8, 256, 9],
    [5, 0, 0, 211, 900, 5, 55, 77, 0, 0],
    [4, 0, 0, 652, 910, 10, 57, 78, 0, 0],
    [1, 1, 7, 1, 2000, 500, 58, 5, 2, 3 | 2 << 8],
    [22, 1, 8, 10, 2100, 100, 59, 64, 0, 2 | 3 << 16],
    [2, 1, 7, 255, 2600, 100, 60, 4096, 0, 0],
    [38, 0, 65535, 3, 3000, 900, 61, 4, 0, 0],
    [17, 0, 0, 1 << 16, 4000, 100, 0, 1234, 0, 0],
    [10, 0, 0, 0, 5000, 0, 62, 0xFFFFFFFF, 1, 0],
]


def library(requirement: str) -> Path:
    """The wheel's libcupti, downloaded once into build/."""
    folder = CACHE / requirement.rpartition("=")[2]
    if not (found := sorted(folder.rglob("libcupti.so.*"))):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "1", "--timeout", "5", "--no-deps"]
        try:
            subprocess.run([*pip, "--dest", str(folder), requirement], check=True, capture_output=True, timeout=120)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{requirement} cannot be had: {type(error).__name__}")
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                members = [each for each in archive.namelist() if "/libcupti.so." in each]
                archive.extractall(folder, members)
        found = sorted(folder.rglob("libcupti.so.*"))
    return found[0]


@pytest.mark.parametrize("requirement", VERSIONS)
def test_records_of_each_version(compiled: Path, requirement: str) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", PARSE, here, str(compiled / "shim.so"), str(library(requirement))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["records"] == EXPECTED
    assert answer["version"] == VERSIONS[requirement]
    assert answer["apis"] == ["cudaLaunchKernel_v7000", "cuLaunchKernel"]
