"""Opening, pausing, forking, hanging: the recorder never takes the job with it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from spool_files import Fake, records

from tracelake.recorder.capture import Unavailable
from tracelake.recorder.capture.cupti import Cupti

Copy = Callable[[str], Path]

FORKS = """
import os, sys, threading, time, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from spool_files import Fake, records
warnings.simplefilter("ignore", DeprecationWarning)
folder = Path(sys.argv[2])
fake = Fake(lambda name: folder / f"{name}.so", folder / "spool", period_ms=1, buffer_bytes=8192)
fake.capture.start()
done = threading.Event()
launched = 0
def work():
    global launched
    while not done.is_set():
        fake.launch(50)
        launched += 50
        time.sleep(0.0005)
thread = threading.Thread(target=work)
thread.start()
children = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        before = fake.capture.position()
        fake.capture.start(); fake.capture.set_writing(False); fake.capture.stop(); fake.capture.resume()
        open_files = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")
                      if os.path.exists(f"/proc/self/fd/{each}")]
        fake.capture.counts(); fake.capture.stats(); fake.capture.close()
        sys.stdout.flush()
        # The library itself refuses too, not only its Python side.
        dead = fake.capture._shim.flush(True, 1000) == -3 and fake.capture._shim.close(1000) == -3
        os._exit(0 if dead and not any("spool" in each for each in open_files) else 3)
    children.append(pid)
deadline = time.monotonic() + 10
while children:
    pid, status = os.waitpid(-1, os.WNOHANG)
    assert time.monotonic() < deadline, "a child hangs"
    if pid:
        assert status == 0, status
        children.remove(pid)
    else:
        time.sleep(0.005)
done.set()
thread.join()
fake.capture.stop()
assert fake.dropped(10)[0] == launched, (fake.dropped(10), launched)
assert fake.balances()
fake.capture.close()
print("ok")
"""


def test_fork_while_recording(copy: Copy, tmp_path: Path) -> None:
    copy("shim"), copy("cupti")
    command = [sys.executable, "-c", FORKS, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_a_script_that_just_ends(copy: Copy, tmp_path: Path) -> None:
    copy("shim"), copy("cupti")
    code = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from spool_files import Fake
folder = Path(sys.argv[2])
fake = Fake(lambda name: folder / f"{name}.so", folder / "spool")
fake.capture.start()
fake.library.fake_launch_many(1000)
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(records(tmp_path / "spool")) == 2000


def test_a_thousand_windows(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    for window in range(1000):
        fake.capture.start()
        fake.launch(3)
        fake.capture.stop()
        assert fake.capture.position()[1] == (window + 1) * 6 * 40
        fake.launch(1)
    assert len(records(fake.folder)) == 6000
    assert fake.balances()
    fake.capture.close()


def test_another_profiler_comes_and_goes(copy: Copy, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    fake.launch(10)
    fake.capture.pause()
    assert len(records(fake.folder)) == 20
    fake.library.fake_take_over()
    fake.launch(10)
    fake.library.fake_subscribe_code(39)
    with caplog.at_level(logging.WARNING):
        assert not fake.capture.resume()
        assert not fake.capture.resume()
    fake.library.fake_subscribe_code(0)
    before = time.perf_counter_ns()
    assert fake.capture.resume()
    fake.launch(10)
    fake.capture.stop()
    found = records(fake.folder)
    assert len(found) == 40
    assert all(record.start_ns >= before for record in found[20:]), "the clock is still the other's"
    assert fake.balances()
    fake.capture.close()
    assert sum("another profiler" in each.message for each in caplog.records) <= 1


def test_a_window_may_end_while_paused(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    fake.capture.pause()
    fake.capture.stop()
    assert fake.capture.resume()
    fake.launch(10)
    fake.capture.start()
    fake.launch(1)
    fake.capture.stop()
    assert len(records(fake.folder)) == 2
    fake.capture.close()


@pytest.mark.parametrize(
    ("call", "code", "expected"),
    [
        ("fake_subscribe_code", 39, "cupti_busy"),
        ("fake_subscribe_code", 12, "cupti_busy"),
        ("fake_enable_code", 35, "cupti_refused"),
        ("fake_enable_code", 999, "cupti_refused"),
    ],
)
def test_a_cupti_that_is_taken_or_refuses(copy: Copy, tmp_path: Path, call: str, code: int, expected: str) -> None:
    first = Fake(copy, tmp_path / "spool")
    first.capture.close()
    getattr(first.library, call)(code)
    folder = tmp_path / "second"
    folder.mkdir()
    paths = {"shim": tmp_path / "shim.so", "cupti": str(tmp_path / "cupti.so")}
    with pytest.raises(Unavailable) as caught:
        Cupti.open(folder, **paths)
    assert caught.value.code == expected
    getattr(first.library, call)(0)
    Cupti.open(folder, **paths).close()


def test_a_cupti_that_hangs_does_not_hang_the_job(
    copy: Copy, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracelake.recorder.capture.cupti.FLUSH_TIMEOUT_MS", 100)
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    fake.library.fake_flush_hangs(1)
    began = time.monotonic()
    fake.capture.stop()
    fake.capture.close()
    assert time.monotonic() - began < 5
    fake.library.fake_flush_hangs(0)


def test_signals_stay_with_the_jobs_threads(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", period_ms=1)
    fake.flush()  # the thread has named itself by now
    states = [(each / "status").read_text() for each in Path("/proc/self/task").iterdir()]
    blocked = [int(state.partition("SigBlk:")[2].split()[0], 16) for state in states if "\ttracelake-drain\n" in state]
    terminate = 1 << 15 - 1
    assert blocked
    assert all(mask & terminate for mask in blocked)
    fake.capture.close()


def test_calls_have_names(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    assert fake.capture.apis() == {"5:211": "cudaLaunchKernel_v7000", "5:505": "cudaLaunchKernel_v13000"}
    assert fake.capture.version == 130001
    fake.capture.close()
