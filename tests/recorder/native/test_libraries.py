"""What is missing is said by a code and with its remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelake.recorder.capture import Unavailable, libraries
from tracelake.recorder.capture.cupti import Cupti
from tracelake.recorder.capture.driver import devices
from tracelake.recorder.capture.libraries import driver, find_cupti

Copy = Callable[[str], Path]


def test_no_driver() -> None:
    with pytest.raises(Unavailable, match="install") as caught:
        driver(name="libcuda-of-nobody.so.1")
    assert caught.value.code == "no_driver"


@pytest.mark.parametrize(("result", "code"), [("100", "no_gpu"), ("999", "no_driver")])
def test_a_driver_that_cannot_start(copy: Copy, monkeypatch: pytest.MonkeyPatch, result: str, code: str) -> None:
    monkeypatch.setenv("FAKE_CUDA_INIT", result)
    path = str(copy("cuda"))
    driver(name=path)
    with pytest.raises(Unavailable) as caught:
        driver(initialize=True, name=path)
    assert caught.value.code == code


def test_devices(copy: Copy) -> None:
    found = devices(driver(initialize=True, name=str(copy("cuda"))))
    assert found[1] == {
        "index": 1,
        "uuid": "GPU-00112233-4455-6677-8899-aabbccddee01",
        "name": "Stand-in 1",
        "memory_bytes": (80 << 30) + 1,
        "sm_count": 132,
        "compute_capability": "9.0",
    }
    assert len(found) == 2


def test_a_libcupti_in_the_process_comes_first(copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = copy("cupti").rename(tmp_path / "libcupti.so.13")
    libraries.ctypes.CDLL(str(loaded))
    assert re.search(r"/libcupti\.so\.13$", find_cupti())
    monkeypatch.setattr(libraries, "_candidates", lambda: iter(["libcupti-of-nobody.so"]))
    with pytest.raises(Unavailable, match="install") as caught:
        find_cupti()
    assert caught.value.code == "no_cupti"


def test_a_shim_or_a_libcupti_that_is_not_one(copy: Copy, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        Cupti.open(tmp_path, shim=copy("cuda"), cupti=str(copy("cupti")))
    assert caught.value.code == "no_shim"
    with pytest.raises(Unavailable, match="cuptiActivityRegisterCallbacks") as caught:
        Cupti.open(tmp_path, shim=copy("shim"), cupti=str(copy("cuda")))
    assert caught.value.code == "no_cupti"


def test_without_a_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "SHIM", "libtracelake_of_nobody.so")
    with pytest.raises(Unavailable, match="compiler") as caught:
        libraries.find_shim()
    assert caught.value.code == "no_shim"
