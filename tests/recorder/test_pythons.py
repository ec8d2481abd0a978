"""The base install, from a wheel, on every Python that the recorder supports and this machine has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import environment, script, wait_until_delivered

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.10", "3.12", "3.13")
SCRIPT = """
import asyncio, json, sys, threading
import smppy
import tracelake

profiler = smppy.SMProfiler.instance()
config = smppy.Config()
config.profiler = {"EnableCuda": "1"}
profiler.configure(config)
profiler.start_profiling()
for step in range(100):
    with smppy.annotate("step_" + str(step)):
        with tracelake.annotate("forward"):
            pass
profiler.stop_profiling()
print(json.dumps([sys.version_info[:2], tracelake.__file__]))
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built beside a copy of it: a build leaves its traces in its folder."""
    source = tmp_path_factory.mktemp("source") / "tracelake"
    ignored = shutil.ignore_patterns(
        ".*", "build", "dist", "tests", "docs", "bench", "*.egg-info", "__pycache__", "*.so"
    )
    shutil.copytree(ROOT, source, ignore=ignored)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(out)]
    subprocess.run([*command, str(source)], check=True)
    (found,) = out.glob("*.whl")
    return found


def interpreter(version: str) -> str:
    named = shutil.which(f"python{version}")
    candidates = [Path(named)] if named else []
    candidates += sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for candidate in candidates:
        if (
            subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode
            == 0
        ):
            return str(candidate)
    pytest.skip(f"no Python {version} with venv on this machine")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wheel_records_with_nothing_but_the_base_install(tmp_path: Path, wheel: Path, version: str) -> None:
    folder = tmp_path / "venv"
    subprocess.run([interpreter(version), "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True)
    env = {name: value for name, value in environment(tmp_path).items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-W", "error", script(tmp_path, SCRIPT)], env=env, cwd=tmp_path, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (major, minor), file = json.loads(done.stdout)
    assert f"{major}.{minor}" == version
    assert file.startswith(os.fspath(folder))
    lake = wait_until_delivered(tmp_path)
    assert len(lake.rows("annotation")) == 200
    assert {row["metric"] for row in lake.rows("sample")} >= {"memory_used", "memory_rss"}
    (end,) = lake.closing()
    assert (end["status"], end["state"]) == ("complete", "completed")


def test_the_wheel_holds_the_shim_or_says_that_it_is_for_any_platform(wheel: Path) -> None:
    import zipfile

    names = zipfile.ZipFile(wheel).namelist()
    has_shim = any(name.endswith("libtracelake_shim.so") for name in names)
    assert has_shim == (not wheel.name.endswith("-any.whl"))
    assert "tracelake_names.pth" in names
