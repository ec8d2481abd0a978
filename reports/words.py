"""Words for what the tables hold as codes: classes with their colours, states, reasons."""

from __future__ import annotations

from dataclasses import dataclass

from tracelake.schemas.aggregates.fleet_daily import CAUSES as FLEET_CAUSES
from tracelake.schemas.aggregates.idle_causes import CAUSES as IDLE_CAUSES
from tracelake.schemas.aggregates.outlier_steps import CAUSES as STEP_CAUSES
from tracelake.schemas.aggregates.rank_stats import CAUSES as RANK_CAUSES
from tracelake.schemas.aggregates.what_if import SCENARIOS as SCENARIO_NAMES
from tracelake.schemas.normalized.kernels import PRECISIONS
from tracelake.schemas.operations.checks import OUTCOMES as CHECK_OUTCOMES


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a whole: its column, the word for it, its colour token and the definition behind it."""

    column: str
    word: str
    token: str
    definition: str


LEDGER = (
    Part("compute_ns", "compute", "--compute", "compute"),
    Part("exposed_comm_ns", "exposed communication", "--exposed-comm", "exposed-comm"),
    Part("exposed_mem_ns", "exposed memory", "--exposed-mem", "exposed-mem"),
    Part("sync_idle_ns", "synchronization", "--sync", "sync-idle"),
    Part("other_idle_ns", "other idle", "--idle", "other-idle"),
)
STEP = (
    Part("compute_ns", "compute kernel", "--compute", "step-ledger"),
    Part("exposed_comm_ns", "exposed communication", "--exposed-comm", "step-ledger"),
    Part("exposed_mem_ns", "memcpy, memset", "--exposed-mem", "step-ledger"),
    Part("runtime_ns", "runtime call", "--runtime", "step-ledger"),
    Part("data_loading_ns", "data loading", "--data-loading", "step-ledger"),
    Part("host_work_ns", "other host work", "--host", "step-ledger"),
    Part("other_ns", "other", "--other", "step-ledger"),
)

IDLE = (
    Part("data_loading", "data loading", "--data-loading", "idle-causes"),
    Part("python_or_other", "Python or other", "--host", "idle-causes"),
    Part("synchronize", "synchronization", "--sync", "idle-causes"),
    Part("copy", "copy", "--exposed-mem", "idle-causes"),
    Part("compile", "compile", "--compile", "idle-causes"),
    Part("checkpoint", "checkpoint", "--checkpoint", "idle-causes"),
    Part("communication_host", "communication on the host", "--comm-host", "idle-causes"),
    Part("launch_latency", "launch latency", "--runtime", "idle-causes"),
    Part("dependency", "dependency", "--dependency", "idle-causes"),
    Part("queued", "queued", "--idle", "idle-causes"),
    Part("unknown", "unknown", "--unknown", "idle-causes"),
)
assert {part.column for part in IDLE} == set(IDLE_CAUSES)

CAUSES = (
    Part("not_recorded", "not recorded", "--unknown", "fleet-cause"),
    Part("withheld", "withheld", "--unknown", "fleet-cause"),
    Part("redone_steps", "redone steps", "--redone", "fleet-cause"),
    Part("initialization", "initialization and warm-up", "--warm-up", "fleet-cause"),
    Part("outside_steps", "outside steps", "--warm-up", "fleet-cause"),
    Part("checkpoint", "checkpoint", "--checkpoint", "fleet-cause"),
    Part("straggler_wait", "straggler wait", "--comm-host", "fleet-cause"),
    Part("exposed_comm", "exposed communication", "--exposed-comm", "fleet-cause"),
    Part("exposed_mem", "exposed memory", "--exposed-mem", "fleet-cause"),
    *(part for part in IDLE if part.column != "checkpoint"),
    Part("productive", "productive", "--compute", "fleet-cause"),
)
"""What the device time of a fleet goes to, in the order in which it is taken from the allocation."""
assert {part.column for part in CAUSES} == set(FLEET_CAUSES)
GOODPUT = (
    Part("goodput_ns", "inside steps that count", "--compute", "goodput"),
    Part("initialization_ns", "initialization and warm-up", "--warm-up", "goodput"),
    Part("checkpoint_ns", "checkpoint", "--checkpoint", "goodput"),
    Part("redone_ns", "redone steps", "--redone", "goodput"),
    Part("outside_steps_ns", "outside steps", "--dependency", "goodput"),
    Part("withheld_ns", "withheld", "--unknown", "goodput"),
    Part("not_recorded_ns", "not recorded", "--unknown", "goodput"),
)
"""Parts of a job's allocation, by column of v_goodput."""
CAUSE_GROUPS = (
    ("productive", "--compute", ("productive",)),
    ("communication", "--exposed-comm", ("straggler_wait", "exposed_comm")),
    ("memory and idle", "--host", ("exposed_mem", *(part.column for part in IDLE if part.column != "checkpoint"))),
    ("start, checkpoint, redone", "--warm-up", ("redone_steps", "initialization", "outside_steps", "checkpoint")),
    ("not recorded or withheld", "--unknown", ("not_recorded", "withheld")),
)
"""Words, colour and members of the five that fit a narrow bar."""
assert {cause for _, _, members in CAUSE_GROUPS for cause in members} == set(FLEET_CAUSES)

CAUSE_WORDS = {
    "compute": "compute kernels",
    "throttled": "lowered clock",
    "exposed_comm": "exposed communication",
    "waiting_for_rank": "waiting for the last rank",
    "memcpy": "copies",
    "memset": "fills",
    "runtime": "runtime calls",
    "synchronize": "synchronization",
    "copy": "copy",
    "data_loading": "data loading",
    "checkpoint": "checkpoint",
    "compile": "compile",
    "communication_host": "communication on the host",
    "host_work": "other host work",
    "python_or_other": "Python or other",
    "other": "Python or other",
    "mixed": "no single class",
}
"""What took the excess of a step or a rank."""
assert set(CAUSE_WORDS) == {*STEP_CAUSES, *RANK_CAUSES}

SCENARIOS = {
    "rank_as_peers": "rank {} works as its peers do",
    "node_as_peers": "node {} works as the others do",
    "all_ranks_as_peers": "all ranks work alike",
    "communication_hidden": "communication is hidden behind compute",
    "data_loading_free": "data loading takes no time",
}
assert set(SCENARIOS) == set(SCENARIO_NAMES)

VERDICTS = {
    "REGRESSION": ("bad", "REGRESSION"),
    "IMPROVEMENT": ("good", "IMPROVEMENT"),
    "MIXED": ("off", "MIXED"),
}

PRECISION_TOKENS = {
    "fp64": "--compile",
    "fp32": "--compute",
    "tf32": "--runtime",
    "bf16": "--sync",
    "fp16": "--exposed-comm",
    "fp8": "--data-loading",
    "fp4": "--redone",
    "int8": "--dependency",
    "int32": "--checkpoint",
    "unknown": "--unknown",
}
assert set(PRECISION_TOKENS) == set(PRECISIONS)

EVIDENCE = {
    "operator": "operator's data type",
    "collective": "collective's data type",
    "name": "kernel name",
    "none": "none, so unknown",
}

METRICS = {
    "gpu_active_ratio": ("GPU active", "gpu-active"),
    "kernel_busy_ratio": ("kernel busy", "kernel-busy"),
    "compute_ratio": ("compute", "compute"),
    "exposed_comm_ratio": ("exposed communication", "exposed-comm"),
    "gpu_util_sampled_ratio": ("GPU utilization, sampled", "gpu-util-sampled"),
    "cpu_util_ratio": ("CPU utilization", "cpu-util"),
}

DIRECTIONS = {
    "htod": "host → device",
    "dtoh": "device → host",
    "dtod": "device → device",
    "ptop": "device → other device",
    "htoh": "host → host",
}

FORMATS = {"kineto": "PyTorch profiler (Kineto)", "tracelake": "tracelake recorder"}

STATES = {
    "in_progress": ("info", "in progress"),
    "completed": ("good", "completed"),
    "failed": ("bad", "failed"),
    "stopping": ("warn", "stopping"),
    "stopped": ("warn", "stopped"),
    "unknown": ("off", "end not recorded"),
}
QUALITY = {
    "complete": ("good", "capture complete"),
    "running": ("info", "still recording"),
    "incomplete": ("warn", "capture incomplete"),
    "interrupted": ("warn", "recording interrupted"),
    "degraded": ("bad", "capture degraded"),
    "superseded": ("off", "superseded"),
}

OUTCOMES = {
    "passed": ("good", "passed"),
    "failed": ("bad", "failed"),
    "warned": ("warn", "warned"),
    "not_evaluated": ("off", "not evaluated"),
    "error": ("bad", "raised"),
}
assert set(OUTCOMES) == set(CHECK_OUTCOMES)

REASONS = {
    "low_launch_coverage": "fewer than 95 % of the launches have their kernel, so idle time cannot be told from loss",
    "gpu_capture_failed": "no device event was recorded: the device tracer failed",
    "segment_lost": "a segment of the window is missing or damaged; its rows are set aside",
    "events_dropped": "the recorder had to drop events; how many, by kind, is on record",
    "process_ended": "the process ended without closing its window: it was killed",
    "another_profiler": "another profiler held the device tracer for a while",
    "sidecar_restarted": "the recorder's second process was started again; samples of that moment are missing",
    "no_gpu_activity_captured": "neither launches nor device events were recorded",
    "partly_withheld": "some windows have no device numbers",
    "missing_ranks": "some ranks of the job have no usable window",
    "conflicting_ranks": "overlapping windows claim the same rank",
    "rank_missing": "the input does not give the rank",
    "process_missing": "the input does not say which process the events belong to",
    "uncovered": "launches without any device event",
    "uncovered_steps": "some steps have launches without any device event",
    "quarantined_rows": "some rows were set aside",
    "orphans": "some device events have no launch",
    "before_launch": "some device work seems to start before its launch: the device's clock is off",
    "file_cut": "the file ends before its end",
    "gzip_cut": "the compressed file ends before its end",
    "gzip_damaged": "the compressed file is damaged",
    "file_damaged": "a stretch of the file could not be read",
    "unreadable_trailer": "the end of the file, after the events, could not be read",
    "token_not_json": "values that are no JSON, such as NaN, were read as unknown",
    "control_byte": "control bytes inside texts were escaped",
    "not_utf8": "bytes that are no UTF-8 were escaped",
    "interrupted": "recording ended without a closing row: the process was killed, or it still runs",
    "no_closing_row": "the process ended without closing its window: it was killed",
    "superseded": "a later, fuller file of the same window replaced it",
    "capture_cut": "the recording ends inside the step",
    "too_few_steps": "too few steps for statistics",
    "no_steps": "no steps are known",
    "no_common_collectives": "no collective of all ranks was matched reliably",
    "no_launches": "no launch is known to have started a kernel",
    "too_few_launches": "too few launches to see any of them repeat",
    "no_period": "the launches do not repeat evenly",
    "inferred": "steps were inferred from the rhythm of launches",
    "not_sampled": "no samples were taken",
    "mig": "the driver gives no utilization under MIG",
    "no_comparable_steps": "no step was recorded on two ranks",
    "step_numbers_differ": "the ranks' steps cannot be told apart by number",
    "one_rank": "only one rank takes part",
    "too_few_ranks": "too few of the ranks were recorded",
    "host_bound": "the host sets the pace of all ranks, so that their excess is not their own",
    "conflicting_rank": "two windows claim the same rank",
    "point_to_point": "a send and a receive have no common end",
    "repeated": "the same number comes twice",
    "ambiguous_group": "two groups cannot be told apart",
    "operations_differ": "the ranks called different operations",
    "too_few_collectives": "too few collectives to tell whether the order matches",
    "counts_differ": "the ranks ran different numbers of collectives",
    "ends_differ": "matched kernels do not end together",
    "no_matched_collectives": "no collective was matched that tells how far the clock is off",
    "too_few_readings": "too few readings",
    "memory_size_unknown": "the device's memory size is not known",
    "no_send_recv": "no send or receive is known to have run in a step",
    "no_allocation": "no device's time is known",
    "attempt_missing": "an attempt of the job was not recorded, or has no device's time",
    "much_withheld": "more than 10 % of the allocation is unknown, most of it withheld",
    "much_not_recorded": "more than 10 % of the allocation is unknown, most of it not recorded",
}


def reason(code: str | None) -> str:
    """The sentence behind a reason code; the code itself stands beside it on the page."""
    return REASONS.get(code or "", "the reason is its code")


def short_device(name: str) -> str:
    """
    >>> short_device("NVIDIA Tesla V100-SXM2-32GB"), short_device("NVIDIA H100 80GB HBM3")
    ('V100-SXM2-32GB', 'H100 80GB HBM3')
    """
    for maker in ("NVIDIA ", "Tesla ", "AMD Instinct "):
        name = name.removeprefix(maker)
    return name
