"""Check the recorder on a real GPU, in under five minutes: `python -m bench.gpu.check --out FILE`.

Each section is a process of its own, so that none inherits what another did to CUPTI, and one that crashes or hangs
is one line of the result. The file is written anew after each. Imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "recorder/native"
SHIM = "libtracelake_shim.so"
# Name of the result, section, most seconds. What matters most comes first.
SECTIONS = (
    ("counts", "counts", 60),
    ("pure", "pure", 60),
    ("ours", "ours", 90),
    ("torch_profiler", "torch_profiler", 120),
    ("pure_again", "pure", 60),
    ("clock", "clock", 45),
    ("stop_resume", "stop_resume", 45),
    ("late_attach", "late_attach", 45),
    ("coexistence", "coexistence", 60),
    ("recorded", "recorded", 90),
    ("nvml", "nvml", 45),
    ("gpm", "gpm", 60),
    ("graphs", "graphs", 45),
)


def main() -> None:
    """Exit 0 where there is no GPU too: the result says so."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"), help="file for the result")
    parser.add_argument("--seconds", type=float, default=290.0, help="start no section after so many")
    parser.add_argument("--blocks", type=float, default=8.0, help="seconds of each comparison")
    parser.add_argument("--only", nargs="*", default=None, help="names of sections")
    parser.add_argument("--stand-in", action="store_true", help="without a GPU: stand-ins for its libraries")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = _environment(folder, given.blocks)
        if given.stand_in:
            environment |= _stand_in(folder)
        _check(folder, environment, given)


def _check(folder: Path, environment: dict[str, str], given: argparse.Namespace) -> None:
    began = time.monotonic()
    result: dict[str, Any] = {"status": "running", "shim": _build_shim(), "sections": {}}
    machine = result["machine"] = _section("machine", folder / "machine", environment, 90)
    if "no_gpu" in machine or "error" in machine:
        result["status"] = "no GPU" if "no_gpu" in machine else "failed"
        _write(given.out, result)
        return
    for name, section, limit in SECTIONS:
        if given.only and name not in given.only:
            continue
        left = given.seconds - (time.monotonic() - began)
        if left < 10:
            result["sections"][name] = {"error": "no time left"}
            continue
        found = _section(section, folder / name, environment, min(limit, left))
        result["sections"][name] = found
        print(f"{name}: {json.dumps(found)[:1500]}", flush=True)
        _write(given.out, result)
    failed = [name for name, found in result["sections"].items() if "error" in found]
    kind = "stand-in" if given.stand_in else "GPU"
    result["status"] = f"{kind}: " + (f"failed: {', '.join(failed)}" if failed else "all sections ran")
    result["compared"] = _compared(result["sections"], environment)
    result["seconds"] = round(time.monotonic() - began, 1)
    _write(given.out, result)


def _compared(sections: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    """What the processes of `overhead` say together; a child says it, since it needs our package."""
    code = (
        "import json, sys; from bench.gpu.overhead import compared; print(json.dumps(compared(json.load(sys.stdin))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(sections),
        capture_output=True,
        text=True,
        cwd=environment["PYTHONPATH"].split(os.pathsep)[0],
        env=environment,
        check=False,
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"error": done.stderr[-1500:]}
    return found


def _section(name: str, folder: Path, environment: dict[str, str], limit: float) -> dict[str, Any]:
    folder.mkdir(parents=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "bench.gpu.section", name, str(folder)]
    try:
        # From a folder without our packages: in the repository, tracelake/ would hide the rest of the package.
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit,
                              check=False)  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if warnings := [line for line in done.stderr.splitlines() if "tracelake" in line]:
            found["said"] = warnings[:10]
    except subprocess.TimeoutExpired as error:
        found = {"error": f"it ran past {limit:.0f} s", "where": str(error.stderr or "")[-1500:]}
    except (IndexError, ValueError):
        found = {"error": f"it died with code {done.returncode}", "where": (done.stdout + done.stderr)[-1500:]}
    found["section_seconds"] = round(time.monotonic() - began, 1)
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _environment(folder: Path, blocks: float) -> dict[str, str]:
    """Variables under which every child finds the package as it lies here, installed or not."""
    package = folder / "packages/tracelake"
    package.mkdir(parents=True)
    for source in [*(ROOT / "tracelake").iterdir(), *(ROOT / each for each in ("recorder", "schemas"))]:
        (package / source.name).symlink_to(source)
    path = os.pathsep.join((str(package.parent), str(ROOT)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE_")}
    return {**kept, "PYTHONPATH": path, "GPU_CHECK_BLOCKS": str(blocks)}


def _stand_in(folder: Path) -> dict[str, str]:
    """Variables under which children take stand-ins for NVIDIA's libraries."""
    from bench.recorder_figures import stand_in_gpu

    source, library = ROOT / "tests/recorder/samplers/fake_nvml.c", folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", str(library), str(source)], check=True)
    return stand_in_gpu(folder)


def _build_shim() -> str:
    """The shim where the package looks for it, compiled unless it is there; says which."""
    if (NATIVE / SHIM).exists():
        return "found"
    if shutil.which("cc") is None:
        return "missing, and there is no C compiler"
    command = ["cc", "-O2", "-std=gnu11", "-fPIC", "-shared", str(NATIVE / "shim.c"), "-o", str(NATIVE / SHIM)]
    done = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    return "compiled" if done.returncode == 0 else f"cc failed: {done.stderr[-500:]}"


def _write(path: Path, result: dict[str, Any]) -> None:
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
    sys.exit(0)
