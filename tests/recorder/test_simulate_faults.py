"""Every kind of fault is where the simulator says and as large as it says, read off the events alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from simulated import SEED, STEPS, durations, own_work, ranks_of, small_job, windows_of

from tracelake.recorder.simulate import Fault, simulate_job
from tracelake.recorder.simulate.events import RankEvents
from tracelake.recorder.simulate.faults import KINDS
from tracelake.recorder.simulate.intervals import length
from tracelake.recorder.simulate.light import BRIEF, EAGER, GPU_BOUND
from tracelake.recorder.simulate.play import RESTART_NS
from tracelake.recorder.simulate.samples import THERMAL_SLOWDOWN
from tracelake.recorder.simulate.sizing import sized

GUILTY = 2


def _in_steps(events: RankEvents, rows: Iterable[Any]) -> list[int]:
    """By step: summed length of the rows that start in it."""
    rows = list(rows)
    return [sum(r.duration_ns for r in rows if start <= r.start_ns < end) for start, end in events.steps]


def _compute(events: RankEvents) -> list[int]:
    return _in_steps(events, (k for k in events.kernels if k.collective_name is None))


def _exposed(events: RankEvents) -> list[int]:
    """By step: communication that no compute hides."""
    return [whole - own for whole, own in zip(durations(events), own_work(events), strict=True)]


def _annotated(text: str) -> Callable[[RankEvents], list[int]]:
    return lambda events: _in_steps(events, (a for a in events.annotations if a.text == text))


def _calls(events: RankEvents) -> list[int]:
    return _in_steps(events, events.launches)


def _syncs(events: RankEvents) -> list[int]:
    return _in_steps(events, (s for s in events.syncs if s.kind == "device_synchronize"))


def _copies(events: RankEvents) -> list[int]:
    return _in_steps(events, (m for m in events.memops if (m.direction, m.memory_kind) == ("htod", "pageable")))


def _python(events: RankEvents) -> list[int]:
    """Annotated phases without the calls in them."""
    phases = (a for a in events.annotations if a.text in ("forward", "backward", "optimizer"))
    return [whole - calls for whole, calls in zip(_in_steps(events, phases), _calls(events), strict=True)]


def _before_forward(events: RankEvents) -> list[int]:
    forward = [a.start_ns for a in events.annotations if a.text == "forward"]
    return [start - begin for start, (begin, _) in zip(forward, events.steps, strict=True)]


PER_RANK = {
    "slow_rank": (GPU_BOUND[0], _compute),
    "slow_node": (GPU_BOUND[1], _compute),
    "throttled": (GPU_BOUND[3], _compute),
    "slow_host": (EAGER, _python),
    "slow_launches": (EAGER, _calls),
    "late_rank": (GPU_BOUND[0], _annotated("log_metrics")),
    "data_loading": (GPU_BOUND[2], _annotated("enumerate(DataLoader)#next")),
    "data_stall": (GPU_BOUND[2], _annotated("enumerate(DataLoader)#next")),
    "copy_bound": (GPU_BOUND[0], _copies),
    "python_pause": (GPU_BOUND[4], _before_forward),
    "sync_stall": (GPU_BOUND[0], _syncs),
    "slow_step": (GPU_BOUND[0], _compute),
}
"""Kinds that one rank can have: the model, and by step what must grow on that rank and on no other."""


@pytest.mark.parametrize("kind", PER_RANK)
def test_one_rank_is_slow_and_the_others_wait(kind: str) -> None:
    model, measure = PER_RANK[kind]
    place = {"node": 1} if kind == "slow_node" else {"rank": GUILTY}
    guilty = {2, 3} if kind == "slow_node" else {GUILTY}
    fault = sized(model.workload, Fault(kind, first=4, every=3, count=2, **place), 0.4)
    faulty, healthy = ranks_of(small_job(model, fault)), ranks_of(small_job(model))
    usual = median(durations(healthy[0])[1:])
    for rank, (with_it, without) in enumerate(zip(faulty, healthy, strict=True)):
        grown = [a - b for a, b in zip(measure(with_it), measure(without), strict=True)]
        waited = [a - b for a, b in zip(_exposed(with_it), _exposed(without), strict=True)]
        longer = [a - b for a, b in zip(durations(with_it), durations(without), strict=True)]
        for step in range(2, STEPS):
            hit = step in (4, 7)
            assert longer[step] == pytest.approx(0.4 * usual if hit else 0, abs=0.04 * usual)
            assert grown[step] == pytest.approx(0.4 * usual if hit and rank in guilty else 0, abs=0.04 * usual)
            if hit and rank not in guilty and model is not EAGER:
                assert waited[step] == pytest.approx(0.4 * usual, abs=0.06 * usual)


EVERYWHERE = {
    "data_loading": (GPU_BOUND[0], _annotated("enumerate(DataLoader)#next")),
    "copy_bound": (GPU_BOUND[1], _copies),
    "sync_stall": (GPU_BOUND[2], _syncs),
    "python_pause": (GPU_BOUND[3], _before_forward),
    "fp32_matmul": (GPU_BOUND[0], _compute),
    "checkpoint": (GPU_BOUND[0], _annotated("save_checkpoint")),
    "warm_up": (GPU_BOUND[0], _before_forward),
}


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_all_ranks_are_slow_alike(kind: str) -> None:
    model, measure = EVERYWHERE[kind]
    count = {"checkpoint": 1, "warm_up": 4}.get(kind)
    fault = sized(model.workload, Fault(kind, first=5 if kind == "checkpoint" else 0, count=count), 0.3)
    faulty, healthy = ranks_of(small_job(model, fault)), ranks_of(small_job(model))
    usual = median(durations(healthy[0])[1:])
    for with_it, without in zip(faulty, healthy, strict=True):
        grown = [(a - b) / usual for a, b in zip(measure(with_it), measure(without), strict=True)]
        longer = [(a - b) / usual for a, b in zip(durations(with_it), durations(without), strict=True)]
        for step in range(1, STEPS):
            share = {"checkpoint": float(step == 5), "warm_up": max(0.0, 1 - step / 4)}.get(kind, 1.0)
            # A checkpoint first waits for what the device still does, so that its annotation lasts longer.
            if not (kind == "checkpoint" and share):
                assert grown[step] == pytest.approx(0.3 * share, abs=0.03)
            assert longer[step] == pytest.approx(0.3 * share, abs=0.03)


def test_fp32_matmuls_run_as_sgemm() -> None:
    names = {k.name for e in ranks_of(small_job(GPU_BOUND[0], Fault("fp32_matmul", 0.5))) for k in e.kernels}
    assert any("sgemm" in name for name in names)
    assert not any("tensorop" in name for name in names)


def test_a_slow_link_makes_transfers_longer_for_all() -> None:
    job = small_job(GPU_BOUND[0], Fault("slow_link", 3.0, rank=1, first=6))
    faulty, healthy = ranks_of(job), ranks_of(small_job(GPU_BOUND[0]))

    def transfers(ranks: list[RankEvents]) -> dict[int, int]:
        found: dict[int, int] = {}
        for kernel in (k for e in ranks for k in e.kernels if k.sequence is not None):
            found[kernel.sequence] = min(found.get(kernel.sequence, kernel.duration_ns), kernel.duration_ns)
        return found

    slow, usual = transfers(faulty), transfers(healthy)
    for sequence, transfer_ns in slow.items():
        assert transfer_ns / usual[sequence] == pytest.approx(4 if sequence >= len(slow) / 2 else 1, rel=0.001)
    assert not KINDS["slow_link"].shows_rank


def test_split_kernels_and_read_values_starve_the_device() -> None:
    healthy = ranks_of(small_job(BRIEF))[0]
    kernels, busy = len(healthy.kernels), sum(_compute(healthy))
    split = ranks_of(small_job(BRIEF, sized(BRIEF.workload, Fault("launch_bound"), 0.25)))[0]
    assert len(split.kernels) > 5 * kernels
    assert sum(_compute(split)) == pytest.approx(busy, rel=0.02)
    reading = ranks_of(small_job(BRIEF, sized(BRIEF.workload, Fault("excess_sync"), 0.25)))[0]
    waits = [sync for sync in reading.syncs if sync.kind == "stream_synchronize"]
    assert len(waits) > kernels
    assert len(waits) - STEPS == sum(m.direction == "dtoh" for m in reading.memops) - STEPS
    for events in (split, reading):
        longer = median(durations(events)[1:]) / median(durations(healthy)[1:]) - 1
        assert longer == pytest.approx(0.25, abs=0.03)
        spans = [(row.start_ns, row.start_ns + row.duration_ns) for row in (*events.kernels, *events.memops)]
        assert length(spans) < 0.9 * sum(durations(events)[1:]) + durations(events)[0]


def test_evaluation_runs_forward_kernels_inside_its_annotation() -> None:
    fault = sized(GPU_BOUND[0].workload, Fault("evaluation", first=6, every=6), 2.0)
    for events in ranks_of(small_job(GPU_BOUND[0], fault)):
        marked = _annotated("evaluation")(events)
        assert [step for step, spent in enumerate(marked) if spent] == [6]
        usual = median(durations(events)[1:])
        assert durations(events)[6] / usual == pytest.approx(3, abs=0.45)


def test_drift_grows_evenly() -> None:
    (events, *_), (usual, *_) = (
        ranks_of(small_job(GPU_BOUND[0], Fault("drift", 0.4))),
        ranks_of(small_job(GPU_BOUND[0])),
    )
    ratios = [a / b for a, b in zip(_compute(events), _compute(usual), strict=True)]
    assert ratios == pytest.approx([1 + 0.4 * step / (STEPS - 1) for step in range(STEPS)], rel=1e-4)


def test_samples_show_throttling_and_leaks(tmp_path: Path) -> None:
    faults = (Fault("throttled", 0.5, rank=0, first=4), Fault("memory_leak", 0.2, rank=1))
    job = small_job(GPU_BOUND[0], *faults, steps=40)
    truth = simulate_job(tmp_path, job, seed=SEED)
    for device in truth.devices:
        rows = [row for row in windows_of(tmp_path)[device.source_id][1]["sample"] if row["is_valid"]]
        values = {m: [r["value"] for r in rows if r["metric"] == m] for m in ("sm_clock", "memory_used")}
        reasons = [int(row["value"]) for row in rows if row["metric"] == "clock_event_reasons"]
        half = len(values["sm_clock"]) // 2
        clock_hz = job.hardware.sm_clock_hz / (1.5 if device.rank == 0 else 1)
        assert median(values["sm_clock"][half:]) == pytest.approx(clock_hz, rel=0.001)
        assert any(bits & THERMAL_SLOWDOWN for bits in reasons) == (device.rank == 0)
        grown = values["memory_used"][-1] - values["memory_used"][0]
        leaked = 0.2 if device.rank == 1 else 0
        assert grown / job.hardware.memory_bytes == pytest.approx(leaked, abs=0.03)
    assert [fault.found_in for fault in truth.faults] == ["stragglers", "findings"]


def test_clocks_of_a_node_are_ahead_and_drift(tmp_path: Path) -> None:
    faults = (Fault("late_clock", 2_000_000, node=1), Fault("clock_drift", 500.0, node=1))
    truth = simulate_job(tmp_path, small_job(GPU_BOUND[0], *faults, start_second=0), seed=SEED)
    ends: dict[int, dict[int, int]] = {}
    for device in truth.devices:
        for row in windows_of(tmp_path)[device.source_id][1]["kernel"]:
            if row["sequence"] is not None:
                ends.setdefault(row["sequence"], {})[device.rank] = row["start_ns"] + row["duration_ns"]
    origin = min(ends[0].values())
    for ranks in ends.values():
        assert (ranks[0], ranks[2]) == (ranks[1], ranks[3])
        gained = (ranks[2] - ranks[0] - 2_000_000) - (ends[0][2] - ends[0][0] - 2_000_000)
        assert gained == pytest.approx((ranks[0] - origin) * 500e-6, abs=2)
    assert set(truth.clock_drifts_ppm.values()) == {500.0}


def test_a_job_resumes_from_a_checkpoint(tmp_path: Path) -> None:
    job = small_job(GPU_BOUND[0], Fault("resumed", 3, first=8, count=1))
    truth = simulate_job(tmp_path, job, seed=SEED)
    texts: dict[tuple[int, int], list[str]] = {}
    for device in truth.devices:
        manifest, rows = windows_of(tmp_path)[device.source_id]
        assert manifest.attempt == device.attempt == rows["source"][-1]["attempt"]
        assert rows["source"][-1]["state"] == ("completed" if device.attempt else "failed")
        closed = [
            r["text"] for r in rows["annotation"] if re.match("step_", r["text"]) and r["duration_ns"] is not None
        ]
        texts[device.attempt, device.rank] = closed
    assert {texts[0, rank] == [f"step_{n}" for n in range(8)] for rank in range(4)} == {True}
    assert {texts[1, rank] == [f"step_{n}" for n in range(5, STEPS)] for rank in range(4)} == {True}
    (fault,) = truth.faults
    assert (fault.attempt, list(fault.excess_ns), truth.state) == (1, [0, 1, 2], "completed")
    assert fault.cost_ns > 4 * (RESTART_NS + sum(fault.excess_ns.values()))


def test_recording_pauses_and_steps_go_unmarked(tmp_path: Path) -> None:
    fault = Fault("slow_step", 2.0, rank=1, first=9, count=1)
    job = small_job(GPU_BOUND[0], fault, windows=((0, 4), (8, STEPS)))
    truth = simulate_job(tmp_path, job, seed=SEED)
    assert [len(device.step_durations_ns) for device in truth.devices] == [4, 4] * 4
    assert list(truth.faults[0].excess_ns) == [5]
    windows = windows_of(tmp_path)
    for first, second in zip(truth.devices[::2], truth.devices[1::2], strict=True):
        opened = windows[second.source_id][1]["source"][0]
        assert opened["previous_source_id"] == first.source_id
        for device in (first, second):
            _, rows = windows[device.source_id]
            launched = {row["correlation_id"] for row in rows["launch"]}
            assert {row["correlation_id"] for row in (*rows["kernel"], *rows["memop"])} == launched
    plain, unmarked = ranks_of(small_job()), ranks_of(small_job(has_markers=False))
    for marked, bare in zip(plain, unmarked, strict=True):
        kept = [row for row in marked.annotations if not row.text.startswith("step_")]
        assert (bare.annotations, bare.kernels) == (kept, marked.kernels)
