"""The simulator: same seed, same bytes; what it says is true of its fleet is what its raw segments hold."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest

from tracelake.recorder.simulate import DeviceTruth, JobTruth, Truth, simulate_fleet, simulate_kernels
from tracelake.recorder.simulate.fleet import CLOCK_AHEAD_NS, FEWEST_STEPS, JOBS, SLOWDOWN, STALL_NS
from tracelake.recorder.simulate.intervals import length
from tracelake.recorder.simulate.lake import row_counts
from tracelake.schemas.apis import KERNEL_PRODUCING
from tracelake.schemas.catalog import table
from tracelake.schemas.manifest import Manifest, manifests, raw_root
from tracelake.schemas.render.arrow import arrow_schema

SCALE = 0.3
Rows = list[dict[str, Any]]


@dataclass
class Source:
    """One window: what the simulator says of it, and what a reader finds."""

    job: JobTruth
    device: DeviceTruth
    manifest: Manifest
    rows: dict[str, Rows]

    def __post_init__(self) -> None:
        self.is_guilty = self.device.rank in self.job.guilty_ranks
        self.work = [*self.rows["kernel"], *self.rows["memop"]]
        self.compute = [row for row in self.rows["kernel"] if row["collective_name"] is None]
        self.steps = [row for row in self.rows["annotation"] if row["text"].startswith("step_")]


@dataclass
class Fleet:
    truth: Truth
    sources: list[Source]

    def of(self, fault: str) -> list[Source]:
        return [source for source in self.sources if source.job.fault == fault]


def _windows(lake: Path) -> dict[str, tuple[Manifest, dict[str, Rows]]]:
    """Every source of the lake: its manifest, and the rows of the segments that it lists."""
    found: dict[str, tuple[Manifest, dict[str, Rows]]] = {}
    for _, manifest in manifests(raw_root(lake)):
        rows = found.setdefault(manifest.source_id, (manifest, defaultdict(list)))[1]
        for segment in manifest.segments:
            read = pq.ParquetFile(raw_root(lake) / segment.path).read()
            assert read.schema.equals(arrow_schema(table(f"raw.{segment.kind}")))
            assert read.num_rows == segment.rows
            rows[segment.kind] += read.to_pylist()
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    lake = tmp_path_factory.mktemp("lake")
    truth = simulate_fleet(lake, seed=11, scale=SCALE)
    found = _windows(lake)
    sources = [Source(job, device, *found.pop(device.source_id)) for job in truth.jobs for device in job.devices]
    assert not found
    return Fleet(truth, sources)


def _spans(rows: Rows) -> list[tuple[int, int]]:
    return [(row["start_ns"], row["start_ns"] + row["duration_ns"]) for row in rows]


def _collectives(sources: list[Source]) -> list[Rows]:
    """Each collective of a job: its kernel on every rank that has it, with the rank's node."""
    joined: dict[tuple[str, int], Rows] = defaultdict(list)
    for source in sources:
        for row in source.rows["kernel"]:
            if row["collective_name"] is not None:
                joined[row["group_id"], row["sequence"]].append({**row, "node_id": source.device.node_id})
    return list(joined.values())


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Everything below raw/, manifests too; another seed changes every segment."""

    def written(folder: str, seed: int) -> dict[str, bytes]:
        simulate_fleet(tmp_path / folder, seed=seed, scale=0.01)
        files = (path for path in sorted((tmp_path / folder).rglob("*")) if path.is_file())
        return {str(path.relative_to(tmp_path / folder)): path.read_bytes() for path in files}

    first, again, other = written("a", 3), written("b", 3), written("c", 4)
    assert first == again
    assert set(first.values()).isdisjoint(other.values())


def test_fleet_has_each_fault_once(fleet: Fleet) -> None:
    faults = ["data_stall", "healthy", "killed_process", "late_clock", "slow_node", "slow_step"]
    assert sorted(job.fault for job in fleet.truth.jobs) == faults
    assert [len(job.devices) for job in fleet.truth.jobs] == [job.world_size for job in JOBS]


def test_counts_are_those_of_the_segments(fleet: Fleet) -> None:
    for source in fleet.sources:
        assert {kind: len(source.rows[kind]) for kind in source.device.counts} == source.device.counts
        assert set(source.rows) == {*source.device.counts, "source"}
        assert source.manifest.rows == row_counts(sum(source.device.counts.values()))
    assert fleet.truth.events_count == sum(source.manifest.rows["stored"] for source in fleet.sources)


def test_every_step_runs_the_workload(fleet: Fleet) -> None:
    plans = {job.job_id: job for job in JOBS}
    for source in (source for source in fleet.sources if source.job.state == "completed"):
        plan, steps = plans[source.job.job_id], len(source.device.step_durations_ns)
        assert source.device.counts["kernel"] == plan.workload.kernel_count * steps
        assert steps == max(FEWEST_STEPS, round(plan.steps * SCALE))
        assert len({row["thread_id"] for row in source.rows["launch"]}) == 1 + plan.has_autograd_thread


def test_each_device_event_has_one_launch_that_starts_no_later(fleet: Fleet) -> None:
    for source in fleet.sources:
        launches = {row["correlation_id"]: row for row in source.rows["launch"]}
        assert len(launches) == len(source.rows["launch"])
        assert sorted(row["correlation_id"] for row in source.work) == sorted(launches)
        for row in source.work:
            launch = launches[row["correlation_id"]]
            assert launch["start_ns"] <= row["start_ns"]
            assert (launch["api_name"] in KERNEL_PRODUCING) == ("grid_count" in row)


def test_nothing_overlaps_on_a_stream_or_a_thread(fleet: Fleet) -> None:
    for source in fleet.sources:
        lanes: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for row in source.work:
            lanes["stream", row["stream_id"]] += _spans([row])
        for row in source.rows["launch"]:
            lanes["thread", row["thread_id"]] += _spans([row])
        for spans in lanes.values():
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise(sorted(spans)))


def test_busy_time_is_the_union_of_the_segments_rows(fleet: Fleet) -> None:
    assert length([(150, 160), (0, 100), (50, 150), (100, 100)]) == 160
    for source in fleet.sources:
        comm = _spans([row for row in source.rows["kernel"] if row["collective_name"] is not None])
        device = source.device
        assert device.busy_ns == length(_spans(source.work))
        assert device.compute_ns == length(_spans(source.compute))
        assert device.compute_ns + device.exposed_comm_ns + device.exposed_mem_ns == device.busy_ns
        assert device.overlapped_comm_ns + device.exposed_comm_ns == length(comm)
        assert min(device.exposed_comm_ns, device.exposed_mem_ns, device.overlapped_comm_ns) > 0


def test_windows_hold_their_events(fleet: Fleet) -> None:
    for source in fleet.sources:
        opened, *closing = source.rows["source"]
        assert (opened["phase"], opened["window_end_ns"]) == ("open", None)
        spans = _spans([*source.work, *source.rows["launch"], *source.rows["sync"]])
        assert opened["window_start_ns"] <= min(start for start, _ in spans)
        assert len(closing) == (source.device.window_ns is not None)
        for closed in closing:
            assert closed["window_end_ns"] - closed["window_start_ns"] == source.device.window_ns
            assert max(end for _, end in spans) <= closed["window_end_ns"]
            assert closed["rows_stored_count"] == sum(source.device.counts.values())
            assert source.device.idle_ns == source.device.window_ns - length(_spans(source.work))


def test_steps_nest_their_phases(fleet: Fleet) -> None:
    for source in fleet.sources:
        steps = source.steps
        assert [row["text"] for row in steps] == [f"step_{number}" for number in range(len(steps))]
        whole = [row for row in steps if row["duration_ns"] is not None]
        assert tuple(row["duration_ns"] for row in whole) == source.device.step_durations_ns
        inner = [row for row in source.rows["annotation"] if row not in steps and row["duration_ns"] is not None]
        spans = _spans(whole)
        for start, end in (span for span in _spans(inner) if span[1] <= spans[-1][1]):
            assert any(first <= start and end <= last for first, last in spans)


def test_collectives_end_together_in_true_time(fleet: Fleet) -> None:
    for job in fleet.truth.jobs:
        for ranks in _collectives(fleet.of(job.fault)):
            assert len(ranks) == len(job.devices)
            assert {row["group_size_count"] for row in ranks} == {len(job.devices)}
            assert len({_spans([row])[0][1] - job.clock_offsets_ns[row["node_id"]] for row in ranks}) == 1


def test_slow_node_computes_a_quarter_longer_and_the_others_wait(fleet: Fleet) -> None:
    sources, job = fleet.of("slow_node"), fleet.truth.job("slow_node")
    means: dict[bool, list[float]] = {True: [], False: []}
    for source in sources:
        means[source.is_guilty].append(sum(row["duration_ns"] for row in source.compute) / len(source.compute))
        assert (source.device.node_id == job.guilty_node_id) == source.is_guilty
        clocks = [row["value"] for row in source.rows["sample"] if row["metric"] == "sm_clock" and row["is_valid"]]
        assert median(clocks) == (1_128e6 if source.is_guilty else 1_410e6)
    assert median(means[True]) / median(means[False]) == pytest.approx(SLOWDOWN, rel=0.01)
    waits = {guilty: [s.device.exposed_comm_ns for s in sources if s.is_guilty == guilty] for guilty in (True, False)}
    assert max(waits[True]) < 0.5 * min(waits[False])
    assert job.compute_factors == dict.fromkeys(job.guilty_ranks, SLOWDOWN)
    assert min(job.excess_ns.values()) > 0


def test_data_stalls_leave_the_device_idle(fleet: Fleet) -> None:
    job = fleet.truth.job("data_stall")
    for source in fleet.of("data_stall"):
        waits = [row for row in source.rows["annotation"] if row["text"] == "enumerate(DataLoader)#next"]
        stalled = [step for step, row in enumerate(waits) if row["duration_ns"] > STALL_NS[0]]
        assert stalled == list(job.excess_ns)
        cores = [row for row in source.rows["sample"] if row["entity_kind"] == "core" and row["is_valid"]]
        for start, end in _spans([waits[step] for step in stalled]):
            assert min((row["value"] for row in cores if start <= row["at_ns"] < end), default=1) >= 0.9
            assert not any(first < end and start < last for first, last in _spans(source.work))
    assert all(STALL_NS[0] * 0.99 < excess < STALL_NS[1] * 1.01 for excess in job.excess_ns.values())


def test_one_step_lasts_eight_times_as_long(fleet: Fleet) -> None:
    job = fleet.truth.job("slow_step")
    ((step, excess),) = job.excess_ns.items()
    for source in fleet.of("slow_step"):
        usual = median(durations := source.device.step_durations_ns)
        assert durations[step] / usual == pytest.approx(8, abs=0.25)
        assert durations[step] - usual == pytest.approx(excess, rel=0.02)
        assert max(durations[1:step] + durations[step + 1 :]) < 1.1 * usual
    (guilty,) = [source for source in fleet.of("slow_step") if source.is_guilty]
    assert guilty.device.compute_ns == max(device.compute_ns for device in job.devices)
    assert any("e4m3" in row["name"] for row in guilty.rows["kernel"])


def test_one_clock_is_five_milliseconds_ahead(fleet: Fleet) -> None:
    job = fleet.truth.job("late_clock")
    assert sorted(job.clock_offsets_ns.values()) == [0, CLOCK_AHEAD_NS]
    for ranks in _collectives(fleet.of("late_clock")):
        ends = defaultdict(set)
        for row in ranks:
            ends[row["node_id"]].add(_spans([row])[0][1])
        ahead = ends.pop(str(job.guilty_node_id))
        assert [{end - CLOCK_AHEAD_NS for end in ahead}] == list(ends.values())
    assert len({device.window_ns for device in job.devices}) == 1
    names = {row["name"] for source in fleet.of("late_clock") for row in source.compute}
    assert any("sgemm" in name for name in names)
    assert not any(tag in name for name in names for tag in ("bf16", "BFloat16", "tensorop", "nvjet"))


def test_killed_process_never_closes(fleet: Fleet) -> None:
    job = fleet.truth.job("killed_process")
    (source,) = [source for source in fleet.of("killed_process") if source.is_guilty]
    assert job.interrupted_source_ids == (source.device.source_id,)
    assert [(row["phase"], row["status"]) for row in source.rows["source"]] == [("open", "running")]
    assert (source.manifest.status, source.manifest.closed) == ("running", False)
    (unclosed,) = [row for row in source.steps if row["duration_ns"] is None]
    last = max(end for _, end in _spans(source.work)) - unclosed["start_ns"]
    assert 0.1 < last / median(source.device.step_durations_ns) < 0.6
    for other in (other for other in fleet.sources if other is not source):
        closing = other.rows["source"][-1]
        assert (closing["phase"], closing["state"], closing["status"]) == ("close", other.job.state, "complete")
        assert (closing["exit_code"] == 0) == (other.job is not job) == (other.job.state == "completed")
        assert (other.manifest.status, other.manifest.closed) == ("complete", True)


def test_samples_agree_with_the_kernels(fleet: Fleet) -> None:
    """The driver's utilization, averaged over whole periods, is the share of them that had a kernel."""
    for source in fleet.sources:
        rows = source.rows["sample"]
        assert {row["unit"] for row in rows} <= {"ratio", "watts", "bytes", "hz"}
        assert all((row["value"] is None) == (row["reason"] is not None) == (not row["is_valid"]) for row in rows)
        assert [row["monotonic_ns"] for row in rows] == sorted(row["monotonic_ns"] for row in rows)
        for row in (row for row in rows if row["metric"] == "gpu_util_ratio" and row["is_valid"]):
            low, high = row["at_ns"] - 100_000_000, row["at_ns"]
            assert row["entity_id"] == source.device.device_id
            inside = [(max(a, low), min(b, high)) for a, b in _spans(source.rows["kernel"]) if b > low and a < high]
            assert row["value"] == pytest.approx(length(inside) / 100_000_000, abs=0.0051)
    valid = [row["is_valid"] for source in fleet.sources for row in source.rows["sample"]]
    assert 0.95 < sum(valid) / len(valid) < 1


def test_bulk_is_exact_and_half_busy(tmp_path: Path) -> None:
    bulk = simulate_kernels(tmp_path, "bench", kernels=25_001, devices=2, seed=5)
    assert bulk.busy_ns == (12_501 * 5_000, 12_500 * 5_000)
    for source_id, busy_ns, window_ns in zip(bulk.source_ids, bulk.busy_ns, bulk.window_ns, strict=True):
        rows = _windows(tmp_path)[source_id][1]
        assert length(_spans(rows["kernel"])) == busy_ns == window_ns // 2
        assert length(_spans(rows["annotation"])) == window_ns
        starts = {row["correlation_id"]: row["start_ns"] for row in rows["launch"]}
        assert all(starts[row["correlation_id"]] <= row["start_ns"] for row in rows["kernel"])
    with pytest.raises(ValueError, match="give each device at least one"):
        simulate_kernels(tmp_path, "bench", kernels=1, devices=2)


def test_command_prints_what_it_made(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracelake.recorder.simulate", str(tmp_path), "--scale", "0.01"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert all(part in said for part in ("slow_node, completed; 16 ranks", "clock of g6e-04 5 ms ahead", "with seed 7"))
