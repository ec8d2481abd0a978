"""Every threshold of the definitions, by name. conf/ overrides them; pages print those that they use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from tracelake.schemas.steps import STEP_PATTERNS

METRIC_VERSION = 1


@dataclass(frozen=True)
class Parameters:
    """Defaults are those of the metric definitions (docs/metrics.md)."""

    step_patterns: tuple[str, ...] = STEP_PATTERNS
    data_loading_patterns: tuple[str, ...] = (r"dataloader", r"data[ _-]?load", r"next[ _-]?batch", r"wait_for_batch")
    launch_coverage_min_ratio: float = 0.95
    slow_launch_ns: int = 50_000
    long_delay_ns: int = 100_000
    time_bucket_most_count: int = 120
    histogram_bin_most_count: int = 40
    failing_rows_max_ratio: float = 0.01

    @staticmethod
    def from_mapping(given: Mapping[str, object]) -> Parameters:
        """Parameters with those of a conf file's [parameters] table. Raises ValueError naming an unknown one."""
        known = {each.name for each in fields(Parameters)}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ValueError(f"no parameter {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        return Parameters(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})  # type: ignore[arg-type]


DEFAULT = Parameters()
