"""What reaches the spool, and what is counted when it cannot."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from spool_files import LAYOUT, Fake, names, records

from tracelake.recorder.capture import Unavailable
from tracelake.recorder.capture.cupti import Cupti

Copy = Callable[[str], Path]


def test_every_event_of_a_window_is_in_the_spool(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.launch(5)
    fake.capture.start()
    before = time.perf_counter_ns()
    fake.launch(1000, b"first")
    fake.launch(10, None)
    fake.capture.stop()
    after = time.perf_counter_ns()
    fake.launch(5)
    found = records(fake.folder)
    assert Counter(record.kind for record in found) == {10: 1010, 5: 1010}
    kernel = next(record for record in found if record.kind == 10)
    assert (kernel.stream, kernel.a, kernel.b, kernel.correlation) == (7, 1024, 256, 6)
    assert names(fake.folder) == {0: "<no name>", 1: "<too many names>", 2: "first"}
    assert Counter(record.name for record in found if record.kind == 10) == {2: 1000, 0: 10}
    assert all(before <= record.start_ns <= after for record in found if record.kind == 5), "another clock"
    assert fake.capture.counts().produced == {
        "kernel": 1010,
        "api": 1010,
        "memop": 0,
        "sync": 0,
        "overhead": 0,
        "other": 0,
    }
    assert not any(fake.capture.counts().dropped.values())
    assert fake.capture.position() == (0, 2020 * LAYOUT.size)
    fake.capture.close()


def test_the_thread_drains_by_itself(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", period_ms=20)
    fake.capture.start()
    fake.launch(100)
    deadline = time.monotonic() + 10
    while len(records(fake.folder, live=True)) < 200:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    fake.capture.close()


def test_only_listed_calls_are_kept_where_cupti_records_all(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", cupti="old_cupti")
    fake.capture.start()
    fake.launch(10)
    fake.launch(20, cbid=17)  # cudaGetDevice: not asked for
    fake.library.fake_emit(3, 39)
    fake.capture.stop()
    assert Counter(record.kind for record in records(fake.folder)) == {10: 30, 5: 10}
    assert fake.capture.stats()["skipped_records"] == 23
    assert fake.balances()
    fake.capture.close()


def test_files_rotate_on_record_boundaries(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", file_bytes=100 * LAYOUT.size + 7)
    fake.capture.start()
    fake.launch(125)
    fake.capture.stop()
    sizes = [path.stat().st_size // LAYOUT.size for path in sorted(fake.folder.glob("events-*.bin"))]
    assert sizes == [100, 100, 50]
    assert fake.capture.position() == (2, 50 * LAYOUT.size)
    fake.capture.close()


def test_names_are_there_before_their_records(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", period_ms=1, buffer_bytes=8192)
    fake.capture.start()
    kernels = [ctypes.create_string_buffer(f"kernel {each}".encode()) for each in range(3000)]

    def produce() -> None:
        for kernel in kernels:
            fake.library.fake_launch(1, ctypes.cast(kernel, ctypes.c_char_p), 211)

    thread = threading.Thread(target=produce)
    thread.start()
    while thread.is_alive():
        used = {record.name for record in records(fake.folder, live=True) if record.kind == 10}
        assert used <= names(fake.folder).keys()
    thread.join()
    fake.capture.stop()
    known = names(fake.folder)
    assert [known[r.name] for r in records(fake.folder) if r.kind == 10] == [k.value.decode() for k in kernels]
    fake.capture.close()


def test_an_address_that_gets_another_name(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    place, other = ctypes.create_string_buffer(b"old name, long"), ctypes.create_string_buffer(b"old name, long")
    for each in (b"old name, long", b"new\tname\n", b"old name, long"):
        place.value = each
        fake.library.fake_launch(1, ctypes.cast(place, ctypes.c_char_p), 211)
        fake.flush()
    fake.library.fake_launch(1, ctypes.cast(other, ctypes.c_char_p), 211)
    fake.capture.stop()
    assert [record.name for record in records(fake.folder) if record.kind == 10] == [2, 3, 2, 2]
    assert names(fake.folder)[2] == "old name, long"
    assert names(fake.folder)[3] == "new name "
    fake.capture.close()


def test_names_without_end_are_bounded(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    kernels = b"\0".join(b"k%d" % each for each in range(70_000)) + b"\0"
    at = ctypes.addressof(block := ctypes.create_string_buffer(kernels))
    for each in kernels.split(b"\0")[:-1]:
        fake.library.fake_launch(1, ctypes.cast(at, ctypes.c_char_p), 211)
        at += len(each) + 1
    fake.library.fake_launch(1, ctypes.cast(ctypes.addressof(block), ctypes.c_char_p), 211)
    fake.capture.stop()
    used = [record.name for record in records(fake.folder) if record.kind == 10]
    assert used == [*range(2, 1 << 16), *[1] * (70_000 - (1 << 16) + 2), 2]
    assert len(names(fake.folder)) == 1 << 16
    fake.capture.close()


def test_at_the_memory_cap_the_oldest_go_and_are_counted(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", buffer_bytes=8192, buffer_count=4)
    fake.capture.start()
    fake.launch(1000)
    assert fake.capture.stats()["allocated_buffers"] == 4
    fake.capture.stop()
    kernels = [record.correlation for record in records(fake.folder) if record.kind == 10]
    produced, memory, space = fake.dropped(10)
    assert (produced, space) == (1000, 0)
    assert memory > 800
    assert kernels == list(range(memory + 1, 1001)), "not the oldest"
    assert fake.balances()
    assert fake.library.fake_unzeroed() == 0, "CUPTI was promised cleared buffers"
    fake.capture.close()


def test_threads_that_outrun_the_drain(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", buffer_bytes=16384, buffer_count=4, period_ms=1, file_bytes=1 << 20)
    fake.capture.start()
    threads = [threading.Thread(target=fake.library.fake_launch_many, args=(6250,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fake.capture.stop()
    counts = fake.capture.counts()
    assert (counts.produced["kernel"], counts.produced["api"]) == (50_000, 50_000)
    assert fake.balances()
    assert fake.library.fake_unzeroed() == 0
    assert len({record.name for record in records(fake.folder) if record.kind == 10}) <= 60
    fake.capture.close()


def test_what_cupti_lost_itself_is_counted(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    fake.library.fake_drop(17)
    fake.library.fake_foreign()
    fake.capture.stop()
    counts = fake.capture.counts()
    assert (counts.produced["other"], counts.dropped["other"]) == (17, 17)
    assert fake.capture.stats()["foreign_buffers"] == 1
    fake.capture.close()


def test_a_full_disk_drops_and_counts_and_recovers(copy: Copy, tmp_path: Path, small_disk: Path) -> None:
    fake = Fake(copy, small_disk / "spool")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600 << 10))
    fake.capture.start()
    fake.launch(20_000)
    fake.flush()
    assert 0 < fake.dropped(10)[2] < 20_000
    assert fake.capture.stats()["error"] == 28
    assert fake.balances()
    ballast.unlink()
    before = len(records(fake.folder))
    fake.launch(10, b"later")
    fake.capture.stop()
    found = records(fake.folder)
    assert len(found) == before + 20
    assert names(fake.folder)[found[-1].name if found[-1].kind == 10 else found[-11].name] == "later"
    assert fake.balances()
    fake.capture.close()


def test_names_that_do_not_fit_take_their_records_with_them(copy: Copy, small_disk: Path) -> None:
    fake = Fake(copy, small_disk / "spool")
    free = 1 << 20
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(free - (16 << 10)))
    fake.capture.start()
    fake.launch(1, b"x" * (64 << 10))
    fake.flush()
    assert fake.dropped(10) == (1, 0, 1)
    ballast.unlink()
    fake.launch(1, b"y")
    fake.capture.stop()
    found = names(fake.folder)
    assert (found[2], found[3]) == ("x" * (64 << 10), "y")
    assert [record.name for record in records(fake.folder) if record.kind == 10] == [3]
    fake.capture.close()


def test_below_the_reserve_nothing_is_written(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool", reserve_bytes=1 << 60)
    fake.capture.start()
    fake.launch(10)
    fake.capture.stop()
    assert records(fake.folder) == []
    assert fake.dropped(10) == (10, 0, 10)
    fake.capture.close()


def test_writing_can_be_switched_off(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    for on in (True, False, True):
        fake.capture.set_writing(on)
        fake.launch(10)
        fake.flush()
    fake.capture.stop()
    assert fake.dropped(10) == (30, 0, 10)
    assert fake.balances()
    fake.capture.close()


def test_a_folder_takes_one_spool(copy: Copy, tmp_path: Path) -> None:
    fake = Fake(copy, tmp_path / "spool")
    fake.capture.start()
    fake.launch(10, b"kept")
    fake.capture.close()
    path = str(tmp_path / "cupti.so")
    with pytest.raises(Unavailable, match="no earlier spool"):
        Cupti.open(fake.folder, shim=tmp_path / "shim.so", cupti=path)
    (tmp_path / "second").mkdir()
    second = Cupti.open(tmp_path / "second", shim=tmp_path / "shim.so", cupti=path, reserve_bytes=0)
    second.close()
    assert names(tmp_path / "second") == {}
