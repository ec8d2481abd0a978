"""Durations of host annotations in bins of a width from the 1-2-5 series."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, count, ns, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="aggregates.annotation_histogram",
    grain="one row per annotation name and bin that is not empty",
    reads=("normalized.annotations",),
    columns=(
        JOB_ID,
        ATTEMPT,
        text("name", "Annotation name."),
        ns("low_ns", "Lower edge of the bin."),
        ns("high_ns", "Upper edge of the bin; the longest duration in the last one."),
        count("annotation_count", "Ranges in the bin."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "name", "low_ns"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
