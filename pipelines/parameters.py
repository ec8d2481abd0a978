"""Every threshold of the definitions, by name. conf/ overrides them; pages print those that they use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tracelake.pipelines.peaks import PEAK_FLOPS
from tracelake.schemas.catalog import tables
from tracelake.schemas.steps import STEP_PATTERNS

METRIC_VERSION = 1


@dataclass(frozen=True)
class Parameters:
    """Defaults are those of the metric definitions (docs/metrics.md)."""

    step_patterns: tuple[str, ...] = STEP_PATTERNS
    data_loading_patterns: tuple[str, ...] = (r"dataloader", r"data[ _-]?load", r"next[ _-]?batch", r"wait_for_batch")
    checkpoint_patterns: tuple[str, ...] = (
        r"(save|load|write|async)[ _-]?(model[ _-]?|sharded[ _-]?)?(checkpoint|ckpt)",
        r"(checkpoint|ckpt)(ing)?[ _./:-]?(save|load|write)",
        r"^(checkpoint|ckpt)$",
        r"torch\.save",
    )
    evaluation_patterns: tuple[str, ...] = (r"(^|[^a-z])(eval|evaluat(e|ion)|validat(e|ion))($|[^a-z])",)
    compile_patterns: tuple[str, ...] = (r"compil(e|ing|ation)($|[^dr])", r"autotun")
    copy_patterns: tuple[str, ...] = (r"(^|[^a-z])(copy|h2d|d2h|to[ _]device)($|[^a-z])", r"memcpy")
    communication_host_patterns: tuple[str, ...] = (
        r"^(nccl|gloo|c10d|mpi)[ _:]",
        r"(^|[^a-z])(all[ _-]?reduce|all[ _-]?gather|reduce[ _-]?scatter|all[ _-]?to[ _-]?all|barrier)($|[^a-z])",
    )
    inferred_step_agreement_min_ratio: float = 0.95
    inferred_step_covered_min_ratio: float = 0.5
    inferred_step_min_count: int = 8
    launch_latency_ns: int = 30_000
    outlier_step_min_count: int = 8
    outlier_local_min_count: int = 200
    outlier_neighbour_count: int = 101
    outlier_min_score: float = 5
    outlier_min_ratio: float = 1.2
    outlier_cause_min_ratio: float = 0.5
    warm_up_max_count: int = 10
    warm_up_within_ratio: float = 0.2
    clock_drop_min_ratio: float = 0.05
    leak_bucket_count: int = 12
    leak_reading_min_count: int = 6
    leak_growth_min_ratio: float = 0.03
    leak_rising_min_ratio: float = 0.8
    launch_coverage_min_ratio: float = 0.95
    queue_full_count: int = 1_024
    slow_launch_ns: int = 50_000
    long_delay_ns: int = 100_000
    time_bucket_most_count: int = 120
    histogram_bin_most_count: int = 40
    failing_rows_max_ratio: float = 0.01
    collective_end_tolerance_ns: int = 100_000
    resolvable_residual_count: int = 10
    straggler_min_ratio: float = 0.05
    straggler_min_step_count: int = 20
    straggler_deviation_count: float = 3
    straggler_noise_ratio: float = 0.01
    straggler_cause_min_ratio: float = 0.5
    host_bound_compute_max_ratio: float = 0.5
    throttled_clock_max_ratio: float = 0.97
    throttled_sample_min_ratio: float = 0.5

    usual_step_min_count: int = 3
    finding_min_ratio: float = 0.05
    finding_comm_min_ratio: float = 0.07
    finding_host_min_ratio: float = 0.12
    finding_bubble_min_ratio: float = 0.07
    launch_bound_kernel_max_ns: int = 50_000
    flops_known_min_ratio: float = 0.95
    left_out_tables: tuple[str, ...] = ()
    """Aggregates that runs do not make, and leave as they are."""
    gpu_hour_prices: Mapping[str, float] = field(default_factory=dict)
    """Price of a device's hour by machine type, in a currency of your own."""
    peak_flops: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: PEAK_FLOPS)
    """What a device computes at most, by a pattern of its name and by precision."""

    def __post_init__(self) -> None:
        """Raises ValueError for a table that is none of the aggregates, or that one which is made reads."""
        left_out, known = set(self.left_out_tables), tables("aggregates")
        if unknown := sorted(left_out - set(known)):
            raise ValueError(f"left_out_tables: {unknown[0]} is no table of the aggregates")
        for name, declared in known.items():
            # It would hold less than the truth and not say so.
            if name not in left_out and (read := left_out & set(declared.reads)):
                raise ValueError(f"left_out_tables: {name} reads {min(read)}; leave it out too")

    @staticmethod
    def from_mapping(given: Mapping[str, object]) -> Parameters:
        """Parameters with those of a conf file's [parameters] table. Raises ValueError naming an unknown one."""
        known = {each.name for each in fields(Parameters)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ValueError(f"no parameter {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        return Parameters(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})  # type: ignore[arg-type]


DEFAULT = Parameters()
