"""What each step launched, wherever and whenever it ran."""

from tracelake.schemas.columns import ATTEMPT, JOB_ID, METRIC_VERSION, SOURCE_ID, count, duration, flag, number, text
from tracelake.schemas.model import Table

TABLE = Table(
    name="aggregates.step_launches",
    grain="one row per step and source with launches or device events",
    reads=("normalized.launches", "normalized.kernels", "normalized.memops"),
    columns=(
        JOB_ID,
        ATTEMPT,
        SOURCE_ID,
        text("step_name", "Name of the step."),
        number("step_occurrence", "Number of the step within its source and name, from 0."),
        count("launch_count", "Launches that fall in the step."),
        count("producing_launch_count", "Those of them that should produce a kernel."),
        count("event_count", "Kernels, copies and fills that they started."),
        duration("gpu_time_ns", "Union of those events per device, summed over devices, whenever they ran."),
        flag("is_uncovered", "Whether kernels were launched and no event was captured."),
        METRIC_VERSION,
    ),
    key=("job_id", "attempt", "source_id", "step_name", "step_occurrence"),
    cluster_by=("job_id",),
    may_be_empty=True,
)
