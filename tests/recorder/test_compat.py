from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tracelake.recorder import api, compat

_SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from tracelake.recorder import compat
before = len(sys.meta_path)
compat.install()
compat.install()
import {name}
print(json.dumps([len(sys.meta_path) - before, getattr({name}, "__spec__").origin, hasattr({name}, "SMProfiler")]))
"""


def _run(script: str) -> list[object]:
    ran = subprocess.run([sys.executable, "-c", "import json\n" + script], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    found: list[object] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", compat.NAMES)
def test_the_stand_in_is_found_and_added_at_most_once(name: str, tmp_path: Path) -> None:
    added, origin, has_profiler = _run(_SCRIPT.format(folder=str(tmp_path), name=name))
    assert added in (0, 1)  # the wheel's .pth may have been first
    assert (origin, has_profiler) == ("tracelake.recorder.compat", True)


def test_an_installed_original_wins(tmp_path: Path) -> None:
    (tmp_path / "smppy.py").write_text("")
    _, origin, has_profiler = _run(_SCRIPT.format(folder=str(tmp_path), name="smppy"))
    assert origin == str(tmp_path / "smppy.py")
    assert has_profiler is False


@pytest.mark.parametrize("name", compat.NAMES)
def test_it_offers_what_sagemaker_documents(name: str) -> None:
    spec = compat.spec(name)
    module = type(sys)(name)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    assert module.SMProfiler is module.Profiler is api.Profiler
    assert module.SMProfiler.instance() is api.Profiler.instance()
    config = module.Config()
    config.profiler = {"EnableCuda": "1"}
    for call in ("configure", "start_profiling", "stop_profiling"):
        assert callable(getattr(module.SMProfiler.instance(), call))
    with module.annotate("block"):
        entry = module.annotation_begin("step_0")
        module.annotation_end(entry)
    assert entry[2] >= entry[1]

    @module.annotate("function")  # type: ignore[untyped-decorator]
    def doubled(value: int) -> int:
        return value * 2

    assert doubled(4) == 8


def test_other_names_are_none_of_ours() -> None:
    with pytest.raises(ValueError, match="smdebug"):
        compat.spec("smdebug")
    assert compat.Finder().find_spec("smdebug", None) is None
    assert compat.Finder().find_spec("smppy", ["inside a package"]) is None
