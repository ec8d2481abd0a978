"""Why a step was slow and through whom: by hand, each kind of cause with what proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from expect import Row, Rows, Story, Told, small_data, story
from pyspark.sql import SparkSession

from tracelake.pipelines.aggregates.outlier_steps import outlier_steps
from tracelake.pipelines.lake import Lake
from tracelake.recorder.simulate import Truth
from tracelake.schemas.catalog import table

MS = 1_000_000
STEPS, ODD = 12, 7
_FILLED = {"normalized.annotations": {"side": "host", "thread_id": 1, "is_closed": True}}
CLASSES = ("compute", "exposed_comm", "memcpy", "memset", "runtime", "data_loading", "host_work", "other")
USUAL = {"compute": 60, "exposed_comm": 10, "runtime": 10, "other": 20}


def ledger(rank: int, odd: Mapping[str, int], node: str = "n", count: int = STEPS) -> list[Row]:
    """Steps of a rank, in milliseconds; in step 7 the classes of `odd` take longer by so much."""
    rows = []
    for number in range(count):
        parts = {name: USUAL.get(name, 0) + (odd.get(name, 0) if number == ODD else 0) for name in CLASSES}
        row = {"source_id": f"s{rank}", "rank": rank, "node_id": node, "step_name": "step", "step_occurrence": number}
        start = number * 1_000 * MS
        row |= {"start_ns": start, "duration_ns": sum(parts.values()) * MS, "status": "complete"}
        rows.append(row | {f"{name}_ns": value * MS for name, value in parts.items()})
    return rows


def marks(*ranks: int, count: int = STEPS) -> list[Row]:
    """The steps as annotations, numbered within their window."""
    return [
        {
            "source_id": f"s{rank}", "rank": rank, "annotation_id": number, "name": "step", "is_step": True,
            "step_occurrence": number, "start_ns": number * 1_000 * MS, "end_ns": number * 1_000 * MS + 900 * MS,
        }
        for rank in ranks for number in range(count)
    ]  # fmt: skip


def times(duration: int, kind: str = "slow", ranks: int = 2, median: int = 100) -> list[Row]:
    usual = {"step_name": "step", "step_group": "training", "stretch": 0, "median_ns": median * MS, "score": 0.0}
    rows = [
        {**usual, "step_occurrence": number, "duration_ns": 100 * MS, "kind": "usual", "rank_count": ranks}
        for number in range(STEPS)
    ]
    rows[ODD] |= {"duration_ns": duration * MS, "kind": kind, "score": 100.0}
    return rows


def idle(rank: int, step: int, cause: str, ms: int) -> Row:
    row = {"source_id": f"s{rank}", "scope": "step", "step_name": "step", "step_occurrence": step}
    return {**row, "device_id": "d", "cause": cause, "idle_ns": ms * MS}


def one(odd: Mapping[str, int], expect: Row, **given: Sequence[Row]) -> Story:
    """A story of two ranks: in step 7 rank 1 takes longer, and rank 0 waits for it."""
    longer = sum(odd.values())
    told = {
        "step_ledger": [*ledger(0, {"exposed_comm": longer}), *ledger(1, odd)],
        "annotations": marks(0, 1),
        "step_times": times(100 + longer),
    }
    given = {**told, **given, "annotations": [*told["annotations"], *given.get("annotations", [])]}
    return story(**given, expect=[{"kind": "slow", "step_occurrence": ODD, **expect}])


STORIES: dict[str, Story] = {
    "the rank whose own work grew is guilty, not the one that waits": one(
        {"compute": 80},
        {"cause": "compute", "guilty_rank": 1, "guilty_node_id": "n", "excess_ns": 80 * MS, "cause_excess_ns": 80 * MS,
         "cause_ratio": 1.0, "confidence": 1.0, "median_ns": 100 * MS, "duration_ns": 180 * MS},
    ),
    "a class that covers most of the excess is the cause": one(
        {"compute": 60, "other": 20}, {"cause": "compute", "guilty_rank": 1, "cause_ratio": 0.75, "confidence": 0.75},
    ),
    "none that covers half of it is mixed": one(
        {"compute": 30, "memcpy": 25, "other": 25}, {"cause": "mixed", "guilty_rank": 1, "cause_ratio": 0.375},
    ),
    "samples in the step tell that the device was throttled": one(
        {"compute": 80}, {"cause": "throttled", "guilty_rank": 1},
        step_samples=[{"source_id": "s1", "scope": "step", "name": "step", "step_occurrence": ODD, "value_mean": 1.0,
                       "entity_kind": "device", "entity_id": "d", "metric": "throttled_ratio"}],
        device_samples=[{"device_id": "d", "throttled_ratio": 0.1, "clock_median_hz": 1e9}],
    ),
    "a device that is always throttled explains no single step": one(
        {"compute": 80}, {"cause": "compute"},
        step_samples=[{"source_id": "s1", "scope": "step", "name": "step", "step_occurrence": ODD, "value_mean": value,
                       "entity_kind": "device", "entity_id": "d", "metric": metric}
                      for metric, value in (("throttled_ratio", 1.0), ("sm_clock", 1e9))],
        device_samples=[{"device_id": "d", "throttled_ratio": 0.9, "clock_median_hz": 1e9}],
    ),
    "another rank's samples do not count": one(
        {"compute": 80}, {"cause": "compute"},
        step_samples=[{"source_id": "s0", "scope": "step", "name": "step", "step_occurrence": ODD, "value_mean": 1.0,
                       "entity_kind": "device", "entity_id": "d", "metric": "throttled_ratio"}],
        device_samples=[{"device_id": "d", "throttled_ratio": 0.1}],
    ),
    "a call that waits while the device is idle is synchronization": one(
        {"runtime": 80}, {"cause": "synchronize", "guilty_rank": 1},
        idle_causes=[idle(1, ODD, "synchronize", 85), idle(1, 3, "synchronize", 5), idle(1, ODD, "queued", 900)],
    ),
    "and one that does so in every step is not": one(
        {"runtime": 80}, {"cause": "runtime"}, idle_causes=[idle(1, n, "synchronize", 85) for n in range(STEPS)],
    ),
    "what nothing names is Python or other": one({"other": 80}, {"cause": "python_or_other", "guilty_rank": 1}),
    "data loading stays what it is": one({"data_loading": 80}, {"cause": "data_loading", "guilty_rank": 1}),
    "annotated work is what its idle time says": one(
        {"host_work": 80}, {"cause": "compile"}, idle_causes=[idle(1, ODD, "compile", 60)],
    ),
    "all ranks alike: nobody is guilty": one(
        {"data_loading": 80}, {"cause": "data_loading", "guilty_rank": None, "guilty_node_id": None},
        step_ledger=[*ledger(0, {"data_loading": 80}, "m"), *ledger(1, {"data_loading": 80})],
    ),
    "the ranks of one node of two: the node is": one(
        {"compute": 80}, {"cause": "compute", "guilty_rank": None, "guilty_node_id": "n"},
        step_ledger=[*ledger(0, {"exposed_comm": 80}, "m"), *ledger(1, {"compute": 80}), *ledger(2, {"compute": 78})],
        annotations=marks(2),
    ),
    "slow communication of all is nobody's": one(
        {"exposed_comm": 80}, {"cause": "exposed_comm", "guilty_rank": None, "cause_ratio": 1.0},
        collective_waits=[{"rank": rank, "source_id": f"s{rank}", "step_name": "step", "step_occurrence": ODD,
                           "is_reliable": True, "wait_ns": rank * MS} for rank in (0, 1)],
    ),
    "a rank that came late to collectives after no longer work of its own is waited for": one(
        {"exposed_comm": 80}, {"cause": "waiting_for_rank", "guilty_rank": 0, "guilty_node_id": "m"},
        collective_waits=[{"rank": rank, "source_id": f"s{rank}", "node_id": "mn"[rank], "step_name": "step",
                           "step_occurrence": ODD, "is_reliable": True, "wait_ns": 75 * rank * MS} for rank in (0, 1)],
    ),
    "unreliable matches name nobody": one(
        {"exposed_comm": 80}, {"cause": "exposed_comm", "guilty_rank": None},
        collective_waits=[{"rank": rank, "source_id": f"s{rank}", "step_name": "step", "step_occurrence": ODD,
                           "is_reliable": False, "wait_ns": None} for rank in (0, 1)],
    ),
    "own work is what rank_steps says, where it says so": one(
        {"exposed_comm": 80}, {"cause": "exposed_comm", "guilty_rank": None},
        rank_steps=[{"source_id": f"s{rank}", "rank": rank, "step_name": "step", "step_occurrence": n,
                     "own_work_ns": 90 * MS} for rank in (0, 1) for n in range(STEPS)],
    ),
    "missing ranks lower the confidence": one(
        {"compute": 80}, {"cause": "compute", "confidence": 0.5},
        step_times=[row | {"rank_count": 2 if row["step_occurrence"] == ODD else 4} for row in times(180)],
    ),
    "fast and warm-up steps have no cause": story(
        step_ledger=ledger(0, {}), annotations=marks(0), step_times=times(20, "fast"),
        expect=[{"kind": "fast", "excess_ns": -80 * MS, "cause": None, "confidence": None, "evidence": []}],
    ),
    "usual steps are not here": story(
        step_ledger=ledger(0, {}), annotations=marks(0), step_times=times(100, "usual"), expect=[],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(rows: Rows) -> Told:
    return Told(rows, "aggregates.outlier_steps", STORIES)


@pytest.mark.parametrize("title", STORIES)
def test_outlier_steps(told: Told, title: str) -> None:
    assert told.got(title) == told.want(title)


def test_evidence_names_rows_that_a_reader_can_look_up(rows: Rows) -> None:
    job = "it's a job"
    at = {"source_id": "s1", "step_name": "step", "step_occurrence": ODD}
    kernels = [
        {"event_id": number, "name": name, "short_name": name, "kernel_class": "gemm", "duration_ns": length, **at}
        for number, (name, length) in enumerate((("long", 900), ("short", 500), ("long", 800)))
    ]
    sample = {**at, "scope": "step", "name": "step", "entity_kind": "device", "entity_id": "d", "value_mean": 1.0}
    del sample["step_name"]
    loading = {"source_id": "s1", "annotation_id": 99, "name": "dataloader", "text": "dataloader 3", "duration_ns": 5}
    cases: dict[str, tuple[str, dict[str, list[Row]], list[str]]] = {
        "kernel and sample": (
            "compute",
            {
                "kernels": kernels,
                "kernel_stats": [{"name": "long", "duration_p50_ns": 800}, {"name": "short", "duration_p50_ns": 100}],
                "step_samples": [sample | {"metric": "throttled_ratio"}],
                "device_samples": [{"device_id": "d", "throttled_ratio": 0.1}],
            },
            ["compute_ns 140000000, usually 60000000", "the slowest, waiting for rank 1",
             "short duration_ns 500, usually 100", "throttled_ratio value_mean 1.0, usually 0.1"],
        ),
        "annotation and gap": (
            "data_loading",
            {
                "annotations": [loading | {"start_ns": ODD * 1_000 * MS + 1, "end_ns": ODD * 1_000 * MS + 6}],
                "idle_causes": [idle(1, ODD, "data_loading", 70)],
            },
            ["data_loading_ns 80000000, usually 0", "the slowest, waiting for rank 1",
             "data_loading idle_ns 70000000, usually 0", "dataloader 3 duration_ns 5"],
        ),
    }  # fmt: skip
    for class_, given, expect in cases.values():
        told = {
            "step_ledger": [*ledger(0, {"exposed_comm": 80}, count=9), *ledger(1, {class_: 79}, count=9)],
            "annotations": marks(0, 1),
            "step_times": times(180),
            **given,
        }
        told["step_ledger"][ODD]["duration_ns"] += MS  # rank 0 is the slowest
        told["step_ledger"][9 + ODD] |= {f"{class_}_ns": (USUAL.get(class_, 0) + 80) * MS}
        told["annotations"] = [*marks(0, 1), *given.get("annotations", [])]
        frames = {
            read: rows(
                table(read),
                *[_FILLED.get(read, {}) | row | {"job_id": job} for row in told.get(read.split(".")[1], [])],
            )
            for read in table("aggregates.outlier_steps").reads
        }
        with small_data(frames["aggregates.step_ledger"].sparkSession):
            (row,) = outlier_steps(*frames.values()).collect()
            found = [each.split(" WHERE ", 1) for each in row["evidence"]]
            assert [each.rsplit(": ", 1)[1] for _, each in found] == expect
            for name, rest in found:
                assert frames[name].filter(rest.rsplit(": ", 1)[0]).count() == 1, rest


def test_a_job_of_few_steps_has_no_outliers_and_says_so(small_fleet: tuple[Lake, Truth], spark: SparkSession) -> None:
    lake, truth = small_fleet
    assert all(len(device.step_durations_ns) < 8 for job in truth.jobs for device in job.devices)
    kinds = lake.read(spark, "aggregates.outlier_steps").select("kind").distinct().collect()
    assert [row["kind"] for row in kinds] == ["warm_up"]
    reasons = lake.read(spark, "aggregates.job_summary").select("slow_step_count", "outlier_steps_reason").collect()
    assert [tuple(row) for row in reasons] == [(None, "too_few_steps")] * len(truth.jobs)
