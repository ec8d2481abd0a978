"""One file into raw segments: whose rows they are, and what a second import of the same bytes does."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from trace_files import HOST, JOB, event, kernel, kernels, launch, left_behind, live, stored, trace, write

from tracelake.recorder.importers import ImportOptions
from tracelake.recorder.importers.trace_file import import_file
from tracelake.schemas.manifest import manifests, raw_root

OPTIONS = ImportOptions(JOB)
STEP = event("user_annotation", "ProfilerStep#1", 0, 100)


def _by_process(lake: Path, kind: str) -> dict[int | None, list[int]]:
    """Start times of a kind by the process id of their source."""
    processes = {row["source_id"]: row["process_id"] for row in stored(lake, "source")}
    found: dict[int | None, list[int]] = {}
    for row in stored(lake, kind):
        found.setdefault(processes[row["source_id"]], []).append(row["start_ns"])
    return found


def test_one_process(tmp_path: Path) -> None:
    events = [STEP, launch(1, correlation=5), kernel(20, correlation=5), event("cpu_op", "aten::mm", 0, 50)]
    flow = '{"ph": "s", "id": 5, "pid": 100, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"}'
    file = write(tmp_path / "t.json", trace([*events, flow], {"distributedInfo": {"rank": 3, "world_size": 8}}))
    done = import_file(file, tmp_path / "lake", OPTIONS)
    assert (done.status, done.rows_read, done.rows_stored, done.rows_lost, done.duplicate) == (
        "complete",
        5,
        4,
        0,
        False,
    )
    (manifest,) = live(tmp_path / "lake")
    assert manifest.rows == {"read": 5, "stored": 4, "quarantined": 0, "deduplicated": 0, "skipped": 1}
    for row in stored(tmp_path / "lake", "source"):
        assert (row["rank"], row["world_size"], row["process_id"], row["flags"]) == (3, 8, HOST, [])
    (found,) = stored(tmp_path / "lake", "kernel")
    assert (found["start_ns"], found["duration_ns"], found["correlation_id"]) == (20_000, 10_000, 5)
    assert (found["device_index"], found["stream_id"], found["name"]) == (0, 7, "k")
    assert [row["text"] for row in stored(tmp_path / "lake", "annotation")] == ["ProfilerStep#1"]
    assert not list(raw_root(tmp_path / "lake").glob("_staging/*"))


def test_a_file_without_a_rank_has_none_and_says_so(tmp_path: Path) -> None:
    import_file(write(tmp_path / "t.json", trace(kernels(3))), tmp_path / "lake", OPTIONS)
    row = stored(tmp_path / "lake", "source")[-1]
    assert (row["rank"], row["flags"]) == (None, ["rank_missing", "process_missing"])


def test_options_win_over_the_file(tmp_path: Path) -> None:
    tags = {"a": "b", "api_key": "s3cret"}
    options = ImportOptions(JOB, attempt=2, node_id="node-7", rank=5, tags=tags, facts={"project": "p"})
    header = {"distributedInfo": {"rank": 3, "world_size": 8}, "host_name": "elsewhere"}
    import_file(write(tmp_path / "t.json", trace([STEP, *kernels(1)], header)), tmp_path / "lake", options)
    row = stored(tmp_path / "lake", "source")[-1]
    assert (row["attempt"], row["node_id"], row["rank"], row["project"]) == (2, "node-7", 5, "p")
    assert ("a", "b") in row["tags"] and ("api_key", "***") in row["tags"]


def test_the_base_time_shifts_all_times(tmp_path: Path) -> None:
    header = {"baseTimeNanoseconds": 1_700_000_000_000_000_000}
    import_file(write(tmp_path / "t.json", trace([STEP, kernel("10.5")], header)), tmp_path / "lake", OPTIONS)
    assert [row["start_ns"] for row in stored(tmp_path / "lake", "kernel")] == [1_700_000_000_000_010_500]
    row = stored(tmp_path / "lake", "source")[-1]
    assert (row["host_start_ns"], row["host_end_ns"]) == (1_700_000_000_000_000_000, 1_700_000_000_000_100_000)
    assert str(row["day"]) == "2023-11-14"


def test_case_10_a_kernel_belongs_to_the_process_that_launched_it(tmp_path: Path) -> None:
    events = [
        launch(0, correlation=42, pid=100),
        launch(1000, correlation=42, pid=200),
        kernel(10, correlation=42, device=0),
        kernel(1010, correlation=42, device=1),
    ]
    import_file(write(tmp_path / "t.json", trace(events)), tmp_path / "lake", OPTIONS)
    assert _by_process(tmp_path / "lake", "launch") == {100: [0], 200: [1_000_000]}
    assert _by_process(tmp_path / "lake", "kernel") == {100: [10_000], 200: [1_010_000]}


def test_case_10_two_rank_files_with_one_process_id(tmp_path: Path) -> None:
    for rank, at in ((0, 0), (1, 1000)):
        events = [launch(at, correlation=42, pid=1), kernel(at + 10, correlation=42)]
        file = write(tmp_path / f"rank{rank}.json", trace(events, {"distributedInfo": {"rank": rank}}))
        import_file(file, tmp_path / "lake", OPTIONS)
    assert len(live(tmp_path / "lake")) == 2
    assert sorted(row["start_ns"] for row in stored(tmp_path / "lake", "kernel")) == [10_000, 1_010_000]
    assert len({row["source_id"] for row in stored(tmp_path / "lake", "kernel")}) == 2


def test_device_events_that_no_process_launched_have_a_source_of_their_own(tmp_path: Path) -> None:
    events = [
        launch(0, correlation=1, pid=100),
        launch(5, correlation=2, pid=200),
        kernel(10, correlation=1),
        kernel(20, correlation=2, device=1),
        kernel(30, correlation=99),
        kernel(40, correlation=0),
        kernel(4, correlation=2, device=1),
    ]
    import_file(write(tmp_path / "t.json", trace(events)), tmp_path / "lake", OPTIONS)
    found = _by_process(tmp_path / "lake", "kernel")
    assert found == {100: [10_000], 200: [20_000], None: [30_000, 40_000, 4_000]}
    flags = {row["process_id"]: row["flags"] for row in stored(tmp_path / "lake", "source")}
    assert "process_missing" in flags[None]
    assert "process_missing" not in flags[100]


def test_of_several_processes_without_launches_each_keeps_its_host_rows(tmp_path: Path) -> None:
    events = [
        event("user_annotation", "step_1", 0, 50, pid=100),
        event("user_annotation", "step_1", 5, 50, pid=200),
        kernel(10, correlation=1),
    ]
    import_file(write(tmp_path / "t.json", trace(events)), tmp_path / "lake", OPTIONS)
    assert _by_process(tmp_path / "lake", "annotation") == {100: [0], 200: [5_000]}
    assert _by_process(tmp_path / "lake", "kernel") == {None: [10_000]}


def test_every_row_is_accounted_for(tmp_path: Path) -> None:
    bad = [kernel(0, 0), kernel("9223372036854775.808", 0), kernel(1, "-0.010"), '{"ph": : 1}']
    meta = '{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}'
    events = [STEP, *kernels(3), *bad, meta, event("python_function", "f", 1, 2), event("overhead", "o", 1, 2)]
    done = import_file(write(tmp_path / "t.json", trace(events)), tmp_path / "lake", OPTIONS)
    (manifest,) = live(tmp_path / "lake")
    assert manifest.rows == {"read": 11, "stored": 4, "quarantined": 4, "deduplicated": 0, "skipped": 3}
    assert (done.rows_read, done.rows_stored, done.rows_lost) == (11, 4, 4)
    reasons = sorted(row["reason"] for row in stored(tmp_path / "lake", "loss"))
    assert reasons == ["negative_duration", "sentinel_time", "unreadable_row", "zero_time"]
    content = trace(events)
    for row in stored(tmp_path / "lake", "loss"):
        stretch = content[row["offset_bytes"] : row["offset_bytes"] + row["length_bytes"]].decode()
        assert stretch in bad
        assert row["row_index"] == events.index(stretch)


@pytest.mark.parametrize("count", [3, 1000])
def test_case_40_the_same_bytes_are_one_run(tmp_path: Path, count: int) -> None:
    content = trace([STEP, *kernels(count)])
    names = {
        "t.json": content,
        "again.json": content,
        "t.json.gz": gzip.compress(content),
        "harder.gz": gzip.compress(content, 9),
    }
    done = [import_file(write(tmp_path / name, part), tmp_path / "lake", OPTIONS) for name, part in names.items()]
    assert [each.duplicate for each in done] == [False, True, True, True]
    assert {each.sources for each in done} == {done[0].sources}
    assert len(manifests(raw_root(tmp_path / "lake"))) == 1
    assert len(stored(tmp_path / "lake", "kernel")) == count


def test_a_second_import_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", trace([launch(0, correlation=1), launch(9, correlation=2, pid=200), *kernels(2)]))
    first = import_file(file, tmp_path / "lake", OPTIONS)
    before = {path: Path(path).read_bytes() for path in left_behind(tmp_path / "lake")}
    second = import_file(file, tmp_path / "lake", OPTIONS)
    assert (second.duplicate, second.rows_stored) == (True, 0)
    assert set(second.sources) <= set(first.sources)
    assert {path: Path(path).read_bytes() for path in left_behind(tmp_path / "lake")} == before


def test_one_file_may_be_imported_under_two_jobs(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", trace([STEP, *kernels(10)]))
    done = [import_file(file, tmp_path / "lake", ImportOptions(job)) for job in ("job", "other/job %")]
    assert [each.duplicate for each in done] == [False, False]
    assert done[0].sources == done[1].sources
    for job in ("job", "other/job %"):
        rows = stored(tmp_path / "lake", "kernel", job)
        assert (len(rows), {row["job_id"] for row in rows}) == (10, {job})


def test_operators_are_left_out_where_not_wanted(tmp_path: Path) -> None:
    events = [event("cpu_op", "aten::mm", 0, 500), *kernels(3)]
    file = write(tmp_path / "t.json", trace(events))
    for job, wanted in (("with", True), ("without", False)):
        import_file(file, tmp_path / "lake", ImportOptions(job, operators=wanted))
        assert len(stored(tmp_path / "lake", "operator", job)) == int(wanted)
        row = stored(tmp_path / "lake", "source", job)[-1]
        assert (row["host_start_ns"], row["host_end_ns"]) == (0, 500_000)
        assert row["process_id"] == HOST
