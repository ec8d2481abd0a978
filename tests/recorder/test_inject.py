from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tracelake.recorder.launch import INJECT

_SECONDS = 60.0


@pytest.fixture(scope="module")
def inject() -> ModuleType:
    """The file under another name, by which it does nothing of its own accord."""
    spec = importlib.util.spec_from_file_location("inject_under_test", INJECT / "sitecustomize.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "line",
    [
        "python train.py",
        "python -u train.py --pip",
        "python -W ignore -X dev /job/train.py",
        "python -Wignore -uX faulthandler train.py -m pip",
        "python -m package.train",
        "python -um package.train",
        "python -mtrain",
        "python --check-hash-based-pycs always train.py",
        "python -",
        "/usr/bin/python3 pipeline.py",
        "python deepspeed_train.py",
        "python -m torch_train",
    ],
)
def test_training_is_recorded(inject: ModuleType, line: str) -> None:
    assert inject._is_training(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "python",
        "python -c import torch",
        "python -uc import torch",
        "python -V",
        "python /usr/bin/torchrun --nproc-per-node 8 train.py",
        "python -m torch.distributed.run train.py",
        "python -m torch.distributed.launch train.py",
        "python -m accelerate.commands.launch train.py",
        "python /env/bin/accelerate launch train.py",
        "python /env/bin/deepspeed train.py",
        "python -u -m deepspeed.launcher.launch --world_info=x train.py",
        "python -m pip install x",
        "python /env/bin/pip install x",
        "python /env/bin/pip3.11 install x",
        "python -c from multiprocessing.spawn import spawn_main; spawn_main() --multiprocessing-fork",
        "python -c from multiprocessing.resource_tracker import main;main(5)",
        "python -m joblib.externals.loky.backend.popen_loky_posix --process-name x",
        "python -m tracelake.recorder.launch -- python train.py",
    ],
)
def test_launchers_and_helpers_are_not(inject: ModuleType, line: str) -> None:
    assert not inject._is_training(line.split())


def test_a_train_script_is_recorded_unless_it_is_sagemakers_toolkit(inject: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("from mine import main\n")
    assert inject._is_training(["python", str(script)])
    script.write_text("from sagemaker_training.cli.train import main\n")
    assert not inject._is_training(["python", str(script)])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, True),
        ({"TRACELAKE_LAUNCH_FOLDER": ""}, False),
        ({"TRACELAKE_ENABLED": "0"}, False),
        ({"TRACELAKE_ENABLED": "off"}, False),
        ({"TRACELAKE_ENABLED": "1"}, True),
        ({"TRACELAKE_RECORDED": "x:1"}, False),
        ({"TRACELAKE_RECORDED": "x:1", "RANK": "0"}, True),
        ({"TRACELAKE_RECORDED": "0:1", "RANK": "0"}, False),
        ({"TRACELAKE_RECORDED": "0:1", "RANK": "1"}, True),
        ({"TRACELAKE_RECORDED": "3:1", "SLURM_PROCID": "3"}, False),
        ({"TRACELAKE_RECORDED": f"x:{os.getpid()}"}, True),
    ],
)
def test_each_rank_is_recorded_once(inject: ModuleType, environ: dict[str, str], expected: bool) -> None:
    given = {"TRACELAKE_LAUNCH_FOLDER": "/launch", **environ}
    assert inject._is_wanted(["python", "train.py"], given) is expected


# A real start ---------------------------------------------------------------------------------------------------------


def _start(code: str, folder: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(INJECT), *([str(folder)] if folder else [])])
    given = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE_")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=_SECONDS,
        env={**given, "PYTHONPATH": path, **environ},
    )  # fmt: skip


def test_it_leaves_the_path_and_loads_nothing_where_nothing_is_recorded() -> None:
    code = "import json, sys; print(json.dumps([sys.path, [n for n in sys.modules if n.startswith('tracelake.')]]))"
    path, loaded = json.loads(_start(code, TRACELAKE_LAUNCH_FOLDER="/launch").stdout)
    assert str(INJECT) not in path
    assert loaded == []


def test_another_sitecustomize_runs_as_it_would_have(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.seen = [__name__, __file__]\n")
    ran = _start("import sys, sitecustomize; print(*sys.seen, sitecustomize.__file__)", tmp_path)
    other = str(tmp_path / "sitecustomize.py")
    assert ran.stdout.split() == ["sitecustomize", other, other]
    assert ran.stderr == ""


@pytest.mark.parametrize("mistake", ["raise RuntimeError('theirs')", "import no_such_module"])
def test_another_sitecustomize_fails_as_it_would_have(tmp_path: Path, mistake: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(mistake + "\n")
    ours = _start("print('goes on')", tmp_path)
    theirs = _start("print('goes on')", tmp_path, PYTHONPATH=str(tmp_path))
    assert (ours.stdout, ours.returncode) == (theirs.stdout, theirs.returncode)
    assert ours.stderr.splitlines()[-1] == theirs.stderr.splitlines()[-1]


def test_a_broken_recorder_is_one_line_and_the_script_runs(tmp_path: Path) -> None:
    (tmp_path / "tracelake").mkdir()
    (tmp_path / "tracelake" / "__init__.py").write_text("raise OSError('broken')\n")
    (tmp_path / "train.py").write_text("print('trained')\n")
    environ = {**os.environ, "PYTHONPATH": f"{INJECT}{os.pathsep}{tmp_path}", "TRACELAKE_LAUNCH_FOLDER": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-S", "-c", "import sitecustomize"], capture_output=True, text=True, timeout=_SECONDS,
        env=environ,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "train.py")], capture_output=True, text=True, timeout=_SECONDS, env=environ
    )
    assert (ran.returncode, ran.stdout) == (0, "trained\n")
    assert ran.stderr.splitlines() == ["tracelake: nothing is recorded in this process: OSError: broken"]


_TRAIN = """
import multiprocessing, os, subprocess, sys
import smppy

def work():
    pass

if __name__ == "__main__":
    if "RANK" not in os.environ:
        again = [sys.executable, __file__]
        subprocess.run(again, check=True, env={**os.environ, "RANK": "0"})
        subprocess.run(again, check=True, env={**os.environ, "RANK": "1"})
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    elif "SECOND" not in os.environ:
        subprocess.run([sys.executable, __file__], check=True, env={**os.environ, "SECOND": "1"})
        process = multiprocessing.get_context("spawn").Process(target=work)
        process.start(); process.join()
        for step in range(2):
            with smppy.annotate(f"step_{step}"):
                pass
"""


def test_ranks_below_the_launcher_are_recorded_once_each_with_an_unchanged_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TRAIN)
    ran = subprocess.run(
        [sys.executable, "-m", "tracelake.recorder.launch", "--output", str(tmp_path / "lake"), "--spool",
         str(tmp_path / "spool"), "--job", "unchanged", "--no-gpu", "--", sys.executable, str(tmp_path / "train.py")],
        capture_output=True, text=True, timeout=_SECONDS,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    manifests = list((tmp_path / "lake").rglob("manifest/**/*.json"))
    # The script that started the ranks, and the two ranks.
    assert len(manifests) == 3, ran.stderr
    assert len(list((tmp_path / "lake").rglob("annotation/**/*.parquet"))) == 2
    assert not list((tmp_path / "spool").glob("*/process.json"))
