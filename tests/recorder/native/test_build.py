"""What setup.py adds to a wheel, with and without a compiler, and the line that finds the names of old scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STUB = """
from importlib.machinery import ModuleSpec
def spec(name):
    return ModuleSpec(name, None, origin="stand-in")
"""
FIND = """
import sys
sys.path = [each for each in sys.path if "site-packages" not in each] + sys.argv[2:]
for _ in range(2):
    exec(open(sys.argv[1]).read())
from importlib.util import find_spec
print(len([each for each in sys.meta_path if getattr(each, "__name__", "") == "TracelakeNames"]))
print([getattr(find_spec(name), "origin", None) for name in ("smppy", "smprof", "smother")])
"""


def build(folder: Path, **environment: str) -> str:
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_with_a_compiler(compiled: Path, tmp_path: Path) -> None:
    build(tmp_path)
    native = tmp_path / "tracelake" / "recorder" / "native"
    assert (native / "libtracelake_shim.so").read_bytes()[:4] == b"\x7fELF"
    assert {path.name for path in native.iterdir()} >= {"shim.c", "spool.h"}
    assert (tmp_path / "tracelake_names.pth").read_text().count("\n") == 1


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false", ""])
def test_without_a_compiler(tmp_path: Path, compiler: str) -> None:
    said = build(tmp_path, TRACELAKE_SHIM_CC=compiler)
    assert "installing without libtracelake_shim.so" in said
    assert not list(tmp_path.rglob("*.so*"))
    assert (tmp_path / "tracelake" / "recorder" / "native" / "shim.c").exists()


def test_old_names_are_found_unless_the_original_is_there(tmp_path: Path) -> None:
    build(tmp_path / "built", TRACELAKE_SHIM_CC="")
    stub, original = tmp_path / "stub", tmp_path / "original"
    (stub / "tracelake" / "recorder").mkdir(parents=True)
    for package in ("tracelake", "tracelake/recorder"):
        (stub / package / "__init__.py").touch()
    (stub / "tracelake" / "recorder" / "compat.py").write_text(STUB)
    original.mkdir()
    (original / "smppy.py").touch()

    def found(*paths: Path) -> list[str]:
        command = [sys.executable, "-S", "-c", FIND, str(tmp_path / "built" / "tracelake_names.pth")]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [*command, *map(str, paths)], capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert found(stub) == ["1", "['stand-in', 'stand-in', None]"]
    assert found(stub, original) == ["1", f"['{original / 'smppy.py'}', 'stand-in', None]"]
    assert found() == ["1", "[None, None, None]"]
