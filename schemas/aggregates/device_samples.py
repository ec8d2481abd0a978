"""What samples say of each device: power, clocks, throttling, and memory over time."""

from tracelake.schemas.columns import (
    ATTEMPT,
    DEVICE_ID,
    JOB_ID,
    METRIC_VERSION,
    NODE_ID,
    RANK,
    count,
    ratio,
    size,
    text,
)
from tracelake.schemas.model import Column, Identity, Table, Type, Unit

TABLE = Table(
    name="aggregates.device_samples",
    grain="one row per attempt and sampled device",
    reads=("normalized.sources", "normalized.devices", "normalized.samples"),
    columns=(
        JOB_ID,
        ATTEMPT,
        NODE_ID,
        RANK,
        DEVICE_ID,
        count("sample_count", "Readings inside the windows, valid or not."),
        ratio("coverage_ratio", "Share of the readings that are valid.", nullable=False),
        Column("power_mean_watts", Type.DOUBLE, "Mean power draw.", Unit.WATT, nullable=True),
        Column("power_max_watts", Type.DOUBLE, "Highest power draw.", Unit.WATT, nullable=True),
        Column("clock_median_hz", Type.DOUBLE, "Median clock of the multiprocessors.", Unit.HERTZ, nullable=True),
        Column("clock_max_hz", Type.DOUBLE, "Highest clock of the multiprocessors.", Unit.HERTZ, nullable=True),
        ratio("low_clock_ratio", "Share of clock readings that lie below the device's own median by the threshold."),
        ratio("throttled_ratio", "Share of readings with the clock lowered by heat or a power brake."),
        ratio("power_capped_ratio", "Share of readings with the clock held by the power cap."),
        size("memory_total_bytes", "Memory of the device.", nullable=True),
        size("memory_max_bytes", "Most memory in use.", nullable=True),
        Column(
            "memory_growth_bytes", Type.BIGINT, "Growth over the recorded time, by the median slope.", Unit.BYTE,
            nullable=True,
        ),
        Column(
            "memory_growth_ratio", Type.DOUBLE, "That growth relative to the device's memory.", Unit.RATIO,
            nullable=True,
        ),
        ratio("memory_rising_ratio", "Share of pairs of time buckets of which the later one's minimum is higher."),
        Column("is_memory_leak", Type.BOOLEAN, "Whether memory grew steadily; NULL where not judged.", nullable=True),
        text("memory_reason", "Code that says why memory over time was not judged.", nullable=True),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "device_id"),
    cluster_by=("job_id",),
    may_be_empty=True,
    identities=(Identity("unjudged_memory_has_reason", "is_memory_leak IS NOT NULL OR memory_reason IS NOT NULL"),),
)  # fmt: skip
