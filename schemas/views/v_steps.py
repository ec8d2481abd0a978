"""Steps in milliseconds."""

from tracelake.schemas.aggregates.step_ledger import TABLE as LEDGER
from tracelake.schemas.columns import instant, ms, of
from tracelake.schemas.model import View

VIEW = View(
    name="v_steps",
    comment="Every step of every rank: where it ran, how long it took, what it was made of.",
    reads=("aggregates.step_ledger",),
    columns=(
        *of(LEDGER, "job_id", "attempt", "source_id", "node_id", "rank", "step_name", "step_index", "step_occurrence"),
        instant("started_utc", "Start on the host."),
        *of(LEDGER, "start_ns", "duration_ns"),
        ms("duration_ms", "The same in milliseconds, as are the parts that follow; they add up to it."),
        ms("compute_ms", "Time in compute kernels."),
        ms("exposed_comm_ms", "Time in communication kernels outside compute."),
        ms("memory_ms", "Time in copies and fills outside kernels."),
        ms("runtime_ms", "Time in launch and synchronization calls outside device work."),
        ms("data_loading_ms", "Time in data loading outside the above."),
        ms("host_work_ms", "Time in other annotated host work outside the above."),
        ms("other_ms", "The rest of the step."),
        *of(LEDGER, "launch_count", "status", "reason"),
    ),
    sql="""
SELECT job_id, attempt, source_id, node_id, rank, step_name, step_index, step_occurrence,
       timestamp_micros(start_ns DIV 1000) AS started_utc, start_ns, duration_ns,
       duration_ns / 1e6D AS duration_ms, compute_ns / 1e6D AS compute_ms,
       exposed_comm_ns / 1e6D AS exposed_comm_ms, (memcpy_ns + memset_ns) / 1e6D AS memory_ms,
       runtime_ns / 1e6D AS runtime_ms, data_loading_ns / 1e6D AS data_loading_ms,
       host_work_ns / 1e6D AS host_work_ms, other_ns / 1e6D AS other_ms, launch_count, status, reason
FROM step_ledger
""",
)
