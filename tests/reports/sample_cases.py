"""Variants of the hand-made jobs that a page must survive: hostile names, many names, a clock change."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import sample_data
import sample_ideal
import sample_parts as part
from sample_parts import MS, US, S

from tracelake.reports.data import JobData
from tracelake.reports.metric_rows import OtherDevices, OtherKernels
from tracelake.reports.record_rows import Publication, Quarantined

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "a\u2028b",
    "left\u200fright",
    "k" * 10_239 + "A",
    "k" * 10_239 + "B",
)


def hostile() -> JobData:
    """DLRM with names that try to break out of the page, wherever a name can stand."""
    base, bad = sample_data.dlrm(), HOSTILE[0]
    kernels = [replace(k, name=n, short_name=n) for k, n in zip(base.kernels, HOSTILE, strict=False)]
    named = [part.annotation(n, [i * US + 1 for i in range(20)]) for n in HOSTILE]
    settings = {HOSTILE[3]: HOSTILE[4]}
    return replace(
        base,
        job=replace(base.job, job_id=bad, project=HOSTILE[1], tags={bad: bad}, hyperparameters=settings),
        kernels=(*kernels, *base.kernels[len(HOSTILE) :]),
        annotations=tuple(a for a, _ in named),
        annotation_bins=tuple(b for _, bins in named for b in bins),
        devices=tuple(replace(d, rank=None, node_id=bad, device_id=bad + str(d.rank)) for d in base.devices),
        cells=tuple(replace(c, entity_id=bad + c.entity_id[5], node_id=bad) for c in base.cells),
        step_groups=(replace(base.step_groups[0], step_name=bad),),
        device_models=(replace(base.device_models[0], name=bad),),
        quarantined=(Quarantined("loss", bad, 1, 2, 3, 4, bad, bad, bad),),
        publication=Publication(False, [bad] * 6, 1, 1, 1, 1, 1),
    )


def many_names(n: int = 10_000) -> JobData:
    """As job_data() bounds a job of so many kernel names: the first 100 and one row per class."""
    arguments = "std::tuple<float, int>, " * 80
    rows = [
        part.kernel(f"void ns::k_{i}<{arguments}int>(int)", f"k_{i}", "fused", "bf16", 9e3 / (i + 1), 10)
        for i in range(100)
    ]
    return replace(
        sample_data.dlrm(), kernels=tuple(rows), other_kernels=(OtherKernels("fused", n - 100, 10 * n, 17 * MS),)
    )


def few_steps() -> JobData:
    """Twelve steps on one device, shown one by one, and CPU samples without any on the device."""
    base = sample_ideal.ideal()
    steps, device = base.steps[81:93], replace(base.devices[0], rank=None)
    durations = [s.duration_ns for s in steps]
    return replace(
        base,
        summary=replace(base.summary, step_count=12, step_median_ns=231 * MS, **part.device_sums([device])),
        devices=(device,),
        cells=tuple(c for c in base.cells if c.entity_kind == "node" and c.metric == "cpu_util_ratio"),
        step_groups=(part.group("ProfilerStep", durations),),
        steps=tuple(replace(s, step_occurrence=i, rank=None, node_id="gpu-0412") for i, s in enumerate(steps)),
        step_bins=part.bins(durations),
        rank_steps=(replace(base.rank_steps[0], rank=None, step_count=12),),
    )


def many_devices() -> JobData:
    """A job of 512 devices as job_data() bounds it: 64 of them and one row for the others."""
    base = sample_ideal.ideal()
    devices = [replace(base.devices[r % 16], rank=r, device_id=f"rank {r}; {r % 8}") for r in range(64)]
    ranks = [replace(base.rank_steps[r % 16], rank=r, source_id=str(r)) for r in range(64)]
    others = part.device_sums([base.devices[0]] * 448)
    kept = {c.name: others[c.name] for c in fields(OtherDevices) if c.name in others}
    late = [0] * 64
    return replace(
        base,
        summary=replace(base.summary, **part.device_sums([base.devices[0]] * 512)),
        devices=tuple(devices),
        other_devices=OtherDevices(**kept | {"device_count": 448, "window_ns": others["device_time_ns"]}),
        cells=tuple(part.cells(devices, sample_ideal.IDEAL_START, random.Random(3), late)),
        rank_steps=tuple(ranks),
    )


def clock_change() -> JobData:
    """60 s around the start of summer time in the US: 2024-03-10 06:59:30 to 07:00:30 UTC."""
    base, end = sample_ideal.ideal(), sample_ideal.IDEAL_START + 60 * S
    summary = replace(base.summary, ended_ns=end)
    return replace(base, cells=tuple(c for c in base.cells if c.end_ns <= end), summary=summary)
