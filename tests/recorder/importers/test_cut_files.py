"""A cut file and its whole one, in either order, are one recording (case 3, METRICS "Where events live")."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from trace_files import JOB, kernel, kernels, launch, live, stored, trace, write

from tracelake.recorder.importers import ImportOptions
from tracelake.recorder.importers.trace_file import import_file

OPTIONS = ImportOptions(JOB)
PACKINGS = [(10, False), (30, False), (100, False), (1000, False), (20_000, False), (1000, True), (20_000, True)]
"""Kernels of a file (1.4 KB to 3 MB), and whether its cut is of the gzip file."""


def _two_processes(count: int) -> list[str]:
    events = []
    for i in range(count):
        pid = 100 + i % 2
        events += [
            launch(10 * i, correlation=i + 1, pid=pid),
            kernel(10 * i + 3, name=f"k{i}", correlation=i + 1, device=i % 2),
        ]
    return events


@pytest.mark.parametrize(("count", "packed"), PACKINGS)
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_the_whole_file_replaces_its_cut(tmp_path: Path, count: int, share: float, packed: bool) -> None:
    content = trace(kernels(count))
    cut = gzip.compress(content) if packed else content
    cut = cut[: int(len(cut) * share)]
    first = import_file(write(tmp_path / "cut.json", cut), tmp_path / "lake", OPTIONS)
    salvaged = len(stored(tmp_path / "lake", "kernel"))
    assert first.status == "incomplete"
    assert 0 < salvaged <= count
    second = import_file(write(tmp_path / "whole.json", content), tmp_path / "lake", OPTIONS)
    assert (second.status, second.duplicate) == ("complete", False)
    rows = stored(tmp_path / "lake", "kernel")
    assert len(rows) == count
    assert sum(row["duration_ns"] for row in rows) == count * 10_000


@pytest.mark.parametrize(("count", "packed"), PACKINGS)
@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_cut_of_a_file_that_is_there_is_a_duplicate(tmp_path: Path, count: int, share: float, packed: bool) -> None:
    content = trace(kernels(count))
    import_file(write(tmp_path / "whole.json", content), tmp_path / "lake", OPTIONS)
    cut = gzip.compress(content) if packed else content
    cut = cut[: int(len(cut) * share)]
    second = import_file(write(tmp_path / "cut.json", cut), tmp_path / "lake", OPTIONS)
    assert second.duplicate
    assert len(stored(tmp_path / "lake", "kernel")) == count


@pytest.mark.parametrize("lacking", [1, 8])
def test_a_gzip_that_lacks_only_its_trailer_and_the_whole_one(tmp_path: Path, lacking: int) -> None:
    packed = gzip.compress(trace(kernels(1000)))
    import_file(write(tmp_path / "cut.gz", packed[:-lacking]), tmp_path / "lake", OPTIONS)
    assert len(stored(tmp_path / "lake", "kernel")) == 1000
    import_file(write(tmp_path / "whole.gz", packed), tmp_path / "lake", OPTIONS)
    assert len(stored(tmp_path / "lake", "kernel")) == 1000
    assert len(live(tmp_path / "lake")) == 1


@pytest.mark.parametrize("count", [30, 1000])
def test_a_cut_file_imported_again_is_a_duplicate(tmp_path: Path, count: int) -> None:
    content = trace(kernels(count))
    cut = content[: len(content) * 7 // 10]
    import_file(write(tmp_path / "cut.json", cut), tmp_path / "lake", OPTIONS)
    salvaged = len(stored(tmp_path / "lake", "kernel"))
    for name, part in (("cut.json", cut), ("renamed.json", cut), ("cut.json.gz", gzip.compress(cut))):
        again = import_file(write(tmp_path / name, part), tmp_path / "lake", OPTIONS)
        assert again.duplicate
        assert len(live(tmp_path / "lake")) == 1
        assert len(stored(tmp_path / "lake", "kernel")) == salvaged


@pytest.mark.parametrize("count", [30, 1000])
@pytest.mark.parametrize("shares", [(0.3, 0.7), (0.7, 0.3)])
def test_of_two_cuts_the_longer_one_stays(tmp_path: Path, count: int, shares: tuple[float, float]) -> None:
    content = trace(kernels(count))
    for share in shares:
        import_file(write(tmp_path / f"{share}.json", content[: int(len(content) * share)]), tmp_path / "lake", OPTIONS)
    rows = stored(tmp_path / "lake", "kernel")
    assert len({row["name"] for row in rows}) == len(rows) > count * 6 // 10
    import_file(write(tmp_path / "whole.json", content), tmp_path / "lake", OPTIONS)
    assert len(stored(tmp_path / "lake", "kernel")) == count


def test_all_sources_of_a_cut_file_are_replaced(tmp_path: Path) -> None:
    content = trace(_two_processes(500))
    import_file(write(tmp_path / "cut.json", content[: len(content) // 2]), tmp_path / "lake", OPTIONS)
    assert len(live(tmp_path / "lake")) == 2
    import_file(write(tmp_path / "whole.json", content), tmp_path / "lake", OPTIONS)
    assert len(live(tmp_path / "lake")) == 2
    assert len(stored(tmp_path / "lake", "kernel")) == 500
    assert len(stored(tmp_path / "lake", "launch")) == 500


def test_cut_files_of_equal_length_are_each_replaced_by_their_own(tmp_path: Path) -> None:
    whole = {}
    for rank in (0, 1):
        events = [kernel(10 * i + rank, name=f"k{i}", correlation=i + 1) for i in range(100, 1000)]
        whole[rank] = trace(events, {"distributedInfo": {"rank": rank}})
        cut = whole[rank][: len(whole[rank]) // 2]
        import_file(write(tmp_path / f"cut{rank}.json", cut), tmp_path / "lake", OPTIONS)
    assert len(live(tmp_path / "lake")) == 2
    for rank in (0, 1):
        import_file(write(tmp_path / f"whole{rank}.json", whole[rank]), tmp_path / "lake", OPTIONS)
    assert len(live(tmp_path / "lake")) == 2
    assert len(stored(tmp_path / "lake", "kernel")) == 1800


def test_a_cut_of_another_file_with_the_same_header_is_no_duplicate(tmp_path: Path) -> None:
    devices = [{"id": i, "name": "NVIDIA H100 80GB HBM3", "note": "x" * 600} for i in range(8)]
    files = {
        rank: trace(
            [kernel(10 * i + rank, name=f"r{rank}k{i}", correlation=i + 1) for i in range(1000)],
            {"deviceProperties": devices, "distributedInfo": {"rank": rank}},
        )
        for rank in (0, 1)
    }
    assert len(json.dumps(devices)) > 4096
    import_file(write(tmp_path / "rank0.json", files[0]), tmp_path / "lake", OPTIONS)
    second = import_file(write(tmp_path / "rank1.json", files[1][:8000]), tmp_path / "lake", OPTIONS)
    assert not second.duplicate
    assert len(live(tmp_path / "lake")) == 2


def test_a_cut_under_another_job_is_left_alone(tmp_path: Path) -> None:
    content = trace(kernels(100))
    import_file(write(tmp_path / "cut.json", content[:5000]), tmp_path / "lake", ImportOptions("other"))
    salvaged = len(stored(tmp_path / "lake", "kernel", "other"))
    done = import_file(write(tmp_path / "whole.json", content), tmp_path / "lake", OPTIONS)
    assert not done.duplicate
    assert len(stored(tmp_path / "lake", "kernel", "other")) == salvaged
    assert len(stored(tmp_path / "lake", "kernel")) == 100


def test_a_cut_file_names_what_it_rests_on(tmp_path: Path) -> None:
    listed = kernels(1000)
    content = trace(listed)
    start = content.index(listed[700].encode())
    import_file(write(tmp_path / "cut.json", content[: start + 30]), tmp_path / "lake", OPTIONS)
    (manifest,) = live(tmp_path / "lake")
    assert manifest.status == "incomplete"
    assert manifest.read_bytes == start - len(",\n")
    assert manifest.file_bytes == start + 30
    rows = stored(tmp_path / "lake", "kernel")
    assert (len(rows), sum(row["duration_ns"] for row in rows)) == (700, 7_000_000)
    row = stored(tmp_path / "lake", "source")[-1]
    assert (row["status"], row["status_reason"]) == ("incomplete", "file_cut")
